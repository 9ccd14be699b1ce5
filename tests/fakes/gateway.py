"""Agents at the gateway: official SDK clients in this process, over standard input and output, over HTTP."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.types import CallToolResult, TextContent

from core.approvals.operator_keys import OperatorKey
from core.gateway.agent_session import AgentSession
from core.gateway.http import serve_http
from core.gateway.server import make_server
from core.home import Home
from core.service.console import Console
from core.tasks import TaskGroupOwner
from tests.fakes.desk import approve, next_approval
from tests.fakes.patience import PATIENCE_S

MODERN, LEGACY = "2026-07-28", "legacy"
HERE = "this-computer"
READS: dict[str, Any] = {
    "devices": HERE,
    "commands": [{"tool": "get_system_info", "arguments": {"info_type": "memory"}}],
}
ASKS: dict[str, Any] = {
    "devices": HERE,
    "commands": [{"tool": "shell_execute", "arguments": {"command": "true"}}],
}
Connect = Callable[..., AbstractAsyncContextManager[Client]]


def touch(path: Path) -> dict[str, Any]:
    """Arguments of `run_commands` for a command that an operator must approve, and that leaves a file."""
    command = {"tool": "shell_execute", "arguments": {"command": f"touch {path}"}}
    return {"devices": HERE, "commands": [command]}


@asynccontextmanager
async def in_process(home: Home, token: str, mode: str = LEGACY, **more: Any) -> AsyncIterator[Client]:
    """An agent program whose MCP server is in this process; the service is at its control socket."""
    session = AgentSession(home, token)
    try:
        async with Client(make_server(lambda context: session), mode=mode, **more) as client:
            yield client
    finally:
        await session.close()


@asynccontextmanager
async def over_stdio(home: Home, token: str, mode: str = LEGACY, **more: Any) -> AsyncIterator[Client]:
    """An agent program that has started the gateway as its MCP server."""
    name = token.rpartition(".")[0]
    server = StdioServerParameters(
        command=sys.executable,
        args=["-P", "-m", "app", "gateway", "--as", name, "--home", str(home.path)],
        env={**os.environ, "QUARTERDECK_TOKEN": token},
    )
    # Its first answer takes as long as the program takes to start.
    async with Client(server, mode=mode, read_timeout_seconds=PATIENCE_S * 3, **more) as client:
        yield client


@asynccontextmanager
async def http_gateway(home: Home) -> AsyncIterator[str]:
    """A gateway process that serves every agent; gives its URL."""
    command = [
        sys.executable,
        "-P",
        "-m",
        "app",
        "gateway",
        "--http",
        "127.0.0.1:0",
        "--home",
        str(home.path),
    ]
    process = await asyncio.create_subprocess_exec(*command, stderr=asyncio.subprocess.PIPE)
    assert process.stderr is not None
    try:
        async with asyncio.timeout(PATIENCE_S * 3):
            line = (await process.stderr.readline()).decode()
        yield line.removeprefix("The gateway is at ").strip().removesuffix(".")
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


@asynccontextmanager
async def over_http(url: str, token: str, mode: str = LEGACY, **more: Any) -> AsyncIterator[Client]:
    """An agent program that talks to a gateway that is running."""
    async with httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}, timeout=PATIENCE_S) as http:
        transport = streamable_http_client(url, http_client=http)
        async with Client(transport, mode=mode, read_timeout_seconds=PATIENCE_S, **more) as client:
            yield client


async def asked(client: Client, name: str, /, **arguments: Any) -> dict[str, Any]:
    """The answer of a tool, which says the same as text and as structured content."""
    answer = await client.call_tool(name, arguments)
    assert isinstance(answer, CallToolResult)
    value: dict[str, Any] = answer.structured_content
    said = answer.content[0]
    assert isinstance(said, TextContent)
    assert json.loads(said.text) == value
    return value


async def asks_and_collects(client: Client, console: Console, key: OperatorKey, target: Path) -> None:
    """What every client does on every transport: list, read, ask for an action, wait while it is approved."""
    names = [tool.name for tool in (await client.list_tools()).tools]
    assert names[:2] == ["list_devices", "search_tools"]
    [device] = (await asked(client, "list_devices"))["devices"]
    assert (device["name"], device["health"]) == (HERE, "online")
    found = await asked(client, "search_tools", words="free memory")
    assert "get_system_info" in [hit["tool"] for hit in found["tools"]]
    described = await asked(client, "describe_tool", device=HERE, tool="shell_execute")
    assert "command" in described["tool"]["arguments"]["properties"]

    done = await asked(client, "run_commands", **READS)
    assert done["state"] == "done"
    assert done["results"][0]["verdict"] == "confirmed"

    waits = await asked(client, "run_commands", **touch(target), reason="to see that it works")
    assert (waits["state"], waits["results"]) == ("waiting", [])
    assert waits["waiting"] == [{"devices": [HERE], "tool_name": "shell_execute"}]
    assert (await asked(client, "wait_run"))["open"][0]["ticket"] == waits["ticket"]
    approval = await next_approval(console)
    assert (approval.actor, approval.said) == ("agent:claude", "to see that it works")
    await approve(console, approval, key)
    ended = await asked(client, "wait_run", seconds=45, ticket=waits["ticket"])
    assert ended["state"] == "done"


@asynccontextmanager
async def http_in_process(home: Home) -> AsyncIterator[str]:
    """A gateway in this process that serves every agent; gives its URL."""
    ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    tasks = TaskGroupOwner("gateway")
    serving = tasks.spawn("gateway", serve_http(home, "127.0.0.1:0", ready.set_result))
    try:
        await asyncio.wait({serving, ready}, return_when=asyncio.FIRST_COMPLETED)
        yield ready.result()
    finally:
        await tasks.close()
