"""Client of the supervisor, which ends the device client's children whenever that ends. Linux only."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from core.errors import DeviceError, ErrorCode
from core.text import sentences

assert sys.platform == "linux"

SCRIPT = Path(__file__).with_name("supervisor.py")
_MOST_MESSAGE = 4096
_CLOSE_S = 7.0
# Longer than a `ChildMonitor` waits for a process that SIGKILL does not end.
_KILLED_S = 6.0
_GONE = "The process that watches over commands is gone, and the commands with it"
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class ExitStatus:
    """How a program ended: its exit code (-N after signal N), and the processes that could not be killed.

    The code is None where the program itself is one of these.
    """

    code: int | None
    left: tuple[int, ...]


class StartError(DeviceError):
    """A program could not be started; `errno` says why."""

    def __init__(self, errno: int) -> None:
        super().__init__(f"The process cannot be started: {os.strerror(errno)}", ErrorCode.TOOL_FAILED)
        self.errno = errno


class ProcessHandle:
    """A program under a `ChildMonitor` of the supervisor, connected by a line. `ended` is set at its end.

    `bound`: the program is killed when the supervisor ends.
    """

    def __init__(self, line: socket.socket, bound: bool = False) -> None:
        loop = asyncio.get_running_loop()
        self.bound = bound
        self._line: socket.socket | None = line
        self._monitor = 0
        self._pid: asyncio.Future[int] = loop.create_future()
        self.ended: asyncio.Future[ExitStatus] = loop.create_future()
        line.setblocking(False)
        loop.add_reader(line, self._receive)

    async def pid(self) -> int:
        """The program's process id, once it runs.

        Raises:
            StartError: the program cannot be started.
            DeviceError: its `ChildMonitor` ended first.
        """
        return await asyncio.shield(self._pid)

    def end(self, *, force: bool) -> None:
        """Send SIGTERM to the program's group, or with `force` kill all descendants; `ended` follows."""
        if self._line is not None:
            with contextlib.suppress(OSError):
                self._line.send(json.dumps({"force": force}).encode())
            _wake(self._monitor)

    async def stop(self) -> None:
        """Kill the program and all descendants; wait until they are gone or cannot be killed."""
        self.end(force=True)
        with contextlib.suppress(TimeoutError, DeviceError):
            async with asyncio.timeout(_KILLED_S):
                await asyncio.shield(self.ended)

    def close(self) -> None:
        """Close the line; the `ChildMonitor` kills what still runs."""
        line, self._line = self._line, None
        if line is not None:
            asyncio.get_running_loop().remove_reader(line)
            line.close()
        fault = DeviceError(_GONE, ErrorCode.OUTCOME_UNKNOWN)
        _fail(self._pid, fault)
        _fail(self.ended, fault)

    def _receive(self) -> None:
        assert self._line is not None
        try:
            data = self._line.recv(_MOST_MESSAGE)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        message: dict[str, Any] = json.loads(data) if data else {}
        if "monitor" in message:
            self._monitor = message["monitor"]
            return
        if "pid" in message:
            _resolve(self._pid, message["pid"])
            return
        if "error" in message:
            _fail(self._pid, StartError(message["error"]))
        elif "code" in message:
            _resolve(self.ended, ExitStatus(message["code"], tuple(message["left"])))
        self.close()


@dataclass(slots=True)
class SupervisorClient:
    """Starts the supervisor at the first request, and again after it was killed."""

    _socket: socket.socket | None = None
    _process: subprocess.Popen[bytes] | None = None
    _handles: set[ProcessHandle] = field(default_factory=set)

    def start(
        self,
        program: list[str],
        environment: dict[str, str],
        folder: int,
        streams: tuple[int, ...],
        *,
        contained: bool = False,
        detached: bool = False,
        bound: bool = False,
        group: str = "",
    ) -> ProcessHandle:
        """Have the supervisor start a program; `folder` and `streams` are descriptors.

        `streams` become its descriptors 0, 1, 2 and on. `contained`, `detached` and `group` are those of
        `core.device.processes.supervisor.StartRequest`. A `bound` program is killed when the supervisor ends;
        others run on under their `ChildMonitor`. The program may run, and stop its `ChildMonitor`, before its
        process id is known here.

        Raises:
            DeviceError: the request cannot be sent to the supervisor.
        """
        link = self._linked()
        if self._process is not None:
            _wake(self._process.pid)
        request = {
            "program": program,
            "environment": environment,
            "contained": contained,
            "detached": detached,
            "group": group,
        }
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs, _in_memory(request) as file:
            try:
                socket.send_fds(link, [b"run"], [theirs.fileno(), file, folder, *streams])
            except OSError as error:
                ours.close()
                raise DeviceError(
                    sentences(f"No process can be started: {error}"), ErrorCode.TOOL_FAILED
                ) from error
        handle = ProcessHandle(ours, bound)
        self._handles.add(handle)
        handle.ended.add_done_callback(lambda _: self._handles.discard(handle))
        return handle

    async def close(self) -> None:
        """Kill all running programs and end the supervisor."""
        process = self._process
        self._lost()
        for handle in list(self._handles):
            handle.close()
        if process is not None:
            _wake(process.pid)
            with contextlib.suppress(subprocess.TimeoutExpired):
                await asyncio.to_thread(process.wait, _CLOSE_S)

    def _linked(self) -> socket.socket:
        if self._socket is not None and _is_closed(self._socket):
            # The supervisor was killed, and the loop has not yet called the reader.
            self._receive()
        if self._socket is not None:
            return self._socket
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", str(SCRIPT)],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                cwd="/",
                start_new_session=True,
            )
        ours.setblocking(False)
        asyncio.get_running_loop().add_reader(ours, self._receive)
        self._socket = ours
        return ours

    def _receive(self) -> None:
        """Handle the supervisor's end, the only event on this socket: it sends nothing here."""
        assert self._socket is not None
        with contextlib.suppress(OSError):
            if self._socket.recv(_MOST_MESSAGE):
                return
        process = self._process
        self._lost()
        for handle in list(self._handles):
            if handle.bound:
                handle.close()
        if process is not None:
            process.wait()

    def _lost(self) -> None:
        """Close the socket to the supervisor; the lines of running programs stay open."""
        link, self._socket, self._process = self._socket, None, None
        if link is not None:
            asyncio.get_running_loop().remove_reader(link)
            link.close()


def _is_closed(link: socket.socket) -> bool:
    poll = select.poll()
    poll.register(link, 0)
    return bool(poll.poll(0))


def _wake(pid: int) -> None:
    """Continue a supervising process that a command may have stopped (SIGSTOP)."""
    if pid:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGCONT)


def _resolve(future: asyncio.Future[_T], value: _T) -> None:
    if not future.done():
        future.set_result(value)


def _fail(future: asyncio.Future[Any], error: DeviceError) -> None:
    if not future.done():
        future.set_exception(error)
        # Marks the error as retrieved: asyncio would log it where no caller waits for this future.
        future.exception()


@contextlib.contextmanager
def _in_memory(request: dict[str, object]) -> Iterator[int]:
    """The request in an unnamed memory file, since a command may be longer than a packet."""
    descriptor = os.memfd_create("request")
    try:
        data = json.dumps(request).encode("ascii")
        while data:
            data = data[os.write(descriptor, data) :]
        yield descriptor
    finally:
        os.close(descriptor)
