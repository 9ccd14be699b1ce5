"""One turn of the loop: as long as it lasts, nothing else in this process has happened."""

from __future__ import annotations

import asyncio


class Turn:
    """Begins where it is made, and is over as soon as the loop was given up, for however short a time."""

    __slots__ = ("over",)

    def __init__(self) -> None:
        self.over = False
        # Whoever gives up the loop comes back after what was due before: asyncio's queue keeps its order.
        asyncio.get_running_loop().call_soon(self._end)

    def _end(self) -> None:
        self.over = True
