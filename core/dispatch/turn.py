"""A turn of the event loop: while it lasts, no other task has run."""

from __future__ import annotations

import asyncio


class Turn:
    """Begins when it is created, and is over as soon as control has returned to the loop, however briefly."""

    __slots__ = ("_loop", "looked", "over")

    def __init__(self) -> None:
        """`looked`: whether the policy file was checked during this turn."""
        self.over = self.looked = False
        self._loop = asyncio.get_running_loop()
        # asyncio's ready queue is FIFO: `_end` runs before a task that yields now is resumed.
        self._loop.call_soon(self._end)

    def lasts(self) -> bool:
        """Whether this is still the present turn of the running loop."""
        # A loop that was closed during a turn never runs `_end`.
        return not self.over and self._loop is asyncio.get_running_loop()

    def _end(self) -> None:
        self.over = True
