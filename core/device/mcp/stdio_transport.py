"""The stdio transport: runs an MCP server as a child process, with one JSON message a line on its pipes.

The SDK's transport does not bound a line's length and lets a server's children outlive it. This transport
bounds lines and ends the whole process group. On Linux the server runs under a guard (`guard_process`), so
that the server and its children end with the device client, however the client ends.
"""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import errno
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import anyio
import mcp_types as types
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.client.stdio import get_default_environment
from mcp.shared.message import SessionMessage

from core.aip.limits import TokenBucket
from core.device.mcp.config import ServerConfig
from core.device.mcp.framing import LineCutter, ServerLog, TooLong, request_of
from core.tasks import TaskGroupOwner

ANSWER_TOO_LARGE = -32099
_CHUNK = 65_536
# Longer lines are parsed in a thread: a megabyte takes several milliseconds, which would block the event
# loop.
_LARGE = 512 * 1024
_WAITING_WRITES = 64
_CLOSE_POLITE_S = 1.0
_TERM_POLITE_S = 0.5
_POLL_S = 0.02
_WATCH_S = 0.5
# Bursts and rates of unsolicited lines and messages; a server that exceeds them is read more slowly.
_WORDS_AT_ONCE, _WORDS_PER_S = 1000.0, 20_000.0
_NEWS_AT_ONCE, _NEWS_PER_S = 500.0, 500.0
_BREATH_S = 0.02
_GUARD = str(Path(__file__).with_name("guard_process.py"))
_GROUP_FLAG: int = getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0)  # only Windows has it

Incoming = SessionMessage | Exception
Streams = tuple[MemoryObjectReceiveStream[Incoming], MemoryObjectSendStream[SessionMessage]]


@contextlib.asynccontextmanager
async def open_process(
    server: ServerConfig, most_line: int, said: ServerLog, on_lost: Callable[[], None]
) -> AsyncIterator[Streams]:
    """Start a server and yield the streams of its session; its process group ends with the context.

    Raises:
        OSError: the server cannot be started.
    """
    process, lifeline = await _started(server)
    to_session, for_session = anyio.create_memory_object_stream[Incoming](0)
    from_session, to_write = anyio.create_memory_object_stream[SessionMessage](_WAITING_WRITES)
    pipes = _Pipes(process, most_line, said, to_session, on_lost)
    tasks = TaskGroupOwner(f"MCP server {server.name}")
    try:
        tasks.spawn("stdout", pipes.read())
        tasks.spawn("stderr", pipes.listen())
        tasks.spawn("stdin", pipes.write(to_write))
        tasks.spawn("end", pipes.watch())
        yield for_session, from_session
    finally:
        try:
            await _end(process, lifeline)
        finally:
            await tasks.close(1.0)
            for stream in (to_session, for_session, from_session, to_write):
                stream.close()
            _let_go(process)


async def _started(server: ServerConfig) -> tuple[asyncio.subprocess.Process, _Lifeline]:
    environment = {**get_default_environment(), **server.env}
    lifeline = _Lifeline()
    try:
        _check(server, environment)
        process = await _spawned(server, environment, lifeline)
    except BaseException:
        lifeline.cut()
        raise
    finally:
        lifeline.handed_over()
    return process, lifeline


class _Lifeline:
    """A pipe to a server's guard: the guard ends the server when the writing end closes."""

    def __init__(self) -> None:
        self.reading, self._writing = os.pipe() if sys.platform == "linux" else (-1, -1)

    def handed_over(self) -> None:
        """Close this process's copy of the guard's end."""
        if self.reading >= 0:
            os.close(self.reading)
            self.reading = -1

    def cut(self) -> None:
        """Make the guard kill the server and all its descendants."""
        if self._writing >= 0:
            os.close(self._writing)
            self._writing = -1


def _check(server: ServerConfig, environment: dict[str, str]) -> None:
    """Check that the program and its folder exist, because an error in the guard would be less clear.

    Raises:
        OSError: the program is missing or not executable, or `cwd` is not a folder.
    """
    if server.cwd is not None and not os.path.isdir(server.cwd):
        raise NotADirectoryError(errno.ENOTDIR, "its cwd is no folder", server.cwd)
    if sys.platform != "linux":
        return
    if os.sep in server.command:
        path = os.path.join(server.cwd or "", server.command)
        if not os.path.exists(path):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), server.command)
        if os.path.isdir(path) or not os.access(path, os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), server.command)
    elif shutil.which(server.command, path=environment.get("PATH")) is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), server.command)


async def _spawned(
    server: ServerConfig, environment: dict[str, str], lifeline: _Lifeline
) -> asyncio.subprocess.Process:
    guarded = lifeline.reading >= 0
    guard = [sys.executable, "-I", "-S", _GUARD, str(lifeline.reading)] if guarded else []
    program = server.command
    if sys.platform == "win32":
        # Windows finds scripts such as npx.cmd only by their full name.
        program = shutil.which(program, path=environment.get("PATH")) or program
    starting = asyncio.get_running_loop().create_task(
        asyncio.create_subprocess_exec(
            *guard,
            program,
            *server.args,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=environment,
            cwd=server.cwd,
            limit=_CHUNK,
            start_new_session=sys.platform != "win32",
            creationflags=_GROUP_FLAG,
            pass_fds=(lifeline.reading,) if guarded else (),
        )
    )
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        # The process may run already, and asyncio would wait for ever for a start that is cancelled midway.
        process = await starting
        await _end(process, lifeline)
        _let_go(process)
        raise


