"""An operator's hand: finds what a person would see, presses it, types, and looks at the screen.

Nothing here knows how a screen works inside. A thing is found by what it says or by its accessible name, and
what cannot be found, or does not come about in time, ends the tour with a picture of what was there instead.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import TypeVar

from PySide6.QtCore import QPoint, Qt, QTimer
from PySide6.QtGui import QKeySequence
from PySide6.QtTest import QTest
from PySide6.QtWidgets import (
    QAbstractButton,
    QAbstractItemView,
    QComboBox,
    QLineEdit,
    QPlainTextEdit,
    QWidget,
)

from app.input_origin import BlindSource, Stroke
from app.input_origin import InputOrigin as HandBehind
from app.service_client import ConsoleLink
from app.window import MainWindow
from tests.tour.album import Album

PATIENCE_S = 20.0
LOOK_EVERY_S = 0.03
# Before a picture: what the window shows after a pause (a filter, a search, a toast that goes) is awaited
# where the pause is shorter than this, and for no longer than that.
SOON_MS = 300
SETTLE_S = 1.0

Found = TypeVar("Found", bound=QWidget)
Seen = TypeVar("Seen")


class StepDidNotHappen(Exception):
    """Something the tour waited for did not come about, or could not be found."""


class TourInput(BlindSource):
    """The input source of the tour's window: what the tour presses stands in for an operator's hand.

    Its events are made in this process, so no window system knows of them.
    """

    def hand_of(self, stroke: Stroke) -> HandBehind:
        """An operator's, as far as this window is concerned."""
        return HandBehind.REAL


class UiDriver:
    """Works one window and takes the pictures."""

    def __init__(self, window: MainWindow, link: ConsoleLink, album: Album) -> None:
        """`link` is the window's; `album` grows by one picture with each `look`."""
        self.window = window
        self._link = link
        self.album = album

    async def until(self, what: str, look: Callable[[], Seen]) -> Seen:
        """Look, as a person would, until there is something to see, which is returned.

        Raises:
            StepDidNotHappen: there was nothing in time; says what was waited for.
        """
        deadline = time.monotonic() + PATIENCE_S
        while not (seen := look()):
            if time.monotonic() > deadline:
                raise StepDidNotHappen(f"waited {PATIENCE_S:.0f} s in vain: {what}")
            await asyncio.sleep(LOOK_EVERY_S)
        return seen

    async def find(
        self, kind: type[Found], name: str, inside: QWidget | None = None, enabled: bool = True
    ) -> Found:
        """A visible widget that says `name`, or is called so by assistive technology; waits for it."""
        root = inside or self.window

        def candidates() -> list[Found]:
            return [
                one
                for one in root.findChildren(kind)
                if one.isVisible() and (one.isEnabled() or not enabled) and name in _names(one)
            ]

        return (await self.until(f"a {kind.__name__} that says {name!r}", candidates))[0]

    async def press(self, name: str, inside: QWidget | None = None) -> None:
        """Click the button that says `name`."""
        button = await self.find(QAbstractButton, name, inside)
        QTest.mouseClick(button, Qt.MouseButton.LeftButton)
        await asyncio.sleep(0)

    async def write(self, name: str, text: str, inside: QWidget | None = None) -> None:
        """Replace what stands in the field called `name`."""
        field = await self.find(QLineEdit, name, inside)
        QTest.mouseClick(field, Qt.MouseButton.LeftButton)
        field.selectAll()
        QTest.keyClicks(field, text)
        await asyncio.sleep(0)

    async def write_lines(self, name: str, text: str, inside: QWidget | None = None) -> None:
        """Replace what stands in the larger text field called `name`."""
        field = await self.find(QPlainTextEdit, name, inside)
        field.setFocus(Qt.FocusReason.TabFocusReason)
        field.selectAll()
        QTest.keyClicks(field, text)
        await asyncio.sleep(0)

    async def pick(self, name: str, value: str, inside: QWidget | None = None) -> None:
        """Choose a value of the drop-down called `name`, by key as with its list closed."""
        box = await self.find(QComboBox, name, inside)
        box.setFocus(Qt.FocusReason.TabFocusReason)
        await self.until(f"{name} offers {value!r}", lambda: box.findText(value) >= 0)
        if box.currentText() != value:
            QTest.keyClick(box, Qt.Key.Key_Home)
        for _ in range(box.count()):
            if box.currentText() == value:
                return
            QTest.keyClick(box, Qt.Key.Key_Down)
        if box.currentText() != value:
            raise StepDidNotHappen(f"{name} has no value {value!r}")
        await asyncio.sleep(0)

    async def key(self, keys: str, on: QWidget | None = None) -> None:
        """Press a key or chord, such as `Ctrl+K`, where the focus is."""
        target = on or self.window.focusWidget() or self.window
        QTest.keySequence(target, QKeySequence(keys))
        await asyncio.sleep(0)

    async def type(self, text: str) -> None:
        """Type where the focus is."""
        target = self.window.focusWidget()
        if target is None:
            raise StepDidNotHappen(f"nothing has the focus to type {text!r} into")
        QTest.keyClicks(target, text)
        await asyncio.sleep(0)

    async def choose(self, view: QAbstractItemView, text: str) -> None:
        """Click the row that says `text` in its first columns."""

        def place() -> QPoint | None:
            model = view.model()
            for row in range(model.rowCount()):
                for column in range(model.columnCount()):
                    index = model.index(row, column)
                    if text in str(index.data() or ""):
                        view.scrollTo(index)
                        return view.visualRect(index).center()
            return None

        point = await self.until(f"a row that says {text!r}", place)
        assert point is not None
        QTest.mouseClick(view.viewport(), Qt.MouseButton.LeftButton, pos=point)
        await asyncio.sleep(0)

    async def look(self, name: str) -> None:
        """Put a picture of the whole window into the album, once nothing in it is about to change."""
        await self._settle()
        self.album.add(name, self.window.grab().toImage())

    async def _settle(self) -> None:
        """Wait until the window is at rest at two looks in a row, at most `SETTLE_S`."""
        deadline = time.monotonic() + SETTLE_S
        at_rest = 0
        while at_rest < 2 and time.monotonic() < deadline:
            await asyncio.sleep(LOOK_EVERY_S)
            at_rest = at_rest + 1 if self._is_at_rest() else 0

    def _is_at_rest(self) -> bool:
        """Whether no answer of the service is awaited and no timer is due soon; those that repeat go on."""
        if self._link.busy:
            return False
        timers = self.window.findChildren(QTimer)
        return not any(
            timer.isActive() and timer.isSingleShot() and timer.remainingTime() < SOON_MS for timer in timers
        )


def _names(widget: QWidget) -> tuple[str, ...]:
    says = widget.text() if isinstance(widget, QAbstractButton) else ""
    placeholder = widget.placeholderText() if isinstance(widget, QLineEdit) else ""
    return says.replace("&", ""), widget.accessibleName(), placeholder
