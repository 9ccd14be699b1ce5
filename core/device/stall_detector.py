"""Detects that the process stood still, to find the earliest time at which a frame may have arrived.

While a laptop sleeps, a machine is paused or the process is stopped, frames wait in the socket's buffer, and
the console may have given up on them. Their deadlines count from the beginning of the standstill.
"""

from __future__ import annotations

import asyncio
import sys
import time

_BEAT_S = 1.0
_STANDSTILL_S = 3.0
# For this long after a standstill, frames that are read may have arrived before its end.
_CATCHING_UP_S = 1.0


class LoopThatCountsSleep(asyncio.SelectorEventLoop):
    """An event loop whose clock also counts the machine's sleep, so that sleep does not delay deadlines."""

    if sys.platform == "linux":

        def time(self) -> float:
            return time.clock_gettime(time.CLOCK_BOOTTIME)


class StallDetector:
    """Records when the loop stood still, until `stop`. Times are seconds on the loop's clock."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._last = loop.time()
        self._stood_from = self._stood_until = float("-inf")
        self._next = loop.call_later(_BEAT_S, self._beat)

    def stop(self) -> None:
        """Stop recording."""
        self._next.cancel()

    def _beat(self) -> None:
        self._note(self._loop.time())
        self._next = self._loop.call_later(_BEAT_S, self._beat)

    def arrival(self) -> float:
        """The earliest time at which a frame that is read now may have arrived."""
        now = self._loop.time()
        self._note(now)
        return self._stood_from if now - self._stood_until < _CATCHING_UP_S else now

    def _note(self, now: float) -> None:
        if now - self._last > _STANDSTILL_S:
            self._stood_from, self._stood_until = self._last, now
        self._last = now
