"""A line between a device and a console that is slow, late, cut or reset, as a test wants it.

    async with bad_line(console_port) as line:
        line.to_console.allow(10_000)             # so many bytes pass, then the rest is held until `restore`
        await line.to_console.passed_in_all(10_000)
        line.cut(), line.restore()                # both directions; or only one: `line.to_device.cut()`
        line.reset(device=False)                  # RST to the console alone

It is a proxy at loopback and not a router: it needs no rights and runs wherever the tests do. So a cut holds
bytes instead of losing packets; to a program that is the same, since TCP sends lost packets again. What a
program can tell apart is imitated: the sockets have small buffers and the segments of an Ethernet, and a
direction takes no more bytes from its sender than its queue has room for, so that TCP slows the sender down.
`CuttingProxy` breaks at an exact frame, and this one at an exact byte: it needs not read what it carries, and
carries TLS, too.

Tests steer it by events (`allow`, `cut`, `passed_in_all`). `rate` and `delay_s` are for measurements.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections import deque
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any

from core.tasks import TaskGroupOwner
from tests.fakes.patience import PATIENCE_S

_BUFFER = 4096
_SEGMENT = 1460
QUEUE = 16 * 1024
_CATCHES_UP_S = 0.05
_RESET_AT_CLOSE = struct.pack("ii", 1, 0)


class Direction:
    """One direction of the line, of all its connections together.

    `rate`: bytes in a second, None without a limit. `delay_s`: how long each byte is on its way. `queue`: how
    many bytes wait for their turn; more are left with the sender. `taken` and `passed`: bytes that came from
    the sender, and that went to the receiver.
    """

    def __init__(self) -> None:
        self.rate: float | None = None
        self.delay_s = 0.0
        self.queue = QUEUE
        self.taken = self.passed = 0
        self._allowed: int | None = None
        self._changed = asyncio.Event()
        self._free_at = 0.0

    @property
    def is_cut(self) -> bool:
        """Whether nothing passes now."""
        return self._allowed == 0

    def allow(self, count: int) -> None:
        """Let `count` further bytes pass, added to what is allowed already; then hold the rest."""
        self._allowed = count + (self._allowed or 0)
        self._tell()

    def cut(self) -> None:
        """Let nothing pass: bytes are held, and the connections stay open."""
        self._allowed = 0
        self._tell()

    def restore(self) -> None:
        """Let everything pass again, what was held first."""
        self._allowed = None
        self._tell()

    async def passed_in_all(self, count: int) -> None:
        """Wait until `count` bytes have passed since the line began."""
        async with asyncio.timeout(PATIENCE_S):
            while self.passed < count:
                await self._changed.wait()

    async def is_held(self) -> None:
        """Wait until the sender has sent something that is not allowed to pass."""
        async with asyncio.timeout(PATIENCE_S):
            while not self.is_cut or self.taken == self.passed:
                await self._changed.wait()

    async def may_pass(self, wanted: int) -> int:
        """Wait until something may pass; returns how much of `wanted`, and counts it as allowed no more."""
        while self.is_cut:
            await self._changed.wait()
        if self._allowed is None:
            return wanted
        granted = min(wanted, self._allowed)
        self._allowed -= granted
        self._tell()
        return granted

    async def serialise(self, count: int) -> None:
        """Wait as long as `count` bytes take at this rate, after those before them."""
        if self.rate is None:
            return
        now = asyncio.get_running_loop().time()
        # A busy machine wakes late; what the line missed meanwhile, it catches up.
        self._free_at = max(now - _CATCHES_UP_S, self._free_at) + count / self.rate
        if self._free_at > now:
            await asyncio.sleep(self._free_at - now)

    def count(self, *, taken: int = 0, passed: int = 0) -> None:
        """Count bytes."""
        self.taken += taken
        self.passed += passed
        self._tell()

    def _tell(self) -> None:
        # Those who wait now are woken; those who come later wait for the next change.
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()


class _Flow:
    """The bytes of one connection in one direction: taken, queued, delayed, delivered."""

    def __init__(self, source: socket.socket, to: socket.socket, direction: Direction) -> None:
        self.source, self._to, self._direction = source, to, direction
        # What waits for its turn; then what is on its way, with the time when it arrives. None: the end.
        self._queue: deque[bytes] = deque()
        self._queued = 0
        self._moved = asyncio.Event()
        self._under_way: asyncio.Queue[tuple[float, bytes | None]] = asyncio.Queue()
        self._ended = False

    async def take(self) -> None:
        """Take bytes from the sender while the queue has room.

        Raises:
            OSError: the sender reset its end.
        """
        loop = asyncio.get_running_loop()
        while True:
            while self._queued >= self._direction.queue:
                await self._wait()
            data = await loop.sock_recv(self.source, min(_SEGMENT, self._direction.queue))
            if not data:
                break
            self._queue.append(data)
            self._queued += len(data)
            self._direction.count(taken=len(data))
            self._moved.set()
        self._ended = True
        self._moved.set()

    async def forward(self) -> None:
        """Put the queue on its way, as fast as the rate and as much as the test allows."""
        loop = asyncio.get_running_loop()
        while True:
            while not self._queue:
                if self._ended:
                    self._under_way.put_nowait((loop.time() + self._direction.delay_s, None))
                    return
                await self._wait()
            granted = await self._direction.may_pass(len(self._queue[0]))
            data = self._queue.popleft()
            data, rest = data[:granted], data[granted:]
            if rest:
                self._queue.appendleft(rest)
            await self._direction.serialise(len(data))
            self._queued -= len(data)
            self._moved.set()
            self._under_way.put_nowait((loop.time() + self._direction.delay_s, data))

    async def deliver(self) -> None:
        """Hand the receiver what has arrived.

        Raises:
            OSError: the receiver is no longer there.
        """
        loop = asyncio.get_running_loop()
        while True:
            due, data = await self._under_way.get()
            if (early := due - loop.time()) > 0:
                await asyncio.sleep(early)
            if data is None:
                self._to.shutdown(socket.SHUT_WR)
                return
            await loop.sock_sendall(self._to, data)
            self._direction.count(passed=len(data))

    async def _wait(self) -> None:
        self._moved.clear()
        await self._moved.wait()


class _Connection:
    """One carried connection: both sockets and both flows."""

    def __init__(
        self, device: socket.socket, console: socket.socket, line: BadLine, tasks: TaskGroupOwner
    ) -> None:
        self._ends = (device, console)
        self._flows = (_Flow(device, console, line.to_console), _Flow(console, device, line.to_device))
        self._tasks = tasks
        self._takers: dict[socket.socket, asyncio.Task[None]] = {}
        self._carrying: list[asyncio.Task[None]] = []

    async def carry(self) -> None:
        """Carry bytes until both ends have ended or were reset."""
        for flow, other in zip(self._flows, reversed(self._ends), strict=True):
            taker = self._tasks.spawn("take", self._or_reset(flow.take(), other))
            self._takers[flow.source] = taker
            self._carrying += [
                taker,
                self._tasks.spawn("forward", flow.forward()),
                self._tasks.spawn("deliver", self._or_reset(flow.deliver(), flow.source)),
            ]
        await asyncio.wait(self._carrying)

    async def _or_reset(self, work: Coroutine[Any, Any, None], end: socket.socket) -> None:
        # As a host does that gets bytes for a connection which it no longer has.
        try:
            await work
        except OSError:
            self._reset(end)

    def reset(self, *, device: bool, console: bool) -> None:
        """Reset the ends named. Any other end is reset when it sends something."""
        for end, wanted in zip(self._ends, (device, console), strict=True):
            if wanted:
                self._reset(end)

    def _reset(self, end: socket.socket) -> None:
        if end.fileno() < 0:
            return
        loop = asyncio.get_running_loop()
        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_AT_CLOSE)
        with contextlib.suppress(NotImplementedError):
            loop.remove_reader(end)
            loop.remove_writer(end)
        end.close()
        if taker := self._takers.get(end):
            taker.cancel()
        if all(one.fileno() < 0 for one in self._ends):
            for task in self._carrying:
                task.cancel()

    def close(self) -> None:
        """Close both ends."""
        for end in self._ends:
            end.close()


class BadLine:
    """The line: carries each connection on to `port` of loopback, where the console listens.

    `console_dials`: the device listens at `port`, and the console dials the line. `connections`: how many
    were carried. While a direction from the dialling end is cut, a new connection gets no further than the
    line. `refuses`: new connections are reset.
    """

    def __init__(self, port: int, *, console_dials: bool = False) -> None:
        self.to_console, self.to_device = Direction(), Direction()
        self.connections = 0
        self.refuses = False
        self._port = port
        self._console_dials = console_dials
        self._tasks = TaskGroupOwner("bad line", lambda name, error: None)
        self._listener: socket.socket | None = None
        self._open: set[_Connection] = set()
        self._changed = asyncio.Event()

    @property
    def port(self) -> int:
        """Where the end that dials connects."""
        assert self._listener is not None
        return int(self._listener.getsockname()[1])

    @property
    def directions(self) -> tuple[Direction, Direction]:
        """Both directions."""
        return self.to_console, self.to_device

    def slow(self, bits_a_second: float, *, queue: int = QUEUE, round_trip_s: float = 0.0) -> None:
        """Make both directions so slow."""
        for direction in self.directions:
            direction.rate, direction.queue = bits_a_second / 8, queue
            direction.delay_s = round_trip_s / 2

    def cut(self) -> None:
        """Cut both directions."""
        for direction in self.directions:
            direction.cut()

    def restore(self) -> None:
        """Let everything pass again, at full speed, and take new connections."""
        self.refuses = False
        for direction in self.directions:
            direction.rate, direction.delay_s, direction.queue = None, 0.0, QUEUE
            direction.restore()

    def reset(self, *, device: bool = True, console: bool = True) -> None:
        """Send RST to the ends named of every connection; an end that is not named is reset when it sends."""
        for connection in list(self._open):
            connection.reset(device=device, console=console)

    async def connected(self, count: int) -> None:
        """Wait until `count` connections were carried since the line began."""
        async with asyncio.timeout(PATIENCE_S):
            while self.connections < count:
                self._changed.clear()
                await self._changed.wait()

    async def start(self) -> None:
        """Begin to listen."""
        listener = socket.socket()
        # Accepted sockets inherit these; both must stand before the window is agreed.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER)
        with contextlib.suppress(OSError, AttributeError):
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, _SEGMENT)
        listener.setblocking(False)
        listener.bind(("127.0.0.1", 0))
        listener.listen(100)
        self._listener = listener
        self._tasks.spawn("accept", self._accept(listener))

    async def close(self) -> None:
        """End every connection and listen no more."""
        await self._tasks.close()
        for connection in self._open:
            connection.close()
        self._open.clear()
        if self._listener is not None:
            self._listener.close()

    async def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            dialler, _ = await loop.sock_accept(listener)
            if self.refuses:
                dialler.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_AT_CLOSE)
                dialler.close()
                continue
            self._tasks.spawn("carry", self._carry(dialler))

    async def _carry(self, dialler: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER)
        for end in (dialler, listener):
            end.setblocking(False)
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _BUFFER)
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        console, device = (dialler, listener) if self._console_dials else (listener, dialler)
        connection = _Connection(device, console, self, self._tasks)
        self._open.add(connection)
        try:
            await (self.to_device if self._console_dials else self.to_console).may_pass(0)
            await loop.sock_connect(listener, ("127.0.0.1", self._port))
            self.connections += 1
            self._changed.set()
            await connection.carry()
        except OSError:
            pass
        finally:
            self._open.discard(connection)
            connection.close()


@asynccontextmanager
async def bad_line(port: int, *, console_dials: bool = False) -> AsyncIterator[BadLine]:
    """A line to whoever listens at this port of loopback: the console, or with `console_dials` the device."""
    line = BadLine(port, console_dials=console_dials)
    await line.start()
    try:
        yield line
    finally:
        await line.close()
