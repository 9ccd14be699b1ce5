"""Admission of incoming connections, on the console or a listening device: number, time limits, token.

TCP ─► `PreTlsProtocol` (how many?) ─► TLS, if configured ─► upgrade (token, no Origin) ─► registration

Every rejected connection is reported, with the reason.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import socket
import ssl
import sys
from collections import Counter
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, cast
from urllib.parse import parse_qs, urlsplit

from websockets.asyncio.server import ServerConnection
from websockets.datastructures import MultipleValuesError
from websockets.exceptions import InvalidHeader, SecurityError
from websockets.http11 import Request, Response
from websockets.protocol import State

from core.aip.connection import shown_address
from core.aip.connection_failures import dial_failure
from core.aip.limits import LinkLimits
from core.aip.link_events import RefusedAttempt
from core.aip.measured_connection import MeasuredConnection
from core.aip.pairing import is_loopback
from core.errors import Refused
from core.log import Logger
from core.tasks import TaskGroupOwner, set_within
from core.token_bucket import TokenBucket

log = Logger(__name__)

Authorise = Callable[[str | None], str | None]

# The type of the record that every TLS client begins with.
_TLS_HANDSHAKE = b"\x16"
_PLAIN_ANSWER = (
    b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nConnection: close\r\nContent-Length: 34\r\n\r\n"
    b"This port speaks TLS: use wss://.\n"
)
AT_TLS = "closed during its tls handshake"
"""In a refusal, in small letters, of a client that ended the TLS handshake, as one with another pin does."""
CLOSED_AT_TLS = "it closed during its TLS handshake"
_READS_ANSWER_S = 1.0
_FEWEST_UNREGISTERED = 16
_LOG_LINES_AT_ONCE, _LOG_LINES_PER_S = 20.0, 1.0


class TokenRefused(Refused):
    """`authorise` knows the token but rejects it: revoked or expired. `name` is the token's device."""

    def __init__(self, message: str, name: str) -> None:
        super().__init__(message, next_step="Pair the device again, and give it the new pairing string.")
        self.name = name


class ConnectionGate:
    """Counts connections that have not registered yet, checks upgrades, and reports rejected connections."""

    def __init__(
        self,
        authorise: Authorise,
        path: str,
        limits: LinkLimits,
        secure: ssl.SSLContext | None,
        on_refused: Callable[[RefusedAttempt], None],
    ) -> None:
        self.limits = limits
        self.secure = secure
        self.tasks = TaskGroupOwner("gate")
        self.closed = False
        self._authorise = authorise
        self._path = path
        self._on_refused = on_refused
        self._unregistered: dict[PreTlsProtocol, str] = {}
        self._per_host: Counter[str] = Counter()
        self._limit = min(limits.door_most, _descriptor_limit())
        self._log_allowance = TokenBucket(_LOG_LINES_AT_ONCE, _LOG_LINES_PER_S)

    @property
    def waiting(self) -> int:
        """The number of connections that have not registered yet."""
        return len(self._unregistered)

    def refused(self, reason: str, peer: str, name: str = "") -> None:
        """Report a rejected connection."""
        # A flood of rejected connections must not flood the log; `on_refused` still receives all of them.
        if self._log_allowance.spend():
            log.warning("refused", reason=reason, peer=peer, name=name)
        self._on_refused(RefusedAttempt(reason, peer, name))

    def enter(self, pending: PreTlsProtocol) -> None:
        """Count a new connection. If too many have not registered yet, the oldest of them is aborted.

        The oldest, not the newest: an honest device registers within moments, and idle connections of an
        attacker must not keep it out.
        """
        limits = self.limits
        # All programs on this computer share the loopback address, so the limit per host does not apply.
        if self._per_host[pending.host] >= limits.door_most_of_one and not is_loopback(pending.host):
            oldest = next(other for other, host in self._unregistered.items() if host == pending.host)
            self._evict(oldest, f"too many connections from {pending.host} that have not registered yet")
        elif len(self._unregistered) >= self._limit:
            self._evict(next(iter(self._unregistered)), "too many connections that have not registered yet")
        self._unregistered[pending] = pending.host
        self._per_host[pending.host] += 1

    def _evict(self, pending: PreTlsProtocol, reason: str) -> None:
        self.refused(reason, pending.peer)
        self.leave(pending)
        pending.abort()

    def leave(self, pending: PreTlsProtocol) -> None:
        """Stop counting a connection that has registered or closed."""
        host = self._unregistered.pop(pending, None)
        if host is not None:
            self._per_host[host] -= 1
            if self._per_host[host] <= 0:
                del self._per_host[host]

    async def close(self) -> None:
        """Abort the connections that have not registered yet, and every new connection."""
        self.closed = True
        await self.tasks.close()
        for pending in list(self._unregistered):
            pending.abort()

    def admit(self, connection: ServerConnection, request: Request) -> Response | None:
        """Check an upgrade request: returns None to accept it, or the response that rejects it."""
        assert isinstance(connection, HandshakeConnection)
        try:
            target = urlsplit(request.path)
        except ValueError:
            return self.reject(connection, HTTPStatus.NOT_FOUND, "there is nothing at this path")
        if target.path != self._path:
            return self.reject(connection, HTTPStatus.NOT_FOUND, "there is nothing at this path")
        if request.headers.get_all("Origin"):
            # Only browsers send Origin, and a web page must never reach a device link on loopback.
            return self.reject(connection, HTTPStatus.FORBIDDEN, "a browser's Origin is not accepted")
        reason, device = "the token is not accepted", ""
        try:
            token = _token(request, target.query)
            name = self._authorise(token)
        except TokenRefused as error:
            name, reason, device = None, error.message, error.name
        if name is None:
            return self.reject(connection, HTTPStatus.FORBIDDEN, reason, device)
        connection.owner, connection.token_sha256 = name, hashlib.sha256((token or "").encode()).hexdigest()
        return None

    def reject(
        self, connection: HandshakeConnection, status: HTTPStatus, reason: str, name: str = ""
    ) -> Response:
        """Reject an upgrade and report it; returns the response. `name` is the device of the token sent."""
        connection.reported = True
        self.refused(reason, connection.pre_tls.peer, name)
        return connection.respond(status, reason + "\n")


