"""Go to: an entry's number, or a day or time, from which the journal is shown."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

from PySide6.QtCore import QEvent, QObject, QPoint, Qt, Signal
from PySide6.QtGui import QKeyEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import QFrame, QWidget

from app.theme.theme import theme_of
from app.theme.tokens import SPACE
from app.widgets import painting
from app.widgets.fields import SearchField
from app.widgets.labels import Label, set_surface
from app.widgets.layouts import vbox

WIDTH = 340
HINT = "9,412, today, yesterday, 14:30, 2026-11-20 or 2026-11-20 14:30; Enter goes there."
_NUMBER = re.compile(r"[0-9][0-9,]{0,17}")
_CLOCK = re.compile(r"([01]?[0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9])?")


def place_in(text: str, now: datetime) -> int | datetime | None:
    """The number of an entry, or a moment in local time, that a text names; None where it names neither.

    A time without a day is of the day of `now`.
    """
    text = text.strip().lower()
    if _NUMBER.fullmatch(text):
        return int(text.replace(",", ""))
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    if text in ("today", "yesterday"):
        return midnight - timedelta(days=text == "yesterday")
    if _CLOCK.fullmatch(text):
        text = f"{now:%Y-%m-%d} {text.zfill(8) if text.count(':') == 2 else text.zfill(5)}"
    try:
        moment = datetime.fromisoformat(text.upper())
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=now.tzinfo)


class GoToPopup(QFrame):
    """A box over the rows with one field; it closes by Escape or when the keyboard goes elsewhere.

    Signals:
        number_wanted(seq): go to the entry with this number.
        moment_wanted(moment): go to the first entry at this moment or after it.
    """

    number_wanted = Signal(object)  # an `int` of Qt has 32 bits
    moment_wanted = Signal(object)

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self._screen = parent
        self.hide()
        set_surface(self, "raised")
        self.setAccessibleName("Go to an entry or a time")
        self.field = SearchField("Go to an entry's number, a day or a time", "Entry, day or time")
        self.field.installEventFilter(self)
        self.hint = Label(HINT, "meta", "text3", wrap=True)
        vbox(self.field, self.hint, parent=self, margins=SPACE.small, spacing=SPACE.snug)
        self.setFixedWidth(WIDTH)

    def open_at(self, anchor: QWidget) -> None:
        """Ask over the top of a widget."""
        self.field.clear()
        self.hint.setText(HINT)
        self.adjustSize()
        self.move(anchor.mapTo(self._screen, QPoint(SPACE.large, SPACE.wide)))
        self._anchor = anchor
        self.show()
        self.raise_()
        self.field.setFocus()

    def close_box(self) -> bool:
        """Give the keyboard back to the rows; whether the box was open."""
        if self.isHidden():
            return False
        self._anchor.setFocus()
        self.hide()
        return True

    def _go(self) -> None:
        place = place_in(self.field.text(), datetime.now().astimezone())
        if place is None:
            self.hint.setText(f"This is not a number, a day or a time. {HINT}")
            self.adjustSize()
            return
        self.close_box()
        if isinstance(place, datetime):
            self.moment_wanted.emit(place)
        else:
            self.number_wanted.emit(place)

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw the edge."""
        theme = theme_of(self)
        painter = QPainter(self)
        painting.box(painter, self.rect().toRectF(), 0, theme.color("raised"), theme.color("border2"))
        painter.end()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Enter in the field goes there; without the keyboard the box closes."""
        if watched is self.field and event.type() == QEvent.Type.FocusOut:
            self.hide()
        if (
            watched is self.field
            and isinstance(event, QKeyEvent)
            and event.type() == QEvent.Type.KeyPress
            and event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter)
        ):
            self._go()
            return True
        return super().eventFilter(watched, event)