class _Pipes:
    """The three pipes of a server process."""

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        most_line: int,
        said: ServerLog,
        to_session: MemoryObjectSendStream[Incoming],
        on_lost: Callable[[], None],
    ) -> None:
        self._process = process
        self._most_line = most_line
        self._said = said
        self._to_session = to_session
        self._on_lost = on_lost
        self._words = TokenBucket(_WORDS_AT_ONCE, _WORDS_PER_S)
        self._news = TokenBucket(_NEWS_AT_ONCE, _NEWS_PER_S)

    async def read(self) -> None:
        """Pass the server's messages to the session; the end of its output ends the session."""
        assert self._process.stdout is not None
        lines = LineCutter(self._most_line)
        try:
            while chunk := await self._process.stdout.read(_CHUNK):
                for line in lines.feed(chunk):
                    message = await self._message(line)
                    if message is not None:
                        await self._to_session.send(message)
                    await self._pace(message)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError, ConnectionError):
            # The session ended first. The rest must still be read, or the server would block in a write and
            # could not end.
            await self._drain()
        finally:
            self._lose()

    async def _pace(self, message: SessionMessage | None) -> None:
        """Pause reading from a server that exceeds its rates, so that it blocks and not the event loop."""
        if message is None:
            free = self._words.spend(0)
        elif isinstance(message.message, types.JSONRPCNotification | types.JSONRPCRequest):
            free = self._news.spend(0)
        else:
            free = True
        if not free:
            await asyncio.sleep(_BREATH_S)

    def _lose(self) -> None:
        self._to_session.close()
        self._on_lost()

    async def _drain(self) -> None:
        assert self._process.stdout is not None
        with contextlib.suppress(ConnectionError):
            while await self._process.stdout.read(_CHUNK):
                pass

    async def _message(self, line: bytes | TooLong) -> SessionMessage | None:
        if isinstance(line, TooLong):
            words = f"an answer of {line.size} bytes; this device takes at most {self._most_line}"
            self._said.say("stdout", words)
            return _failed_answer(line.request_id, ANSWER_TOO_LARGE, f"The server sent {words}")
        # .NET programs begin their output with a byte order mark.
        line = line.removeprefix(codecs.BOM_UTF8)
        if not line.strip():
            return None
        try:
            if not line.lstrip().startswith(b"{"):
                raise ValueError("no object")
            if len(line) > _LARGE:
                return SessionMessage(await asyncio.to_thread(_parse, line))
            return SessionMessage(_parse(line))
        except ValueError:
            self._said.say_odd(line[:2000].decode("utf-8", "replace"))
            # Fail the waiting request now, because no other answer to it will arrive.
            return _failed_answer(request_of(line), types.PARSE_ERROR, "The server's answer is not JSON")

    async def listen(self) -> None:
        """Log the server's standard error."""
        assert self._process.stderr is not None
        lines = LineCutter(_CHUNK)
        while chunk := await self._process.stderr.read(_CHUNK):
            for line in lines.feed(chunk):
                if isinstance(line, bytes):
                    self._said.say("stderr", line.decode("utf-8", "replace"))
                if not self._words.spend(0):
                    await asyncio.sleep(_BREATH_S)

    async def write(self, messages: MemoryObjectReceiveStream[SessionMessage]) -> None:
        """Send the session's messages to the server."""
        assert self._process.stdin is not None
        try:
            async for message in messages:
                text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                self._process.stdin.write(f"{text}\n".encode())
                await self._process.stdin.drain()
        except (ConnectionError, anyio.ClosedResourceError):
            # The server closed its input: no request can be answered any more.
            self._lose()
        finally:
            messages.close()

    async def watch(self) -> None:
        """End the session soon after the process ends, even if a child of it keeps the pipes open."""
        while not await _ended(self._process, 60):
            pass
        # The server's last messages may still be in the pipe.
        await asyncio.sleep(_WATCH_S)
        self._lose()


def _failed_answer(request_id: int | None, code: int, words: str) -> SessionMessage | None:
    """An error answer that replaces an unusable one; None where its request is not known."""
    if request_id is None:
        return None
    error = types.ErrorData(code=code, message=words)
    return SessionMessage(types.JSONRPCError(jsonrpc="2.0", id=request_id, error=error))


def _parse(line: bytes) -> types.JSONRPCMessage:
    return types.jsonrpc_message_adapter.validate_json(line, by_name=False)


async def _end(process: asyncio.subprocess.Process, lifeline: _Lifeline) -> None:
    """Close the server's input, wait, send SIGTERM, wait, then kill the rest of its process group."""
    try:
        assert process.stdin is not None
        process.stdin.close()
        if not await _ended(process, _CLOSE_POLITE_S):
            _signal(process, signal.SIGTERM)
            await _ended(process, _TERM_POLITE_S)
    finally:
        lifeline.cut()
        if sys.platform == "linux":
            await _ended(process, _CLOSE_POLITE_S)
        # Even if the server has ended by itself: its remaining children are in its group.
        _signal(process, signal.SIGTERM if sys.platform == "win32" else signal.SIGKILL)
        await _ended(process, _CLOSE_POLITE_S)


async def _ended(process: asyncio.subprocess.Process, seconds: float) -> bool:
    # Not process.wait(), which also waits for the server's children that hold the pipes open.
    deadline = asyncio.get_running_loop().time() + seconds
    wait = _POLL_S
    while process.returncode is None and asyncio.get_running_loop().time() < deadline:
        await asyncio.sleep(wait)
        wait = min(2 * wait, _WATCH_S)
    return process.returncode is not None


def _signal(process: asyncio.subprocess.Process, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if sys.platform == "win32":
            process.terminate()
        else:
            os.killpg(process.pid, number)


def _let_go(process: asyncio.subprocess.Process) -> None:
    """Close the pipes, because a child that left the group may keep them open; asyncio has no public API."""
    transport = getattr(process, "_transport", None)
    if isinstance(transport, asyncio.SubprocessTransport):
        transport.close()
