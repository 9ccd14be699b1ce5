"""The description of a backup, its first member, and the members around the files."""

from __future__ import annotations

import json
from typing import Any, Final, Literal

from pydantic import Field, ValidationError

from core.models.frozen import FrozenModel
from core.service.backup.archive import Damaged

DESCRIPTION = "quarterdeck-backup.json"
MAC = "quarterdeck-backup.mac"
SUMS = "SHA256SUMS"
HOME = "home/"
SECRETS = "secrets.sealed"
# A secret that every backup has.
JOURNAL_KEY = "keys/journal.key"
PUBLIC_KEY = "keys/journal.pub"

FORMAT: Final = "quarterdeck.backup/1"
_SHA256 = r"^[0-9a-f]{64}$"


class Description(FrozenModel):
    """What a backup is: of which home and when, how its secrets are sealed, and the digest of its sums.

    `home_key` is the public key of the home's journal, `entries` and `checkpoint` are those of the journal's
    head. `size` counts the bytes of the archive behind the sums and before its end.
    """

    format: Literal["quarterdeck.backup/1"] = FORMAT
    program: str
    made_at: str
    home_key: str = Field(pattern=_SHA256)
    entries: int = Field(ge=0)
    checkpoint: str
    kdf: Literal["scrypt n=131072 r=8 p=1"] = "scrypt n=131072 r=8 p=1"
    cipher: Literal["chacha20-poly1305, chunks of 65536"] = "chacha20-poly1305, chunks of 65536"
    salt: str = Field(pattern=_SHA256)
    files: int = Field(ge=0)
    size: int = Field(ge=0)
    sums: str = Field(pattern=_SHA256)

    def to_bytes(self) -> bytes:
        """The content of the member."""
        return json.dumps(self.model_dump(mode="json"), indent=2).encode() + b"\n"


def read_description(data: bytes) -> Description:
    """Read a description; nothing in it is authenticated yet.

    Raises:
        Damaged: it is not one, or it has the format of another version.
    """
    try:
        values: Any = json.loads(data)
        name = values["format"]
        if name != FORMAT:
            raise Damaged(f"It has the format {str(name)[:80]!r}, and this version reads {FORMAT} only.")
        return Description.model_validate(values)
    except (ValueError, TypeError, KeyError, RecursionError, ValidationError) as error:
        raise Damaged("Its description cannot be read.") from error


def sum_line(digest: str, name: str) -> str:
    """A line of `SHA256SUMS`, in the form of the program sha256sum."""
    return f"{digest}  {name}\n"


def read_sums(data: bytes) -> list[tuple[str, str]]:
    """The names in `SHA256SUMS`, in order, and their digests.

    Raises:
        Damaged: a line is not in this form.
    """
    try:
        *lines, end = data.decode().split("\n")
    except UnicodeDecodeError:
        raise Damaged("Its list of files cannot be read.") from None
    sums = []
    for line in lines:
        digest, gap, name = line.partition("  ")
        if not gap:
            raise Damaged("Its list of files cannot be read.")
        sums.append((name, digest))
    if end:
        raise Damaged("Its list of files ends early.")
    return sums
