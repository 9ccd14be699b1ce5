"""The gateway over streamable HTTP on loopback, for agent programs that cannot start it themselves.

Before a request is read, its Host and Origin are checked, so that no web page reaches the gateway through a
browser (DNS rebinding), and then its bearer token, by the service. Each token has MCP sessions of its own: no
other token can use them, their number is limited for this token alone, and they end when the service ends the
agent's connection (it was stopped or revoked, or has another token).

A request has a time in which to arrive, and each client a share of the connections. Without these limits one
client takes all that this process can have, and locks out the others: another user of this computer with
connections that never show a token, or an agent with connections that do.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from collections import Counter, OrderedDict
from collections.abc import Callable
from functools import partial
from typing import Any, cast
from weakref import WeakValueDictionary

import h11
import uvicorn
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecurityMiddleware, TransportSecuritySettings
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from core.address import split_address
from core.aip.pairing import is_loopback
from core.errors import BadInput, ErrorCode, QuarterdeckError, Refused
from core.gateway.agent_session import AgentSession
from core.gateway.server import make_server
from core.home import Home
from core.next_steps import ADDRESS_TAKEN
from core.tasks import TaskGroupOwner
from core.tcp_owners import Place, users_of
from core.tokens import token_digest

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


PATH = "/mcp"
MOST_OPEN_SESSIONS = 50
"""MCP sessions of one token."""
MOST_TOKENS = 100
"""Tokens with sessions; beyond this number the one that was used least recently loses them."""
END_WITHIN = 2
"""Seconds that open requests have to end when the gateway ends."""


async def serve_http(home: Home, address: str, ready: Callable[[str], None]) -> None:
    """Serve every agent that shows its token at `host:port`, until the program is interrupted.

    `ready` is called with the URL once it is served; port 0 means any free port.

    Raises:
        BadInput: the address is malformed, not on loopback, or in use.
    """
    sock = _listen(address)
    host, port = sock.getsockname()[:2]
    tasks = TaskGroupOwner("gateway")
    agents = _Agents(home, tasks)
    connections = Connections(port)
    server = uvicorn.Server(
        uvicorn.Config(
            _Gate(agents, connections, port),
            http=cast(Any, partial(Connection, connections=connections)),
            ws="none",
            log_config=None,
            lifespan="off",
            server_header=False,
            access_log=False,
            timeout_graceful_shutdown=END_WITHIN,
        )
    )
    ready(f"http://{f'[{host}]' if ':' in host else host}:{port}{PATH}")
    try:
        serving = tasks.spawn("serve HTTP", server.serve(sockets=[sock]))
        try:
            await asyncio.shield(serving)
        finally:
            # uvicorn closes its listening socket only if it ends by itself.
            server.should_exit = True
            await asyncio.wait({serving})
    finally:
        await agents.close()
        await tasks.close()


def _listen(address: str) -> socket.socket:
    host, port = split_address(address)
    if not is_loopback(host):
        raise BadInput(f"The gateway listens on loopback only, such as 127.0.0.1:8765, not at {address}.")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # `IPPROTO_TCP` is explicit: otherwise asyncio does not set TCP_NODELAY, and every answer waits 40 ms.
    sock = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        if os.name == "posix":
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        sock.bind((host, port))
        sock.listen()
        return sock
    except OSError as error:
        sock.close()
        taken = ADDRESS_TAKEN.person if error.errno == errno.EADDRINUSE else ""
        words = f"The gateway cannot listen at {address}: {error.strerror or error}."
        raise BadInput(words, next_step=taken) from error


class _Agent:
    """The sessions of one token: the agent's session at the service, and the MCP sessions of its programs."""

    def __init__(self, session: AgentSession) -> None:
        self.session = session
        server = make_server(lambda context: session)
        self.manager = StreamableHTTPSessionManager(server, max_sessions=MOST_OPEN_SESSIONS)
        self.serves = asyncio.Event()
        self._ends = asyncio.Event()

    @property
    def over(self) -> bool:
        """Whether the MCP sessions end, or have ended."""
        return self._ends.is_set() or self.session.cut_off.is_set()

    def end(self) -> None:
        """Let the MCP sessions end."""
        self._ends.set()

    async def serve(self, tasks: TaskGroupOwner) -> None:
        """Serve the MCP sessions until `end` is called, or the service ends the agent's connection."""
        ends = {
            tasks.spawn("wait for the end of an agent", self._ends.wait()),
            tasks.spawn("wait for a cut off agent", self.session.cut_off.wait()),
        }
        try:
            async with self.manager.run():
                self.serves.set()
                await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for waiting in ends:
                waiting.cancel()
            await self.session.close()


