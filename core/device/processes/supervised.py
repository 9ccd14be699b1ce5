"""Programs that the supervisor starts, and that end when the device client ends for any reason (Linux)."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from core.device.fs.safe_path import SafePath
from core.device.processes import posix, supervisor_client
from core.device.processes.job import CompletedProcess, Job, OutputBudget
from core.device.processes.piped_process import BUFFER, PipedProcess
from core.errors import DeviceError, ErrorCode

assert sys.platform == "linux"

_START_S = 60.0


class Programs(posix.Programs):
    """How programs are started and ended on Linux."""

    def __init__(self) -> None:
        self._supervisor = supervisor_client.SupervisorClient()

    async def run(self, job: Job, folder: SafePath | None, budget: OutputBudget) -> CompletedProcess:
        """Run a program; it starts in `folder`, which cannot be swapped for another one meanwhile."""
        with contextlib.ExitStack() as descriptors:
            null = os.open(os.devnull, os.O_RDONLY)
            descriptors.callback(os.close, null)
            where = folder.open() if folder else os.open(job.folder, os.O_RDONLY | os.O_DIRECTORY)
            descriptors.callback(os.close, where)
            return await self._run(job, budget, null, where)

    async def launch(self, program: list[str], environment: dict[str, str], folder: Path) -> int:
        """Start a program that outlives the device client and its supervisor; returns its process id."""
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

    async def open(self, program: list[str], environment: dict[str, str], folder: str | None) -> PipedProcess:
        """Start a program with pipes to its standard streams."""
        return await start_supervised(self._supervisor, program, environment, folder)

    async def close(self) -> None:
        """Kill all running commands and wait for the supervisor's end."""
        await self._supervisor.close()

    async def _run(self, job: Job, budget: OutputBudget, null: int, folder: int) -> CompletedProcess:
        begun = time.monotonic()
        pipes = posix.output_pipes(budget, job.report)
        handle: supervisor_client.ProcessHandle | None = None
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
                await posix.read_rest(pipes)
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
        status = supervisor_client.ExitStatus(None, ()) if handle.ended.exception() else handle.ended.result()
        code = posix.exit_code(status.code) if ended and status.code is not None else None
        return CompletedProcess(stdout, stderr, code, time.monotonic() - begun, budget.truncated, status.left)


async def _end(handle: supervisor_client.ProcessHandle, polite: float) -> None:
    """Send SIGTERM to the group; `polite` seconds later kill all descendants, in the group or not."""
    handle.end(force=False)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(polite):
            await asyncio.shield(handle.ended)
    await handle.stop()


@dataclass(frozen=True, slots=True)
class _Pipe:
    """A pipe between this process and a program: the program's end, and this process's end as a stream."""

    for_program: int
    is_input: bool
    transport: asyncio.ReadTransport | asyncio.WriteTransport
    reader: asyncio.StreamReader
    protocol: asyncio.StreamReaderProtocol

    def close(self) -> None:
        """Close this process's end; what was not yet written is discarded."""
        if self.is_input and self._writing.get_write_buffer_size():
            # `close` would wait until the program has read it.
            self._writing.abort()
        else:
            self.transport.close()

    def writer(self) -> asyncio.StreamWriter:
        """The stream of a pipe that this process writes to."""
        assert self.is_input, "this process writes only to a program's input"
        return asyncio.StreamWriter(self._writing, self.protocol, None, asyncio.get_running_loop())

    @property
    def _writing(self) -> asyncio.WriteTransport:
        # Not checked: a transport of uvloop is none of asyncio's classes.
        return cast(asyncio.WriteTransport, self.transport)


class SupervisedProcess(PipedProcess):
    """A program under a `ChildMonitor` of the supervisor (Linux)."""

    def __init__(self, handle: supervisor_client.ProcessHandle, pipes: list[_Pipe]) -> None:
        super().__init__(pipes[0].writer(), pipes[1].reader, pipes[2].reader)
        self._handle = handle
        self._pipes = pipes

    async def wait(self, seconds: float | None = None) -> bool:
        ended = self._handle.ended
        # A `ChildMonitor` that was killed has taken the program with it, so that the error is an end as well.
        with contextlib.suppress(TimeoutError, DeviceError):
            async with asyncio.timeout(seconds):
                await asyncio.shield(ended)
        return ended.done()

    def _terminate(self) -> None:
        self._handle.end(force=False)

    def _kill(self) -> None:
        self._handle.end(force=True)

    def close(self) -> None:
        self._handle.close()
        for pipe in self._pipes:
            pipe.close()


async def start_supervised(
    supervisor: supervisor_client.SupervisorClient,
    program: list[str],
    environment: dict[str, str],
    folder: str | None,
) -> PipedProcess:
    """Have the supervisor start a program in `folder`, by default in the folder of this process.

    The program also ends when the supervisor is killed: it may run for days, and its orphans would be left
    without a subreaper should its `ChildMonitor` be killed later.

    Raises:
        OSError: the program cannot be executed, or the folder cannot be entered.
        ValueError: an argument or a variable cannot be given to a program.
        DeviceError: the supervisor does not report the start.
    """
    _check_texts(program, environment)
    with contextlib.ExitStack() as on_failure, contextlib.ExitStack() as for_program:
        where = os.open(folder or os.curdir, os.O_PATH | os.O_DIRECTORY)
        for_program.callback(os.close, where)
        pipes: list[_Pipe] = []
        for is_input in (True, False, False):
            pipes.append(pipe := await _open_pipe(is_input))
            on_failure.callback(pipe.close)
            for_program.callback(os.close, pipe.for_program)
        streams = tuple(pipe.for_program for pipe in pipes)
        handle = supervisor.start(program, environment, where, streams, contained=True, bound=True)
        on_failure.pop_all()
    process = SupervisedProcess(handle, pipes)
    try:
        # Bounded: the program may stop its `ChildMonitor` before that reports the start.
        async with asyncio.timeout(_START_S):
            await handle.pid()
    except BaseException as error:
        await handle.stop()
        process.close()
        if isinstance(error, supervisor_client.StartError):
            raise OSError(error.errno, os.strerror(error.errno), program[0]) from error
        if isinstance(error, TimeoutError):
            raise DeviceError(
                f"Its start was not reported within {_START_S:g} s.", ErrorCode.TIMEOUT
            ) from error
        raise
    return process


def _check_texts(program: list[str], environment: dict[str, str]) -> None:
    """Refuse what `subprocess` refuses, with its messages, because the supervisor reports only an errno."""
    for text in (*program, *environment, *environment.values()):
        if b"\0" in os.fsencode(text):
            raise ValueError("embedded null byte")
    if any("=" in name for name in environment):
        raise ValueError("illegal environment variable name")


async def _open_pipe(is_input: bool) -> _Pipe:
    """A pipe that a program reads from as its input, or else writes its output to."""
    reading, writing = os.pipe()
    for_program, own = (reading, writing) if is_input else (writing, reading)
    file = os.fdopen(own, "wb" if is_input else "rb", buffering=0)
    loop = asyncio.get_running_loop()
    connect = loop.connect_write_pipe if is_input else loop.connect_read_pipe
    reader = asyncio.StreamReader(limit=BUFFER)
    try:
        transport, protocol = await connect(lambda: asyncio.StreamReaderProtocol(reader), file)
    except BaseException:
        file.close()
        os.close(for_program)
        raise
    return _Pipe(for_program, is_input, transport, reader, protocol)
