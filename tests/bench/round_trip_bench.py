"""One observation and one action the whole way, against a bare websockets JSON echo of the same size.

All three alternate in one run, so that a machine that is busy is busy for all of them.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from websockets.asyncio.client import connect

from core.aip.messages import Command
from core.commands.request import CommandRequest
from core.home import Home
from core.ids import new_id
from core.models.tools import ToolType
from core.service.console import Console
from core.service.local_console import LocalConsole, LocalConsoles
from core.service.rpc.client import RemoteConsole
from core.service.rpc.server import ControlServer
from core.service.service import Service
from tests.bench.figures import Figure, Figures, Peer, Scale, p95
from tests.bench.lines import ROOT
from tests.fakes.desk import open_service
from tests.fakes.signing import accepted

ROUNDS = 12
CALLS = 50
DEVICE = "this-computer"
Measured = Callable[[], Awaitable[object]]

ECHO = "bare websockets JSON echo"
FSYNC = "one fsync in the same folder"
BARE_READ = "the observation's tool, asked over the bare link"
BARE_WRITE = "the action's tool, asked over the bare link"
OBSERVATION = "one observation, dispatched and journalled"
ACTION = "one action, dispatched and journalled"
LOCAL_CALL = "one call as a run, in the service"
REMOTE_CALL = "one call as a run, over the socket"


def run(scale: Scale) -> Figures:
    """Let the works alternate on one service."""
    return asyncio.run(_measure(scale))


async def _measure(scale: Scale) -> Figures:
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="round-trip-bench-")))
        home = Home(folder / "home").create()
        await accepted(home, 'profile = "trusted"\n')
        service = await stack.enter_async_context(open_service(home))
        echo = await stack.enter_async_context(_echo_of(_frame_like_a_call()))
        server = ControlServer(LocalConsoles(service), home)
        await server.open()
        stack.push_async_callback(server.close)
        remote = await RemoteConsole.connect(home, "window", "operator:bench", 10.0)
        stack.push_async_callback(remote.close)
        local = LocalConsole(service, "operator:bench")
        works: dict[str, Measured] = {
            ECHO: echo,
            FSYNC: lambda: asyncio.to_thread(_fsync, folder / "peer"),
            BARE_READ: lambda: _bare(service, *_read()),
            BARE_WRITE: lambda: _bare(service, *_write(folder)),
            OBSERVATION: lambda: _observe(service),
            ACTION: lambda: _act(service, folder),
            "a question at the API, in the service": lambda: local.approvals.list(),
            "a question at the API, over the socket": lambda: remote.approvals.list(),
            LOCAL_CALL: lambda: _call(local),
            REMOTE_CALL: lambda: _call(remote),
        }
        times = await _alternate(works, scale)
    return _figures(times)


async def _alternate(works: dict[str, Measured], scale: Scale) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(scale.of(ROUNDS, 1)):
        for name, work in works.items():
            for _ in range(scale.of(CALLS, 2)):
                started = time.perf_counter()
                await work()
                times[name].append((time.perf_counter() - started) * 1000)
    return times


def _figures(times: dict[str, list[float]]) -> Figures:
    medians = {name: statistics.median(values) for name, values in times.items()}
    peers = {
        OBSERVATION: Peer("bare link", medians[BARE_READ]),
        ACTION: Peer("bare link and one fsync", medians[BARE_WRITE] + medians[FSYNC]),
    }
    lines: Figures = [
        Figure(name, median, "ms", peers.get(name), f"p95 {p95(times[name]):.3f} ms")
        for name, median in medians.items()
    ]
    socket = Peer("in the service", medians[LOCAL_CALL])
    echo = Peer("the echo", medians[ECHO])
    return [
        *lines,
        Figure("one call as a run, against the same in the service", medians[REMOTE_CALL], "ms", socket),
        Figure("one observation, against a bare echo", medians[OBSERVATION], "ms", echo),
    ]


async def _observe(service: Service) -> None:
    tool, _, parameters = _read()
    result = await service.dispatcher.dispatch(CommandRequest(DEVICE, tool, parameters, "operator:bench"))
    assert result.error is None, result.error


async def _act(service: Service, folder: Path) -> None:
    tool, _, parameters = _write(folder)
    result = await service.dispatcher.dispatch(CommandRequest(DEVICE, tool, parameters, "operator:bench"))
    assert result.error is None, result.error


def _read() -> tuple[str, ToolType, dict[str, str]]:
    return "get_system_info", "data_collection", {"info_type": "memory"}


def _write(folder: Path) -> tuple[str, ToolType, dict[str, str]]:
    return "write_file", "action", {"file_path": str(folder / "written"), "content": "x"}


async def _bare(service: Service, tool: str, tool_type: ToolType, parameters: dict[str, str]) -> None:
    """The same device, process and tool, without dispatcher, policy and journal: for measuring only."""
    [link] = service.this_computer._channels
    command = Command(tool_name=tool, tool_type=tool_type, parameters=parameters, call_id=new_id())
    [result] = await link.send_commands([command], 10.0)
    assert result.status == "success", result.error


async def _call(console: Console) -> None:
    run = await console.runs.call(DEVICE, "get_system_info", {"info_type": "memory"})
    ended = await console.runs.wait(run.summary.id, 10.0)
    assert ended.summary.state.value == "done"


def _fsync(path: Path) -> None:
    handle = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    os.write(handle, b"x" * 4096)
    os.fsync(handle)
    os.close(handle)


def _frame_like_a_call() -> dict[str, object]:
    """As large as the frames of the measured observation, there and back on average."""
    return {"type": "command", "status": "continue", "padding": "x" * 560}


@asynccontextmanager
async def _echo_of(frame: dict[str, object]):
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.bench.echo_peer", stdout=asyncio.subprocess.PIPE, cwd=ROOT
    )
    assert process.stdout is not None
    port = int(await process.stdout.readline())
    try:
        async with connect(f"ws://127.0.0.1:{port}", compression=None) as link:

            async def once() -> None:
                await link.send(json.dumps(frame))
                json.loads(await link.recv())

            yield once
    finally:
        process.terminate()
        await process.wait()
