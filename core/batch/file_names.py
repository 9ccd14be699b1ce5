"""The file that a saved batch has: a name that people write, as one that every file system takes."""

from __future__ import annotations

import re
import unicodedata
from urllib.parse import quote, unquote

from core.errors import BadInput
from core.text import escape_hidden, hidden_characters

MOST_CHARACTERS = 100
# File systems take 255 bytes in a name; `.yaml` and a temporary suffix are added to these.
MOST_BYTES = 240
_PLAIN_ASCII = " -_."
# Windows gives these names to devices, with any extension and in any case.
_DEVICES = re.compile(r"(con|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³])(\.|$| )", re.IGNORECASE)


def file_stem(name: str) -> str:
    """The name of a batch's file, without its suffix; `batch_name` is the way back.

    Letters, digits and their marks of every script stay. Every other sign is percent-encoded (RFC 3986,
    2.1), so that no name leaves the folder or means something to a file system.

    Raises:
        BadInput: the name is empty, too long, begins or ends with a space, or holds what cannot be seen.
    """
    name = unicodedata.normalize("NFC", name)
    if not name.strip() or name != name.strip():
        raise BadInput("A batch's name is not empty, and neither begins nor ends with a space.")
    if len(name) > MOST_CHARACTERS:
        raise BadInput(f"A batch's name has at most {MOST_CHARACTERS} characters; this one has {len(name)}.")
    if escape_hidden(name, keep_lines=False) != name:
        names = [hidden for _, hidden in hidden_characters(name)]
        what = names[0] if names else "a tab or a line end"
        raise BadInput(f"A batch's name holds nothing that cannot be seen; this one has {what}.")
    stem = "".join(sign if _stays(sign) else quote(sign, safe="") for sign in name)
    # A leading dot hides a file, and Windows drops a dot at the end.
    if stem.startswith(".") or _DEVICES.match(stem):
        stem = f"%{ord(stem[0]):02X}{stem[1:]}"
    if stem.endswith("."):
        stem = f"{stem[:-1]}%2E"
    if len(stem.encode()) > MOST_BYTES:
        raise BadInput("This name is too long for a file.")
    return stem


def batch_name(stem: str) -> str | None:
    """The name of the batch that a file of this name holds; None where no batch would be saved so."""
    name = unquote(stem)
    try:
        return name if file_stem(name) == stem else None
    except BadInput:
        return None


def _stays(sign: str) -> bool:
    if sign.isascii():
        return sign.isalnum() or sign in _PLAIN_ASCII
    return unicodedata.category(sign)[0] in "LMN"
