"""Sends large frames in parts, and only as many bytes ahead as the line carries in a moment.

Nothing can overtake what this computer and the network have taken: on a line of 56 kbit/s the usual buffers
hold what takes minutes. So a window of unacknowledged bytes follows the line. Each part is followed by a
WebSocket ping, whose pong says that the part has arrived, and the window is what the line carries in its
round trip time and `QUEUE_S` more. Pongs, cancels, heartbeats and small answers wait only for what is in the
window. A fast line has a large window, and is not slowed down.

A peer with `chunks` gets parts that other frames pass between. Any other peer gets one WebSocket message in
fragments, which only control frames pass; that is enough for its keepalive.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

from websockets.exceptions import ConnectionClosed
from websockets.protocol import State

from core.aip.chunks import MOST_AT_ONCE, MOST_STREAMS, pack_abandoned, pack_chunk
from core.aip.measured_connection import MeasuredConnection
from core.tasks import TaskGroupOwner

# How long what is sent ahead may take on the line, beyond its round trip time.
QUEUE_S = 0.4
FIRST_WINDOW = 12 * 1024
LEAST_WINDOW = 4 * 1024
MOST_WINDOW = 16 * 1024 * 1024
LEAST_CHUNK, MOST_CHUNK = 2 * 1024, 128 * 1024
# So few bytes tell nothing of a line's rate.
_SMALL = 1024
# A window holds so many parts, so that the next is on its way before the last is acknowledged.
_PARTS = 3
_RATES_KEPT = 8
# The round trip time without a queue of our own is measured again after so many seconds, or round trips.
_MEASURE_AGAIN_S, _MEASURE_AGAIN_TRIPS = 10.0, 20.0
# Peers may refuse messages of more than 4,096 fragments.
_MOST_FRAGMENTS = 4000


class FrameAbandoned(Exception):
    """A frame was abandoned before its last part was sent, so the peer has not got it."""


@dataclass(slots=True)
class Transfer:
    """A large frame that is being sent. `sent`: bytes handed to the line, of `total`."""

    subject: str
    total: int
    began_at: float
    sent: int = 0
    abandoned: bool = False
    on_part: Callable[[Transfer], None] | None = None

    @property
    def is_whole(self) -> bool:
        """Whether the last part was sent, so that the peer may have the frame."""
        return self.sent >= self.total


@dataclass(slots=True, eq=False)
class _Mark:
    """A ping behind a part. `position`: the connection's sent bytes; `acked`, `acked_at`: those before it.

    `limited`: the window had held the part back. `alone`: nothing of ours was under way before this ping.
    """

    position: int
    sent_at: float
    acked: int
    acked_at: float
    limited: bool
    alone: bool


class Window:
    """How many bytes may be under way, learnt from what is acknowledged, and when. Times in seconds."""

    def __init__(self) -> None:
        self.size = FIRST_WINDOW
        self.base_s: float | None = None
        self.measured_at = 0.0
        self._starting = True
        self._rates: deque[float] = deque(maxlen=_RATES_KEPT)

    @property
    def rate(self) -> float:
        """The bytes in a second that the line carried lately; 0 before the first were acknowledged."""
        return max(self._rates, default=0.0)

    @property
    def chunk(self) -> int:
        """The size of the next part."""
        return min(max(self.size // _PARTS, LEAST_CHUNK), MOST_CHUNK)

    def round_trip(self, seconds: float, now: float, *, alone: bool) -> None:
        """Note a round trip time; `alone`: nothing of ours was under way, so it replaces the earlier."""
        if alone or self.base_s is None or seconds < self.base_s:
            self.base_s, self.measured_at = seconds, now

    def is_old(self, now: float) -> bool:
        """Whether the round trip time has to be measured again."""
        base = self.base_s or 0.0
        return now - self.measured_at > max(_MEASURE_AGAIN_S, base * _MEASURE_AGAIN_TRIPS)

    def acknowledged(self, count: int, rate: float, round_trip: float, *, limited: bool) -> None:
        """Note that `count` more bytes arrived, at this rate; `limited`: the window had held them back.

        A rate counts when the line was full: because the window was, or because a queue has grown.
        """
        base = self.base_s or round_trip
        if count > _SMALL and (limited or rate > self.rate or round_trip > base + QUEUE_S):
            self._rates.append(rate)
        if self._starting and round_trip <= base + QUEUE_S / 2:
            # Three times as much with each round trip: TCP begins with twice, and should not wait for this.
            self.size = min(self.size + 2 * count, MOST_WINDOW)
            return
        self._starting = False
        if self._rates:
            self.size = int(min(max(self.rate * (base + QUEUE_S), LEAST_WINDOW), MOST_WINDOW))


class PacedSender:
    """Sends the frames of one connection."""

    def __init__(self, connection: MeasuredConnection) -> None:
        # Set once the features are agreed.
        self.chunked = False
        self.transfers: list[Transfer] = []
        self._queued: list[Transfer] = []
        self.window = Window()
        # How long the last frame that was acknowledged took there, and its pong back; 0 before the first.
        self.round_trip_s = 0.0
        self._connection = connection
        self._tasks = TaskGroupOwner("sender")
        self._turn = asyncio.Lock()
        self._marks: deque[_Mark] = deque()
        self._acked = 0
        self._acked_at = 0.0
        self._news = asyncio.Event()
        self._streams = 0

    async def send(
        self,
        frame: str | bytes,
        *,
        text: bool | None = None,
        subject: str = "",
        bulk: bool = False,
        on_part: Callable[[Transfer], None] | None = None,
    ) -> None:
        """Send a frame; returns when its last part was handed to the line.

        `subject` is the response id that it belongs to. `bulk`: one of many frames that are large together,
        so it waits for the window, too. `on_part` is called after each part of a large frame.
        If the caller is cancelled, a peer with `chunks` does not get the rest of a large frame.

        Raises:
            ConnectionClosed: the connection has ended; the peer may have got the frame.
            FrameAbandoned: `abandon` was called, and the peer has not got it.
        """
        if len(frame) <= self.window.chunk:
            if bulk:
                await self._send_in_turn(frame, text)
            else:
                await self._connection.send(frame, text=text)
            return
        data = frame.encode() if isinstance(frame, str) else frame
        transfer = Transfer(subject, len(data), asyncio.get_running_loop().time(), on_part=on_part)
        if self.chunked:
            await self._send_parts(data, transfer)
        else:
            is_text = isinstance(frame, str) if text is None else text
            # A message that stops in the middle would end the connection, so a cancelled caller leaves it.
            sending = self._tasks.spawn("fragments", self._send_fragments(data, is_text, transfer))
            if not await asyncio.shield(sending):
                raise self._connection.close_exc

    def takes_s(self, count: int) -> float | None:
        """Estimate how many seconds the line takes for `count` bytes; None while nothing is known of it."""
        return count / self.window.rate if self.window.rate else None

    def abandon(self, subject: str) -> bool:
        """Send no further part of the frame with this subject; False where none can be held back any more."""
        for transfer in (*self.transfers, *self._queued):
            if transfer.subject == subject and self.chunked and not transfer.is_whole:
                transfer.abandoned = True
                self._wake()
                return True
        return False

    async def _send_in_turn(self, frame: str | bytes, text: bool | None) -> None:
        async with self._turn:
            limited = await self._room()
            await self._connection.send(frame, text=text)
            await self._mark(limited)

    async def _send_parts(self, data: bytes, transfer: Transfer) -> None:
        view = memoryview(data)
        stream = 0
        async with self._under_way(transfer):
            try:
                while not transfer.is_whole:
                    # The lock is first come, first served: the parts of several frames take turns.
                    async with self._turn:
                        limited = await self._room(transfer)
                        if not stream:
                            self._streams += 1
                            stream = self._streams
                        offset = transfer.sent
                        part = view[offset : offset + self.window.chunk]
                        # Counted before: if this is cancelled, the part may be sent or not.
                        transfer.sent += len(part)
                        packed = pack_chunk(stream, transfer.total, offset, part, transfer.subject)
                        await self._connection.send(packed)
                        await self._mark(limited)
                    self._tell(transfer)
            except BaseException:
                if stream and not transfer.is_whole:
                    self._tasks.spawn("abandon", self._say_abandoned(stream, transfer))
                raise

    async def _send_fragments(self, data: bytes, is_text: bool, transfer: Transfer) -> bool:
        """Send one message in fragments; returns whether the connection lasted so long."""

        async def fragments() -> AsyncIterator[bytes]:
            least = len(data) // _MOST_FRAGMENTS + 1
            while not transfer.is_whole:
                limited = await self._room(transfer)
                part = data[transfer.sent : transfer.sent + max(self.window.chunk, least)]
                transfer.sent += len(part)
                yield part
                await self._mark(limited)
                self._tell(transfer)

        try:
            async with self._under_way(transfer):
                await self._connection.send(fragments(), text=is_text)
        except ConnectionClosed:
            return False
        return True

    @contextlib.asynccontextmanager
    async def _under_way(self, transfer: Transfer) -> AsyncIterator[None]:
        """Wait until the peer has room for another incomplete frame."""
        self._queued.append(transfer)
        try:
            while self.transfers and not transfer.abandoned and not self._has_place(transfer):
                await self._next_news()
        finally:
            self._queued.remove(transfer)
        self.transfers.append(transfer)
        try:
            yield
        finally:
            self.transfers.remove(transfer)
            self._wake()

    def _has_place(self, transfer: Transfer) -> bool:
        under_way = sum(other.total for other in self.transfers)
        return len(self.transfers) < MOST_STREAMS // 2 and under_way + transfer.total <= MOST_AT_ONCE

    async def _room(self, transfer: Transfer | None = None) -> bool:
        """Wait until the window has room; returns whether it had none.

        Raises:
            FrameAbandoned: the transfer was abandoned.
        """
        limited = False
        now = asyncio.get_running_loop().time()
        if not self._marks:
            # What was sent without a mark is small, and most of it has arrived long ago.
            self._acked = self._connection.sent_bytes
            if self.window.base_s is None or self.window.is_old(now):
                # Before the first part, so that the pong does not wait for that, nor the part for the pong.
                self.window.measured_at = now
                await self._mark(alone=True)
        elif self.window.is_old(now):
            await self._measure_alone()
        while True:
            if transfer is not None and transfer.abandoned:
                raise FrameAbandoned
            if self._connection.state is not State.OPEN:
                # Sending raises what has closed it.
                return limited
            if self._connection.sent_bytes - self._acked < self.window.size:
                return limited
            limited = True
            if not self._marks:
                # What is under way was sent without a mark, while this one waited.
                await self._mark(limited)
            await self._next_news()

    async def _measure_alone(self) -> None:
        """Let the line run empty in the middle of a transfer, and measure its round trip time."""
        await self._all_acknowledged()
        await self._mark(alone=True)
        await self._all_acknowledged()

    async def _all_acknowledged(self) -> None:
        while self._marks and self._connection.state is State.OPEN:
            await self._next_news()

    async def _mark(self, limited: bool = False, *, alone: bool = False) -> None:
        """Send a ping; its pong acknowledges everything sent before it."""
        now = asyncio.get_running_loop().time()
        if not self._marks:
            self._acked_at = now
        mark = _Mark(self._connection.sent_bytes, now, self._acked, self._acked_at, limited, alone)
        self._marks.append(mark)
        try:
            pong = await self._connection.ping()
        except BaseException:
            # It is cancelled, or the connection has ended: the pong is not waited for.
            with contextlib.suppress(ValueError):
                self._marks.remove(mark)
            self._wake()
            raise
        assert isinstance(pong, asyncio.Future)
        pong.add_done_callback(lambda done: self._acknowledge(mark, done))

    def _acknowledge(self, mark: _Mark, pong: asyncio.Future[float]) -> None:
        now = asyncio.get_running_loop().time()
        if mark in self._marks:
            # A pong acknowledges the pings before it as well.
            while self._marks.popleft() is not mark:
                pass
        if not pong.cancelled() and pong.exception() is None:
            round_trip = now - mark.sent_at
            self.round_trip_s = round_trip
            self.window.round_trip(round_trip, now, alone=mark.alone)
            count = mark.position - self._acked
            if count > 0 and now > mark.acked_at:
                rate = (mark.position - mark.acked) / (now - mark.acked_at)
                self._acked, self._acked_at = mark.position, now
                self.window.acknowledged(count, rate, round_trip, limited=mark.limited)
        self._wake()

    async def _say_abandoned(self, stream: int, transfer: Transfer) -> None:
        with contextlib.suppress(ConnectionClosed):
            await self._connection.send(pack_abandoned(stream, transfer.total, transfer.sent))

    def _tell(self, transfer: Transfer) -> None:
        if transfer.on_part is not None:
            transfer.on_part(transfer)

    def _wake(self) -> None:
        news, self._news = self._news, asyncio.Event()
        news.set()

    async def _next_news(self) -> None:
        await self._news.wait()
