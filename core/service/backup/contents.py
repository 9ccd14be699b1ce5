"""The files of a home that a backup has, and which of them are secrets.

What is not named here is a secret: a file that a later version adds is encrypted before this list knows it.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from core.audit import journal_copy
from core.audit.blob_store import Blobs
from core.audit.journal import BLOBS
from core.home import Home
from core.service.backup.archive import safe_name

# No secret is in them: their secrets are commitments, and credentials are digests.
_PLAIN = frozenset(
    {"policy.toml", "settings.toml", "operators.json", "devices.json", "contracts.json", "keys/journal.pub"}
)
_PLAIN_FOLDER = "batches/"
# What belongs to the running processes, the journal, which is copied as one, and what SQLite keeps beside a
# database.
_NEVER = re.compile(
    r"lock|service\.(?:sock|port|log.*)|journal\.db.*|blobs/.*|this-computer/clients/.*|.*\.db-(?:wal|shm|journal)"
)
# The names of files that are being written (`core.files.temporary_name`).
_TEMPORARY = re.compile(r"\..+\.[0-9a-f]{8}")


class HomeFile(NamedTuple):
    """A file of a home; `name` is its path in the home, with `/`."""

    name: str
    path: Path
    size: int


@dataclass(slots=True)
class Contents:
    """The files for a backup, without the journal's, and the names of what is there and is no file."""

    plain: list[HomeFile] = field(default_factory=list)
    secret: list[HomeFile] = field(default_factory=list)
    blobs: list[HomeFile] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)

    @property
    def size(self) -> int:
        """The bytes of all files."""
        return sum(file.size for file in (*self.plain, *self.secret, *self.blobs))


def contents_of(home: Home) -> Contents:
    """Find the files of a home for a backup.

    Raises:
        OSError: a folder cannot be read.
    """
    found = Contents()
    for name, path in sorted(_entries(home.path, "")):
        seen = _status(path)
        if seen is None or _is_of_the_moment(name, seen):
            continue
        if not stat.S_ISREG(seen.st_mode) or not _can_be_named(name):
            found.left_out.append(os.fsencode(name).decode("utf-8", "backslashreplace"))
        else:
            is_plain = name in _PLAIN or name.startswith(_PLAIN_FOLDER)
            (found.plain if is_plain else found.secret).append(HomeFile(name, path, seen.st_size))
    blobs = Blobs(home.path / BLOBS)
    for sha in blobs.names():
        path = blobs.path_of(sha)
        if (seen := _status(path)) is not None and stat.S_ISREG(seen.st_mode):
            found.blobs.append(HomeFile(f"{BLOBS}/{sha[:2]}/{sha}", path, seen.st_size))
    return found


def _entries(folder: Path, below: str) -> Iterator[tuple[str, Path]]:
    """Everything in a folder and in its folders but the folders themselves; links are not followed."""
    with os.scandir(folder) as entries:
        for entry in list(entries):
            name = f"{below}{entry.name}"
            if not entry.is_dir(follow_symlinks=False):
                yield name, Path(entry.path)
            elif name != BLOBS:
                yield from _entries(Path(entry.path), f"{name}/")


def _status(path: Path) -> os.stat_result | None:
    """The status of a file, None where it is gone by now."""
    try:
        return path.lstat()
    except FileNotFoundError:
        return None


def _is_of_the_moment(name: str, seen: os.stat_result) -> bool:
    """Whether a file is of no use to another home: it belongs to a process, or the journal has it."""
    return (
        name in journal_copy.FILES
        or stat.S_ISSOCK(seen.st_mode)
        or _NEVER.fullmatch(name) is not None
        or _TEMPORARY.fullmatch(name.rpartition("/")[2]) is not None
    )


def _can_be_named(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return safe_name(name)
