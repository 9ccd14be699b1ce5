"""The turns of an event loop, counted: how much is done in one of them says more than how long it took."""

from __future__ import annotations

import asyncio


class Turns:
    """Counts the turns of the running loop, as one who wants each of them."""

    def __init__(self) -> None:
        self.count = 0
        self._loop = asyncio.get_running_loop()
        self._handle = self._loop.call_soon(self._tick)

    def _tick(self) -> None:
        self.count += 1
        self._handle = self._loop.call_soon(self._tick)

    def close(self) -> None:
        """Count no more."""
        self._handle.cancel()
