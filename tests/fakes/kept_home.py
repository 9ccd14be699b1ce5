"""Homes that a module makes once: a copy for each test, and every byte of one."""

from __future__ import annotations

import shutil
from pathlib import Path

from core.home import Home

# What changes while nothing is written: locks, logs, sockets, and SQLite's index of its log.
FLEETING = {"lock", "service.log", "service.sock", "journal.db-shm"}


def copy_of(kept: Path, to: Path) -> Home:
    """A copy without its sockets, which cannot be copied."""
    shutil.copytree(kept, to, ignore=shutil.ignore_patterns("*.sock"))
    return Home(to)


def contents(home: Home) -> dict[str, bytes]:
    """Every file by its path in the home, but for those that are fleeting."""
    return {
        path.relative_to(home.path).as_posix(): path.read_bytes()
        for path in home.path.rglob("*")
        if path.is_file() and path.name not in FLEETING
    }
