"""One turn of the loop: as long as it lasts, nothing that waited for the loop has gone on."""

from __future__ import annotations

import asyncio


class Turn:
    """Begins where it is made, and is over as soon as the loop was given up, for however short a time."""

    __slots__ = ("_loop", "looked", "over")

    def __init__(self) -> None:
        """`looked`: whether the policy's file was looked at while it lasts."""
        self.over = self.looked = False
        self._loop = asyncio.get_running_loop()
        # Whoever gives up the loop comes back after what was due before: asyncio's queue keeps its order.
        self._loop.call_soon(self._end)

    def lasts(self) -> bool:
        """Whether it is the present turn of the loop that runs now."""
        # A loop that was closed in the middle of a turn never ends it.
        return not self.over and self._loop is asyncio.get_running_loop()

    def _end(self) -> None:
        self.over = True
