"""Commands on POSIX systems, each in a process group of its own. Linux adds the supervisor (`supervised`)."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import sys
import time
from pathlib import Path

from core.device.fs.safe_path import SafePath
from core.device.processes.job import (
    AFTER_END_S,
    CHUNK,
    CompletedProcess,
    Job,
    OutputBudget,
    OutputReporter,
)
from core.device.processes.piped_process import PipedProcess
from core.device.processes.unsupervised import launch_detached, start_unsupervised
from core.device.progress import Report

assert sys.platform != "win32"


class Pipe:
    """One output stream. All of it is read, so that the writer never blocks; the budget limits what is kept.

    It does not use asyncio's pipes: with these, `wait()` returns only after every process that has the
    writing end, background children included, has closed it.
    """

    def __init__(self, budget: OutputBudget, teller: OutputReporter) -> None:
        self._budget = budget
        self._teller = teller
        self._kept = bytearray()
        self._end, self.for_child = os.pipe()
        self.closed = asyncio.Event()
        os.set_blocking(self._end, False)
        asyncio.get_running_loop().add_reader(self._end, self._read)

    def started(self) -> None:
        """Close this process's writing end once the child has its copy; it would keep the pipe open."""
        os.close(self.for_child)
        self.for_child = -1

    def _read(self) -> None:
        try:
            data = os.read(self._end, CHUNK)
        except BlockingIOError:
            return
        if data:
            kept = self._budget.take(data)
            self._kept += kept
            self._teller.tell(kept)
        else:
            self.finish()

    def finish(self) -> bytes:
        """Stop reading and return what was kept."""
        if self._end >= 0:
            asyncio.get_running_loop().remove_reader(self._end)
            os.close(self._end)
            self._end = -1
            self._teller.tell(b"", final=True)
        if self.for_child >= 0:
            self.started()
        self.closed.set()
        return bytes(self._kept)


def output_pipes(budget: OutputBudget, report: Report) -> tuple[Pipe, Pipe]:
    """The pipes of a program's standard output and standard error."""
    return Pipe(budget, OutputReporter(report, "stdout")), Pipe(budget, OutputReporter(report, "stderr"))


async def read_rest(pipes: tuple[Pipe, ...]) -> None:
    """Read what is left after the program's end, which a background child may delay."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(AFTER_END_S):
            await asyncio.gather(*(pipe.closed.wait() for pipe in pipes))


def exit_code(code: int) -> int:
    """The exit code as a shell gives it: 128 + N after signal N."""
    return 128 - code if code < 0 else code


def shell_running(line: str) -> list[str]:
    """The program that runs a line in the system's shell."""
    # Without the dashes a line that begins with one would be taken for the shell's own options.
    return [shutil.which("bash") or "/bin/sh", "-c", "--", line]


class Programs:
    """How programs are started and ended where there is no supervisor (macOS)."""

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
        """Run one line in the system's shell."""
        job = Job(shell_running(line), folder.path, timeout, environment, report=report, polite=polite)
        return await self.run(job, folder, budget)

    async def run(self, job: Job, folder: SafePath | None, budget: OutputBudget) -> CompletedProcess:
        """Run a program. `folder`: that in which it starts, for systems that can hold a folder."""
        return await run_posix(job, budget)

    async def launch(self, program: list[str], environment: dict[str, str], folder: Path) -> int:
        """Start a program that outlives the device client; returns its process id."""
        return launch_detached(program, environment, folder)

    async def open(self, program: list[str], environment: dict[str, str], folder: str | None) -> PipedProcess:
        """Start a program with pipes to its standard streams."""
        return await start_unsupervised(program, environment, folder)

    async def close(self) -> None:
        """Nothing is left to be ended."""


async def run_posix(job: Job, budget: OutputBudget) -> CompletedProcess:
    """Run a program in a process group of its own, without the supervisor (macOS)."""
    started = time.monotonic()
    pipes = output_pipes(budget, job.report)
    process: asyncio.subprocess.Process | None = None
    ended = False
    try:
        starting = asyncio.get_running_loop().create_task(
            asyncio.create_subprocess_exec(
                *job.program,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=pipes[0].for_child,
                stderr=pipes[1].for_child,
                cwd=job.folder,
                env=job.environment,
                start_new_session=True,
            )
        )
        try:
            process = await asyncio.shield(starting)
        except asyncio.CancelledError:
            # The shell may already run: a cancellation waits until its group is known, and can be killed.
            process = await starting
            raise
        for pipe in pipes:
            pipe.started()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(job.timeout):
                await process.wait()
                ended = True
        if ended:
            await read_rest(pipes)
        else:
            await _end_group(process, job.polite)
    finally:
        if process is not None and not ended:
            _signal_group(process, signal.SIGKILL)
        stdout, stderr = (pipe.finish() for pipe in pipes)
    code = exit_code(process.returncode) if ended and process.returncode is not None else None
    return CompletedProcess(stdout, stderr, code, time.monotonic() - started, budget.truncated)


async def _end_group(process: asyncio.subprocess.Process, polite: float) -> None:
    """Send SIGTERM to the group, and SIGKILL to what is left of it `polite` seconds later."""
    _signal_group(process, signal.SIGTERM)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(polite):
            await process.wait()
    # Also when the shell has ended: its children may ignore SIGTERM and keep the group alive.
    _signal_group(process, signal.SIGKILL)
    await process.wait()


def _signal_group(process: asyncio.subprocess.Process, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)
