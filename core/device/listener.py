"""A device that listens: one console at a time may connect, and must present the token first.

console ── TLS, device certificate ─► device   beyond loopback only; the console has pinned the certificate
console ── upgrade (token) ─────────► device   no Origin, the right path, no other console connected
console ◄─ register ──────────────── device    from here on as when the device dials
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import ssl
from dataclasses import dataclass, replace
from http import HTTPStatus
from urllib.parse import urlsplit

from websockets.asyncio.server import ServerConnection
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response

from core.aip.acceptor import ConnectionGate, HandshakeConnection
from core.aip.connection import peer_of
from core.aip.connection_failures import ListenFault, listen_failure
from core.aip.listener import PATH, Listener
from core.aip.pairing import is_loopback, link_url
from core.device.device_session import Session, Timing
from core.device.ending import Ending
from core.device.runtime import DeviceRuntime
from core.errors import BadInput, DeviceError, Refused
from core.log import Logger
from core.text import sentences

log = Logger(__name__)

# The limit of connections that have not presented the token yet.
_MOST_UNREGISTERED = 32
_MOST_PER_HOST = 8
_TAKEN = "another console is connected to this device"


@dataclass(frozen=True, slots=True)
class ListenAddress:
    """The host and port to listen on."""

    host: str
    port: int

    @property
    def loopback(self) -> bool:
        """Whether only this computer can reach the address."""
        return is_loopback(self.host)

    def url(self, host: str | None = None, port: int | None = None) -> str:
        """The URL for a console that knows this machine as `host`."""
        return link_url(host or self.host, port or self.port, PATH, secure=not self.loopback)


def read_address(text: str) -> ListenAddress:
    """Read `HOST:PORT`, `[HOST]:PORT` or `:PORT` (this computer only).

    Raises:
        BadInput: the text has none of these forms.
    """
    try:
        parts = urlsplit(f"//{text}")
        host, port = parts.hostname or "127.0.0.1", parts.port
    except ValueError:
        host, port = "", None
    if port is None or not host or parts.path or parts.username or parts.query:
        raise BadInput(
            f"--listen takes HOST:PORT, such as 127.0.0.1:5001 or 0.0.0.0:5001, not {text[:80]!r}."
        )
    return ListenAddress(host, port)


class DeviceListener:
    """Listens for one console at a time."""

    def __init__(
        self,
        desk: DeviceRuntime,
        address: ListenAddress,
        token: str,
        secure: ssl.SSLContext | None = None,
        timing: Timing = Timing(),
    ) -> None:
        """`secure` (TLS) is required for any address other than loopback.

        Raises:
            BadInput: `secure` is missing there, or `token` is empty.
        """
        if secure is None and not address.loopback:
            raise BadInput("Beyond this computer a device only listens with TLS.")
        if not token:
            raise BadInput("A device that listens needs a token.")
        self._desk = desk
        self._address = address
        self._token = hashlib.sha256(token.encode()).digest()
        self._secure = secure
        self._timing = timing
        limits = replace(timing.link_limits, door_most=_MOST_UNREGISTERED, door_most_of_one=_MOST_PER_HOST)
        # The gate counts connections from TCP's accept on, since a client can delay its TLS handshake.
        self._gate = ConnectionGate(self._authorise, PATH, limits, secure, lambda refused: None)
        self._listener = Listener(self._gate, self._serve, address.host, address.port, admit=self._admit)
        self._console: HandshakeConnection | None = None
        self._stopping = asyncio.Event()

    @property
    def port(self) -> int:
        """The port that it listens on; 0 before `start`."""
        return self._listener.port

    async def start(self) -> None:
        """Begin to listen.

        Raises:
            BadInput: the host or port is invalid.
            DeviceError: the address cannot be used now, but perhaps later, as when the machine is starting.
        """
        try:
            await self._listener.start()
        except (OSError, UnicodeError, OverflowError) as error:
            where = f"{self._address.host}:{self._address.port}"
            failure = listen_failure(error)
            if failure.fault is ListenFault.INVALID:
                raise BadInput(f"{where} is not an address to listen on.") from None
            raise DeviceError(sentences(f"{where} cannot be listened on: {failure.detail}")) from error
        log.info("listening", host=self._address.host, port=self.port, tls=self._secure is not None)

    def stop(self) -> None:
        """End `run`; may be called from a signal handler."""
        self._stopping.set()

    async def run(self) -> Ending:
        """Serve consoles until `stop` is called."""
        if not self.port:
            await self.start()
        try:
            await self._stopping.wait()
            return Ending.DONE
        finally:
            # The work first, so that its last results are still sent over the link.
            await self._desk.close()
            await self.close()

    async def close(self) -> None:
        """Stop listening and close the present link, if any."""
        await self._listener.close()

    def _authorise(self, token: str | None) -> str | None:
        given = hashlib.sha256((token or "").encode()).digest()
        return "console" if hmac.compare_digest(given, self._token) else None

    async def _admit(self, connection: ServerConnection, request: Request) -> Response | None:
        """Accept an upgrade request (None) or return its refusal."""
        refusal = self._gate.admit(connection, request)
        if refusal is None and not await self._is_free():
            assert isinstance(connection, HandshakeConnection)
            refusal = self._gate.reject(connection, HTTPStatus.CONFLICT, _TAKEN)
        return refusal

    async def _is_free(self) -> bool:
        """Whether a console may connect: none is connected, or it no longer answers and is disconnected."""
        present = self._console
        if present is None:
            return True
        before = present.received_bytes
        try:
            async with asyncio.timeout(self._timing.probe):
                await (await present.ping())
        except TimeoutError:
            if present.received_bytes != before:
                return False
            log.warning("the console does not answer any more", peer=peer_of(present))
            present.transport.abort()
        except ConnectionClosed:
            pass
        else:
            return False
        return self._console is None or self._console is present

    async def _serve(self, connection: HandshakeConnection) -> None:
        self._gate.leave(connection.pre_tls)
        present = self._console
        if present is not None and present.transport is not None and not present.transport.is_closing():
            # Two consoles were admitted at the same moment.
            await connection.close(1013, _TAKEN)
            return
        self._console = connection
        # Read now: a closed socket has no address.
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
            if self._console is connection:
                self._console = None
        log.info("link ended", peer=peer, reason=reason)
