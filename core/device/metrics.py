"""Measures this machine's load, for heartbeats and for tools."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable

import psutil

from core.aip.extensions import Metrics

# The kernel counts in hundredths of a second: over a shorter time, a single count distorts the share.
_SHORTEST_S = 0.2
# Over a longer time, the average no longer shows the present load.
_LONGEST_S = 30.0


class LoadMeter:
    """Measures the processors between two readings of its own: all callers of psutil share one interval."""

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


class CpuSampler:
    """Measures how busy the processors are, for any number of callers at any time. Thread-safe."""

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self._clock = clock
        self._sleep = sleep
        self._lock = threading.Lock()
        self._percent: float | None = None
        self._at = clock()
        self._last: tuple[float, float] | None = None
        # Where users may not read the counters, the device's other tools must still work.
        with contextlib.suppress(OSError, psutil.Error):
            self._last = _times()

    def is_instant(self) -> bool:
        """Whether `read` returns without a wait, since it has an earlier reading to compare with."""
        age = self._clock() - self._at
        if self._last is None or age >= _LONGEST_S:
            return False
        return self._percent is not None or age >= _SHORTEST_S

    def read(self) -> float:
        """The share in percent since the last reading, or over 0.2 s if there is none from the last 30 s.

        Within 0.2 s of the last reading it returns the same value. It blocks for 0.2 s where `is_instant` is
        False.
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
    """The busy time and the total time of all processors, in seconds."""
    times = psutil.cpu_times()
    # `user` and `nice` already include the time of guests.
    total = sum(times) - getattr(times, "guest", 0.0) - getattr(times, "guest_nice", 0.0)
    idle = times.idle + getattr(times, "iowait", 0.0)
    return total - idle, total
