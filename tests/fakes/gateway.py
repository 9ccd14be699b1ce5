"""Agents at the gateway: official SDK clients over standard input and output, and over HTTP."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.types import CallToolResult

from core.home import Home
from tests.fakes.desk import PATIENCE

MODERN, LEGACY = "2026-07-28", "legacy"


@asynccontextmanager
async def over_stdio(home: Home, token: str, mode: str = LEGACY, **more: Any) -> AsyncIterator[Client]:
    """An agent program that has started the gateway as its MCP server."""
    name = token.rpartition(".")[0]
    server = StdioServerParameters(
        command=sys.executable,
        args=["-P", "-m", "app", "gateway", "--as", name, "--home", str(home.path)],
        env={**os.environ, "QUARTERDECK_TOKEN": token},
    )
    async with Client(server, mode=mode, read_timeout_seconds=PATIENCE, **more) as client:
        yield client


@asynccontextmanager
async def http_gateway(home: Home) -> AsyncIterator[str]:
    """A gateway process that serves every agent; gives its URL."""
    command = [sys.executable, "-P", "-m", "app", "gateway", "--http", "127.0.0.1:0", "--home", str(home.path)]
    process = await asyncio.create_subprocess_exec(*command, stderr=asyncio.subprocess.PIPE)
    assert process.stderr is not None
    try:
        async with asyncio.timeout(PATIENCE * 3):
            line = (await process.stderr.readline()).decode()
        yield line.removeprefix("The gateway is at ").strip().removesuffix(".")
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


@asynccontextmanager
async def over_http(url: str, token: str, mode: str = LEGACY, **more: Any) -> AsyncIterator[Client]:
    """An agent program that talks to a gateway that is running."""
    async with httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}, timeout=PATIENCE) as http:
        transport = streamable_http_client(url, http_client=http)
        async with Client(transport, mode=mode, read_timeout_seconds=PATIENCE, **more) as client:
            yield client


async def asked(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    """The answer of a tool, which says the same as text and as structured content."""
    answer = await client.call_tool(tool, arguments)
    assert isinstance(answer, CallToolResult)
    value: dict[str, Any] = answer.structured_content
    assert json.loads(answer.content[0].text) == value
    return value
