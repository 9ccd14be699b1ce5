"""Filling the rows of a form little by little, so that a schema of hundreds of fields stops no window.

A row takes two to four milliseconds to be made. The first ones are there at once, which is all of an ordinary
tool; the others follow between whatever else the window does. What a row was given it holds from the start.
"""

from __future__ import annotations

import time
from collections import deque
from typing import Protocol

from PySide6.QtCore import QObject, Signal
from shiboken6 import isValid

from app.widgets.util import debounce

AT_ONCE = 6
"""Rows that are filled at once when the operator does something; a long list of choices counts as several."""
MOST_ROWS = 300
"""Rows of one form, beyond which what has rows inside is written as JSON."""
_SLICE_S = 0.006


class PendingRow(Protocol):
    """A row that is still to be filled."""

    @property
    def weight(self) -> int: ...
    def fill(self) -> None: ...


class LazyBuilder(QObject):
    """Fills the rows of one form.

    Signals:
        built: there are more rows than before.
    """

    built = Signal()

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._waiting: deque[PendingRow] = deque()
        self._at_once = AT_ONCE
        self._made = 0
        self._soon = debounce(self, 0, self._fill_some)

    @property
    def is_full(self) -> bool:
        """Whether the form has as many rows as it may have."""
        return self._made + len(self._waiting) >= MOST_ROWS

    @property
    def is_done(self) -> bool:
        """Whether no row waits."""
        return not self._waiting

    def begin(self) -> None:
        """Another form begins."""
        self._waiting.clear()
        self._made = 0
        self.allow_some()

    def allow_some(self) -> None:
        """The operator did something, and is to see what comes of it."""
        self._at_once = AT_ONCE

    def add(self, row: PendingRow) -> None:
        """Fill a row, now or soon."""
        if self._at_once >= row.weight and not self._waiting:
            self.fill_now(row)
        else:
            self._waiting.append(row)
            self._soon.start()

    def fill_now(self, row: PendingRow) -> None:
        """Fill a row that the operator waits for."""
        self._at_once -= row.weight
        self._made += 1
        row.fill()

    def _fill_some(self) -> None:
        self._at_once = 0
        end = time.perf_counter() + _SLICE_S
        while self._waiting and time.perf_counter() < end:
            row = self._waiting.popleft()
            if isValid(row):
                self.fill_now(row)
        if self._waiting:
            self._soon.start()
        self.built.emit()
