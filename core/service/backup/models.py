"""Models of backups that cross the console API."""

from __future__ import annotations

from pydantic import Field

from core.models.frozen import FrozenModel


class BackupKey(FrozenModel):
    """The key of one backup, derived by the client from the passphrase and the salt; both in hexadecimal.

    The passphrase itself stays with the client.
    """

    salt: str = Field(pattern=r"^[0-9a-f]{64}$")
    key: str = Field(pattern=r"^[0-9a-f]{64}$", repr=False)


class BackupMade(FrozenModel):
    """A backup that is written: its journal has `entries` entries, and `checkpoint` is its signed head.

    `size` is in bytes. `left_out` names what is in the home and is no file, such as links.
    """

    path: str
    made_at: str
    files: int
    size: int
    entries: int
    checkpoint: str
    left_out: list[str] = Field(default_factory=list)