class _Agents:
    """The agents that speak HTTP, by the digests of their tokens."""

    def __init__(self, home: Home, tasks: TaskGroupOwner) -> None:
        self._home = home
        self._tasks = tasks
        self._by_token: OrderedDict[str, _Agent] = OrderedDict()
        self._serving: set[asyncio.Task[None]] = set()
        # Held while an agent connects: its next request must not connect it once more.
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def of(self, token: str) -> _Agent:
        """The agent with this token, connected to the service.

        Raises:
            Refused: it is not the token of an agent (code `agent_unknown`).
            ServiceError: the service cannot be reached.
        """
        digest = token_digest(token)
        async with self._turns.setdefault(digest, asyncio.Lock()):
            while True:
                agent = self._by_token.get(digest)
                if agent is None or agent.over:
                    agent = await self._begin(digest, token)
                else:
                    await self._check(agent)
                if not agent.over:
                    self._by_token.move_to_end(digest)
                    return agent

    async def _check(self, agent: _Agent) -> None:
        """Check that the service still takes the agent's token."""
        try:
            await agent.session.console()
        except Refused:
            agent.end()
            raise

    async def _begin(self, digest: str, token: str) -> _Agent:
        """Connect an agent to the service, and serve it from now on."""
        agent = _Agent(AgentSession(self._home, token, "http"))
        try:
            await agent.session.console()
        except QuarterdeckError:
            await agent.session.close()
            raise
        self._by_token[digest] = agent
        while len(self._by_token) > MOST_TOKENS:
            self._by_token.popitem(last=False)[1].end()
        serving = self._tasks.spawn(f"serve {agent.session.name}", agent.serve(self._tasks))
        self._serving.add(serving)
        serving.add_done_callback(self._serving.discard)
        await agent.serves.wait()
        return agent

    async def close(self) -> None:
        """Detach every agent."""
        for agent in self._by_token.values():
            agent.end()
        if self._serving:
            await asyncio.wait(set(self._serving))


class _Gate:
    """Checks the path, Host, Origin and token of each request; then the request belongs to an agent."""

    def __init__(self, agents: _Agents, connections: Connections, port: int) -> None:
        self._agents = agents
        self._connections = connections
        hosts = [f"{name}:{port}" for name in ("127.0.0.1", "localhost", "[::1]")]
        # No Origin is allowed: agent programs send none, and browsers always do.
        self._security = TransportSecurityMiddleware(TransportSecuritySettings(allowed_hosts=hosts))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        answer = await self._answer(Request(scope, receive), scope)
        if isinstance(answer, Response):
            await answer(scope, receive, send)
        else:
            await answer.manager.asgi_app(scope, receive, send)

    async def _answer(self, request: Request, scope: Scope) -> Response | _Agent:
        """The agent to which a request belongs, or the response that rejects it."""
        if (refused := await self._security.validate_request(request)) is not None:
            return refused
        if request.url.path != PATH:
            return _problem(404, f"The gateway is at {PATH}.")
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        try:
            if scheme.lower() != "bearer":
                raise Refused("The request has no bearer token.", ErrorCode.AGENT_UNKNOWN)
            agent = await self._agents.of(token.strip())
        except QuarterdeckError as error:
            if error.code is ErrorCode.AGENT_UNKNOWN:
                return _problem(401, error.message, {"WWW-Authenticate": "Bearer"})
            # Of any other error its token is not the cause: it may come again with it.
            return _problem(503, error.message)
        self._connections.proved(scope, token_digest(token.strip()))
        return agent


def _problem(status: int, message: str, headers: dict[str, str] | None = None) -> JSONResponse:
    content: dict[str, Any] = {"error": message}
    return JSONResponse(content, status_code=status, headers=headers)
