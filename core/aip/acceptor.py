"""The door of whoever listens, console or device: who may begin to speak, how slowly, and how many at once.

TCP ─► doorstep (how many?) ─► TLS, if it is spoken here ─► upgrade (token, no Origin) ─► registration

Everybody who is turned away is reported, with the reason.
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
from typing import Any
from urllib.parse import parse_qs, urlsplit

import structlog
from websockets.asyncio.server import ServerConnection
from websockets.datastructures import MultipleValuesError
from websockets.exceptions import InvalidHeader, SecurityError
from websockets.http11 import Request, Response
from websockets.protocol import State

from core.aip.connection import shown_address
from core.aip.limits import LinkLimits, TokenBucket
from core.aip.link_events import RefusedAttempt
from core.aip.pairing import is_loopback
from core.errors import Refused
from core.tasks import TaskGroupOwner

log = structlog.get_logger(__name__)

Authorise = Callable[[str | None], str | None]

# The type of the record that every TLS client begins with.
_TLS_HANDSHAKE = b"\x16"
_PLAIN_ANSWER = (
    b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nConnection: close\r\nContent-Length: 34\r\n\r\n"
    b"This port speaks TLS: use wss://.\n"
)
_LAST_WORDS_S = 1.0
_SMALLEST_ROOM = 16
_LINES_AT_ONCE, _LINES_PER_S = 20.0, 1.0


class TokenRefused(Refused):
    """A token that `authorise` knows, and refuses: revoked, or expired. `name` is whose it was."""

    def __init__(self, message: str, name: str) -> None:
        super().__init__(message)
        self.name = name


class ConnectionGate:
    """Counts who has not registered yet, checks upgrades, and reports who is turned away."""

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
        self.tasks = TaskGroupOwner("door")
        self.closed = False
        self._authorise = authorise
        self._path = path
        self._on_refused = on_refused
        self._here: dict[PreTlsProtocol, str] = {}
        self._per_host: Counter[str] = Counter()
        self._most = min(limits.door_most, _room())
        self._told = TokenBucket(_LINES_AT_ONCE, _LINES_PER_S)

    @property
    def waiting(self) -> int:
        """How many connections have not registered yet."""
        return len(self._here)

    def refused(self, reason: str, peer: str, name: str = "") -> None:
        """Report somebody who is turned away."""
        # A flood of refusals must not become a flood of log lines; the owner counts all of them.
        if self._told.spend(0):
            log.warning("refused", reason=reason, peer=peer, name=name)
        self._on_refused(RefusedAttempt(reason, peer, name))

    def enter(self, step: PreTlsProtocol) -> None:
        """Count a new connection. When too many have not registered yet, who waited longest makes room.

        Not the newest goes: an honest device registers within moments, and idle strangers would keep it out.
        """
        limits = self.limits
        # This computer's own programs all have one address; they are not told apart by it.
        if self._per_host[step.host] >= limits.door_most_of_one and not is_loopback(step.host):
            oldest = next(one for one, host in self._here.items() if host == step.host)
            self._turn_out(oldest, f"too many connections from {step.host} that have not registered yet")
        elif len(self._here) >= self._most:
            self._turn_out(next(iter(self._here)), "too many connections that have not registered yet")
        self._here[step] = step.host
        self._per_host[step.host] += 1

    def _turn_out(self, step: PreTlsProtocol, reason: str) -> None:
        self.refused(reason, step.peer)
        self.leave(step)
        step.abort()

    def leave(self, step: PreTlsProtocol) -> None:
        """A connection has registered, or is gone."""
        host = self._here.pop(step, None)
        if host is not None:
            self._per_host[host] -= 1
            if self._per_host[host] <= 0:
                del self._per_host[host]

    async def close(self) -> None:
        """Turn out whoever has not registered yet, and whoever still comes."""
        self.closed = True
        await self.tasks.close()
        for step in list(self._here):
            step.abort()

    def admit(self, connection: ServerConnection, request: Request) -> Response | None:
        """Let an upgrade through (None) or answer it with a refusal."""
        assert isinstance(connection, HandshakeConnection)
        try:
            asked = urlsplit(request.path)
        except ValueError:
            return self.turn_away(connection, HTTPStatus.NOT_FOUND, "there is nothing at this path")
        if asked.path != self._path:
            return self.turn_away(connection, HTTPStatus.NOT_FOUND, "there is nothing at this path")
        if request.headers.get_all("Origin"):
            # Only browsers send it, and a page must never reach a device link on loopback.
            return self.turn_away(connection, HTTPStatus.FORBIDDEN, "a browser's Origin is not accepted")
        reason, whose = "the token is not accepted", ""
        try:
            token = _token(request, asked.query)
            name = self._authorise(token)
        except TokenRefused as error:
            name, reason, whose = None, error.message, error.name
        if name is None:
            return self.turn_away(connection, HTTPStatus.FORBIDDEN, reason, whose)
        connection.owner, connection.token_sha256 = name, hashlib.sha256((token or "").encode()).hexdigest()
        return None

    def turn_away(
        self, connection: HandshakeConnection, status: HTTPStatus, reason: str, name: str = ""
    ) -> Response:
        """Answer an upgrade with a refusal, and report it. `name` is whose token it showed."""
        connection.reported = True
        self.refused(reason, connection.step.peer, name)
        return connection.respond(status, reason + "\n")


def _room() -> int:
    """How many may wait at the door without taking the files away that everything else needs."""
    if sys.platform == "win32":
        return sys.maxsize
    import resource

    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    # Before its first byte, a connection that is to speak TLS takes two of them.
    return sys.maxsize if most == resource.RLIM_INFINITY else max(_SMALLEST_ROOM, most // 4)


def _token(request: Request, query: str) -> str | None:
    token = _as_sent(request, query)
    # No token is made of anything else, and not every check could take it.
    return token if token is not None and token.isascii() else None


def _as_sent(request: Request, query: str) -> str | None:
    try:
        header = request.headers.get("Authorization")
    except MultipleValuesError:
        return None
    if header is not None:
        scheme, _, token = header.partition(" ")
        return token.strip() if scheme.lower() == "bearer" else None
    # Stock clients can set no header.
    try:
        values = parse_qs(query, max_num_fields=20).get("token", [])
    except ValueError:
        return None
    return values[0] if len(values) == 1 else None


class HandshakeConnection(ServerConnection):
    """A connection that reports how its upgrade failed. `owner` is whose token it showed, and the SHA-256
    says which one."""

    step: PreTlsProtocol
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
        if not self.reported and not self.step.turned_out:
            self.reported = True
            self.step.door.refused(reason, self.step.peer)

    def connection_lost(self, exc: Exception | None) -> None:
        self.step.door.leave(self.step)
        super().connection_lost(exc)


class PreTlsProtocol(asyncio.Protocol):
    """A connection of which nothing is known yet; hands it on to its `HandshakeConnection`."""

    def __init__(self, visitor: HandshakeConnection, door: ConnectionGate) -> None:
        self.door = door
        self.peer = "unknown"
        self.host = "unknown"
        self.turned_out = False
        self._visitor = visitor
        visitor.step = self
        self._transport: asyncio.Transport | None = None
        self._greeting: asyncio.Task[None] | None = None
        self._gone = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        address = transport.get_extra_info("peername")
        self.peer = shown_address(address)
        self.host = str(address[0]) if isinstance(address, tuple) else self.peer
        if self.door.closed:
            self.abort()
            return
        self.door.enter(self)
        if self.door.secure is None:
            self._hand_over(transport)
        else:
            # Not a byte is read here: TLS reads them all.
            transport.pause_reading()
            self._greeting = self.door.tasks.spawn("greet", self._greet(transport, self.door.secure))

    def _hand_over(self, transport: asyncio.Transport) -> None:
        transport.set_protocol(self._visitor)
        self._visitor.connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._gone.set()
        self.door.leave(self)

    def abort(self) -> None:
        """Turn it out without a word."""
        self.turned_out = True
        if self._greeting is not None:
            # It may hold a second handle of the socket, which would keep the connection.
            self._greeting.cancel()
        if self._transport is not None:
            self._transport.abort()

    async def _greet(self, transport: asyncio.Transport, secure: ssl.SSLContext) -> None:
        """Begin TLS with who speaks it, and tell others to."""
        loop = asyncio.get_running_loop()
        seconds = self.door.limits.register_s
        reason = "it did not finish its TLS handshake in time"
        try:
            async with asyncio.timeout(seconds):
                first = await _first_byte(transport)
            if first is not None and first != _TLS_HANDSHAKE:
                await self._turn_away(transport, first)
                return
            waiting = _BufferingProtocol()
            encrypted = await loop.start_tls(
                transport, waiting, secure, server_side=True, ssl_handshake_timeout=seconds
            )
        except TimeoutError:
            pass
        except ConnectionAbortedError as error:
            reason = reason if "longer" in str(error) else "it closed during its TLS handshake"
        except ssl.SSLError as error:
            reason = f"its TLS handshake failed: {error.reason or error}"
        except OSError:
            reason = "it closed during its TLS handshake"
        else:
            if encrypted is not None:
                self._transport = encrypted
                self._hand_over(encrypted)
                waiting.pass_on(self._visitor)
                return
        if not self.turned_out:
            self.door.refused(reason, self.peer)
        transport.abort()
        self.door.leave(self)

    async def _turn_away(self, transport: asyncio.Transport, first: bytes) -> None:
        if self.turned_out:
            return
        if first == b"":
            self.door.refused("it closed during its TLS handshake", self.peer)
        else:
            self.door.refused("it speaks no TLS (ws:// instead of wss://?)", self.peer)
            # What it said is read away first: closing over unread bytes would cut our answer off.
            transport.resume_reading()
            transport.write(_PLAIN_ANSWER)
            with contextlib.suppress(OSError):
                transport.write_eof()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_LAST_WORDS_S):
                    await self._gone.wait()
        transport.abort()
        self.door.leave(self)


class _BufferingProtocol(asyncio.Protocol):
    """Keeps what arrives between the end of the TLS handshake and the handing over."""

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
    """The first byte to come, left where it is; None where this loop cannot look."""
    loop = asyncio.get_running_loop()
    mirror: socket.socket = transport.get_extra_info("socket").dup()
    arrived: asyncio.Future[None] = loop.create_future()
    try:
        loop.add_reader(mirror, _set, arrived)
    except NotImplementedError:
        mirror.close()
        return None
    try:
        await arrived
        return mirror.recv(1, socket.MSG_PEEK)
    finally:
        loop.remove_reader(mirror)
        mirror.close()


def _no_upgrade(fault: Exception) -> str:
    """What is wrong with a request. None of it is the far end's own word: each would be another reason."""
    if isinstance(fault, InvalidHeader):
        return f"it asked for no WebSocket: its header {fault.name} is missing or wrong"
    if isinstance(fault, SecurityError):
        return "it asked for no WebSocket: its request is too long"
    return "it asked for no WebSocket: its request is none"


def _set(arrived: asyncio.Future[None]) -> None:
    if not arrived.done():
        arrived.set_result(None)
