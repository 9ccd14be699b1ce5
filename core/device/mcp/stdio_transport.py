"""The stdio transport: runs an MCP server as a child process, with one JSON message a line on its pipes.

The SDK's transport does not bound a line's length and lets a server's children outlive it. This transport
bounds lines, and runs the server as the device's commands are run, so that on Linux nothing of it outlives it
or the device client.
"""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import errno
import os
import re
import shutil
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from itertools import islice

import anyio
import mcp_types as types
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.client.stdio import get_default_environment
from mcp.shared.message import SessionMessage

from core.broken_text import mended_json
from core.device.mcp.config import ServerConfig
from core.device.mcp.parse_faults import fault_of
from core.device.mcp.server_log import ServerLog
from core.device.processes.child_process import Children
from core.device.processes.piped_process import PipedProcess
from core.tasks import TaskGroupOwner
from core.token_bucket import TokenBucket

ANSWER_TOO_LARGE = -32099
_CHUNK = 65_536
# Longer lines are parsed in a thread: a megabyte takes several milliseconds, which would block the event
# loop.
_LARGE = 512 * 1024
_WAITING_WRITES = 64
_AFTER_END_S = 0.5
# Bursts and rates of other lines than messages, and of notifications and requests. A server that exceeds them
# is read more slowly.
_LINES_BURST, _LINES_PER_S = 1000.0, 20_000.0
_NOTIFICATIONS_BURST, _NOTIFICATIONS_PER_S = 500.0, 500.0
_PAUSE_S = 0.02
# Lines that are read in one turn of the event loop. Where reading a line takes longer than its share of the
# rate, as on a busy machine, the rate alone would let a chunk of 32,768 lines hold the loop.
_LINES_A_TURN = 500
# Of a line that is too long, this much of its beginning and its end is searched for the request's id.
_KEPT_END = 4096
# The id is at the beginning of an answer or, from some servers, at its end.
_ID_FIRST = re.compile(rb'^\s*\{(?:\s*"jsonrpc"\s*:\s*"2\.0"\s*,)?\s*"id"\s*:\s*(\d{1,15})\s*,')
_ID_LAST = re.compile(rb',\s*"id"\s*:\s*(\d{1,15})\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$')
# The beginning of a message after other words in its line.
_ANSWER = re.compile(rb'(?<=.)\{\s*"(?:jsonrpc|id|result|error)"\s*:')
_MOST_TRIED = 20

Incoming = SessionMessage | Exception
Streams = tuple[MemoryObjectReceiveStream[Incoming], MemoryObjectSendStream[SessionMessage]]


@contextlib.asynccontextmanager
async def open_stdio(
    children: Children,
    server: ServerConfig,
    most_line: int,
    server_log: ServerLog,
    on_lost: Callable[[], None],
) -> AsyncIterator[Streams]:
    """Start a server and yield the streams of its session; the server ends with the context.

    Raises:
        OSError, ValueError, DeviceError: the server cannot be started.
    """
    environment = {**get_default_environment(), **server.env}
    _check(server, environment)
    process = await children.open([server.command, *server.args], environment, server.cwd)
    to_session, for_session = anyio.create_memory_object_stream[Incoming](0)
    from_session, to_write = anyio.create_memory_object_stream[SessionMessage](_WAITING_WRITES)
    pipes = _Pipes(process, most_line, server_log, to_session, on_lost)
    tasks = TaskGroupOwner(f"MCP server {server.name}")
    try:
        tasks.spawn("stdout", pipes.read_messages())
        tasks.spawn("stderr", pipes.read_stderr())
        tasks.spawn("stdin", pipes.write_messages(to_write))
        tasks.spawn("end", pipes.watch_end())
        yield for_session, from_session
    finally:
        try:
            await process.stop()
        finally:
            await tasks.close(1.0)
            for stream in (to_session, for_session, from_session, to_write):
                stream.close()
            process.close()


