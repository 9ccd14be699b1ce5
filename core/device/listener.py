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
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, cast
from urllib.parse import urlsplit

import structlog
from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response

from core.aip.acceptor import ConnectionGate, HandshakeConnection, PreTlsProtocol
from core.aip.connection import peer_of
from core.aip.limits import LinkLimits
from core.aip.pairing import hosts_of, is_loopback
from core.device.client import Ending
from core.device.device_session import Session, Timing
from core.device.runtime import Desk
from core.errors import BadInput, DeviceError, Refused

log = structlog.get_logger(__name__)

PATH = "/ws"
# Connections that have not shown a token yet.
_MOST_AT_DOOR = 32
_MOST_OF_ONE_ADDRESS = 8
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
        limits = LinkLimits(
            register_s=timing.register, door_most=_MOST_AT_DOOR, door_most_of_one=_MOST_OF_ONE_ADDRESS
        )
        # Whoever comes counts from the first byte of TCP on: a TLS handshake may take its time.
        self._door = ConnectionGate(self._authorise, PATH, limits, secure, lambda refused: None)
        self._inside: ServerConnection | None = None
        self._server: Server | None = None
        self._stopping = asyncio.Event()

    @property
    def port(self) -> int:
        """The port it listens on; 0 before `start`."""
        return int(self._server.sockets[0].getsockname()[1]) if self._server is not None else 0

    async def start(self) -> None:
        """Begin to listen.

        Raises:
            BadInput: it is no address.
            DeviceError: the address cannot be listened on now; it may be later, as when a machine starts.
        """
        timing = self._timing
        try:
            self._server = await serve(
                self._serve,
                # asyncio takes several hosts, whatever the type of `serve` says.
                cast(Any, hosts_of(self._address.host, self._address.port)),
                self._address.port,
                process_request=self._admit,
                # All that asyncio wants of it is a protocol; the doorstep becomes the visitor's connection.
                create_connection=cast(Any, self._visitor),
                compression=None if self._address.loopback else "deflate",
                max_size=timing.max_frame_bytes,
                open_timeout=timing.register,
                ping_interval=timing.ping,
                ping_timeout=timing.ping,
                close_timeout=2.0,
                server_header=None,
            )
        except (OSError, UnicodeError, OverflowError) as error:
            where = f"{self._address.host}:{self._address.port}"
            if not isinstance(error, OSError):
                raise BadInput(f"{where} is no address to listen on") from None
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
            await self._door.close()
            self._server.close()
            await self._server.wait_closed()
            self._server = None

    def _visitor(self, *args: Any, **kwargs: Any) -> PreTlsProtocol:
        return PreTlsProtocol(HandshakeConnection(*args, **kwargs), self._door)

    def _authorise(self, token: str | None) -> str | None:
        given = hashlib.sha256((token or "").encode()).digest()
        return "console" if hmac.compare_digest(given, self._token) else None

    async def _admit(self, connection: ServerConnection, request: Request) -> Response | None:
        """Let an upgrade through (None) or answer it with a refusal."""
        refusal = self._door.admit(connection, request)
        if refusal is None and not await self._is_free():
            assert isinstance(connection, HandshakeConnection)
            refusal = self._door.turn_away(connection, HTTPStatus.CONFLICT, _TAKEN)
        return refusal

    async def _is_free(self) -> bool:
        """Whether no console is connected that still answers; a dead one is sent away."""
        first = self._inside
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
        return self._inside is None or self._inside is first

    async def _serve(self, connection: ServerConnection) -> None:
        assert isinstance(connection, HandshakeConnection)
        self._door.leave(connection.step)
        first = self._inside
        if first is not None and first.transport is not None and not first.transport.is_closing():
            # Two came through the door in the same moment.
            await connection.close(1013, _TAKEN)
            return
        self._inside = connection
        # A socket that is closed has no address any more.
        peer = peer_of(connection)
        session = Session(connection, self._desk, self._timing)
        try:
            await session.register()
            log.info("registered", peer=peer, features=sorted(session.features))
            await session.serve()
            reason = "the console closed it"
        except (ConnectionClosed, DeviceError, Refused) as error:
            reason = str(error)
        finally:
            if self._inside is connection:
                self._inside = None
        log.info("link ended", peer=peer, reason=reason)
