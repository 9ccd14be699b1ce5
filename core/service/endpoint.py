"""Where the service listens, and who may come in: a Unix socket of the home's owner, or a loopback port.

The port is for platforms without Unix sockets: its number and a token stand in a file that only the home's
owner can read, and a client shows the token in its request.
"""

from __future__ import annotations

import contextlib
import hmac
import json
import os
import secrets
import socket
import stat
import struct
import sys
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any

from websockets.asyncio.client import ClientConnection, connect, unix_connect
from websockets.asyncio.server import ServerConnection
from websockets.http11 import Request, Response

from core.errors import ErrorCode, ServiceError
from core.home import Home

HAS_UNIX_SOCKETS = hasattr(socket, "AF_UNIX") and sys.platform != "win32"
_UCRED = struct.Struct("3i")  # pid, uid, gid
_XUCRED = struct.Struct("2I")  # version, uid; more follows


def port_file(home: Home) -> Path:
    """Where the loopback port and its token stand."""
    return home.path / "service.port"


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
            ServiceError: the folder of the socket belongs to somebody else, or the socket cannot be made.
        """
        unix = HAS_UNIX_SOCKETS if unix is None else unix
        try:
            # A service that was killed may have left either.
            port_file(home).unlink(missing_ok=True)
            return cls._open_unix(home.socket) if unix else cls._open_port(port_file(home))
        except OSError as error:
            raise ServiceError(f"The control socket cannot be made: {error}", ErrorCode.HOME_BUSY) from error

    @classmethod
    def _open_unix(cls, path: Path) -> Endpoint:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder = path.parent.lstat()
        if not stat.S_ISDIR(folder.st_mode) or folder.st_uid != os.getuid():
            raise ServiceError(f"{path.parent} belongs to somebody else.", ErrorCode.HOME_BUSY)
        if folder.st_mode & 0o077:
            path.parent.chmod(0o700)
        path.unlink(missing_ok=True)
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        before = os.umask(0o177)
        try:
            sock.bind(str(path))
        except OSError:
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
        """Take the file away, unless somebody has put another one there."""
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

    The socket's mode 0600 keeps others out everywhere; this holds also where that mode is not honoured.
    """
    if sys.platform == "darwin":
        return int(_XUCRED.unpack_from(sock.getsockopt(0, 1, 128))[1])  # SOL_LOCAL, LOCAL_PEERCRED
    option = getattr(socket, "SO_PEERCRED", None)
    if option is None:
        return None
    return int(_UCRED.unpack(sock.getsockopt(socket.SOL_SOCKET, option, _UCRED.size))[1])


def dial(home: Home, timeout: float, max_size: int) -> connect:
    """A connection to the home's service, not yet awaited. Raises OSError when nothing can be there."""
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
        return unix_connect(str(home.socket), **options)
    try:
        where = json.loads(port_file(home).read_text(encoding="utf-8"))
        port, token = int(where["port"]), str(where["token"])
    except (ValueError, KeyError, TypeError) as error:
        raise OSError(f"{port_file(home)} cannot be used: {error}") from error
    headers = {"Authorization": f"Bearer {token}"}
    return connect(f"ws://127.0.0.1:{port}/", additional_headers=headers, **options)


__all__ = ["HAS_UNIX_SOCKETS", "ClientConnection", "Endpoint", "dial", "peer_uid", "port_file"]