def _check(server: ServerConfig, environment: dict[str, str]) -> None:
    """Check that the program and its folder exist, because the error of a failed start would be less clear.

    Raises:
        OSError: the program is missing or not executable, or `cwd` is not a folder.
    """
    if server.cwd is not None and not os.path.isdir(server.cwd):
        raise NotADirectoryError(errno.ENOTDIR, "its cwd is not a folder", server.cwd)
    # Elsewhere the system itself says what is wrong with a program.
    if sys.platform == "linux":
        if os.sep in server.command:
            path = os.path.join(server.cwd or "", server.command)
            if not os.path.exists(path):
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), server.command)
            if os.path.isdir(path) or not os.access(path, os.X_OK):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), server.command)
        elif shutil.which(server.command, path=environment.get("PATH")) is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), server.command)


class _Pipes:
    """The three pipes of a server process."""

    def __init__(
        self,
        process: PipedProcess,
        most_line: int,
        server_log: ServerLog,
        to_session: MemoryObjectSendStream[Incoming],
        on_lost: Callable[[], None],
    ) -> None:
        self._process = process
        self._most_line = most_line
        self._log = server_log
        self._to_session = to_session
        self._on_lost = on_lost
        self._lines = TokenBucket(_LINES_BURST, _LINES_PER_S)
        self._notifications = TokenBucket(_NOTIFICATIONS_BURST, _NOTIFICATIONS_PER_S)
        self._read_in_turn = 0

    async def read_messages(self) -> None:
        """Pass the server's messages to the session; the end of its output ends the session."""
        lines = LineSplitter(self._most_line)
        try:
            while chunk := await self._process.stdout.read(_CHUNK):
                for line in lines.feed(chunk):
                    await self._pass_on(line)
            for line in lines.end():
                await self._pass_on(line)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError, ConnectionError):
            # The session ended first. The rest must still be read, or the server would block in a write and
            # could not end.
            await self._drain()
        finally:
            self._end_session()

    async def _pass_on(self, line: bytes | OversizedLine) -> None:
        message = await self._message(line)
        if message is not None:
            await self._to_session.send(message)
        await self._pace(message)

    async def _pace(self, message: SessionMessage | None) -> None:
        """Pause reading from a server that exceeds its rates, so that it blocks and not the event loop."""
        if message is None:
            free = self._lines.spend()
        elif isinstance(message.message, types.JSONRPCNotification | types.JSONRPCRequest):
            free = self._notifications.spend()
        else:
            free = True
        await self._take_turns(free)

    async def _take_turns(self, free: bool) -> None:
        """Let the loop go on: for a pause unless the rate is `free`, and after so many lines in any case."""
        self._read_in_turn += 1
        if free and self._read_in_turn < _LINES_A_TURN:
            return
        self._read_in_turn = 0
        await asyncio.sleep(0 if free else _PAUSE_S)

    def _end_session(self) -> None:
        self._to_session.close()
        self._on_lost()

    async def _drain(self) -> None:
        with contextlib.suppress(ConnectionError):
            while await self._process.stdout.read(_CHUNK):
                pass

    async def _message(self, line: bytes | OversizedLine) -> SessionMessage | None:
        if isinstance(line, OversizedLine):
            description = f"an answer of {line.size} bytes; this device takes at most {self._most_line}"
            self._log.log("stdout", description)
            return _error_response(line.request_id, ANSWER_TOO_LARGE, f"The server sent {description}")
        # .NET programs begin their output with a byte order mark.
        line = line.removeprefix(codecs.BOM_UTF8)
        if not line.strip():
            return None
        try:
            if not line.lstrip().startswith(b"{"):
                raise ValueError("not an object")
            if len(line) > _LARGE:
                return SessionMessage(await asyncio.to_thread(_parse, line))
            return SessionMessage(_parse(line))
        except ValueError:
            self._log.log_stray(line[:2000].decode("utf-8", "replace"))
            if (answer := await self._answer_at_end(line)) is not None:
                return answer
            # Fail the waiting request now, because no other answer to it will arrive.
            fault = f"The server's answer {fault_of(mended_json(line))}"
            return _error_response(request_of(line), types.PARSE_ERROR, fault)

    async def _answer_at_end(self, line: bytes) -> SessionMessage | None:
        """The answer that ends a line, after words that the server wrote without a line end."""
        for begin in islice(_ANSWER.finditer(line), _MOST_TRIED):
            rest = line[begin.start() :]
            try:
                message = await asyncio.to_thread(_parse, rest) if len(rest) > _LARGE else _parse(rest)
            except ValueError:
                continue
            # A log that quotes a request must not make this device serve it.
            is_answer = isinstance(message, types.JSONRPCResponse | types.JSONRPCError)
            return SessionMessage(message) if is_answer else None
        return None

    async def read_stderr(self) -> None:
        """Log the server's standard error."""
        lines = LineSplitter(_CHUNK)
        while chunk := await self._process.stderr.read(_CHUNK):
            for line in lines.feed(chunk):
                self._log_line(line)
                await self._take_turns(self._lines.spend())
        for line in lines.end():
            # A program that fails often ends its last words without a line end.
            self._log_line(line)

    def _log_line(self, line: bytes | OversizedLine) -> None:
        if isinstance(line, bytes):
            self._log.log("stderr", line.decode("utf-8", "replace"))

    async def write_messages(self, messages: MemoryObjectReceiveStream[SessionMessage]) -> None:
        """Send the session's messages to the server."""
        try:
            async for message in messages:
                text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                self._process.stdin.write(f"{text}\n".encode())
                await self._process.stdin.drain()
        except (ConnectionError, anyio.ClosedResourceError):
            # The server closed its input: no request can be answered any more.
            self._end_session()
        finally:
            messages.close()

    async def watch_end(self) -> None:
        """End the session soon after the process ends, even if a child of it keeps the pipes open."""
        await self._process.wait()
        # The server's last messages may still be in the pipe.
        await asyncio.sleep(_AFTER_END_S)
        self._end_session()


