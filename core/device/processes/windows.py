"""Commands on Windows. This module also runs elsewhere, on the same pipes of asyncio, which tests use."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from pathlib import Path

import psutil

from core.device.fs.safe_path import SafePath
from core.device.processes.job import AFTER_END_S, CHUNK, CompletedProcess, OutputBudget, OutputReporter
from core.device.processes.piped_process import PipedProcess
from core.device.processes.unsupervised import launch_detached, start_unsupervised
from core.device.progress import Report, no_progress
from core.own_console import OWN_CONSOLE

# A command has a console of its own, whose code page is the system's OEM one; in that cmd.exe and most
# programs write to a pipe.
OUTPUT_ENCODING = "oem" if sys.platform == "win32" else "utf-8"
_AFTER_KILL_S = 2.0


class Programs:
    """How programs are started and ended on Windows."""

    async def shell(
        self,
        line: str,
        folder: SafePath,
        timeout: float,
        budget: OutputBudget,
        report: Report,
        polite: float,
        environment: dict[str, str] | None,
    ) -> CompletedProcess:
        """Run one line in cmd.exe. `polite` has no meaning: no signal asks a process of Windows to end."""
        return await run_windows(line, folder.path, timeout, budget, report, environment)

    async def launch(self, program: list[str], environment: dict[str, str], folder: Path) -> int:
        """Start a program that outlives the device client; returns its process id."""
        return launch_detached(program, environment, folder)

    async def open(self, program: list[str], environment: dict[str, str], folder: str | None) -> PipedProcess:
        """Start a program with pipes to its standard streams."""
        return await start_unsupervised(program, environment, folder)

    async def close(self) -> None:
        """Nothing is left to be ended."""


class StreamReading:
    """One output stream, read over asyncio's pipes: on Windows an event loop cannot watch a plain pipe."""

    def __init__(self, reader: asyncio.StreamReader, budget: OutputBudget, teller: OutputReporter) -> None:
        self._teller = teller
        self._kept = bytearray()
        self._budget = budget
        self._reader = reader

    async def read(self) -> None:
        while data := await self._reader.read(CHUNK):
            kept = self._budget.take(data)
            self._kept += kept
            self._teller.tell(kept)

    def finish(self) -> bytes:
        """Returns what was kept; reports the rest of a character that was never completed."""
        self._teller.tell(b"", final=True)
        return bytes(self._kept)


async def run_windows(
    command: str,
    folder: Path,
    timeout: float,
    budget: OutputBudget,
    report: Report = no_progress,
    environment: dict[str, str] | None = None,
    encoding: str = OUTPUT_ENCODING,
) -> CompletedProcess:
    """Run a line on Windows, which has no process groups; a time-out kills every descendant instead."""
    started = time.monotonic()
    process = await asyncio.create_subprocess_shell(
        command,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        cwd=folder,
        env=environment,
        creationflags=OWN_CONSOLE,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    streams = (
        StreamReading(process.stdout, budget, OutputReporter(report, "stdout", encoding)),
        StreamReading(process.stderr, budget, OutputReporter(report, "stderr", encoding)),
    )
    ended = False
    try:
        async with asyncio.timeout(timeout), asyncio.TaskGroup() as reading:
            readers = [reading.create_task(stream.read()) for stream in streams]
            await process.wait()
            ended = True
            _, late = await asyncio.wait(readers, timeout=AFTER_END_S)
            for reader in late:
                reader.cancel()
    except TimeoutError:
        pass
    finally:
        if not ended:
            _kill_tree(process.pid)
            # Return only after its end; only a process that left its tree can keep the pipes open longer.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_AFTER_KILL_S):
                    await process.communicate()
    return CompletedProcess(
        streams[0].finish(),
        streams[1].finish(),
        process.returncode if ended else None,
        time.monotonic() - started,
        budget.truncated,
        encoding=encoding,
    )


def _kill_tree(pid: int) -> None:
    """Kill a process and all its descendants (Windows)."""
    with contextlib.suppress(psutil.NoSuchProcess):
        parent = psutil.Process(pid)
        for process in [*parent.children(recursive=True), parent]:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
