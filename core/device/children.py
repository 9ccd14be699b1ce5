"""Child processes in process groups of their own, whose output is bounded while it is read."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import psutil

_CHUNK = 65_536
# A background child may hold the pipes for ever; this long after the shell's end we stop reading.
_AFTER_END_S = 0.2
_POLITE_S = 0.5


@dataclass(frozen=True, slots=True)
class Finished:
    """How a command ended. `exit_code` is None when its time ran out; a signal N gives 128 + N."""

    stdout: bytes
    stderr: bytes
    exit_code: int | None
    seconds: float
    truncated: bool


class Budget:
    """How many bytes of output may still be kept, for both streams of one command together."""

    def __init__(self, most: int) -> None:
        self.left = most
        self.truncated = False

    def take(self, data: bytes) -> bytes:
        """The beginning of `data` that there is still room for."""
        kept = data[: self.left]
        self.left -= len(kept)
        self.truncated = self.truncated or len(kept) < len(data)
        return kept


class _Pipe:
    """One output stream: everything is read so that the writer never blocks; the budget says what is kept.

    It is a pipe of our own rather than asyncio's, whose `wait()` does not return before every holder of the
    other end, background children included, has let go of it.
    """

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._kept = bytearray()
        self._end, self.for_child = os.pipe()
        self.closed = asyncio.Event()
        os.set_blocking(self._end, False)
        asyncio.get_running_loop().add_reader(self._end, self._read)

    def started(self) -> None:
        """The child has its copy of the writing end; ours would keep the pipe open."""
        os.close(self.for_child)
        self.for_child = -1

    def _read(self) -> None:
        try:
            data = os.read(self._end, _CHUNK)
        except BlockingIOError:
            return
        if data:
            self._kept += self._budget.take(data)
        else:
            self.finish()

    def finish(self) -> bytes:
        """Stop reading and return what was kept."""
        if self._end >= 0:
            asyncio.get_running_loop().remove_reader(self._end)
            os.close(self._end)
            self._end = -1
        if self.for_child >= 0:
            self.started()
        self.closed.set()
        return bytes(self._kept)


class _Stream:
    """The same over asyncio's own pipes, for Windows, where a loop cannot watch a plain pipe."""

    def __init__(self, reader: asyncio.StreamReader, budget: Budget) -> None:
        self._kept = bytearray()
        self._budget = budget
        self._reader = reader

    async def read(self) -> None:
        while data := await self._reader.read(_CHUNK):
            self._kept += self._budget.take(data)

    def finish(self) -> bytes:
        return bytes(self._kept)


class Children:
    """Runs shell commands and knows how many are running."""

    def __init__(self, max_output_bytes: int) -> None:
        self._most = max_output_bytes
        self.running = 0

    async def run_shell(self, command: str, folder: Path, timeout: float) -> Finished:
        """Run one line in the platform's shell until it ends or `timeout` seconds are over.

        When the time is over, or the calling task is cancelled, the whole process group is killed. A
        background child that the shell leaves behind is not waited for.
        """
        self.running += 1
        try:
            run = run_windows if sys.platform == "win32" else run_posix
            return await run(command, folder, timeout, Budget(self._most))
        finally:
            self.running -= 1


async def run_posix(command: str, folder: Path, timeout: float, budget: Budget) -> Finished:
    """Run a line in a process group of its own."""
    started = time.monotonic()
    pipes = (_Pipe(budget), _Pipe(budget))
    process: asyncio.subprocess.Process | None = None
    ended = False
    try:
        starting = asyncio.get_running_loop().create_task(
            asyncio.create_subprocess_exec(
                shutil.which("bash") or "/bin/sh",
                "-c",
                command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=pipes[0].for_child,
                stderr=pipes[1].for_child,
                cwd=folder,
                start_new_session=True,
            )
        )
        try:
            process = await asyncio.shield(starting)
        except asyncio.CancelledError:
            # The shell may run already. Who cancels now waits until its group is known, and can be killed.
            process = await starting
            raise
        for pipe in pipes:
            pipe.started()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await process.wait()
                ended = True
        if ended:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_AFTER_END_S):
                    await asyncio.gather(*(pipe.closed.wait() for pipe in pipes))
        else:
            await _end_group(process)
    finally:
        if process is not None and not ended:
            _signal_group(process, signal.SIGKILL)
        stdout, stderr = (pipe.finish() for pipe in pipes)
    code = process.returncode if ended else None
    if code is not None and code < 0:
        code = 128 - code
    return Finished(stdout, stderr, code, time.monotonic() - started, budget.truncated)


async def _end_group(process: asyncio.subprocess.Process) -> None:
    """Ask the group to end, and kill what is left of it half a second later."""
    _signal_group(process, signal.SIGTERM)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_POLITE_S):
            await process.wait()
    # Also when the shell has gone: its children may ignore SIGTERM and keep the group alive.
    _signal_group(process, signal.SIGKILL)
    await process.wait()


def _signal_group(process: asyncio.subprocess.Process, number: int) -> None:
    if sys.platform != "win32":
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, number)


async def run_windows(command: str, folder: Path, timeout: float, budget: Budget) -> Finished:
    """Run a line where there are no process groups; a time-out kills every descendant instead."""
    started = time.monotonic()
    process = await asyncio.create_subprocess_shell(
        command,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        cwd=folder,
        creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),
    )
    assert process.stdout is not None
    assert process.stderr is not None
    streams = (_Stream(process.stdout, budget), _Stream(process.stderr, budget))
    ended = False
    try:
        async with asyncio.timeout(timeout), asyncio.TaskGroup() as reading:
            readers = [reading.create_task(stream.read()) for stream in streams]
            await process.wait()
            ended = True
            _, late = await asyncio.wait(readers, timeout=_AFTER_END_S)
            for reader in late:
                reader.cancel()
    except TimeoutError:
        pass
    finally:
        if not ended:
            _kill_tree(process.pid)
    return Finished(
        streams[0].finish(),
        streams[1].finish(),
        process.returncode if ended else None,
        time.monotonic() - started,
        budget.truncated,
    )


def _kill_tree(pid: int) -> None:
    """Kill a process and everything that descends from it, where there are no process groups."""
    with contextlib.suppress(psutil.NoSuchProcess):
        parent = psutil.Process(pid)
        for process in [*parent.children(recursive=True), parent]:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