def _descriptor_limit() -> int:
    """How many unregistered connections leave enough file descriptors for the rest of the process."""
    if sys.platform == "win32":
        return sys.maxsize
    else:
        import resource

        most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        # A TLS connection takes two descriptors until its first byte arrives (`_first_byte`).
        return sys.maxsize if most == resource.RLIM_INFINITY else max(_FEWEST_UNREGISTERED, most // 4)


def _token(request: Request, query: str) -> str | None:
    token = _sent_token(request, query)
    # Tokens are ASCII, and not every `authorise` can handle other text.
    return token if token is not None and token.isascii() else None


def _sent_token(request: Request, query: str) -> str | None:
    try:
        header = request.headers.get("Authorization")
    except MultipleValuesError:
        return None
    if header is not None:
        scheme, _, token = header.partition(" ")
        return token.strip() if scheme.lower() == "bearer" else None
    # Stock clients cannot set headers, so they send the token in the query.
    try:
        values = parse_qs(query, max_num_fields=20).get("token", [])
    except ValueError:
        return None
    return values[0] if len(values) == 1 else None


class HandshakeConnection(MeasuredConnection, ServerConnection):
    """A connection that reports why its upgrade failed.

    `owner` is the device of the token sent, `token_sha256` the SHA-256 of that token.
    """

    pre_tls: PreTlsProtocol
    owner: str = ""
    token_sha256: str = ""
    reported: bool = False

    async def handshake(self, *args: Any, **kwargs: Any) -> None:
        try:
            await super().handshake(*args, **kwargs)
        except asyncio.CancelledError:
            self._report("it did not finish its upgrade in time")
            raise
        if self.protocol.state is not State.OPEN:
            fault = self.protocol.handshake_exc
            self._report(_no_upgrade(fault) if fault else "it closed before its upgrade")

    def _report(self, reason: str) -> None:
        if not self.reported and not self.pre_tls.aborted:
            self.reported = True
            self.pre_tls.gate.refused(reason, self.pre_tls.peer)

    def connection_lost(self, exc: Exception | None) -> None:
        self.pre_tls.gate.leave(self.pre_tls)
        super().connection_lost(exc)


class PreTlsProtocol(asyncio.Protocol):
    """The protocol of a new connection until TLS is set up; then its `HandshakeConnection` takes over."""

    def __init__(self, connection: HandshakeConnection, gate: ConnectionGate) -> None:
        self.gate = gate
        self.peer = "unknown"
        self.host = "unknown"
        self.aborted = False
        self._connection = connection
        connection.pre_tls = self
        self._transport: asyncio.Transport | None = None
        self._tls_task: asyncio.Task[None] | None = None
        self._closed = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Not checked: a transport of uvloop is none of asyncio's classes.
        stream = cast(asyncio.Transport, transport)
        self._transport = stream
        address = transport.get_extra_info("peername")
        self.peer = shown_address(address)
        self.host = str(address[0]) if isinstance(address, tuple) else self.peer
        if self.gate.closed:
            self.abort()
            return
        self.gate.enter(self)
        if self.gate.secure is None:
            self._hand_over(stream)
        else:
            self._tls_task = self.gate.tasks.spawn("start TLS", self._start_tls(stream, self.gate.secure))

    def _hand_over(self, transport: asyncio.Transport) -> None:
        transport.set_protocol(self._connection)
        self._connection.connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._closed.set()
        self.gate.leave(self)

    def abort(self) -> None:
        """Abort the connection without an answer."""
        self.aborted = True
        if self._tls_task is not None:
            # The task may hold a second handle of the socket, which would keep the connection open.
            self._tls_task.cancel()
        if self._transport is not None:
            self._transport.abort()

    async def _start_tls(self, transport: asyncio.Transport, secure: ssl.SSLContext) -> None:
        """Start TLS with a TLS client; answer any other client that this port requires TLS."""
        # `start_tls` must receive every byte, so nothing is read here. A pause in `connection_made` is too
        # early: asyncio of Python 3.11.2 (Debian 12) begins to read after it all the same. This task is
        # scheduled by then, and runs before anything is read.
        transport.pause_reading()
        loop = asyncio.get_running_loop()
        seconds = self.gate.limits.register_s
        reason = "it did not begin its TLS handshake in time"
        try:
            async with asyncio.timeout(seconds):
                first = await _first_byte(transport)
            reason = "it did not finish its TLS handshake in time"
            if first is not None and first != _TLS_HANDSHAKE:
                await self._reject_plain(transport, first)
                return
            buffering = _BufferingProtocol()
            encrypted = await loop.start_tls(
                transport, buffering, secure, server_side=True, ssl_handshake_timeout=seconds
            )
        except TimeoutError:
            pass
        except ConnectionAbortedError as error:
            reason = reason if "longer" in str(error) else CLOSED_AT_TLS
        except ssl.SSLError as error:
            reason = f"its TLS handshake failed: {dial_failure(error).detail}"
        except OSError:
            reason = CLOSED_AT_TLS
        else:
            if encrypted is not None:
                self._transport = encrypted
                self._hand_over(encrypted)
                buffering.pass_on(self._connection)
                return
        if not self.aborted:
            self.gate.refused(reason, self.peer)
        transport.abort()
        self.gate.leave(self)

    async def _reject_plain(self, transport: asyncio.Transport, first: bytes) -> None:
        if self.aborted:
            return
        if first == b"":
            self.gate.refused(CLOSED_AT_TLS, self.peer)
        else:
            self.gate.refused("it does not use TLS (ws:// instead of wss://?)", self.peer)
            # Closing a socket with unread bytes sends a reset, which would cut our answer off: read them.
            transport.resume_reading()
            transport.write(_PLAIN_ANSWER)
            with contextlib.suppress(OSError):
                transport.write_eof()
            await set_within(self._closed, _READS_ANSWER_S)
        transport.abort()
        self.gate.leave(self)


class _BufferingProtocol(asyncio.Protocol):
    """Buffers events between the end of the TLS handshake and the switch to `HandshakeConnection`."""

    def __init__(self) -> None:
        self._events: list[Callable[[asyncio.Protocol], object]] = []

    def data_received(self, data: bytes) -> None:
        self._events.append(lambda protocol: protocol.data_received(data))

    def eof_received(self) -> None:
        self._events.append(lambda protocol: protocol.eof_received())

    def connection_lost(self, exc: Exception | None) -> None:
        self._events.append(lambda protocol: protocol.connection_lost(exc))

    def pass_on(self, protocol: asyncio.Protocol) -> None:
        for event in self._events:
            event(protocol)


async def _first_byte(transport: asyncio.Transport) -> bytes | None:
    """Wait for the first byte and return it without consuming it; None if the event loop cannot do that."""
    loop = asyncio.get_running_loop()
    duplicate: socket.socket = transport.get_extra_info("socket").dup()
    arrived: asyncio.Future[None] = loop.create_future()
    try:
        loop.add_reader(duplicate, _set, arrived)
    except NotImplementedError:
        duplicate.close()
        return None
    try:
        await arrived
        return duplicate.recv(1, socket.MSG_PEEK)
    finally:
        loop.remove_reader(duplicate)
        duplicate.close()


def _no_upgrade(fault: Exception) -> str:
    """Why a request is not a WebSocket upgrade.

    The text contains nothing that the peer sent: it could make every reason different.
    """
    if isinstance(fault, InvalidHeader):
        return f"it did not ask for a WebSocket: its header {fault.name} is missing or wrong"
    if isinstance(fault, SecurityError):
        return "it did not ask for a WebSocket: its request is too long"
    return "it did not ask for a WebSocket: its request is not valid HTTP"


def _set(arrived: asyncio.Future[None]) -> None:
    if not arrived.done():
        arrived.set_result(None)
