"""The device client's end of its warden: children that end with it, however it ends. Linux only."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from core.errors import DeviceError, ErrorCode

_SCRIPT = Path(__file__).with_name("warden_process.py")
_MOST_MESSAGE = 4096
_CLOSE_S = 7.0


@dataclass(frozen=True, slots=True)
class Started:
    """A process of the warden's. `ended` comes with its exit code, -N after signal N."""

    number: int
    pid: int
    ended: asyncio.Future[int]


@dataclass(slots=True)
class _Waiting:
    pid: asyncio.Future[int]
    ended: asyncio.Future[int]


@dataclass(slots=True)
class WardenLink:
    """Starts the warden when it is first needed, and again when somebody killed it."""

    _socket: socket.socket | None = None
    _process: subprocess.Popen[bytes] | None = None
    _runs: dict[int, _Waiting] = field(default_factory=dict)
    _next: int = 0

    async def start(
        self,
        program: list[str],
        environment: dict[str, str],
        folder: int,
        streams: tuple[int, ...],
        *,
        contained: bool = False,
        detached: bool = False,
        group: str = "",
    ) -> Started:
        """Start a process; `folder` and `streams` are descriptors, `streams` becoming its 0, 1, 2 and on.

        `contained`, `detached` and `group` are as `core.device.warden_process.Order` says.

        Raises:
            DeviceError: it cannot be started, and why.
        """
        link = self._linked()
        loop = asyncio.get_running_loop()
        number, self._next = self._next, self._next + 1
        waiting = self._runs[number] = _Waiting(loop.create_future(), loop.create_future())
        order = {"contained": contained, "detached": detached, "group": group}
        with _in_memory({**order, "program": program, "environment": environment}) as told:
            try:
                socket.send_fds(link, [json.dumps({"run": number}).encode()], [told, folder, *streams])
            except OSError as error:
                del self._runs[number]
                raise DeviceError(f"No process can be started: {error}", ErrorCode.TOOL_FAILED) from error
        try:
            pid = await asyncio.shield(waiting.pid)
        except asyncio.CancelledError:
            # It may run already; the messages are read in order, so this one finds it.
            self.end(number, force=True)
            raise
        if detached:
            self._runs.pop(number, None)
        return Started(number, pid, waiting.ended)

    def end(self, number: int, *, force: bool) -> None:
        """Ask a process group to end, or kill everything that comes of it; `ended` follows."""
        if self._socket is not None and number in self._runs:
            with contextlib.suppress(OSError):
                self._socket.send(json.dumps({"end": number, "force": force}).encode())

    async def close(self) -> None:
        """Kill what runs, and end the warden."""
        process = self._process
        self._lost()
        if process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                await asyncio.to_thread(process.wait, _CLOSE_S)

    def _linked(self) -> socket.socket:
        if self._socket is not None:
            return self._socket
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", str(_SCRIPT)],
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
        assert self._socket is not None
        try:
            data = self._socket.recv(_MOST_MESSAGE)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            process = self._process
            self._lost()
            if process is not None:
                process.wait()
            return
        told = json.loads(data)
        waiting = self._runs.get(told["id"])
        if waiting is None:
            return
        if "pid" in told:
            _settle(waiting.pid, told["pid"])
            return
        del self._runs[told["id"]]
        if "error" in told:
            fault = DeviceError(
                f"The process cannot be started: {os.strerror(told['error'])}", ErrorCode.TOOL_FAILED
            )
            _fail(waiting.pid, fault)
        else:
            _settle(waiting.ended, told["code"])

    def _lost(self) -> None:
        """Let go of the socket; whoever still waits learns that nothing more will be told."""
        link, self._socket, self._process = self._socket, None, None
        if link is not None:
            asyncio.get_running_loop().remove_reader(link)
            link.close()
        runs, self._runs = self._runs, {}
        gone = "The process that watches over commands is gone, and the commands with it"
        for waiting in runs.values():
            _fail(waiting.pid, DeviceError(gone, ErrorCode.OUTCOME_UNKNOWN))
            _fail(waiting.ended, DeviceError(gone, ErrorCode.OUTCOME_UNKNOWN))


def _settle(future: asyncio.Future[int], value: int) -> None:
    if not future.done():
        future.set_result(value)


def _fail(future: asyncio.Future[int], error: DeviceError) -> None:
    if not future.done():
        future.set_exception(error)
        # Nobody may be waiting for this one; that is no fault worth a line in the log.
        future.exception()


@contextlib.contextmanager
def _in_memory(order: dict[str, object]) -> Iterator[int]:
    """The order as an unnamed file: a command may be longer than any packet."""
    if sys.platform != "linux":
        raise DeviceError("The warden is for Linux", ErrorCode.TOOL_FAILED)
    descriptor = os.memfd_create("order")
    try:
        data = json.dumps(order).encode("ascii")
        while data:
            data = data[os.write(descriptor, data) :]
        yield descriptor
    finally:
        os.close(descriptor)