def _error_response(request_id: int | None, code: int, message: str) -> SessionMessage | None:
    """An error response in place of an unusable response; None where its request is not known."""
    if request_id is None:
        return None
    error = types.ErrorData(code=code, message=message)
    return SessionMessage(types.JSONRPCError(jsonrpc="2.0", id=request_id, error=error))


def _parse(line: bytes) -> types.JSONRPCMessage:
    try:
        return types.jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValueError:
        if (mended := mended_json(line)) is line:
            raise
        return types.jsonrpc_message_adapter.validate_json(mended, by_name=False)


@dataclass(frozen=True, slots=True)
class OversizedLine:
    """A line that was discarded: its size, and the id of the request that it answers, if found."""

    size: int
    request_id: int | None


class LineSplitter:
    """Splits a stream of bytes into lines of at most `most` bytes; longer lines are discarded."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._parts: list[bytes] = []
        self._size = 0
        self._head = b""
        self._tail = b""

    def feed(self, chunk: bytes) -> Iterator[bytes | OversizedLine]:
        """The lines that end in `chunk`, without their line ends; take all before the next chunk."""
        *ended, rest = chunk.split(b"\n")
        for part in ended:
            self._add(part)
            yield self._take()
        self._add(rest)

    def end(self) -> Iterator[bytes | OversizedLine]:
        """The last line, if the stream ended without a line end."""
        if self._size:
            yield self._take()

    def _add(self, part: bytes) -> None:
        if not part:
            return
        self._size += len(part)
        if self._size <= self._most:
            self._parts.append(part)
            return
        if self._parts:
            whole = b"".join(self._parts)
            self._head, self._tail = whole[:_KEPT_END], whole[-_KEPT_END:]
            self._parts.clear()
        self._head = self._head or part[:_KEPT_END]
        self._tail = (self._tail + part[-_KEPT_END:])[-_KEPT_END:]

    def _take(self) -> bytes | OversizedLine:
        line: bytes | OversizedLine = b"".join(self._parts)
        if self._size > self._most:
            line = OversizedLine(self._size, _request_in(self._head, self._tail))
        self._parts.clear()
        self._size, self._head, self._tail = 0, b"", b""
        return line


def request_of(line: bytes) -> int | None:
    """The id of the request that an invalid line answers; None where it cannot be found."""
    return _request_in(line[:_KEPT_END], line[-_KEPT_END:])


def _request_in(head: bytes, tail: bytes) -> int | None:
    match = _ID_FIRST.search(head) or _ID_LAST.search(tail)
    return int(match[1]) if match else None
