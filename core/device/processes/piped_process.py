"""Programs with a pipe to each standard stream, such as MCP servers: how they are started and ended.

On Linux the supervisor starts them, and a `ChildMonitor` kills every descendant of such a program when the
program or the device client ends. Elsewhere the process group is all that is known of its descendants.
"""

from __future__ import annotations

import abc
import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass
from typing import cast

from core.device.processes.supervisor_client import ProcessHandle, StartError, SupervisorClient
from core.errors import DeviceError, ErrorCode

_BUFFER = 65_536
_START_S = 60.0
_CLOSE_POLITE_S = 1.0
_TERM_POLITE_S = 0.5
_KILL_S = 1.0
_POLL_S = 0.02
_SLOWEST_POLL_S = 0.5
_GROUP_FLAG: int = getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0)  # only Windows has it


class PipedProcess(abc.ABC):
    """A started program and the ends of its pipes that belong to this process."""

    def __init__(
        self, stdin: asyncio.StreamWriter, stdout: asyncio.StreamReader, stderr: asyncio.StreamReader
    ) -> None:
        self.stdin = stdin
        self.stdout = stdout
        self.stderr = stderr

    @abc.abstractmethod
    async def wait(self, seconds: float | None = None) -> bool:
        """Wait for the program's end, at most `seconds`; False if it still runs.

        Processes that it started and that hold its pipes open are not waited for.
        """

    async def stop(self) -> None:
        """End the program in three steps, within 2.5 s: close its input, send SIGTERM to its group, kill it.

        Its descendants are killed in any case, also if the program has ended by itself.
        """
        try:
            self.stdin.close()
            if not await self.wait(_CLOSE_POLITE_S):
                self._terminate()
                await self.wait(_TERM_POLITE_S)
        finally:
            self._kill()
            await self.wait(_KILL_S)

    @abc.abstractmethod
    def close(self) -> None:
        """Close the pipes: a process that could not be killed may hold their other ends open."""

    @abc.abstractmethod
    def _terminate(self) -> None:
        """Ask the program's process group to end."""

    @abc.abstractmethod
    def _kill(self) -> None:
        """Kill the program and its descendants, as far as they are known."""


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

    def __init__(self, handle: ProcessHandle, pipes: list[_Pipe]) -> None:
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


class UnsupervisedProcess(PipedProcess):
    """A child of this process with a process group of its own (macOS and Windows)."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        super().__init__(process.stdin, process.stdout, process.stderr)
        self._process = process

    async def wait(self, seconds: float | None = None) -> bool:
        # Not `process.wait()`, which also waits for the program's children that hold the pipes open.
        clock = asyncio.get_running_loop().time
        deadline = None if seconds is None else clock() + seconds
        pause = _POLL_S
        while self._process.returncode is None and (deadline is None or clock() < deadline):
            await asyncio.sleep(pause)
            pause = min(2 * pause, _SLOWEST_POLL_S)
        return self._process.returncode is not None

    def _terminate(self) -> None:
        self._signal(signal.SIGTERM)

    def _kill(self) -> None:
        self._signal(signal.SIGTERM if sys.platform == "win32" else signal.SIGKILL)

    def _signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if sys.platform == "win32":
                self._process.terminate()
            else:
                os.killpg(self._process.pid, number)

    def close(self) -> None:
        # asyncio has no public way to close the pipes of a process.
        transport = getattr(self._process, "_transport", None)
        if isinstance(transport, asyncio.SubprocessTransport):
            transport.close()


async def start_supervised(
    supervisor: SupervisorClient, program: list[str], environment: dict[str, str], folder: str | None
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
        if isinstance(error, StartError):
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
    reader = asyncio.StreamReader(limit=_BUFFER)
    try:
        transport, protocol = await connect(lambda: asyncio.StreamReaderProtocol(reader), file)
    except BaseException:
        file.close()
        os.close(for_program)
        raise
    return _Pipe(for_program, is_input, transport, reader, protocol)


async def start_unsupervised(
    program: list[str], environment: dict[str, str], folder: str | None
) -> PipedProcess:
    """Start a program in a process group of its own.

    Raises:
        OSError: the program cannot be executed, or the folder cannot be entered.
        ValueError: an argument or a variable cannot be given to a program.
    """
    if sys.platform == "win32":
        # Windows finds scripts such as npx.cmd only by their full name.
        program = [shutil.which(program[0], path=environment.get("PATH")) or program[0], *program[1:]]
    starting = asyncio.get_running_loop().create_task(
        asyncio.create_subprocess_exec(
            *program,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=environment,
            cwd=folder,
            limit=_BUFFER,
            start_new_session=sys.platform != "win32",
            creationflags=_GROUP_FLAG,
        )
    )
    try:
        return UnsupervisedProcess(await asyncio.shield(starting))
    except asyncio.CancelledError:
        # The process may run already, and asyncio would wait for ever for a start that is cancelled midway.
        process = UnsupervisedProcess(await starting)
        await process.stop()
        process.close()
        raise
