"""The console's end of device links: listens, lets devices register, and hands out a `DeviceLink` for each.

device ── upgrade (token, no Origin) ──► server
device ── register ────────────────────► server   role, name, no double
device ◄─ heartbeat/ok ───────────────── server   before anything else; then on_connected(link)
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from types import MappingProxyType
from urllib.parse import parse_qs, urlsplit
from uuid import uuid4

import structlog
from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.datastructures import MultipleValuesError
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response

from core.aip.error_text import error_text
from core.aip.link import DeviceLink, LinkLimits
from core.aip.messages import ClientMessage, FrameStatus, Result, ServerMessage, now_stamp, read_client_frame
from core.errors import BadInput, DeviceError, ErrorCode, QuarterdeckError, Refused

log = structlog.get_logger(__name__)

Authorise = Callable[[str | None], str | None]


def token_table(tokens: Mapping[str, str]) -> Authorise:
    """An `authorise` over tokens by device name, live: later changes of `tokens` count.

    Every comparison takes the same time whichever token it is and however much of it was right.
    """

    def authorise(given: str | None) -> str | None:
        digest = _digest(given or "")
        found: str | None = None
        for name, token in tokens.items():
            if hmac.compare_digest(digest, _digest(token)) and given:
                found = name
        return found

    return authorise


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()


def _nothing(*_: object) -> None:
    pass


@dataclass(frozen=True, slots=True)
class LinkEvents:
    """What a server tells its owner, from the event loop; none of these may block.

    `on_refused` gets the reason and the peer's address; `on_late` gets results that came after their
    caller had given up on them.
    """

    on_connected: Callable[[DeviceLink], None] = _nothing
    on_lost: Callable[[DeviceLink, str], None] = _nothing
    on_refused: Callable[[str, str], None] = _nothing
    on_late: Callable[[DeviceLink, list[Result]], None] = _nothing


@dataclass(slots=True)
class _Doorman:
    """Looks at upgrade requests, and remembers whose token came with which connection."""

    authorise: Authorise
    path: str
    refused: Callable[[str, str], None]
    names: weakref.WeakKeyDictionary[ServerConnection, str] = field(default_factory=weakref.WeakKeyDictionary)

    def admit(self, connection: ServerConnection, request: Request) -> Response | None:
        """Let an upgrade through (None) or answer it with a refusal."""
        asked = urlsplit(request.path)
        if asked.path != self.path:
            return self._refuse(connection, HTTPStatus.NOT_FOUND, "there is nothing at this path")
        if request.headers.get_all("Origin"):
            # Only browsers send it, and a page must never reach a device link on loopback.
            return self._refuse(connection, HTTPStatus.FORBIDDEN, "a browser's Origin is not accepted")
        name = self.authorise(_token(request, asked.query))
        if name is None:
            return self._refuse(connection, HTTPStatus.FORBIDDEN, "the token is not accepted")
        self.names[connection] = name
        return None

    def _refuse(self, connection: ServerConnection, status: HTTPStatus, reason: str) -> Response:
        self.refused(reason, peer_of(connection))
        return connection.respond(status, reason + "\n")


def _token(request: Request, query: str) -> str | None:
    try:
        header = request.headers.get("Authorization")
    except MultipleValuesError:
        return None
    if header is not None:
        scheme, _, token = header.partition(" ")
        return token.strip() if scheme.lower() == "bearer" else None
    # Stock clients can set no header.
    values = parse_qs(query).get("token", [])
    return values[0] if len(values) == 1 else None


def peer_of(connection: ServerConnection) -> str:
    """A connection's far address as `host:port`."""
    address = connection.remote_address
    return f"{address[0]}:{address[1]}" if isinstance(address, tuple) else str(address or "unknown")


