"""Homes that a module makes once, or an archive keeps: a copy for each test, and every byte of one."""

from __future__ import annotations

import shutil
import tarfile
from pathlib import Path

from core.home import Home

# What changes while nothing is written: locks, logs, sockets, and SQLite's index of its log.
FLEETING = {"lock", "service.log", "service.sock", "journal.db-shm"}


def copy_of(kept: Path, to: Path) -> Home:
    """A copy without its sockets, which cannot be copied."""
    shutil.copytree(kept, to, ignore=shutil.ignore_patterns("*.sock"))
    return Home(to)


def unpack(archive: Path, to: Path) -> None:
    """Write the files of an archive into a folder.

    Member by member: `extractall` wants a filter, knows none, or may have one, depending on the version of
    Python (Debian's 3.11.2 knows none).
    """
    with tarfile.open(archive) as members:
        for member in members:
            if (data := members.extractfile(member)) is not None:
                path = to / member.name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(data.read())
                path.chmod(member.mode)


def contents(home: Home) -> dict[str, bytes]:
    """Every file by its path in the home, but for those that are fleeting."""
    return {
        path.relative_to(home.path).as_posix(): path.read_bytes()
        for path in home.path.rglob("*")
        if path.is_file() and path.name not in FLEETING
    }
