"""File helpers: durable folder entries, and reading files that only this user can have written."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from core.errors import BadInput


def sync_folder(folder: Path) -> None:
    """Make new and changed names in `folder` survive a power cut, if the system supports it."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def read_own_text(path: Path, most_bytes: int) -> str | None:
    """Read a file that only this user (or root) can have written; None if it does not exist.

    Opening never blocks: a FIFO or a device is refused, like everything that is not a regular file.

    Raises:
        BadInput: the file cannot be read, is a broken link, is not a regular file, belongs to another user,
            can be written by others, is larger than `most_bytes`, or is not UTF-8; names the reason.
    """
    try:
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))
    except FileNotFoundError as error:
        if path.is_symlink():
            raise BadInput(f"{path.name} is a link that leads nowhere.") from error
        return None
    except OSError as error:
        raise BadInput(f"{path.name} cannot be read: {error.strerror}.") from error
    try:
        _check_own(os.fstat(handle), path.name)
        with open(handle, "rb", closefd=False) as file:
            data = file.read(most_bytes + 1)
    except OSError as error:
        raise BadInput(f"{path.name} cannot be read: {error.strerror}.") from error
    finally:
        os.close(handle)
    if len(data) > most_bytes:
        raise BadInput(f"{path.name} is larger than {most_bytes // 1024:,} KiB.")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadInput(f"{path.name} cannot be read: it is not UTF-8 ({error.reason}).") from error


def _check_own(status: os.stat_result, name: str) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise BadInput(f"{name} is not a regular file.")
    if os.name != "posix":
        return
    if status.st_uid not in (os.geteuid(), 0):
        raise BadInput(f"{name} belongs to another user (number {status.st_uid}).")
    # A group with the user's own number is taken as the user's private group, which has no other members.
    by_group = status.st_mode & stat.S_IWGRP and status.st_gid != status.st_uid
    if status.st_mode & stat.S_IWOTH or by_group:
        raise BadInput(f"{name} can be written by other users (mode {stat.S_IMODE(status.st_mode):o}).")
