"""One frame at a time, for devices that read the next one only when the last is answered."""

from __future__ import annotations

import asyncio

from core.aip.limits import LinkLimits
from core.errors import ErrorCode, Refused


class Turns:
    """The queue before one device: first come, first served, bounded in length and in time."""

    def __init__(self, limits: LinkLimits) -> None:
        self._limits = limits
        self._lock = asyncio.Lock()
        self.waiting = 0

    async def take(self, name: str) -> None:
        """Wait for the device `name` to be free, and hold it until `give`.

        Raises:
            Refused: too many wait already, or the turn did not come in time (code `timeout`).
        """
        if not self._lock.locked() and not self.waiting:
            await self._lock.acquire()
            return
        if self.waiting >= self._limits.queue_most:
            raise Refused(
                f"{self.waiting} commands wait for {name} already, which takes one at a time; "
                "nothing was sent",
                ErrorCode.TIMEOUT,
            )
        self.waiting += 1
        try:
            async with asyncio.timeout(self._limits.queue_s):
                await self._lock.acquire()
        except TimeoutError:
            raise Refused(
                f"{name} takes one command at a time and was busy for {self._limits.queue_s:g} s; "
                "nothing was sent",
                ErrorCode.TIMEOUT,
            ) from None
        finally:
            self.waiting -= 1

    def give(self) -> None:
        """Let the next one go."""
        self._lock.release()
