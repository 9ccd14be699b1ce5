"""Sends a call's progress to the console: merged, paced and limited, however fast the tool reports it.

Texts of several streams are sent in the order in which they were reported, as long as the streams do not
change more often than a console takes frames; then texts of one stream are merged across the others.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal

from core.aip.extensions import Progress
from core.tasks import TaskGroupOwner
from core.token_bucket import TokenBucket

Stream = Literal["stdout", "stderr", "note"]
Send = Callable[[str], Awaitable[None]]

# If a tool prints faster than the link sends, its oldest text is dropped, and the next frame says so.
_MOST_HELD = 256 * 1024
_FRAME_CHARACTERS = 65_536
_MOST_BYTES_EACH = 4
# The last text is sent only if the link carries it in a moment; the time-out is for a link that stands still.
_MOST_TAKEN_S = 0.25
_LAST_TEXT_S = 2.0
# Runs of text of one stream that wait. These, the extra frames and one frame each pause stay within what a
# console takes of one call: 200 frames at once, 50 a second (`core.aip.limits.LinkLimits`).
_MOST_RUNS = 100
_EXTRA_BURST, _EXTRA_PER_S = 80.0, 20.0


@dataclass(slots=True)
class _Run:
    """Text of one stream that was reported without text of another between."""

    stream: Stream
    parts: deque[str]


class CallProgress:
    """A `Report` for one call. May be called from any thread; `close` must come before the result is sent."""

    def __init__(
        self,
        call_id: str,
        send: Send,
        tasks: TaskGroupOwner,
        pause_s: float = 0.05,
        takes_s: Callable[[int], float] = lambda size: 0.0,
    ) -> None:
        """`takes_s` estimates how many seconds the link takes to carry so many bytes."""
        self._takes_s = takes_s
        self._call_id = call_id
        self._send = send
        self._tasks = tasks
        self._pause_s = pause_s
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._runs: deque[_Run] = deque()
        self._extra = TokenBucket(_EXTRA_BURST, _EXTRA_PER_S)
        self._sizes: dict[Stream, int] = {}
        self._size = 0
        self._dropped: dict[Stream, int] = {}
        self._state: tuple[float | None, float | None, str] | None = None
        self._seq = 0
        self._pump: asyncio.Task[None] | None = None
        self._closed = False

    def __call__(
        self,
        text: str = "",
        *,
        stream: Stream = "note",
        done: float | None = None,
        total: float | None = None,
        unit: str = "",
    ) -> None:
        """Add one report to the next frame."""
        if threading.get_ident() == self._thread:
            self._take(text, stream, done, total, unit)
        else:
            self._loop.call_soon_threadsafe(self._take, text, stream, done, total, unit)

    async def close(self) -> None:
        """Send the remaining text, as far as the link takes it at once; later reports are ignored.

        The result that follows has the whole text, so a slow link does not carry it a second time.
        """
        if self._pump is None:
            self._closed = True
            return
        self._closed = True
        pump, self._pump = self._pump, None
        pump.cancel()
        await asyncio.wait([pump])
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LAST_TEXT_S):
                while self._has_news() and self._takes_s(self._size) < _MOST_TAKEN_S:
                    await self._send_one()

    @property
    def held(self) -> int:
        """The number of characters waiting to be sent."""
        return self._size

    def _take(self, text: str, stream: Stream, done: float | None, total: float | None, unit: str) -> None:
        if self._closed:
            return
        if text:
            self._keep(text, stream)
        if done is not None or total is not None or unit:
            self._state = (done, total, unit[:200])
        if self._pump is None and self._has_news():
            self._pump = self._tasks.spawn("progress", self._pump_out())

    def _keep(self, text: str, stream: Stream) -> None:
        over = len(text) - _MOST_HELD
        if over > 0:
            self._drop(stream, over)
            text = text[over:]
        self._append(text, stream)
        self._resize(stream, len(text))
        while self._size > _MOST_HELD:
            longest = max(self._sizes, key=lambda name: self._sizes[name])
            run = next(run for run in self._runs if run.stream == longest)
            oldest = run.parts.popleft()
            too_much = self._size - _MOST_HELD
            if len(oldest) > too_much:
                run.parts.appendleft(oldest[too_much:])
                oldest = oldest[:too_much]
            if not run.parts:
                self._runs.remove(run)
            self._resize(longest, -len(oldest))
            self._drop(longest, len(oldest))

    def _append(self, text: str, stream: Stream) -> None:
        run = self._runs[-1] if self._runs and self._runs[-1].stream == stream else None
        if run is None and len(self._runs) >= _MOST_RUNS:
            run = next((run for run in reversed(self._runs) if run.stream == stream), None)
        if run is None:
            run = _Run(stream, deque())
            self._runs.append(run)
        run.parts.append(text)

    def _resize(self, stream: Stream, by: int) -> None:
        self._sizes[stream] = self._sizes.get(stream, 0) + by
        self._size += by

    def _drop(self, stream: Stream, characters: int) -> None:
        self._dropped[stream] = self._dropped.get(stream, 0) + characters

    def _has_news(self) -> bool:
        return self._size > 0 or self._state is not None

    async def _pump_out(self) -> None:
        while True:
            while self._has_news():
                await self._send_one()
                # While one stream alone has text, waiting merges more of it into a frame.
                if len(self._runs) < 2 or not self._extra.spend():
                    await asyncio.sleep(self._pause_s)
            # Nothing is waiting: the next report starts a new pump.
            self._pump = None
            return

    async def _send_one(self) -> None:
        """Send one frame with text of one stream and the latest progress numbers."""
        stream: Stream = "note"
        text = ""
        if self._size:
            stream = self._runs[0].stream
            text = self._next_text(stream)
        done, total, unit = self._state or (None, None, "")
        self._state = None
        frame = Progress(
            call_id=self._call_id,
            seq=self._seq,
            stream=stream,
            text=text,
            done=_finite(done),
            total=_finite(total),
            unit=unit,
        )
        self._seq += 1
        await self._send(frame.model_dump_json())

    def _next_text(self, stream: Stream) -> str:
        said = ""
        if dropped := self._dropped.pop(stream, 0):
            said = f"\n[{dropped} characters were left out: the link is slower than the output]\n"
        run = self._runs.popleft()
        merged = "".join(run.parts)
        room = _FRAME_CHARACTERS - len(said)
        # At most 64 KiB on the wire: characters beyond ASCII take up to four bytes.
        text = merged[:room] if merged[:room].isascii() else merged[: room // _MOST_BYTES_EACH]
        rest = merged[len(text) :]
        if rest:
            self._runs.appendleft(_Run(stream, deque([rest])))
        self._resize(stream, -len(text))
        # Lone surrogates would make the frame invalid; the result has the exact text.
        return (said + text).encode("utf-8", "replace").decode("utf-8")


def _finite(value: float | None) -> float | None:
    return value if value is not None and abs(value) < float("inf") else None
