"""How loaded this machine is: for heartbeats, and for whoever asks."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable

import psutil

from core.aip.extensions import Metrics

# The kernel counts in hundredths of a second: over less than this, one of them more is everything.
_SHORTEST_S = 0.2
# Over more than this, what is measured is no longer what the machine does now.
_LONGEST_S = 30.0


class LoadMeter:
    """Measures the processor between two readings: psutil's own interval is shared with whoever else asks."""

    def __init__(self) -> None:
        self._last = _times()

    def read(self) -> Metrics:
        """The load since the last reading. Blocks on the operating system's counters."""
        busy, total = _times()
        percent = _percent(self._last, (busy, total))
        self._last = (busy, total)
        return Metrics(
            cpu_percent=percent,
            memory_percent=round(min(100.0, max(0.0, psutil.virtual_memory().percent)), 1),
        )


class CpuShare:
    """How busy the processors are, for any number of askers at any times. For any thread."""

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self._clock = clock
        self._sleep = sleep
        self._lock = threading.Lock()
        self._percent: float | None = None
        self._at = clock()
        self._last: tuple[float, float] | None = None
        # A machine that hides these facts from its users has other tools to offer.
        with contextlib.suppress(OSError, psutil.Error):
            self._last = _times()

    def is_instant(self) -> bool:
        """Whether `read` need not wait to have something to compare with."""
        age = self._clock() - self._at
        if self._last is None or age >= _LONGEST_S:
            return False
        return self._percent is not None or age >= _SHORTEST_S

    def read(self) -> float:
        """The share in percent: since the last reading, or over a fifth of a second where that was long ago.

        Asked again sooner than that, the answer is the same. Blocks for as long where `is_instant` says no.
        """
        with self._lock:
            age = self._clock() - self._at
            if self._percent is not None and age < _SHORTEST_S:
                return self._percent
            before = self._last if _SHORTEST_S <= age < _LONGEST_S else None
        if before is None:
            before = _times()
            self._sleep(_SHORTEST_S)
        now = _times()
        with self._lock:
            self._last, self._at, self._percent = now, self._clock(), _percent(before, now)
            return self._percent


def _percent(before: tuple[float, float], now: tuple[float, float]) -> float:
    spent = now[1] - before[1]
    share = (now[0] - before[0]) / spent * 100 if spent > 0 else 0.0
    return round(min(100.0, max(0.0, share)), 1)


def _times() -> tuple[float, float]:
    """Seconds that all processors were busy, and those that they had."""
    times = psutil.cpu_times()
    # A guest's time is counted in `user` and `nice` already.
    total = sum(times) - getattr(times, "guest", 0.0) - getattr(times, "guest_nice", 0.0)
    idle = times.idle + getattr(times, "iowait", 0.0)
    return total - idle, total
