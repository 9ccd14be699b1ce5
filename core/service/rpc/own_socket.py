"""Checks that a home's control socket is this user's, before anything is sent to it. Not for Windows.

They need no library: `core.service.rpc.transport` connects by them for the program, and
`core.completion.service_calls` for a shell that completes a word.
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import stat
import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from core.home_folder import FOLDERS_BY_NUMBER, LONGEST_ADDRESS
from core.service.rpc.own_file import NotOwn, check_owner

assert sys.platform != "win32"

_UCRED = struct.Struct("3i")  # pid, uid, gid
_XUCRED = struct.Struct("2I")  # version, uid; more follows
# Flags for a descriptor that is only inspected; with O_PATH also for a folder that this user cannot read.
_LOOK: int = getattr(os, "O_PATH", os.O_RDONLY)
_WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH


def peer_uid(sock: Any) -> int | None:
    """The user ID of a Unix socket's peer; None if the platform does not report it.

    Linux: unix(7), SO_PEERCRED, the user that listened or connected. macOS: unix(4), LOCAL_PEERCRED.
    """
    if sys.platform == "darwin":
        return int(_XUCRED.unpack_from(sock.getsockopt(0, 1, 128))[1])  # SOL_LOCAL, LOCAL_PEERCRED
    else:
        option = getattr(socket, "SO_PEERCRED", None)
        if option is None:
            return None
        return int(_UCRED.unpack(sock.getsockopt(socket.SOL_SOCKET, option, _UCRED.size))[1])


@contextlib.contextmanager
def opened_folder(folder: Path, how: int = _LOOK) -> Iterator[int]:
    """Open a descriptor of a folder without following a symbolic link.

    Raises:
        NotOwn: the path is a link or a file.
        OSError: the folder does not exist or cannot be reached.
    """
    try:
        handle = os.open(folder, how | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.ENOTDIR):
            raise
        raise NotOwn(f"{folder} is a link or a file, not a folder; nothing was sent.") from error
    try:
        yield handle
    finally:
        os.close(handle)


@contextlib.contextmanager
def checked_address(path: Path) -> Iterator[str]:
    """The address of a socket of this user's; `check_peer` checks afterwards which process listens at it.

    Raises:
        NotOwn: the folder or the socket is not this user's.
        OSError: there is no socket.
    """
    with opened_folder(path.parent) as folder:
        seen = os.stat(path.name, dir_fd=folder, follow_symlinks=False)
        check_private(os.fstat(folder), path.parent)
        check_owner(seen, path)
        if not stat.S_ISSOCK(seen.st_mode):
            raise NotOwn(f"{path} is not a socket; nothing was sent.")
        yield address_in(folder, path)


def check_peer(uid: int | None, path: Path) -> None:
    """Check the user ID of the process that listens at a socket (`peer_uid`).

    Raises:
        NotOwn: the process is another user's.
    """
    if uid is not None and uid != os.getuid():
        raise NotOwn(
            f"The process that listens at {path} belongs to user {uid}, not to you (user "
            f"{os.getuid()}); nothing was sent."
        )


def address_in(folder: int, path: Path) -> str:
    """The address of a socket in an opened folder.

    Through the descriptor the address is short for any path, and leads to the same folder that was checked.
    """
    if FOLDERS_BY_NUMBER.is_dir():
        return str(FOLDERS_BY_NUMBER / str(folder) / path.name)
    if len(os.fsencode(path)) > LONGEST_ADDRESS:
        raise OSError(f"its path has more than {LONGEST_ADDRESS} bytes; choose a shorter home: {path}")
    return str(path)


def check_private(seen: os.stat_result, folder: Path) -> None:
    """Check that a folder is this user's, and that no other user may write in it."""
    check_owner(seen, folder)
    if seen.st_mode & _WRITABLE_BY_OTHERS:
        raise NotOwn(
            f"Other users may write in {folder} (mode {stat.S_IMODE(seen.st_mode):o}), so that the socket in "
            "it may be theirs; nothing was sent."
        )
