"""What the gateway adds to a call, in process, over HTTP and stdio: against the SDK's own empty call."""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from mcp import Client, StdioServerParameters

from core.gateway.tools import TOOLS
from core.home import Home
from core.policy.agent_models import MOST_A_MINUTE, AgentSettings
from core.service.local_console import LocalConsole, LocalConsoles
from core.service.rpc.client import RemoteConsole
from core.service.rpc.server import ControlServer
from tests.bench.empty_mcp import empty_server
from tests.bench.figures import Figure, Figures, Peer, Scale
from tests.bench.lines import ROOT, part
from tests.fakes.agents import attached_agent
from tests.fakes.desk import choose_channel, open_service
from tests.fakes.gateway import HERE, READS, http_gateway, in_process, over_http, over_stdio

CALLS = 300
_EMPTY_OVER_STDIO = StdioServerParameters(
    command=sys.executable, args=["-P", "-m", "tests.bench.empty_mcp"], env={"PYTHONPATH": str(ROOT)}
)
_UNHURRIED = AgentSettings(per_minute=MOST_A_MINUTE)


def run(scale: Scale) -> Figures:
    """Call in turn, so that all meet the same load."""
    with tempfile.TemporaryDirectory(prefix="qd-gateway-") as folder:
        return asyncio.run(_measure(Home(Path(folder) / "home"), scale.of(CALLS, 2)))


async def _measure(home: Home, calls: int) -> Figures:
    home.create()
    choose_channel(home, "in-process")
    home.device_state.mkdir(parents=True, exist_ok=True)
    async with AsyncExitStack() as stack:
        service = await stack.enter_async_context(open_service(home))
        control = ControlServer(LocalConsoles(service), home)
        await control.open()
        stack.push_async_callback(control.close)
        agent, token = await attached_agent(home, LocalConsole(service, "operator:anna"), settings=_UNHURRIED)
        stack.push_async_callback(agent.close)
        ours = await stack.enter_async_context(in_process(home, token))
        empty = await stack.enter_async_context(Client(empty_server(), mode="legacy"))
        url = await stack.enter_async_context(http_gateway(home))
        ours_http = await stack.enter_async_context(over_http(url, token))
        empty_url = await stack.enter_async_context(_empty_over_http())
        empty_http = await stack.enter_async_context(over_http(empty_url, token))
        ours_stdio = await stack.enter_async_context(over_stdio(home, token))
        empty_stdio = await stack.enter_async_context(Client(_EMPTY_OVER_STDIO, mode="legacy"))
        times = await _timed(
            calls,
            lambda: empty.call_tool("nothing", {}),
            lambda: empty_http.call_tool("nothing", {}),
            lambda: _at_the_socket(agent),
            lambda: ours.call_tool("run_commands", READS),
            lambda: ours.call_tool("list_devices", {}),
            lambda: ours_http.call_tool("list_devices", {}),
            lambda: ours_http.call_tool("run_commands", READS),
            lambda: empty_stdio.call_tool("nothing", {}),
            lambda: ours_stdio.call_tool("list_devices", {}),
        )
    return _figures(*times)


def _figures(
    empty: float,
    empty_http: float,
    socket: float,
    read: float,
    listing: float,
    http_listing: float,
    http_read: float,
    empty_stdio: float,
    stdio_listing: float,
) -> Figures:
    sdk = Peer("the SDK's own empty call", empty)
    sdk_http = Peer("the SDK's own empty call over HTTP", empty_http)
    sdk_stdio = Peer("the SDK's own empty call over stdio", empty_stdio)
    both = Peer("the same at the socket, and an empty call", socket + empty)
    both_http = Peer("the same at the socket, and an empty call over HTTP", socket + empty_http)
    listed = [tool.listed() for tool in TOOLS]
    tokens = len(json.dumps({"tools": listed}, separators=(",", ":"))) / 4
    return [
        Figure("a read at the control socket", socket, "ms", remark="call, wait"),
        Figure("a read by run_commands", read, "ms", both),
        Figure("a read by run_commands over HTTP", http_read, "ms", both_http),
        Figure("list_devices", listing, "ms", sdk),
        Figure("a call through the HTTP gateway", http_listing, "ms", sdk_http, "list_devices"),
        Figure("a call through the stdio gateway", stdio_listing, "ms", sdk_stdio, "list_devices"),
        Figure("tokens of the tool list", tokens, "tokens", remark="characters / 4"),
    ]


async def _timed(rounds: int, *calls: Callable[[], Awaitable[Any]]) -> list[float]:
    """The median of each call, in ms."""
    times: list[list[float]] = [[] for _ in calls]
    for _ in range(rounds):
        for call, took in zip(calls, times, strict=True):
            started = time.perf_counter()
            await call()
            took.append((time.perf_counter() - started) * 1000)
    return [statistics.median(took) for took in times]


async def _at_the_socket(agent: RemoteConsole) -> None:
    [command] = READS["commands"]
    run = await agent.runs.call(HERE, command["tool"], command["arguments"])
    await agent.runs.wait(run.summary.id, 10.0, until_asked=True)


@asynccontextmanager
async def _empty_over_http() -> AsyncIterator[str]:
    """The empty server over streamable HTTP, in a process of its own as the gateway is; gives its URL."""
    async with part("tests.bench.empty_mcp_http") as process:
        yield (await process.heard("listening"))["url"]
