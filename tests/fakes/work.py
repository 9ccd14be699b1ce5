"""How much work is done, counted, so that a bound says the same on every machine."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any

import psutil


@dataclass
class Calls:
    """How many functions were called in this thread, Python's and those in C."""

    count: int = 0

    def _counted(self, frame: FrameType, event: str, arg: Any) -> None:
        if event in ("call", "c_call"):
            self.count += 1


@contextmanager
def calls_counted() -> Iterator[Calls]:
    """Count the calls of a block."""
    calls, before = Calls(), sys.getprofile()
    sys.setprofile(calls._counted)
    try:
        yield calls
    finally:
        sys.setprofile(before)


@contextmanager
def most_calls(limit: int) -> Iterator[None]:
    """Hold a block to a number of calls.

    What grows with the square of a text, or for ever, makes a hundred times as many. The numbers that stand
    in tests are about three times what was counted, because versions of Python differ a little.

    Raises:
        AssertionError: it made more.
    """
    with calls_counted() as calls:
        yield
    assert calls.count <= limit, f"{calls.count:,} calls, more than {limit:,}"


class TurnCalls:
    """The calls made in the turns of a loop, and the most of one turn; `next_turn` tells the end of each.

    What a turn does in calls is the same on a busy machine; timers that come due at once on one share a turn,
    so a limit leaves room for some of them.
    """

    def __init__(self) -> None:
        self.most = 0
        self._calls = Calls()
        self._before = sys.getprofile()
        sys.setprofile(self._calls._counted)

    def next_turn(self) -> None:
        """A turn ends and the next one begins."""
        self.most = max(self.most, self._calls.count)
        self._calls.count = 0

    def close(self) -> None:
        """Count no more; the turn that is running counts."""
        sys.setprofile(self._before)
        self.next_turn()

    def hold_to(self, limit: int) -> None:
        """Check that no turn made more calls.

        Raises:
            AssertionError: one did.
        """
        assert self.most <= limit, f"{self.most:,} calls in one turn, more than {limit:,}"


@contextmanager
def most_calls_a_turn(limit: int) -> Iterator[None]:
    """Hold each turn of the running asyncio loop to a number of calls; for Qt's: `tests.fakes.qt_turns`.

    Raises:
        AssertionError: one turn made more.
    """
    turns, loop = TurnCalls(), asyncio.get_running_loop()

    handle: asyncio.Handle

    def tick() -> None:
        nonlocal handle
        turns.next_turn()
        handle = loop.call_soon(tick)

    handle = loop.call_soon(tick)
    try:
        yield
    finally:
        handle.cancel()
        turns.close()
    turns.hold_to(limit)


def bytes_read() -> int:
    """What this process has read from files so far."""
    return psutil.Process().io_counters().read_chars


@dataclass(frozen=True)
class Share:
    """The longest turn of a loop beside all that this process did meanwhile, in seconds of a processor."""

    longest_s: float
    all_s: float

    @property
    def of_all(self) -> float:
        """From 0 to 1: near 1 where everything was done in one turn."""
        return self.longest_s / self.all_s


async def longest_turn(work: Callable[[], Awaitable[object]]) -> Share:
    """Do something and measure how much of it kept the running loop from its other turns.

    Both times are of processors, this thread's and all threads': a busy machine changes neither.
    """
    worst = 0.0
    real = asyncio.events.Handle._run

    def timed(handle: asyncio.Handle) -> None:
        nonlocal worst
        began = time.thread_time()
        real(handle)
        worst = max(worst, time.thread_time() - began)

    asyncio.events.Handle._run = timed  # type: ignore[method-assign,assignment]
    began = time.process_time()
    try:
        await work()
    finally:
        asyncio.events.Handle._run = real  # type: ignore[method-assign]
    return Share(worst, time.process_time() - began)
