"""A device that is dialled: one console at a time may connect, and shows the token first.

console ── TLS, our certificate ──► device     beyond loopback only; the console has it pinned
console ── upgrade (token) ───────► device     no Origin, the right path, nobody else connected
console ◄─ register ────────────── device     from here on as when we dial
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import ssl
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qs, urlsplit

import structlog
from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.datastructures import MultipleValuesError
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response

from core.aip.ends import peer_of
from core.aip.limits import Allowance
from core.aip.pairing import is_loopback
from core.device.client import Ending
from core.device.desk import Desk
from core.device.session import Session, Timing
from core.errors import BadInput, DeviceError, Refused

log = structlog.get_logger(__name__)

PATH = "/ws"
# Connections that have not shown a token yet.
_MOST_AT_DOOR = 32
_TAKEN = "another console is connected to this device"


@dataclass(frozen=True, slots=True)
class ListenAddress:
    """Where to listen, as `HOST:PORT` says."""

    host: str
    port: int

    @property
    def loopback(self) -> bool:
        """Whether only this computer can reach it."""
        return is_loopback(self.host)

    def url(self, host: str | None = None, port: int | None = None) -> str:
        """The address for a console that calls this machine `host`."""
        name = host or self.host
        shown = f"[{name}]" if ":" in name else name
        return f"{'ws' if self.loopback else 'wss'}://{shown}:{port or self.port}{PATH}"


def read_address(text: str) -> ListenAddress:
    """Read `HOST:PORT`, `[HOST]:PORT` or `:PORT` (this computer only).

    Raises:
        BadInput: it is none.
    """
    try:
        parts = urlsplit(f"//{text}")
        host, port = parts.hostname or "127.0.0.1", parts.port
    except ValueError:
        host, port = "", None
    if port is None or not host or parts.path or parts.username or parts.query:
        raise BadInput(f"--listen takes HOST:PORT, such as 127.0.0.1:5001 or 0.0.0.0:5001, not {text[:80]!r}")
    return ListenAddress(host, port)


@dataclass(slots=True)
class _Door:
    """Who is before the door and who is inside."""

    most: int = _MOST_AT_DOOR
    # In the order in which they came.
    waiting: dict[ServerConnection, None] = field(default_factory=dict)
    inside: ServerConnection | None = None


class DeviceListener:
    """Listens for one console at a time."""

    def __init__(
        self,
        desk: Desk,
        address: ListenAddress,
        token: str,
        secure: ssl.SSLContext | None = None,
        timing: Timing = Timing(),
    ) -> None:
        """Beyond loopback `secure` is needed.

        Raises:
            BadInput: it is missing there.
        """
        if secure is None and not address.loopback:
            raise BadInput("Beyond this computer a device only listens with TLS")
        if not token:
            raise BadInput("A device that listens needs a token")
        self._desk = desk
        self._address = address
        self._token = hashlib.sha256(token.encode()).digest()
        self._secure = secure
        self._timing = timing
        self._door = _Door()
        # A flood of refusals must not become a flood of log lines.
        self._told = Allowance(20.0, 1.0)
        self._untold = 0
        self._server: Server | None = None
        self._stopping = asyncio.Event()

    @property
    def port(self) -> int:
        """The port it listens on; 0 before `start`."""
        return int(self._server.sockets[0].getsockname()[1]) if self._server is not None else 0

    async def start(self) -> None:
        """Begin to listen.

        Raises:
            DeviceError: the address cannot be listened on now; it may be later, as when a machine starts.
        """
        timing, door = self._timing, self._door
        more: dict[str, Any] = {}
        if self._secure is not None:
            more = {"ssl": self._secure, "ssl_handshake_timeout": timing.register}

        class Counted(ServerConnection):
            """Makes room at the door: who has waited longest without a word leaves for the newest."""

            def connection_made(self, transport: asyncio.BaseTransport) -> None:
                super().connection_made(transport)
                if len(door.waiting) >= door.most:
                    # Not the newest: idle strangers would keep the console out.
                    longest = next(iter(door.waiting))
                    del door.waiting[longest]
                    longest.transport.abort()
                door.waiting[self] = None

            def connection_lost(self, exc: Exception | None) -> None:
                door.waiting.pop(self, None)
                super().connection_lost(exc)

        try:
            self._server = await serve(
                self._serve,
                self._address.host,
                self._address.port,
                process_request=self._admit,
                create_connection=Counted,
                compression=None if self._address.loopback else "deflate",
                max_size=timing.max_frame_bytes,
                open_timeout=timing.register,
                ping_interval=timing.ping,
                ping_timeout=timing.ping,
                close_timeout=2.0,
                server_header=None,
                **more,
            )
        except OSError as error:
            where = f"{self._address.host}:{self._address.port}"
            raise DeviceError(f"{where} cannot be listened on: {error.strerror or error}") from error
        log.info("listening", host=self._address.host, port=self.port, tls=self._secure is not None)

    def stop(self) -> None:
        """End `run`; may be called from a signal handler."""
        self._stopping.set()

    async def run(self) -> Ending:
        """Serve consoles until stopped."""
        if self._server is None:
            await self.start()
        try:
            await self._stopping.wait()
            return Ending.DONE
        finally:
            # The work first, so that its last answers still find the link.
            await self._desk.close()
            await self.close()

    async def close(self) -> None:
        """Stop listening and close the link that there is."""
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()
            self._server = None

    async def _admit(self, connection: ServerConnection, request: Request) -> Response | None:
        """Let an upgrade through (None) or answer it with a refusal."""
        asked = urlsplit(request.path)
        if asked.path != PATH:
            return self._refuse(connection, HTTPStatus.NOT_FOUND, "there is nothing at this path")
        if request.headers.get_all("Origin"):
            # Only browsers send it, and a page must never reach a device on loopback.
            return self._refuse(connection, HTTPStatus.FORBIDDEN, "a browser's Origin is not accepted")
        given = hashlib.sha256(_token_of(request, asked.query).encode("utf-8", "surrogateescape")).digest()
        if not hmac.compare_digest(given, self._token):
            return self._refuse(connection, HTTPStatus.FORBIDDEN, "the token is not accepted")
        if not await self._is_free():
            return self._refuse(connection, HTTPStatus.CONFLICT, _TAKEN)
        return None

    async def _is_free(self) -> bool:
        """Whether no console is connected that still answers; a dead one is sent away."""
        first = self._door.inside
        if first is None:
            return True
        try:
            async with asyncio.timeout(self._timing.probe):
                await (await first.ping())
        except TimeoutError:
            log.warning("the console does not answer any more", peer=peer_of(first))
            first.transport.abort()
        except ConnectionClosed:
            pass
        else:
            return False
        return self._door.inside is None or self._door.inside is first

    def _refuse(self, connection: ServerConnection, status: HTTPStatus, reason: str) -> Response:
        if self._told.spend(0):
            log.warning("refused", reason=reason, peer=peer_of(connection), not_told=self._untold)
            self._untold = 0
        else:
            self._untold += 1
        return connection.respond(status, reason + "\n")

    async def _serve(self, connection: ServerConnection) -> None:
        self._door.waiting.pop(connection, None)
        first = self._door.inside
        if first is not None and first.transport is not None and not first.transport.is_closing():
            # Two came through the door in the same moment.
            await connection.close(1013, _TAKEN)
            return
        self._door.inside = connection
        session = Session(connection, self._desk, self._timing)
        try:
            await session.register()
            log.info("registered", peer=peer_of(connection), features=sorted(session.features))
            await session.serve()
            reason = "the console closed it"
        except (ConnectionClosed, DeviceError, Refused) as error:
            reason = str(error)
        finally:
            if self._door.inside is connection:
                self._door.inside = None
        log.info("link ended", peer=peer_of(connection), reason=reason)


def _token_of(request: Request, query: str) -> str:
    try:
        header = request.headers.get("Authorization")
    except MultipleValuesError:
        return ""
    if header is not None:
        scheme, _, token = header.partition(" ")
        return token.strip() if scheme.lower() == "bearer" else ""
    values = parse_qs(query).get("token", [])
    return values[0] if len(values) == 1 else ""
