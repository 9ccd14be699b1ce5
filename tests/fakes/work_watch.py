"""How long the window's thread works without coming back to its loop, however busy the machine is."""

from __future__ import annotations

import time

from tests.bench.lines import StallWatch


class WorkWatch(StallWatch):
    """As `StallWatch`, but in time that the thread itself has used.

    Building a form takes dozens of turns, and the longest one counts: where four processes share a processor,
    one of the turns is always given away in the middle. Another thread that keeps Python's lock is not seen.
    """

    def __init__(self) -> None:
        self._used = time.thread_time()
        super().__init__()

    def _tick(self) -> None:
        used = time.thread_time()
        self.worst_ms = max(self.worst_ms, (used - self._used) * 1000)
        self._used = used
        self._timer = self._loop.call_later(self.EVERY, self._tick)
