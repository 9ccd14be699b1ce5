"""The gateway over streamable HTTP on loopback, for agent programs that cannot start it themselves.

Before a request is read, its Host and Origin are checked, so that no web page reaches the gateway through a
browser (DNS rebinding), and then its bearer token, by the service. A session can be used with the token that
began it only.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Any

import uvicorn
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecurityMiddleware, TransportSecuritySettings
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from core.aip.pairing import is_loopback
from core.errors import BadInput, ErrorCode, QuarterdeckError, Refused
from core.gateway.agent_session import AgentSession, AgentSessions
from core.gateway.server import Context, make_server
from core.home import Home, split_address
from core.tasks import TaskGroupOwner
from core.tokens import token_digest

PATH = "/mcp"
MOST_OPEN_SESSIONS = 200
END_WITHIN = 2
"""Seconds that open requests have to end when the gateway ends."""
_SESSION = "quarterdeck.agent"


async def serve_http(home: Home, address: str, ready: Callable[[str], None]) -> None:
    """Serve every agent that shows its token at `host:port`, until the program is interrupted.

    `ready` is called with the URL once it is served; port 0 means any free port.

    Raises:
        BadInput: the address is malformed, not on loopback, or in use.
    """
    sock = _listen(address)
    host, port = sock.getsockname()[:2]
    sessions = AgentSessions(home)
    manager = StreamableHTTPSessionManager(make_server(_session_of), max_sessions=MOST_OPEN_SESSIONS)
    app = _Gate(manager.asgi_app, sessions, port)
    server = uvicorn.Server(
        uvicorn.Config(
            app,
            log_config=None,
            lifespan="off",
            server_header=False,
            access_log=False,
            timeout_graceful_shutdown=END_WITHIN,
        )
    )
    tasks = TaskGroupOwner("gateway")
    ready(f"http://{f'[{host}]' if ':' in host else host}:{port}{PATH}")
    try:
        async with manager.run():
            serving = tasks.spawn("serve HTTP", server.serve(sockets=[sock]))
            try:
                await asyncio.shield(serving)
            finally:
                # uvicorn closes its listening socket only if it ends by itself.
                server.should_exit = True
                await asyncio.wait({serving})
    finally:
        await sessions.close()
        await tasks.close()


def _listen(address: str) -> socket.socket:
    host, port = split_address(address)
    if not is_loopback(host):
        raise BadInput(f"The gateway listens on loopback only, such as 127.0.0.1:8765, not at {address}.")
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family)
    except OSError as error:
        raise BadInput(f"The gateway cannot listen at {address}: {error.strerror or error}.") from error


def _session_of(context: Context) -> AgentSession:
    assert isinstance(context.request, Request)
    session: AgentSession = context.request.scope[_SESSION]
    return session


class _Gate:
    """Checks the path, Host, Origin and token of each request; then the request belongs to an agent."""

    def __init__(self, app: ASGIApp, sessions: AgentSessions, port: int) -> None:
        self._app = app
        self._sessions = sessions
        hosts = [f"{name}:{port}" for name in ("127.0.0.1", "localhost", "[::1]")]
        # No Origin is allowed: agent programs send none, and browsers always do.
        self._security = TransportSecurityMiddleware(TransportSecuritySettings(allowed_hosts=hosts))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        request = Request(scope, receive)
        response = await self._refusal(request, scope)
        await (response or self._app)(scope, receive, send)

    async def _refusal(self, request: Request, scope: Scope) -> Response | None:
        """The response that rejects a request; None to accept it for the agent put into `scope`."""
        if (refused := await self._security.validate_request(request)) is not None:
            return refused
        if request.url.path != PATH:
            return _problem(404, f"The gateway is at {PATH}.")
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        try:
            if scheme.lower() != "bearer":
                raise Refused("The request has no bearer token.", ErrorCode.AGENT_UNKNOWN)
            session = await self._sessions.of(token.strip())
        except QuarterdeckError as error:
            if error.code is ErrorCode.AGENT_UNKNOWN:
                return _problem(401, error.message, {"WWW-Authenticate": "Bearer"})
            # Of any other error its token is not the cause: it may come again with it.
            return _problem(503, error.message)
        scope[_SESSION] = session
        # The digest: the SDK compares it with the one that began the session, and may write it to its log.
        scope["user"] = AuthenticatedUser(AccessToken(token="", client_id=token_digest(token), scopes=[]))
        return None


def _problem(status: int, message: str, headers: dict[str, str] | None = None) -> JSONResponse:
    content: dict[str, Any] = {"error": message}
    return JSONResponse(content, status_code=status, headers=headers)
