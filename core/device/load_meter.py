"""How loaded this machine is, for heartbeats."""

from __future__ import annotations

import psutil

from core.aip.extras import Metrics


class LoadMeter:
    """Measures the processor between two readings: psutil's own interval is shared with whoever else asks."""

    def __init__(self) -> None:
        self._last = _times()

    def read(self) -> Metrics:
        """The load since the last reading. Blocks on the operating system's counters."""
        busy, total = _times()
        spent = total - self._last[1]
        percent = (busy - self._last[0]) / spent * 100 if spent > 0 else 0.0
        self._last = (busy, total)
        return Metrics(
            cpu_percent=round(min(100.0, max(0.0, percent)), 1),
            memory_percent=round(min(100.0, max(0.0, psutil.virtual_memory().percent)), 1),
        )


def _times() -> tuple[float, float]:
    """Seconds that all processors were busy, and those that they had."""
    times = psutil.cpu_times()
    # A guest's time is counted in `user` and `nice` already.
    total = sum(times) - getattr(times, "guest", 0.0) - getattr(times, "guest_nice", 0.0)
    idle = times.idle + getattr(times, "iowait", 0.0)
    return total - idle, total
