"""How late a client sees what a command prints, beside a program that reads the same from a pipe.

The command prints the time in nanoseconds, so that each line says itself when it was sent.
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from contextlib import AsyncExitStack
from pathlib import Path

from core.home import Home
from core.service.console import CellChanged
from core.service.local_console import LocalConsoles
from core.service.rpc.client import RemoteConsole
from core.service.rpc.server import ControlServer
from tests.bench.journal_bench import Figures
from tests.fakes.desk import approve, next_approval, open_service
from tests.fakes.signing import accepted

LINES = 100
PAUSE_S = 0.03
COMMAND = f"for i in $(seq {LINES}); do date +%s%N; sleep {PAUSE_S}; done"
GOAL_MS = 100.0


def run() -> Figures:
    """Measure; gives names and figures to print."""
    return asyncio.run(_measure())


async def _measure() -> Figures:
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="output-bench-")))
        home = Home(folder / "home").create()
        key = await accepted(home)
        service = await stack.enter_async_context(open_service(home))
        server = ControlServer(LocalConsoles(service), home)
        await server.open()
        stack.push_async_callback(server.close)
        console = await RemoteConsole.connect(home, "window", "operator:bench", 10.0)
        stack.push_async_callback(console.close)
        peer = await _by_pipe()
        events = console.events()
        call = await console.runs.call("this-computer", "shell_execute", {"command": COMMAND, "timeout": 60})
        await approve(console, await next_approval(console), key)
        late: list[float] = []
        after = 0
        async with asyncio.timeout(120):
            async for event in events:
                if not isinstance(event, CellChanged) or event.cell.run != call.summary.id:
                    continue
                if event.cell.output_size > after:
                    chunk = await console.runs.output(call.summary.id, "this-computer", "call", after)
                    late += _lateness(chunk.text)
                    after = chunk.next
                if event.cell.ended_at is not None:
                    break
    return [
        ("the same command, read from a pipe (peer)", _words(peer)),
        ("what a command prints, at a client of the service", _words(late)),
        (f"of {LINES} lines within {GOAL_MS:.0f} ms", f"{sum(one <= GOAL_MS for one in late)}"),
    ]


async def _by_pipe() -> list[float]:
    process = await asyncio.create_subprocess_shell(COMMAND, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    late = []
    while line := await process.stdout.readline():
        late += _lateness(line.decode())
    await process.wait()
    return late


def _lateness(text: str) -> list[float]:
    """How long ago, in milliseconds, the lines of a text were printed."""
    now = time.time_ns()
    return [(now - int(line)) / 1e6 for line in text.splitlines() if line.isdecimal() and len(line) > 18]


def _words(late: list[float]) -> str:
    ordered = sorted(late)
    return f"{statistics.median(ordered):.1f} ms median, {ordered[int(len(ordered) * 0.95)]:.1f} ms p95"
