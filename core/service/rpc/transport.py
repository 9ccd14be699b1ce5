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
import hmac
import json
import os
import socket
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any

from websockets.asyncio.client import ClientConnection, connect, unix_connect
from websockets.asyncio.server import ServerConnection
from websockets.http11 import Request, Response

from core import home_folder
from core.errors import ErrorCode, ServiceError
from core.files import write_atomic
from core.home import Home
from core.service.rpc.own_file import NotOwn, check_owner, port_and_token
from core.text import sentences
from core.tokens import new_token
from core.user import user_id

if sys.platform != "win32":
    from core.service.rpc.own_socket import address_in, check_peer, checked_address, opened_folder, peer_uid

HAS_UNIX_SOCKETS = sys.platform != "win32"


def port_file(home: Home) -> Path:
    """The file with the loopback port and its token."""
    return home_folder.port_file(home.path)


def own_folder(home: Home) -> None:
    """Create the folder of the control socket, accessible to this user only.

    Raises:
        ServiceError: the folder belongs to another user, is a link, or cannot be made (code `home_unsafe`).
    """
    folder = home.socket.parent
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if sys.platform != "win32":
            with _unsafe_if_not_own(), opened_folder(folder, os.O_RDONLY) as handle:
                seen = os.fstat(handle)
                check_owner(seen, folder)
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
    def open(cls, home: Home, unix: bool = HAS_UNIX_SOCKETS) -> Endpoint:
        """Listen. The caller holds the home's lock, so that any socket file already present is stale.

        Raises:
            ServiceError: the folder of the socket is not this user's (`home_unsafe`), or the socket cannot be
                made (`service_unavailable`).
        """
        own_folder(home)
        try:
            # A killed service may have left a port file or a socket file.
            port_file(home).unlink(missing_ok=True)
            if unix and sys.platform != "win32":
                return cls._open_unix(home.socket)
            return cls._open_port(port_file(home))
        except OSError as error:
            raise ServiceError(sentences(f"The control socket cannot be made: {error}")) from error

    if sys.platform != "win32":

        @classmethod
        def _open_unix(cls, path: Path) -> Endpoint:
            path.unlink(missing_ok=True)
            sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            before = os.umask(0o177)
            try:
                with _unsafe_if_not_own(), opened_folder(path.parent) as folder:
                    sock.bind(address_in(folder, path))
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
            peer = peer_user(connection)
            if peer is not None and peer != user_id():
                return connection.respond(HTTPStatus.FORBIDDEN, "This home belongs to another user.\n")
        else:
            shown = request.headers.get("Authorization", "")
            if not hmac.compare_digest(shown.encode(), f"Bearer {self.token}".encode()):
                return connection.respond(HTTPStatus.UNAUTHORIZED, "The token is missing or wrong.\n")
        return None


def peer_user(connection: ServerConnection) -> int | None:
    """The user ID of a client; None if the platform does not report it."""
    if sys.platform != "win32":
        return peer_uid(connection.transport.get_extra_info("socket"))
    else:
        return None


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
    if sys.platform != "win32" and not port_file(home).exists():
        with _unsafe_if_not_own():
            sock = await _dial_unix(home.socket)
        try:
            return await unix_connect(sock=sock, **options)
        except BaseException:
            sock.close()
            raise
    with _unsafe_if_not_own():
        port, token = port_and_token(port_file(home))
    headers = {"Authorization": f"Bearer {token}"}
    return await connect(f"ws://127.0.0.1:{port}/", additional_headers=headers, **options)


if sys.platform != "win32":

    async def _dial_unix(path: Path) -> socket.socket:
        """Connect to a Unix socket of this user's, without sending anything.

        Raises:
            NotOwn: folder, socket or listening process is not this user's.
            OSError: there is no socket, or nothing listens.
        """
        with checked_address(path) as address:
            sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                sock.setblocking(False)
                await asyncio.get_running_loop().sock_connect(sock, address)
                check_peer(peer_uid(sock), path)
            except BaseException:
                sock.close()
                raise
        return sock


@contextlib.contextmanager
def _unsafe_if_not_own() -> Iterator[None]:
    """Raise what is not this user's as ServiceError (`home_unsafe`)."""
    try:
        yield
    except NotOwn as error:
        raise ServiceError(str(error), ErrorCode.HOME_UNSAFE) from error
