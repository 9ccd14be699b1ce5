"""Runs child processes, each in a process group of its own; limits and reports their output while it is read.

On Linux the supervisor starts them, so that they end when the device client ends for any reason.
"""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Literal

import psutil

from core.device.fs.safe_path import SafePath
from core.device.processes.piped_process import PipedProcess, start_supervised, start_unsupervised
from core.device.processes.supervisor_client import ExitStatus, ProcessHandle, SupervisorClient
from core.device.progress import Report, no_progress
from core.errors import DeviceError, ErrorCode
from core.text import sentences

_CHUNK = 65_536

StreamName = Literal["stdout", "stderr"]


class OutputBudget:
    """The number of output bytes that may still be kept, for both streams of one command together."""

    def __init__(self, most: int) -> None:
        self.left = most
        self.truncated = False

    def take(self, data: bytes) -> bytes:
        """The beginning of `data` that still fits; the rest is counted as truncated."""
        kept = data[: self.left]
        self.left -= len(kept)
        self.truncated = self.truncated or len(kept) < len(data)
        return kept


class OutputReporter:
    """Decodes one stream chunk by chunk and reports the text as progress."""

    def __init__(self, report: Report, stream: StreamName) -> None:
        self._report = report
        self._stream: StreamName = stream
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode

    def tell(self, data: bytes, final: bool = False) -> None:
        if text := self._decode(data, final):
            self._report(text, stream=self._stream)


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
            data = os.read(self._end, _CHUNK)
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


class StreamReading:
    """Like `Pipe`, over asyncio's pipes: on Windows an event loop cannot watch a plain pipe."""

    def __init__(self, reader: asyncio.StreamReader, budget: OutputBudget, teller: OutputReporter) -> None:
        self._teller = teller
        self._kept = bytearray()
        self._budget = budget
        self._reader = reader

    async def read(self) -> None:
        while data := await self._reader.read(_CHUNK):
            kept = self._budget.take(data)
            self._kept += kept
            self._teller.tell(kept)

    def finish(self) -> bytes:
        return bytes(self._kept)


# Reading stops this long after the shell's end, since a background child may keep the pipes open for ever.
_AFTER_END_S = 0.2
_AFTER_KILL_S = 2.0
POLITE_S = 0.5


@dataclass(frozen=True, slots=True)
class CompletedProcess:
    """How a command ended. `exit_code` is None after a time-out, and 128 + N after signal N.

    `left` are its processes that could not be killed.
    """

    stdout: bytes
    stderr: bytes
    exit_code: int | None
    seconds: float
    truncated: bool
    left: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Job:
    """A program to run in `folder`. `more` become its descriptors 3 and on.

    `contained` and `group` are those of `core.device.processes.supervisor.StartRequest`. After `timeout`
    seconds it is asked to end, and killed `polite` seconds later.
    """

    program: list[str]
    folder: Path
    timeout: float
    environment: dict[str, str] | None = None
    report: Report = no_progress
    more: tuple[int, ...] = ()
    contained: bool = False
    group: str = ""
    polite: float = POLITE_S


def shell_running(line: str) -> list[str]:
    """The program that runs a line in the system's shell (not on Windows)."""
    # Without the dashes a line that begins with one would be taken for the shell's own options.
    return [shutil.which("bash") or "/bin/sh", "-c", "--", line]