class DeviceLinkServer:
    """Listens for devices. `links` holds those that are registered now, by name."""

    def __init__(
        self,
        authorise: Authorise,
        events: LinkEvents = LinkEvents(),
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        path: str = "/ws",
        agent_name: str = "LinuxAgent",
        limits: LinkLimits = LinkLimits(),
    ) -> None:
        self._events = events
        self._doorman = _Doorman(authorise, path, self._refused)
        self._host = host
        self._asked_port = port
        self._path = path
        self._agent_name = agent_name
        self._limits = limits
        self._server: Server | None = None
        self._links: dict[str, DeviceLink] = {}

    @property
    def links(self) -> Mapping[str, DeviceLink]:
        """The registered links by device name; a live view."""
        return MappingProxyType(self._links)

    @property
    def port(self) -> int:
        """The port it listens on; 0 before `start`."""
        return int(self._server.sockets[0].getsockname()[1]) if self._server is not None else 0

    @property
    def url(self) -> str:
        """The address for a device's `--connect`."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"ws://{host}:{self.port}{self._path}"

    async def start(self) -> None:
        """Begin to listen.

        Raises:
            OSError: the address cannot be listened on.
        """
        limits = self._limits
        self._server = await serve(
            self._serve,
            self._host,
            self._asked_port,
            process_request=self._doorman.admit,
            # On loopback compressing costs more than sending; beyond, devices may ask for it.
            compression=None if self._host in {"127.0.0.1", "::1", "localhost"} else "deflate",
            max_size=limits.max_incoming_bytes,
            open_timeout=limits.register_s,
            ping_interval=limits.ping_s,
            ping_timeout=limits.pong_s,
            close_timeout=limits.close_s,
            server_header=None,
        )

    async def close(self, reason: str = "the console ends") -> None:
        """Close every link and stop listening; pending commands fail with an unknown outcome."""
        for link in list(self._links.values()):
            await link.close(reason)
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()
            self._server = None

    def _refused(self, reason: str, peer: str) -> None:
        log.warning("refused", reason=reason, peer=peer)
        self._events.on_refused(reason, peer)

    async def _serve(self, connection: ServerConnection) -> None:
        owner = self._doorman.names.pop(connection)
        try:
            link = await self._admit(connection, owner)
        except QuarterdeckError as error:
            self._refused(error.message, peer_of(connection))
            await _say_no(connection, error)
            return
        except ConnectionClosed:
            self._refused("it closed before it had registered", peer_of(connection))
            return
        reason = "the service failed"
        try:
            await connection.send(acknowledgement())
            self._events.on_connected(link)
            reason = await link.listen()
        except ConnectionClosed:
            reason = "it closed while it registered"
        finally:
            del self._links[link.name]
            link.end(reason)
            self._events.on_lost(link, reason)

    async def _admit(self, connection: ServerConnection, owner: str) -> DeviceLink:
        """Read the registration and claim the name, which nothing else can do in between."""
        try:
            async with asyncio.timeout(self._limits.register_s):
                frame = await connection.recv()
        except TimeoutError:
            raise DeviceError(
                f"No registration came within {self._limits.register_s:g} s", ErrorCode.TIMEOUT
            ) from None
        hello = read_client_frame(frame)
        if hello.type != "register":
            raise DeviceError(f"The first frame must be register, not {hello.type}", ErrorCode.PROTOCOL_ERROR)
        if hello.client_type == "constellation":
            raise BadInput("The role constellation is not served here")
        if not hello.client_id:
            raise BadInput("A registration needs a client_id")
        if not hmac.compare_digest(hello.client_id.encode(), owner.encode()):
            raise BadInput("client_id is not the device this token is for")
        if owner in self._links:
            raise Refused(f"client_id {owner!r} is already registered", ErrorCode.DENIED_BY_POLICY)
        return self._claim(connection, owner, hello)

    def _claim(self, connection: ServerConnection, name: str, hello: ClientMessage) -> DeviceLink:
        link = DeviceLink(
            connection,
            name,
            hello.metadata or {},
            agent_name=self._agent_name,
            limits=self._limits,
            on_late=lambda results: self._events.on_late(link, results),
        )
        self._links[name] = link
        return link


def acknowledgement() -> str:
    """The frame that accepts a registration or answers a heartbeat."""
    return ServerMessage(
        type="heartbeat", status=FrameStatus.OK, timestamp=now_stamp(), response_id=str(uuid4())
    ).model_dump_json()


async def _say_no(connection: ServerConnection, error: QuarterdeckError) -> None:
    told = ServerMessage(
        type="error",
        status=FrameStatus.ERROR,
        error=error_text(error),
        timestamp=now_stamp(),
        response_id=str(uuid4()),
    )
    try:
        await connection.send(told.model_dump_json())
        await connection.close(1000)
    except ConnectionClosed:
        return
