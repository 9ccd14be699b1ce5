"""The control socket's transport and access checks: a Unix socket of the home's owner, or a loopback port.

Both ends authenticate. The service creates its socket in a folder that only its user can enter, and accepts
connections of that user only. A client sends nothing before it has checked that the folder, the socket and
the listening process belong to its own user: signed requests must not reach another user's process.

The port is for platforms without Unix sockets. Its number and a token are in a file that only the home's
owner can read, and a client sends the token with its HTTP request.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import hmac
import json
import os
import socket
import stat
import struct
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any

from websockets.asyncio.client import ClientConnection, connect, unix_connect
from websockets.asyncio.server import ServerConnection
from websockets.http11 import Request, Response

from core.errors import ErrorCode, ServiceError
from core.files import write_atomic
from core.home import FOLDERS_BY_NUMBER, LONGEST_ADDRESS, Home
from core.text import sentences
from core.tokens import new_token

HAS_UNIX_SOCKETS = hasattr(socket, "AF_UNIX") and sys.platform != "win32"
_UCRED = struct.Struct("3i")  # pid, uid, gid
_XUCRED = struct.Struct("2I")  # version, uid; more follows
# Flags for a descriptor that is only inspected; with O_PATH also for a folder that this user cannot read.
_LOOK: int = getattr(os, "O_PATH", os.O_RDONLY)
_WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH


def port_file(home: Home) -> Path:
    """The file with the loopback port and its token."""
    return home.path / "service.port"


def own_folder(home: Home) -> None:
    """Create the folder of the control socket, accessible to this user only.

    Raises:
        ServiceError: the folder belongs to another user, is a link, or cannot be made (code `home_unsafe`).
    """
    folder = home.socket.parent
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if HAS_UNIX_SOCKETS:
            with _opened(folder, os.O_RDONLY) as handle:
                seen = os.fstat(handle)
                _check_owner(seen, folder)
                if seen.st_mode & 0o077:
                    os.fchmod(handle, 0o700)
    except OSError as error:
        raise ServiceError(f"{folder} cannot be used: {error}.", ErrorCode.HOME_UNSAFE) from error


@dataclass(slots=True)
class Endpoint:
    """A listening socket and its access check; `open` creates it, `remove` deletes its file."""

    sock: socket.socket
    file: Path
    inode: int
    token: str | None = None

    @classmethod
    def open(cls, home: Home, unix: bool | None = None) -> Endpoint:
        """Listen. The caller holds the home's lock, so that any socket file already present is stale.

        Raises:
            ServiceError: the folder of the socket is not this user's (`home_unsafe`), or the socket cannot be
                made (`service_unavailable`).
        """
        unix = HAS_UNIX_SOCKETS if unix is None else unix
        own_folder(home)
        try:
            # A killed service may have left a port file or a socket file.
            port_file(home).unlink(missing_ok=True)
            return cls._open_unix(home.socket) if unix else cls._open_port(port_file(home))
        except OSError as error:
            raise ServiceError(sentences(f"The control socket cannot be made: {error}")) from error

    @classmethod
    def _open_unix(cls, path: Path) -> Endpoint:
        path.unlink(missing_ok=True)
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        before = os.umask(0o177)
        try:
            with _opened(path.parent) as folder:
                sock.bind(_address(folder, path))
        except BaseException:
            sock.close()
            raise
        finally:
            os.umask(before)
        return cls(sock, path, path.lstat().st_ino)

    @classmethod
    def _open_port(cls, path: Path) -> Endpoint:
        sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        sock.bind(("127.0.0.1", 0))
        token = new_token()
        body = json.dumps({"port": sock.getsockname()[1], "token": token})
        write_atomic(path, body)
        return cls(sock, path, path.lstat().st_ino, token)

    def remove(self) -> None:
        """Delete the file, unless another process has replaced it."""
        with contextlib.suppress(OSError):
            if self.file.lstat().st_ino == self.inode:
                self.file.unlink()

    def refuse(self, connection: ServerConnection, request: Request) -> Response | None:
        """Check an HTTP request; returns the response that rejects it, or None to accept it."""
        if "Origin" in request.headers:
            return connection.respond(HTTPStatus.FORBIDDEN, "Browsers may not talk to this service.\n")
        if self.token is None:
            peer = peer_uid(connection.transport.get_extra_info("socket"))
            if peer is not None and peer != os.getuid():
                return connection.respond(HTTPStatus.FORBIDDEN, "This home belongs to another user.\n")
        else:
            shown = request.headers.get("Authorization", "")
            if not hmac.compare_digest(shown.encode(), f"Bearer {self.token}".encode()):
                return connection.respond(HTTPStatus.UNAUTHORIZED, "The token is missing or wrong.\n")
        return None


def peer_uid(sock: Any) -> int | None:
    """The user ID of a Unix socket's peer; None if the platform does not report it.

    Linux: unix(7), SO_PEERCRED, the user that listened or connected. macOS: unix(4), LOCAL_PEERCRED.
    """
    if sys.platform == "darwin":
        return int(_XUCRED.unpack_from(sock.getsockopt(0, 1, 128))[1])  # SOL_LOCAL, LOCAL_PEERCRED
    option = getattr(socket, "SO_PEERCRED", None)
    if option is None:
        return None
    return int(_UCRED.unpack(sock.getsockopt(socket.SOL_SOCKET, option, _UCRED.size))[1])


async def dial(home: Home, timeout: float, max_size: int) -> ClientConnection:
    """Connect to the home's service after checking that it belongs to this user.

    `timeout` in seconds bounds the handshake; `max_size` in bytes bounds a frame.

    Raises:
        ServiceError: folder, socket or listening process is not this user's (`home_unsafe`).
        OSError: there is no socket or port file, or nothing listens.
    """
    options: dict[str, Any] = {
        "compression": None,
        "max_size": max_size,
        "open_timeout": timeout,
        "ping_interval": None,
        "close_timeout": 2,
        "proxy": None,
        "user_agent_header": None,
    }
    if HAS_UNIX_SOCKETS and not port_file(home).exists():
        sock = await _dial_unix(home.socket)
        try:
            return await unix_connect(sock=sock, **options)
        except BaseException:
            sock.close()
            raise
    try:
        where = json.loads(_own_text(port_file(home)))
        port, token = int(where["port"]), str(where["token"])
    except (ValueError, KeyError, TypeError) as error:
        raise OSError(f"{port_file(home)} cannot be used: {error}") from error
    headers = {"Authorization": f"Bearer {token}"}
    return await connect(f"ws://127.0.0.1:{port}/", additional_headers=headers, **options)


async def _dial_unix(path: Path) -> socket.socket:
    """Connect to a Unix socket of this user's, without sending anything.

    Raises:
        ServiceError: folder, socket or listening process is not this user's.
        OSError: there is no socket, or nothing listens.
    """
    with _opened(path.parent) as folder:
        seen = os.stat(path.name, dir_fd=folder, follow_symlinks=False)
        _check_private(os.fstat(folder), path.parent)
        _check_owner(seen, path)
        if not stat.S_ISSOCK(seen.st_mode):
            raise ServiceError(f"{path} is not a socket; nothing was sent.", ErrorCode.HOME_UNSAFE)
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            sock.setblocking(False)
            await asyncio.get_running_loop().sock_connect(sock, _address(folder, path))
            peer = peer_uid(sock)
            if peer is not None and peer != os.getuid():
                raise ServiceError(
                    f"The process that listens at {path} belongs to user {peer}, not to you (user "
                    f"{os.getuid()}); nothing was sent.",
                    ErrorCode.HOME_UNSAFE,
                )
        except BaseException:
            sock.close()
            raise
    return sock


@contextlib.contextmanager
def _opened(folder: Path, how: int = _LOOK) -> Iterator[int]:
    """Open a descriptor of a folder without following a symbolic link.

    Raises:
        ServiceError: the path is a link or a file.
        OSError: the folder does not exist or cannot be reached.
    """
    try:
        handle = os.open(folder, how | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.ENOTDIR):
            raise
        raise ServiceError(
            f"{folder} is a link or a file, not a folder; nothing was sent.", ErrorCode.HOME_UNSAFE
        ) from error
    try:
        yield handle
    finally:
        os.close(handle)


def _address(folder: int, path: Path) -> str:
    """The address of a socket in an opened folder.

    Through the descriptor the address is short for any path, and leads to the same folder that was checked.
    """
    if FOLDERS_BY_NUMBER.is_dir():
        return str(FOLDERS_BY_NUMBER / str(folder) / path.name)
    if len(os.fsencode(path)) > LONGEST_ADDRESS:
        raise OSError(f"its path has more than {LONGEST_ADDRESS} bytes; choose a shorter home: {path}")
    return str(path)


def _check_private(seen: os.stat_result, folder: Path) -> None:
    _check_owner(seen, folder)
    if seen.st_mode & _WRITABLE_BY_OTHERS:
        raise ServiceError(
            f"Other users may write in {folder} (mode {stat.S_IMODE(seen.st_mode):o}), so that the socket in "
            "it may be theirs; nothing was sent.",
            ErrorCode.HOME_UNSAFE,
        )


def _check_owner(seen: os.stat_result, path: Path) -> None:
    if seen.st_uid != os.getuid():
        raise ServiceError(
            f"{path} belongs to user {seen.st_uid}, not to you (user {os.getuid()}).", ErrorCode.HOME_UNSAFE
        )


def _own_text(path: Path) -> str:
    """Read a file that must belong to this user.

    Raises:
        ServiceError: the file belongs to another user.
        OSError: the file cannot be read.
    """
    with path.open(encoding="utf-8") as file:
        if hasattr(os, "getuid"):
            _check_owner(os.fstat(file.fileno()), path)
        return file.read()


__all__ = ["HAS_UNIX_SOCKETS", "ClientConnection", "Endpoint", "dial", "own_folder", "peer_uid", "port_file"]
