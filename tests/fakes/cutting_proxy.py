"""A network between a device and its console that breaks exactly where a test wants it to.

    proxy.cut(Point.IN_RESULT, "shell_execute")      # the next such command's result is torn in the middle
    await proxy.has_cut.wait()
    proxy.let_in()                                    # the device may come back

It reads along: WebSocket frames pass whole, so "before", "in the middle" and "after" a frame are exact. A
command is known by its tool, a result by the frame that it answers.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from core.tasks import TaskGroupOwner

_HEAD_END = b"\r\n\r\n"
_READ = 65536


class Point(StrEnum):
    """Where in a command's way the network breaks."""

    BEFORE_COMMAND = "before the command"
    IN_COMMAND = "in the command"
    AFTER_COMMAND = "after the command"
    BEFORE_RESULT = "before the result"
    IN_RESULT = "in the result"
    AFTER_RESULT = "after the result"


_OF_COMMAND = frozenset({Point.BEFORE_COMMAND, Point.IN_COMMAND, Point.AFTER_COMMAND})


@dataclass(frozen=True, slots=True)
class Break:
    """One break to come. `passed` is how much of the frame goes through at a point in the middle, 0 to 1.

    `stalls`: nothing passes any more in either direction, but both connections stay open.
    """

    point: Point
    tool: str
    passed: float = 0.5
    stalls: bool = False


@dataclass(slots=True)
class Frame:
    """A WebSocket frame as it stood on the wire, and the JSON object in it, if there is one."""

    raw: bytes
    said: dict[str, Any]


@dataclass(slots=True)
class FrameReader:
    """Cuts a stream of bytes into the HTTP head and WebSocket frames."""

    _buffer: bytearray = field(default_factory=bytearray)
    _upgraded: bool = False

    def feed(self, data: bytes) -> list[Frame]:
        """What became complete with these bytes."""
        self._buffer += data
        found: list[Frame] = []
        while (end := self._end_of_first()) is not None:
            raw = bytes(self._buffer[:end])
            del self._buffer[:end]
            found.append(Frame(raw, _json_in(raw) if self._upgraded else {}))
            self._upgraded = True
        return found

    def _end_of_first(self) -> int | None:
        if not self._upgraded:
            at = self._buffer.find(_HEAD_END)
            return at + len(_HEAD_END) if at >= 0 else None
        start, size = _payload_of(self._buffer)
        return start + size if start and len(self._buffer) >= start + size else None


def _payload_of(frame: bytes | bytearray) -> tuple[int, int]:
    """Where a frame's payload starts and how long it is; 0 while that is not known yet."""
    if len(frame) < 2:
        return 0, 0
    size, start = frame[1] & 0x7F, 2
    if size in (126, 127):
        wide = 2 if size == 126 else 8
        if len(frame) < start + wide:
            return 0, 0
        size, start = int.from_bytes(frame[start : start + wide], "big"), start + wide
    return start + (4 if frame[1] & 0x80 else 0), size


