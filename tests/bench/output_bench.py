"""How late a client sees what a command prints, beside a program that reads the same from a pipe.

The command prints the time in nanoseconds, so that each line says itself when it was sent.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import subprocess
import sys
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
                    late += lateness(chunk.text)
                    after = chunk.next
                if event.cell.ended_at is not None:
                    break
    painted = await asyncio.to_thread(_in_the_window)
    return [
        ("the same command, read from a pipe (peer)", _words(peer)),
        ("what a command prints, at a client of the service", _words(late)),
        (f"of {LINES} lines within {GOAL_MS:.0f} ms", f"{sum(one <= GOAL_MS for one in late)}"),
        ("the same, painted in Runs", _words(painted)),
        (f"of {LINES} lines within {GOAL_MS:.0f} ms", f"{sum(one <= GOAL_MS for one in painted)}"),
    ]


def _in_the_window() -> list[float]:
    """How late each line was painted by a window, a process of its own."""
    ended = subprocess.run(
        [sys.executable, "-m", "tests.bench.output_window", COMMAND],
        env={**os.environ, "QT_QPA_PLATFORM": "offscreen", "QT_LOGGING_RULES": "*=false"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    if ended.returncode:
        raise AssertionError(ended.stderr[-500:])
    return [float(line) for line in ended.stdout.splitlines()]


async def _by_pipe() -> list[float]:
    process = await asyncio.create_subprocess_shell(COMMAND, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    late = []
    while line := await process.stdout.readline():
        late += lateness(line.decode())
    await process.wait()
    return late


def lateness(text: str) -> list[float]:
    """How long ago, in milliseconds, the lines of a text were printed."""
    now = time.time_ns()
    return [(now - int(line)) / 1e6 for line in text.splitlines() if line.isdecimal() and len(line) > 18]


def _words(late: list[float]) -> str:
    ordered = sorted(late)
    return f"{statistics.median(ordered):.1f} ms median, {ordered[int(len(ordered) * 0.95)]:.1f} ms p95"
