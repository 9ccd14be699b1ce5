"""When a frame came, at the earliest: a process that stood still reads late what came meanwhile.

A laptop that slept, a machine that was paused, a stopped process: the frames wait in the socket's buffer, and
the console that sent them has long given up. Their deadlines count from where the standstill began.
"""

from __future__ import annotations

import asyncio
import sys
import time

_BEAT_S = 1.0
_STANDSTILL_S = 3.0
# For as long after it, what is read may have come before its end.
_CATCHING_UP_S = 1.0


class LoopThatCountsSleep(asyncio.SelectorEventLoop):
    """A loop whose clock goes on while the machine sleeps, so that no deadline is put off by that."""

    if sys.platform == "linux":

        def time(self) -> float:
            return time.clock_gettime(time.CLOCK_BOOTTIME)


class Pulse:
    """Notes when the loop stood still, until `stop`. Times are seconds on the loop's clock."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._last = loop.time()
        self._stood_from = self._stood_until = float("-inf")
        self._next = loop.call_later(_BEAT_S, self._beat)

    def stop(self) -> None:
        """Note nothing any more."""
        self._next.cancel()

    def _beat(self) -> None:
        self._note(self._loop.time())
        self._next = self._loop.call_later(_BEAT_S, self._beat)

    def arrival(self) -> float:
        """When a frame that is read now came, at the earliest."""
        now = self._loop.time()
        self._note(now)
        return self._stood_from if now - self._stood_until < _CATCHING_UP_S else now

    def _note(self, now: float) -> None:
        if now - self._last > _STANDSTILL_S:
            self._stood_from, self._stood_until = self._last, now
        self._last = now
