"""Telling others at a bounded rate: many changes of one thing become one report of how it stands."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)

UPDATES_A_SECOND = 30


class Coalescer(Generic[Key]):
    """Calls `report` once for each key that was marked, at most thirty times a second."""

    def __init__(self, report: Callable[[Key], None]) -> None:
        self._report = report
        self._marked: dict[Key, None] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._last = float("-inf")
        self._closed = False

    def mark(self, key: Key) -> None:
        """This thing has changed."""
        if self._closed:
            return
        self._marked[key] = None
        if self._timer is None:
            loop = asyncio.get_running_loop()
            wait = max(0.0, self._last + 1 / UPDATES_A_SECOND - loop.time())
            self._timer = loop.call_later(wait, self.flush)

    def flush(self) -> None:
        """Report what is marked now, without waiting."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not self._marked:
            return
        self._last = asyncio.get_running_loop().time()
        marked, self._marked = self._marked, {}
        for key in marked:
            self._report(key)

    def close(self) -> None:
        """Report nothing any more."""
        self._closed = True
        self._marked.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
