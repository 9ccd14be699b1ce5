"""Where the service listens, and who may come in: a Unix socket of the home's owner, or a loopback port.

Both ends look before they trust. The service makes its socket in a folder that is its user's alone, and lets
in that user only. A client says nothing before it has seen that folder, socket and the process behind it
belong to its own user: what a person signs for must not reach another one.

The port is for platforms without Unix sockets: its number and a token stand in a file that only the home's
owner can read, and a client shows the token in its request.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import hmac
import json
import os
import secrets
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
from core.home import FOLDERS_BY_NUMBER, LONGEST_ADDRESS, Home

HAS_UNIX_SOCKETS = hasattr(socket, "AF_UNIX") and sys.platform != "win32"
_UCRED = struct.Struct("3i")  # pid, uid, gid
_XUCRED = struct.Struct("2I")  # version, uid; more follows
# A descriptor that is good for looking; Linux gives one also of a folder that this user may not read.
_LOOK: int = getattr(os, "O_PATH", os.O_RDONLY)
_WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH


def port_file(home: Home) -> Path:
    """Where the loopback port and its token stand."""
    return home.path / "service.port"


def own_folder(home: Home) -> None:
    """Make the folder of the control socket, this user's alone.

    Raises:
        ServiceError: it belongs to another user, is a link, or cannot be made (code `home_unsafe`).
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
    """A listening socket and its guard; `open` makes it, `remove` takes its file away."""

    sock: socket.socket
    file: Path
    inode: int
    token: str | None = None

    @classmethod
    def open(cls, home: Home, unix: bool | None = None) -> Endpoint:
        """Listen. The caller holds the home's lock, so that a socket file which is there already is stale.

        Raises:
            ServiceError: the folder of the socket is not this user's (`home_unsafe`), or the socket cannot be
                made (`service_unavailable`).
        """
        unix = HAS_UNIX_SOCKETS if unix is None else unix
        own_folder(home)
        try:
            # A service that was killed may have left either.
            port_file(home).unlink(missing_ok=True)
            return cls._open_unix(home.socket) if unix else cls._open_port(port_file(home))
        except OSError as error:
            raise ServiceError(f"The control socket cannot be made: {error}") from error

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
        token = secrets.token_urlsafe(32)
        body = json.dumps({"port": sock.getsockname()[1], "token": token})
        fresh = path.with_name(f"{path.name}.{os.getpid()}")
        fresh.unlink(missing_ok=True)
        with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            file.write(body)
        fresh.replace(path)
        return cls(sock, path, path.lstat().st_ino, token)

    def remove(self) -> None:
        """Take the file away, unless another one has been put there."""
        with contextlib.suppress(OSError):
            if self.file.lstat().st_ino == self.inode:
                self.file.unlink()

    def refuse(self, connection: ServerConnection, request: Request) -> Response | None:
        """Answer a request that must not come in; None lets it in."""
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
    """The user at the other end of a Unix socket; None where the platform cannot say.

    Linux: unix(7), SO_PEERCRED, the user that listened or connected. macOS: unix(4), LOCAL_PEERCRED.
    """
    if sys.platform == "darwin":
        return int(_XUCRED.unpack_from(sock.getsockopt(0, 1, 128))[1])  # SOL_LOCAL, LOCAL_PEERCRED
    option = getattr(socket, "SO_PEERCRED", None)
    if option is None:
        return None
    return int(_UCRED.unpack(sock.getsockopt(socket.SOL_SOCKET, option, _UCRED.size))[1])


async def dial(home: Home, timeout: float, max_size: int) -> ClientConnection:
    """Connect to the home's service, once its owner is known to be this user.

    `timeout` in seconds is for the handshake; `max_size` in bytes is of one frame.

    Raises:
        ServiceError: folder, socket or the process behind it is not this user's (`home_unsafe`).
        OSError: nothing is there.
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
    """A connection to a socket of this user's; nothing has been sent over it.

    Raises:
        ServiceError: folder, socket or the process behind it is not this user's.
        OSError: nothing is there.
    """
    with _opened(path.parent) as folder:
        seen = os.stat(path.name, dir_fd=folder, follow_symlinks=False)
        _check_private(os.fstat(folder), path.parent)
        _check_owner(seen, path)
        if not stat.S_ISSOCK(seen.st_mode):
            raise ServiceError(f"{path} is no socket; nothing was sent.", ErrorCode.HOME_UNSAFE)
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
    """A descriptor of a folder itself, not of what a link in its place leads to.

    Raises:
        ServiceError: a link or a file is in its place.
        OSError: it is not there, or cannot be reached.
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

    By way of the descriptor it is short however long the path is, and in the folder that was looked at.
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
    """The text of a file of this user's.

    Raises:
        ServiceError: it is another user's.
        OSError: it cannot be read.
    """
    with path.open(encoding="utf-8") as file:
        if hasattr(os, "getuid"):
            _check_owner(os.fstat(file.fileno()), path)
        return file.read()


__all__ = ["HAS_UNIX_SOCKETS", "ClientConnection", "Endpoint", "dial", "own_folder", "peer_uid", "port_file"]