def _json_in(raw: bytes) -> dict[str, Any]:
    start, size = _payload_of(raw)
    payload = raw[start : start + size]
    if raw[1] & 0x80:
        mask = raw[start - 4 : start] * (size // 4 + 1)
        payload = (int.from_bytes(payload, "big") ^ int.from_bytes(mask[:size], "big")).to_bytes(size, "big")
    try:
        said = json.loads(payload)
    except ValueError:
        return {}
    return said if isinstance(said, dict) else {}


class CuttingProxy:
    """Listens on loopback; every connection is carried on to the port of whoever listens."""

    def __init__(self, port: int, *, console_dials: bool = False) -> None:
        """`port` is the console's; with `console_dials` it is the device's, and the console comes in here."""
        self._port = port
        self._console_dials = console_dials
        self._tasks = TaskGroupOwner("cutting proxy", lambda name, error: None)
        self._server: asyncio.Server | None = None
        self._break: Break | None = None
        self._wanted_answer: str | None = None
        self._open = asyncio.Event()
        self._open.set()
        self._flows = asyncio.Event()
        self._flows.set()
        self._links: set[asyncio.StreamWriter] = set()
        self.delay_s = 0.0
        self.has_cut = asyncio.Event()
        self.passed: list[dict[str, Any]] = []

    @property
    def port(self) -> int:
        """Where a device dials."""
        assert self._server is not None
        return int(self._server.sockets[0].getsockname()[1])

    def carry_to(self, port: int) -> None:
        """Carry what comes from now on to another port: a console that was started again has another one."""
        self._port = port

    async def start(self) -> None:
        """Begin to listen."""
        self._server = await asyncio.start_server(self._carry, "127.0.0.1", 0)

    def cut(self, point: Point, tool: str, passed: float = 0.5, *, stalls: bool = False) -> None:
        """Break at this point of the next command of that tool, once. Nobody comes in until `let_in`."""
        self._break = Break(point, tool, passed, stalls)
        self._wanted_answer = None
        self.has_cut.clear()

    def let_in(self) -> None:
        """Let devices connect again."""
        self._open.set()

    def flow(self) -> None:
        """End a stall: what was held back goes on."""
        self._flows.set()

    def heal(self) -> None:
        """Carry everything at once again, whatever was to break."""
        self._break = self._wanted_answer = None
        self.delay_s = 0.0
        self.let_in()
        self.flow()
        self.passed.clear()

    async def close(self) -> None:
        """Cut everything and listen no more."""
        self._cut_all()
        self._flows.set()
        if self._server is not None:
            self._server.close()
        await self._tasks.close()
        if self._server is not None:
            await self._server.wait_closed()

    async def _carry(self, dialler: asyncio.StreamReader, to_dialler: asyncio.StreamWriter) -> None:
        if not self._open.is_set():
            to_dialler.transport.abort()
            return
        try:
            listener, to_listener = await asyncio.open_connection("127.0.0.1", self._port)
        except OSError:
            to_dialler.transport.abort()
            return
        both = {to_dialler, to_listener}
        self._links |= both
        dialled = self._console_dials
        directions = [
            self._tasks.spawn("to the listener", self._pump(dialler, to_listener, of_commands=dialled)),
            self._tasks.spawn("to the dialler", self._pump(listener, to_dialler, of_commands=not dialled)),
        ]
        try:
            await asyncio.wait(directions, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for one in directions:
                one.cancel()
            self._links -= both
            for end in both:
                end.close()
                with contextlib.suppress(OSError):
                    await end.wait_closed()

    async def _pump(
        self, source: asyncio.StreamReader, to: asyncio.StreamWriter, *, of_commands: bool
    ) -> None:
        frames = FrameReader()
        with contextlib.suppress(OSError):
            while data := await source.read(_READ):
                if self.delay_s:
                    await asyncio.sleep(self.delay_s)
                for frame in frames.feed(data):
                    await self._flows.wait()
                    due = self._due_at(frame.said, of_commands=of_commands)
                    if due is None:
                        to.write(frame.raw)
                    elif not await self._break_at(due, frame, to):
                        return
                    self.passed.append(frame.said)
                await to.drain()

    def _due_at(self, said: dict[str, Any], *, of_commands: bool) -> Break | None:
        due = self._break
        if due is None or not self._is_place(due, said, of_commands=of_commands):
            return None
        self._break = None
        return due

    async def _break_at(self, due: Break, frame: Frame, to: asyncio.StreamWriter) -> bool:
        """Break at this frame; true when the connection goes on, after a stall."""
        size = len(frame.raw)
        if due.point in (Point.BEFORE_COMMAND, Point.BEFORE_RESULT):
            through = 0
        elif due.point in (Point.AFTER_COMMAND, Point.AFTER_RESULT):
            through = size
        else:
            # At least one byte passes, and at least one does not.
            through = min(max(1, int(size * due.passed)), size - 1)
        to.write(frame.raw[:through])
        await to.drain()
        if due.stalls:
            self._flows.clear()
            self.has_cut.set()
            await self._flows.wait()
            to.write(frame.raw[through:])
            await to.drain()
            return not to.is_closing()
        self._open.clear()
        self._cut_all()
        self.has_cut.set()
        return False

    def _is_place(self, due: Break, said: dict[str, Any], *, of_commands: bool) -> bool:
        if of_commands and said.get("type") == "command":
            if due.tool not in [action["tool_name"] for action in said.get("actions") or []]:
                return False
            self._wanted_answer = said.get("response_id")
            return due.point in _OF_COMMAND
        return (
            not of_commands
            and said.get("type") == "command_results"
            and self._wanted_answer is not None
            and said.get("prev_response_id") == self._wanted_answer
            and due.point not in _OF_COMMAND
        )

    def _cut_all(self) -> None:
        # Closed and not aborted: a reset could take back what had passed, and the point would not be exact.
        for end in self._links:
            end.close()


@asynccontextmanager
async def cutting_proxy(port: int, *, console_dials: bool = False) -> AsyncIterator[CuttingProxy]:
    """A proxy in front of whoever listens at this port of loopback: the console, or the device."""
    proxy = CuttingProxy(port, console_dials=console_dials)
    await proxy.start()
    try:
        yield proxy
    finally:
        await proxy.close()
