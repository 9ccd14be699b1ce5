"""Converts the names of saved batches to file names that every file system accepts, and back."""

from __future__ import annotations

import re
import unicodedata
from urllib.parse import quote, unquote

from core.errors import BadInput
from core.text import escape_hidden, hidden_characters

MOST_CHARACTERS = 100
# File systems accept names of up to 255 bytes; this leaves space for `.yaml` or a temporary suffix.
MOST_BYTES = 240
_PLAIN_ASCII = " -_."
# Windows reserves these names for devices, with any extension and in upper or lower case.
_DEVICES = re.compile(r"(con|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³])(\.|$| )", re.IGNORECASE)


def file_stem(name: str) -> str:
    """The file name of a batch, without its suffix. `batch_name` is the inverse.

    Letters, digits and combining marks of every script stay, as do space, `-`, `_` and most dots. Every other
    character is percent-encoded (RFC 3986, 2.1), so that no name leads out of the folder or is special to a
    file system.

    Raises:
        BadInput: the name is empty, too long, begins or ends with a space, or has invisible characters.
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
    # Unix hides files whose name begins with a dot, and Windows drops a dot at the end.
    if stem.startswith(".") or _DEVICES.match(stem):
        stem = f"%{ord(stem[0]):02X}{stem[1:]}"
    if stem.endswith("."):
        stem = f"{stem[:-1]}%2E"
    if len(stem.encode()) > MOST_BYTES:
        raise BadInput("This name is too long for a file.")
    return stem


def batch_name(stem: str) -> str | None:
    """The batch name for a file name without suffix; None if `file_stem` never produces this file name."""
    name = unquote(stem)
    try:
        return name if file_stem(name) == stem else None
    except BadInput:
        return None


def _stays(sign: str) -> bool:
    if sign.isascii():
        return sign.isalnum() or sign in _PLAIN_ASCII
    return unicodedata.category(sign)[0] in "LMN"
