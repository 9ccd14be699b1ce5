"""How late a client sees what a command prints, against a program that reads the same from a pipe.

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
from tests.bench.figures import Figure, Figures, Peer, Scale, p95
from tests.fakes.desk import approve, next_approval, open_service
from tests.fakes.signing import accepted

LINES = 100
PAUSE_S = 0.03
PROMPT_MS = 100.0


def run(scale: Scale) -> Figures:
    """Follow one command over each way in turn."""
    return asyncio.run(_measure(_command(scale.of(LINES, 5))))


async def _measure(command: str) -> Figures:
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
        piped = await _by_pipe(command)
        events = console.events()
        call = await console.runs.call("this-computer", "shell_execute", {"command": command, "timeout": 60})
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
    painted = await asyncio.to_thread(_in_the_window, command)
    pipe = Peer("read from a pipe", statistics.median(piped))
    return [
        Figure(
            "a printed line at a client of the service", statistics.median(late), "ms", pipe, _within(late)
        ),
        Figure("a printed line painted in Runs", statistics.median(painted), "ms", pipe, _within(painted)),
    ]


def _command(lines: int) -> str:
    return f"for i in $(seq {lines}); do date +%s%N; sleep {PAUSE_S}; done"


def _in_the_window(command: str) -> list[float]:
    """How late each line was painted by a window, a process of its own."""
    ended = subprocess.run(
        [sys.executable, "-m", "tests.bench.output_window", command],
        env={**os.environ, "QT_QPA_PLATFORM": "offscreen", "QT_LOGGING_RULES": "*=false"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    if ended.returncode:
        raise AssertionError(ended.stderr[-500:])
    return [float(line) for line in ended.stdout.splitlines()]


async def _by_pipe(command: str) -> list[float]:
    process = await asyncio.create_subprocess_shell(command, stdout=asyncio.subprocess.PIPE)
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


def _within(late: list[float]) -> str:
    prompt = sum(one <= PROMPT_MS for one in late)
    return f"p95 {p95(late):.1f} ms; {prompt} of {len(late)} lines within {PROMPT_MS:.0f} ms"
