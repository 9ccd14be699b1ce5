"""An open MCP session with a server: sends requests, returns raw answers, and handles notifications."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import AsyncIterator, Callable
from typing import Any

import mcp_types as types
from mcp import ClientSession, MCPError
from mcp.shared.dispatcher import CallOptions, ProgressFnT
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import TypeAdapter

from core import __version__
from core.device.mcp.config import ServerConfig
from core.device.mcp.http_transport import ACCESS_DENIED, CONNECTION_BROKEN, NOT_SENT, SESSION_GONE, open_http
from core.device.mcp.server_log import ServerLog
from core.device.mcp.stdio_transport import open_stdio
from core.device.processes.child_process import Children

# Yields plain JSON; the SDK's signature provides only for models.
_RAW: TypeAdapter[Any] = TypeAdapter(dict[str, Any])
_NO_SUCH_METHOD = types.METHOD_NOT_FOUND
_SESSION_LOST = frozenset({NOT_SENT, SESSION_GONE, ACCESS_DENIED, CONNECTION_BROKEN})
# Errors that the SDK itself raises when no answer arrives. Servers use the same codes for their own errors,
# so the message identifies the origin.
_UNANSWERED = {
    types.CONNECTION_CLOSED: ("Connection closed", "SSE stream "),
    types.INVALID_REQUEST: ("Redirect to ", "server answered a request with 202", "Unexpected content type"),
}


def is_unanswered(error: MCPError) -> bool:
    """Whether the server sent no answer, so that the outcome of the request is unknown."""
    return error.code == CONNECTION_BROKEN or error.message.startswith(_UNANSWERED.get(error.code, ("\0",)))


class Session:
    """A session with a server. Cancelling a request notifies the server and leaves the session usable."""

    def __init__(self, client: ClientSession, dispatcher: JSONRPCDispatcher[Any]) -> None:
        self._client = client
        self._dispatcher = dispatcher

    async def start(self) -> None:
        """Agree on a protocol version with the server.

        Raises:
            MCPError: the server refuses, or has no protocol version in common with this device.
        """
        try:
            await self._client.initialize()
        except MCPError as error:
            if error.code not in {_NO_SUCH_METHOD, types.UNSUPPORTED_PROTOCOL_VERSION}:
                raise
            # A server with only the newest protocol has no initialize handshake.
            await self._client.discover()

    async def request(
        self, method: str, params: dict[str, Any], on_progress: ProgressFnT | None = None
    ) -> dict[str, Any]:
        """Send a request and return the answer as the server wrote it.

        Raises:
            MCPError: the server answered with an error, or the session ended.
        """
        if self._client.protocol_version in MODERN_PROTOCOL_VERSIONS:
            # In these versions each request has an envelope, which the SDK writes.
            message: types.Request[Any, Any]
            if method == "tools/call":
                message = types.CallToolRequest(params=types.CallToolRequestParams(**params))
            elif method == "tools/list":
                message = types.ListToolsRequest(params=types.PaginatedRequestParams(**params))
            else:
                message = types.PingRequest()
            answer: dict[str, Any] = await self._client.send_request(
                message, _RAW, progress_callback=on_progress
            )
            return answer
        # Not through the SDK's models: they drop unknown fields, and one invalid tool would invalidate the
        # list.
        options: CallOptions = {} if on_progress is None else {"on_progress": on_progress}
        return await self._dispatcher.send_raw_request(method, params, options)

    async def is_alive(self) -> bool:
        """Whether the server still answers in this session."""
        try:
            await self.request("ping", {})
        except MCPError as error:
            # Any other error is an answer, so the server is alive.
            return error.code not in _SESSION_LOST and not is_unanswered(error)
        return True


@contextlib.asynccontextmanager
async def open_session(
    children: Children,
    server: ServerConfig,
    *,
    most: int,
    longest_s: float,
    server_log: ServerLog,
    on_tools_changed: Callable[[], None],
    on_gap: Callable[[], None],
    on_lost: Callable[[], None],
) -> AsyncIterator[Session]:
    """Open a session, which the caller has still to start; it ends with the context.

    `on_lost` is called when the session can no longer be used, `on_gap` when notifications may have been
    missed. Sampling, elicitation and roots are not offered; a server's requests for them are refused.
    """

    async def handle_message(message: object) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            on_tools_changed()

    async def handle_log(params: types.LoggingMessageNotificationParams) -> None:
        server_log.log("log", f"{params.level}: {params.data}"[:10_000])

    transport = (
        open_stdio(children, server, most, server_log, on_lost)
        if server.kind == "stdio"
        else open_http(server, most, longest_s, on_gap)
    )
    async with transport as (incoming, outgoing):
        dispatcher: JSONRPCDispatcher[Any] = JSONRPCDispatcher(incoming, outgoing)
        client = ClientSession(
            dispatcher=dispatcher,
            message_handler=handle_message,
            logging_callback=handle_log,
            client_info=types.Implementation(name="quarterdeck-device", version=__version__),
        )
        async with client:
            yield Session(client, dispatcher)


def quiet_sdk() -> None:
    """Suppress the SDK's log lines, because they contain whole messages, secrets included."""
    for name in ("mcp", "client", "httpx2", "httpcore2"):
        logger = logging.getLogger(name)
        if not any(isinstance(handler, logging.NullHandler) for handler in logger.handlers):
            logger.addHandler(logging.NullHandler())
        logger.propagate = False
