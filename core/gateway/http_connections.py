"""Limits of HTTP connections: a request has a time in which to arrive, and each client has a share of them.

Without limits one client takes all connections that this process can have, and locks out the others: another
user of this computer with connections that never show a token, or an agent with connections that do.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import h11
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from core.tcp_owners import Place, users_of

REQUEST_WITHIN = 20.0
"""Seconds from the first byte of a request, or from the beginning of its connection, to the request's end."""
MOST_UNPROVEN = 64
"""Connections on which no token was shown yet, of all users together."""
MOST_OF_ONE_TOKEN = 64
_CONNECTION = "quarterdeck.connection"
_TOO_LATE = b"HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"


class Connections:
    """The open connections of one gateway, by the tokens that they have shown.

    Beyond a share the oldest connection is closed.
    """

    def __init__(self, port: int) -> None:
        self._port = port
        # Dictionaries for their order: the oldest connection is first.
        self._unproven: dict[Connection, None] = {}
        self._of_tokens: dict[str, dict[Connection, None]] = {}

    def opened(self, connection: Connection) -> None:
        """Take in a new connection. Of too many, one is closed of the user who has the most."""
        self._unproven[connection] = None
        if len(self._unproven) > MOST_UNPROVEN:
            users = users_of(self._port)
            held_by = {one: users.get(one.peer) for one in self._unproven}
            greediest, _ = Counter(held_by.values()).most_common(1)[0]
            next(one for one, user in held_by.items() if user == greediest).drop()

    def proved(self, scope: Scope, token_sha256: str) -> None:
        """Note that a request of a connection has shown a token that is good."""
        connection: Connection = scope[_CONNECTION]
        if connection.dropped:
            return
        self.closed(connection)
        connection.token_sha256 = token_sha256
        of_token = self._of_tokens.setdefault(token_sha256, {})
        of_token[connection] = None
        if len(of_token) > MOST_OF_ONE_TOKEN:
            next(iter(of_token)).drop()

    def closed(self, connection: Connection) -> None:
        """Forget a connection."""
        self._unproven.pop(connection, None)
        of_token = self._of_tokens.get(connection.token_sha256, {})
        of_token.pop(connection, None)
        if not of_token:
            self._of_tokens.pop(connection.token_sha256, None)


class Connection(H11Protocol):
    """One connection with a limit of time; uvicorn's own protocol has none for headers and bodies."""

    def __init__(self, *args: Any, connections: Connections, **options: Any) -> None:
        super().__init__(*args, **options)
        self._connections = connections
        self._too_late: asyncio.TimerHandle | None = None
        self._served = self.app
        self.app = self._serve
        # The token that its latest request has shown.
        self.token_sha256 = ""
        self.dropped = False

    @property
    def peer(self) -> Place:
        """The client's address."""
        return self.client or ("", 0)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a request."""
        super().connection_made(transport)
        self._connections.opened(self)
        self._watch()

    def data_received(self, data: bytes) -> None:
        """Read a part of a request."""
        super().data_received(data)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        self.dropped = True
        self._connections.closed(self)
        self._stop_waiting()
        super().connection_lost(exc)

    def drop(self) -> None:
        """Close the connection at once, whatever goes on in it."""
        self.dropped = True
        self._connections.closed(self)
        self.transport.abort()

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope[_CONNECTION] = self
        await self._served(scope, receive, send)

    def _watch(self) -> None:
        """Let the time run while a part of a request is awaited. Between requests uvicorn's own time runs."""
        state = self.conn.their_state
        begun = self.cycle is None or bool(self.conn.trailing_data[0])
        if self.transport.is_closing() or not (state is h11.SEND_BODY or (state is h11.IDLE and begun)):
            self._stop_waiting()
        elif self._too_late is None:
            self._too_late = self.loop.call_later(REQUEST_WITHIN, self._end_late)

    def _stop_waiting(self) -> None:
        if self._too_late is not None:
            self._too_late.cancel()
            self._too_late = None

    def _end_late(self) -> None:
        if self.conn.our_state in {h11.IDLE, h11.SEND_RESPONSE}:
            self.transport.write(_TOO_LATE)
        self.transport.close()
