"""A WebSocket listener behind a `ConnectionGate`, for both ends: the console, or a device that is dialled."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, cast

from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.http11 import Request, Response

from core.aip.acceptor import ConnectionGate, HandshakeConnection, PreTlsProtocol
from core.aip.pairing import hosts_of, is_loopback

PATH = "/ws"
# How many connections asyncio accepts at a time, before the gate counts the first of them.
BACKLOG = 100

Admit = Callable[[ServerConnection, Request], Awaitable[Response | None] | Response | None]


class Listener:
    """Listens at one address and serves each admitted connection.

    The gate's limits hold for each connection before its registration, the frame size and the pings after it.
    """

    def __init__(
        self,
        gate: ConnectionGate,
        on_link: Callable[[HandshakeConnection], Awaitable[None]],
        host: str,
        port: int,
        *,
        admit: Admit | None = None,
        backlog: int = BACKLOG,
    ) -> None:
        """`admit` answers upgrade requests in place of `gate.admit`."""
        self._gate = gate
        self._on_link = on_link
        self._host = host
        self._asked_port = port
        self._admit = admit or gate.admit
        self._backlog = backlog
        self._server: Server | None = None

    @property
    def port(self) -> int:
        """The port that is listened at; 0 while none is."""
        return int(self._server.sockets[0].getsockname()[1]) if self._server is not None else 0

    async def start(self) -> None:
        """Begin to listen.

        Raises:
            OSError, UnicodeError, OverflowError: the address cannot be listened at.
        """
        limits = self._gate.limits
        self._server = await serve(
            self._serve,
            # asyncio accepts a list of hosts, although the type of `serve` does not.
            cast(Any, hosts_of(self._host, self._asked_port)),
            self._asked_port,
            process_request=self._admit,
            # On loopback, compression costs more time than it saves; remote peers may request it.
            compression=None if is_loopback(self._host) else "deflate",
            max_size=limits.max_incoming_bytes,
            open_timeout=limits.register_s,
            ping_interval=limits.ping_s,
            ping_timeout=limits.pong_s,
            close_timeout=limits.close_s,
            server_header=None,
            # asyncio needs a protocol only; `PreTlsProtocol` later hands over to the `HandshakeConnection`.
            create_connection=cast(Any, self._new_connection),
            backlog=self._backlog,
        )

    def _new_connection(self, *args: Any, **kwargs: Any) -> PreTlsProtocol:
        return PreTlsProtocol(HandshakeConnection(*args, **kwargs), self._gate)

    async def _serve(self, connection: ServerConnection) -> None:
        assert isinstance(connection, HandshakeConnection)
        await self._on_link(connection)

    async def close(self, end_links: Callable[[], Awaitable[object]] | None = None) -> None:
        """Stop listening and end the links: by `end_links`, or else with the close code 1001 (going away)."""
        if self._server is not None:
            self._server.close(close_connections=end_links is None)
        # Unregistered connections close first: otherwise one could register after the links are closed.
        await self._gate.close()
        if end_links is not None:
            await end_links()
        if self._server is not None:
            await self._server.wait_closed()
            self._server = None