class Children:
    """Runs commands and counts those that are running."""

    def __init__(self, max_output_bytes: int) -> None:
        self._most = max_output_bytes
        self._supervisor = SupervisorClient()
        self._launched: list[psutil.Process] = []
        self.running = 0

    def launched(self) -> int:
        """The number of programs started by `launch` that still run."""
        self._launched = [process for process in self._launched if _is_alive(process)]
        return len(self._launched)

    async def run_shell(
        self,
        command: str,
        folder: SafePath,
        timeout: float,
        report: Report = no_progress,
        polite: float = POLITE_S,
        variables: Mapping[str, str] = MappingProxyType({}),
    ) -> CompletedProcess:
        """Run one line in the platform's shell until it ends or `timeout` seconds are over.

        After the time-out, or when the calling task is cancelled, all descendants are killed. Background
        children of a shell that has ended are not waited for. `variables` are added to its environment.
        """
        environment = {**os.environ, **variables} if variables else None
        if sys.platform == "win32":
            self.running += 1
            try:
                budget = OutputBudget(self._most)
                return await run_windows(command, folder.path, timeout, budget, report, environment)
            finally:
                self.running -= 1
        job = Job(shell_running(command), folder.path, timeout, environment, report=report, polite=polite)
        return await self.run(job, folder)

    async def run(self, job: Job, held: SafePath | None = None) -> CompletedProcess:
        """Run a program like `run_shell`; it starts in `held`, which cannot be swapped for another folder."""
        self.running += 1
        try:
            budget = OutputBudget(self._most)
            if sys.platform != "linux":
                return await run_posix(job, budget)
            with contextlib.ExitStack() as descriptors:
                null = os.open(os.devnull, os.O_RDONLY)
                descriptors.callback(os.close, null)
                folder = held.open() if held else os.open(job.folder, os.O_RDONLY | os.O_DIRECTORY)
                descriptors.callback(os.close, folder)
                return await self._run_supervised(job, budget, null, folder)
        finally:
            self.running -= 1

    async def launch(self, program: list[str], environment: dict[str, str], folder: Path) -> int:
        """Start a program that outlives the device client, its output discarded; returns its process id.

        Raises:
            DeviceError: the program cannot be started.
        """
        pid = await self._launch(program, environment, folder)
        with contextlib.suppress(psutil.NoSuchProcess):
            self._launched.append(psutil.Process(pid))
        return pid

    async def _launch(self, program: list[str], environment: dict[str, str], folder: Path) -> int:
        if sys.platform != "linux":
            return launch_detached(program, environment, folder)
        null = os.open(os.devnull, os.O_RDWR)
        where = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            handle = self._supervisor.start(program, environment, where, (null, null, null), detached=True)
        finally:
            os.close(null)
            os.close(where)
        try:
            return await handle.pid()
        except asyncio.CancelledError:
            # The program may already run.
            await handle.stop()
            raise

    async def open(
        self, program: list[str], environment: dict[str, str], folder: str | None = None
    ) -> PipedProcess:
        """Start a program with pipes to its standard streams; its caller stops and closes it.

        Raises:
            OSError, ValueError, DeviceError: the program cannot be started; see `piped_process`.
        """
        if sys.platform != "linux":
            return await start_unsupervised(program, environment, folder)
        return await start_supervised(self._supervisor, program, environment, folder)

    async def close(self) -> None:
        """Kill all running commands and wait for the supervisor's end."""
        await self._supervisor.close()

    async def _run_supervised(
        self, job: Job, budget: OutputBudget, null: int, folder: int
    ) -> CompletedProcess:
        begun = time.monotonic()
        pipes = _pipes(budget, job.report)
        handle: ProcessHandle | None = None
        ended = False
        try:
            handle = self._supervisor.start(
                job.program,
                dict(os.environ) if job.environment is None else job.environment,
                folder,
                (null, *(pipe.for_child for pipe in pipes), *job.more),
                contained=job.contained,
                group=job.group,
            )
            for pipe in pipes:
                pipe.started()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(job.timeout):
                    # The time-out covers the start too: the program may stop its monitor before the process
                    # id has arrived.
                    await handle.pid()
                    await asyncio.shield(handle.ended)
                    ended = True
            if ended:
                await _read_rest(pipes)
            else:
                await _end(handle, job.polite)
                if not handle.ended.done():
                    raise DeviceError(
                        "The command timed out; its processes could not be confirmed as ended.",
                        ErrorCode.OUTCOME_UNKNOWN,
                    )
        except asyncio.CancelledError:
            if handle is not None:
                # Nothing of it may still run when its cancellation is reported.
                await handle.stop()
            raise
        finally:
            if handle is not None:
                handle.close()
            stdout, stderr = (pipe.finish() for pipe in pipes)
        status = ExitStatus(None, ()) if handle.ended.exception() else handle.ended.result()
        code = _exit_code(status.code) if ended and status.code is not None else None
        return CompletedProcess(stdout, stderr, code, time.monotonic() - begun, budget.truncated, status.left)


async def _end(handle: ProcessHandle, polite: float) -> None:
    """Send SIGTERM to the group; `polite` seconds later kill all descendants, in the group or not."""
    handle.end(force=False)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(polite):
            await asyncio.shield(handle.ended)
    await handle.stop()


def _is_alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _pipes(budget: OutputBudget, report: Report) -> tuple[Pipe, Pipe]:
    return Pipe(budget, OutputReporter(report, "stdout")), Pipe(budget, OutputReporter(report, "stderr"))


async def _read_rest(pipes: tuple[Pipe, ...]) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_AFTER_END_S):
            await asyncio.gather(*(pipe.closed.wait() for pipe in pipes))


def _exit_code(code: int) -> int:
    return 128 - code if code < 0 else code


async def run_posix(job: Job, budget: OutputBudget) -> CompletedProcess:
    """Run a program in a process group of its own, without the supervisor (macOS)."""
    started = time.monotonic()
    pipes = _pipes(budget, job.report)
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
            await _read_rest(pipes)
        else:
            await _end_group(process, job.polite)
    finally:
        if process is not None and not ended:
            _signal_group(process, signal.SIGKILL)
        stdout, stderr = (pipe.finish() for pipe in pipes)
    code = _exit_code(process.returncode) if ended and process.returncode is not None else None
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
    if sys.platform != "win32":
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, number)


_launched: list[subprocess.Popen[bytes]] = []


def launch_detached(program: list[str], environment: dict[str, str], folder: Path) -> int:
    """Start a program in a session of its own, without the supervisor (macOS and Windows)."""
    _launched[:] = [process for process in _launched if process.poll() is None]
    try:
        process = subprocess.Popen(
            program,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=environment,
            cwd=folder,
            start_new_session=True,
            creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),
        )
    except OSError as error:
        raise DeviceError(
            sentences(f"{program[0]} cannot be started: {error.strerror}"), ErrorCode.TOOL_FAILED
        ) from error
    _launched.append(process)
    return process.pid


async def run_windows(
    command: str,
    folder: Path,
    timeout: float,
    budget: OutputBudget,
    report: Report = no_progress,
    environment: dict[str, str] | None = None,
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
        creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),
    )
    assert process.stdout is not None
    assert process.stderr is not None
    streams = (
        StreamReading(process.stdout, budget, OutputReporter(report, "stdout")),
        StreamReading(process.stderr, budget, OutputReporter(report, "stderr")),
    )
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
    )


def _kill_tree(pid: int) -> None:
    """Kill a process and all its descendants (Windows)."""
    with contextlib.suppress(psutil.NoSuchProcess):
        parent = psutil.Process(pid)
        for process in [*parent.children(recursive=True), parent]:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
