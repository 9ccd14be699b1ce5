"""What benches and their processes say to each other: lines in, JSON lines out; and how long a loop stood."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

ROOT = Path(__file__).parents[2]
PATIENCE = 180.0


async def input_lines(stream: TextIO) -> AsyncIterator[str]:
    """The lines of this process's standard input, until it ends."""
    # In a thread: the window's loop can watch sockets, and no pipes.
    while line := await asyncio.to_thread(stream.readline):
        yield line.strip()


class StallWatch:
    """Measures how late a loop's timer is: what stood in its way, in milliseconds."""

    EVERY = 0.004

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._due = self._loop.time() + self.EVERY
        self.worst_ms = 0.0
        self._timer = self._loop.call_at(self._due, self._tick)

    def _tick(self) -> None:
        now = self._loop.time()
        self.worst_ms = max(self.worst_ms, (now - self._due) * 1000)
        self._due = now + self.EVERY
        self._timer = self._loop.call_at(self._due, self._tick)

    def take(self) -> float:
        """The longest stall since the last time it was asked."""
        worst, self.worst_ms = self.worst_ms, 0.0
        return worst

    def close(self) -> None:
        """Measure no more."""
        self._timer.cancel()


@dataclass(slots=True)
class Part:
    """A helper process of a bench."""

    process: asyncio.subprocess.Process

    @property
    def pid(self) -> int:
        return self.process.pid

    async def heard(self, event: str) -> dict[str, Any]:
        """The next event of that kind.

        Raises:
            AssertionError: the process ended first.
        """
        assert self.process.stdout is not None
        async with asyncio.timeout(PATIENCE):
            while line := await self.process.stdout.readline():
                said: dict[str, Any] = json.loads(line)
                if said["event"] == event:
                    return said
        raise AssertionError(f"a part of the bench ended before it said {event!r}")

    async def asked(self, line: str, event: str) -> dict[str, Any]:
        """Say a line, and wait for that event."""
        assert self.process.stdin is not None
        self.process.stdin.write(line.encode() + b"\n")
        return await self.heard(event)


@asynccontextmanager
async def part(module: str, *arguments: str, **environment: str) -> AsyncIterator[Part]:
    """Run `python -m module`; its standard input is closed at the end, and it is waited for."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        module,
        *arguments,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        cwd=ROOT,
        env={**os.environ, **environment},
        limit=1 << 24,
    )
    try:
        yield Part(process)
    finally:
        assert process.stdin is not None
        process.stdin.close()
        try:
            await asyncio.wait_for(process.wait(), 30)
        except TimeoutError:
            process.kill()
            await process.wait()
