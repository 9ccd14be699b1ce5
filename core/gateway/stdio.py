"""The gateway over standard input and output, for an agent program that starts it as its MCP server."""

from __future__ import annotations

from collections import deque
from types import TracebackType
from typing import Self

from mcp import types
from mcp.server.stdio import stdio_server
from mcp.shared._stream_protocols import ReadStream, WriteStream
from mcp.shared.message import SessionMessage
from pydantic import ValidationError

from core.gateway.agent_session import AgentSession
from core.gateway.greeting import Opening
from core.gateway.server import make_server
from core.home import Home


async def serve_stdio(home: Home, token: str, opening: Opening) -> None:
    """Serve the agent with this token until its program closes standard input; its runs go on.

    `opening` is what the program has sent already.

    Raises:
        Refused: it is not the token of an agent (code `agent_unknown`).
        ServiceError: the service cannot be reached.
    """
    session = AgentSession(home, token)
    # Before a tool can be called: a wrong token ends the program with an error that says so.
    await session.console()
    server = make_server(lambda context: session)
    try:
        async with stdio_server() as (read_stream, write_stream):
            await server.run(
                _FromTheOpening(opening, read_stream),
                _WithoutTheAnswered(opening, write_stream),
                server.create_initialization_options(),
            )
    finally:
        await session.close()


class _FromTheOpening:
    """What a client sends, from its first message on."""

    def __init__(self, opening: Opening, stream: ReadStream[SessionMessage | Exception]) -> None:
        self._first = deque(map(_read, opening.lines))
        self._stream = stream

    async def receive(self) -> SessionMessage | Exception:
        return self._first.popleft() if self._first else await self._stream.receive()

    async def aclose(self) -> None:
        await self._stream.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        return self._first.popleft() if self._first else await self._stream.__anext__()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


class _WithoutTheAnswered:
    """What is sent to a client, without a second answer to the request that is answered already."""

    def __init__(self, opening: Opening, stream: WriteStream[SessionMessage]) -> None:
        self._answered = opening.answered
        self._stream = stream

    async def send(self, item: SessionMessage, /) -> None:
        message = item.message
        if isinstance(message, types.JSONRPCResponse) and message.id == self._answered:
            self._answered = None
        else:
            await self._stream.send(item)

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


def _read(line: bytes) -> SessionMessage | Exception:
    """A message as the SDK reads it from a line, or the error that it finds."""
    try:
        text = line.decode("utf-8", "replace")
        return SessionMessage(types.jsonrpc_message_adapter.validate_json(text, by_name=False))
    except ValidationError as error:
        return error
