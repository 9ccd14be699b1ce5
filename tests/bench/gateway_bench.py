"""What the gateway adds to a call: beside the SDK's own empty tool call, and the same call at the socket."""

from __future__ import annotations

import asyncio
import json
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from mcp import Client, types
from mcp.server.lowlevel import Server

from core.gateway.tools import TOOLS
from core.home import Home
from core.policy.agent_models import MOST_A_MINUTE, AgentSettings
from core.service.local_console import LocalConsole, LocalConsoles
from core.service.rpc.client import RemoteConsole
from core.service.rpc.server import ControlServer
from tests.bench.journal_bench import Figures
from tests.fakes.agents import attached_agent
from tests.fakes.desk import choose_channel, open_service
from tests.fakes.gateway import HERE, READS, in_process

CALLS = 300
GOAL_MS = 1.5
_UNHURRIED = AgentSettings(per_minute=MOST_A_MINUTE)


def run() -> Figures:
    """Call in turn, so that all three meet the same load, and return the figures."""
    with tempfile.TemporaryDirectory(prefix="qd-gateway-") as folder:
        return asyncio.run(_measure(Home(Path(folder) / "home")))


async def _measure(home: Home) -> Figures:
    home.create()
    choose_channel(home, "in-process")
    home.device_state.mkdir(parents=True, exist_ok=True)
    async with open_service(home) as service:
        control = ControlServer(LocalConsoles(service), home)
        await control.open()
        agent, token = await attached_agent(home, LocalConsole(service, "operator:anna"), settings=_UNHURRIED)
        async with in_process(home, token) as client, Client(_empty_server(), mode="legacy") as empty:
            empty_ms, socket_ms, gateway_ms, listing_ms = await _timed(
                lambda: empty.call_tool("nothing", {}),
                lambda: _at_the_socket(agent),
                lambda: client.call_tool("run_commands", READS),
                lambda: client.call_tool("list_devices", {}),
            )
        await agent.close()
        await control.close()
    listed = [tool.listed().model_dump(mode="json", by_alias=True, exclude_none=True) for tool in TOOLS]
    tokens = len(json.dumps({"tools": listed}, separators=(",", ":"))) / 4
    return [
        ("the SDK's own empty tool call", f"{empty_ms:.2f} ms"),
        ("a read at the control socket (call, wait)", f"{socket_ms:.2f} ms"),
        ("the same read by run_commands", f"{gateway_ms:.2f} ms"),
        (f"what the gateway adds to both (goal {GOAL_MS} ms)", f"{gateway_ms - socket_ms - empty_ms:.2f} ms"),
        ("list_devices", f"{listing_ms:.2f} ms"),
        ("tokens of the tool list (characters / 4, limit 1,200)", f"{tokens:.0f}"),
    ]


async def _timed(*calls: Callable[[], Awaitable[Any]]) -> list[float]:
    """The median of each call, in ms."""
    times: list[list[float]] = [[] for _ in calls]
    for _ in range(CALLS):
        for call, took in zip(calls, times, strict=True):
            started = time.perf_counter()
            await call()
            took.append((time.perf_counter() - started) * 1000)
    return [statistics.median(took) for took in times]


async def _at_the_socket(agent: RemoteConsole) -> None:
    [command] = READS["commands"]
    run = await agent.runs.call(HERE, command["tool"], command["arguments"])
    await agent.runs.wait(run.summary.id, 10.0, until_asked=True)


def _empty_server() -> Server[Any]:
    async def nothing(context: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        return types.CallToolResult(content=[types.TextContent(type="text", text="")])

    async def listed(context: Any, params: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[types.Tool(name="nothing", input_schema={"type": "object"})])

    return Server("empty", on_call_tool=nothing, on_list_tools=listed)
