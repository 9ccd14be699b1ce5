"""A server that knows nothing but the newest protocol, which has no handshake."""

from __future__ import annotations

from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp import ClientSession, MCPError
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp.shared.memory import create_client_server_memory_streams
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from core.device.mcp.session import Session
from tests.fakes.mcp_server import proper_server


async def test_a_server_without_a_handshake_is_spoken_to_all_the_same(monkeypatch: pytest.MonkeyPatch):
    async def refuse(client: ClientSession) -> types.InitializeResult:
        raise MCPError(code=types.METHOD_NOT_FOUND, message="initialize is unknown here")

    monkeypatch.setattr(ClientSession, "initialize", refuse)
    server = proper_server()
    async with create_client_server_memory_streams() as (ours, theirs), anyio.create_task_group() as group:
        group.start_soon(lambda: server.run(*theirs, server.create_initialization_options()))
        dispatcher: JSONRPCDispatcher[Any] = JSONRPCDispatcher(*ours)
        async with ClientSession(dispatcher=dispatcher) as client:
            session = Session(client, dispatcher)
            await session.start()
            assert client.protocol_version in MODERN_PROTOCOL_VERSIONS
            assert len((await session.request("tools/list", {}))["tools"]) == 7
            answer = await session.request("tools/call", {"name": "waited", "arguments": {"a": None}})
            assert answer["structuredContent"] == {"waited": 0}
            assert await session.is_alive()
        group.cancel_scope.cancel()
