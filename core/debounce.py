"""Debouncing: reports changed objects at a bounded rate; several changes of an object become one report.

A thousand changed objects are reported over several turns of the loop, so that it is never blocked for long.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)

UPDATES_A_SECOND = 30
REPORTS_A_TURN = 50


class Coalescer(Generic[Key]):
    """Calls `report` once for each marked key, at most thirty times a second per key."""

    def __init__(self, report: Callable[[Key], None]) -> None:
        self._report = report
        self._marked: dict[Key, None] = {}
        self._due: list[Key] = []
        self._timer: asyncio.TimerHandle | None = None
        self._last = float("-inf")
        self._closed = False

    def mark(self, key: Key) -> None:
        """Note that the object of this key has changed."""
        if self._closed:
            return
        self._marked[key] = None
        if self._timer is None:
            loop = asyncio.get_running_loop()
            wait = max(0.0, self._last + 1 / UPDATES_A_SECOND - loop.time())
            self._timer = loop.call_later(wait, self._take_turn)

    def flush(self) -> None:
        """Report all marked keys now, without waiting."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        due = dict.fromkeys([*self._due, *self._marked])
        self._due.clear()
        self._marked.clear()
        if due:
            self._last = asyncio.get_running_loop().time()
        for key in due:
            self._report(key)

    def _take_turn(self) -> None:
        """Report a slice of the marked keys; the next slice follows in the loop's next turn."""
        loop = asyncio.get_running_loop()
        if not self._due:
            self._due = list(self._marked)
            self._marked.clear()
            self._last = loop.time()
        turn, self._due = self._due[:REPORTS_A_TURN], self._due[REPORTS_A_TURN:]
        self._timer = loop.call_later(0, self._take_turn) if self._due else None
        for key in turn:
            self._report(key)
        if self._timer is None and self._marked and not self._closed:
            self._timer = loop.call_later(1 / UPDATES_A_SECOND, self._take_turn)

    def close(self) -> None:
        """Discard the marked keys and report nothing from now on."""
        self._closed = True
        self._due.clear()
        self._marked.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
