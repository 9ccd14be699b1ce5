"""How slow the machine is at the moment, so that a bound in seconds says the same on a busy one.

    for one in within(0.5):
        with one:
            table.grab()

takes one to five tries and fails when none of them kept to half a second of the reference machine. Only
`make bench` holds the tests to that (`pytest --pace`), each file in a process of its own. In `make test`
thousands of tests have filled the process's memory before, which makes the same work up to twice as long, and
the machine may be any. There a bound has `HANGS_TIMES` its length and at least `HANGS_S`, so that what has
lost its bound altogether still fails, and no slow machine does.

A try that took longer is held against the pace of this machine: right beside what was measured, on the same
clock and about as long, a fixed piece of work runs, the yardstick. As many times longer as that takes than on
the reference machine, so much longer may the rest take.

The reference, `REFERENCE_S`, is the least the yardstick was ever seen to take on the machine these bounds
were set on (two virtual processors of an AMD EPYC server, CPython 3.11) in a quiet moment. A quicker machine
gives no less room than the bound says, and on however slow a one it grows to at most `MOST` times itself.
"""

from __future__ import annotations

import gc
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Self

REFERENCE_S = 0.00117
MOST = 6.0
TRIES = 5
HANGS_TIMES = 30.0
HANGS_S = 2.0

strict = False
"""Whether bounds hold as they are written: `pytest --pace`."""

# A processor is given away in slices of some milliseconds: what is shorter may not see its neighbours.
_SHORTEST_S, _LONGEST_S = 0.025, 0.06
_BLOCK = bytes(range(256)) * 1024

Clock = Callable[[], float]


def yardstick() -> int:
    """Do the fixed piece of work: objects, numbers and text in Python, and some memory in C."""
    kept: dict[int, tuple[int, str]] = {}
    for number in range(6_000):
        kept[number % 499] = (number, str(number))
    words = sorted(kept.values(), key=lambda one: one[1])
    return zlib.crc32(_BLOCK.translate(_BLOCK[:256])) + sum(one[0] for one in words)


def slowness(clock: Clock = time.perf_counter, for_s: float = _SHORTEST_S) -> float:
    """Measure how many times slower than the reference machine this one is now: 1 to `MOST`.

    Args:
        clock: the one the bound is measured with; a neighbour takes wall time, and less of a thread's own.
        for_s: about how long to measure, in seconds of the reference machine.
    """
    spent, times = _walk(clock, for_s)
    return _ratio(spent, times)


def _walk(clock: Clock, for_s: float) -> tuple[float, int]:
    times = max(1, round(for_s / REFERENCE_S))
    collects = gc.isenabled()
    # What else the test keeps in memory is not the machine's doing.
    gc.disable()
    try:
        began = clock()
        for _ in range(times):
            yardstick()
        return clock() - began, times
    finally:
        if collects:
            gc.enable()


def _ratio(spent: float, times: int) -> float:
    return min(MOST, max(1.0, spent / (times * REFERENCE_S)))


class Try:
    """One measurement against a bound of `limit_s` seconds of the reference machine.

    `seconds` and `kept` hold after the `with` block. A block that measures by itself, such as the worst of
    many steps, sets `seconds` in it. What keeps to the bound as it stands needs no yardstick, and walks none.
    """

    def __init__(self, limit_s: float, clock: Clock = time.perf_counter, again: bool = False) -> None:
        self.seconds: float | None = None
        self.slowness = 1.0
        self._limit_s = limit_s
        self._clock = clock
        self._again = again

    def __enter__(self) -> Self:
        self._before = _walk(self._clock, _SHORTEST_S) if self._again else (0.0, 0)
        self._began = self._clock()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        took = self._clock() - self._began
        if error is not None:
            return
        self.seconds = took if self.seconds is None else self.seconds
        if not self.kept:
            spent, times = _walk(self._clock, min(_LONGEST_S, max(_SHORTEST_S, took)))
            self.slowness = _ratio(self._before[0] + spent, self._before[1] + times)

    @property
    def kept(self) -> bool:
        """Whether it took less than the bound, at the pace of this machine."""
        assert self.seconds is not None, "nothing was measured: `with` was not entered"
        return self.seconds < self._limit_s * self.slowness

    def __repr__(self) -> str:
        return f"{(self.seconds or 0) * 1000:.1f} ms on a machine {self.slowness:.2f} times as slow"


def within(limit_s: float, *, tries: int = TRIES, clock: Clock = time.perf_counter) -> Iterator[Try]:
    """Give tries until one of them keeps to the bound: strictly, `limit_s` seconds of the reference machine.

    Raises:
        AssertionError: none of `tries` did; the message has all of them.
    """
    limit_s = limit_s if strict else max(HANGS_S, HANGS_TIMES * limit_s)
    seen: list[Try] = []
    while len(seen) < tries:
        one = Try(limit_s, clock, again=bool(seen))
        yield one
        if one.kept:
            return
        seen.append(one)
    raise AssertionError(f"more than {limit_s * 1000:.0f} ms: {seen}")


@contextmanager
def once_within(limit_s: float) -> Iterator[Try]:
    """Hold a block that cannot be run again to a bound, as `within` does with one try.

    Raises:
        AssertionError: it took longer.
    """
    for only in within(limit_s, tries=1):
        with only:
            yield only
