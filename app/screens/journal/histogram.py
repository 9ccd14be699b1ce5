"""How many entries match over time, as bars: a click or a drag narrows the query to a stretch of time."""

from __future__ import annotations

from datetime import datetime, timedelta

from PySide6.QtCore import QEvent, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QHelpEvent, QKeyEvent, QMouseEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import QSizePolicy, QToolTip, QWidget

from app.screens.journal.entry_text import time_words
from app.text import parse_time, plural
from app.theme.theme import theme_of
from app.widgets import painting
from core.service.console import Bucket

HEIGHT = 44
PAD = 16
_TOP, _BOTTOM = 8, 5


class Histogram(QWidget):
    """Bars; grey, with what failed and what is unknown on top, the stretch that the rows show in accent.

    Signals:
        chosen: the operator wants the entries from the first moment up to the second.
    """

    chosen = Signal(object, object)

    def __init__(self) -> None:
        super().__init__()
        self._buckets: list[Bucket] = []
        self._spans: list[tuple[datetime, datetime]] = []
        self._sight: tuple[datetime, datetime] | None = None
        self._hovered = -1
        self._from = -1
        self._cursor = -1
        self.setFixedHeight(HEIGHT)
        self.setMouseTracking(True)
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setAccessibleName("Entries over time")

    def sizeHint(self) -> QSize:
        """One line of bars."""
        return QSize(400, HEIGHT)

    def show_buckets(self, buckets: list[Bucket]) -> None:
        """Show other bars."""
        self._buckets = buckets
        self._spans = [(parse_time(one.start), parse_time(one.end)) for one in buckets]
        self._hovered = self._from = self._cursor = -1
        total = plural(sum(one.count for one in buckets), "entry", "entries")
        if buckets:
            between = f"{total} between {time_words(buckets[0].start)} and {time_words(buckets[-1].end)}"
            self.setAccessibleDescription(f"{between}. Arrow keys choose a bar, Enter shows its entries.")
        self.update()

    def buckets(self) -> list[Bucket]:
        """What is shown."""
        return self._buckets

    def show_sight(self, oldest: str, newest: str) -> None:
        """Mark the time that the rows in sight are from."""
        sight = (parse_time(oldest), parse_time(newest))
        if sight != self._sight:
            self._sight = sight
            self.update()

    def words_of(self, number: int) -> str:
        """One bar in words."""
        bucket = self._buckets[number]
        words = [plural(bucket.count, "entry", "entries")]
        words += [f"{bucket.failed} failed"] if bucket.failed else []
        words += [f"{bucket.unknown} unknown"] if bucket.unknown else []
        return f"{time_words(bucket.start)} to {time_words(bucket.end)}: {', '.join(words)}"

    def bar_rect(self, number: int) -> QRectF:
        """Where one bar may be; its whole height, for the pointer."""
        step = (self.width() - 2 * PAD) / max(1, len(self._buckets))
        return QRectF(PAD + number * step, _TOP, step, self.height() - _TOP - _BOTTOM)

    def _bar_at(self, x: float) -> int:
        if not self._buckets:
            return -1
        step = (self.width() - 2 * PAD) / len(self._buckets)
        return min(len(self._buckets) - 1, max(0, int((x - PAD) / step)))

    def _choose(self, first: int, last: int) -> None:
        low, high = sorted((first, last))
        start, end = self._spans[low][0], self._spans[high][1]
        if high == len(self._spans) - 1:
            # Only the last bar includes its end; the query's `until` does not.
            end += timedelta(milliseconds=1)
        self.chosen.emit(start, end)

    # pointer and keys

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """A stretch begins."""
        if event.button() == Qt.MouseButton.LeftButton and self._buckets:
            self._from = self._hovered = self._bar_at(event.position().x())
            self.update()

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        """Follow the pointer."""
        hovered = self._bar_at(event.position().x())
        if hovered != self._hovered:
            self._hovered = hovered
            self.update()

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        """The stretch ends: take it."""
        if self._from >= 0:
            first, self._from = self._from, -1
            self._choose(first, self._bar_at(event.position().x()))
            self.update()

    def leaveEvent(self, event: QEvent) -> None:
        """Nothing is pointed at."""
        super().leaveEvent(event)
        self._hovered = -1
        self.update()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """← → choose a bar, Enter shows its entries, Esc drops a drag."""
        key = event.key()
        if key in (Qt.Key.Key_Left, Qt.Key.Key_Right) and self._buckets:
            step = 1 if key == Qt.Key.Key_Right else -1
            start = self._cursor if self._cursor >= 0 else len(self._buckets) - (step > 0)
            self._cursor = min(len(self._buckets) - 1, max(0, start + step))
            self.setAccessibleDescription(self.words_of(self._cursor))
            self.update()
        elif key in (Qt.Key.Key_Return, Qt.Key.Key_Enter) and self._cursor >= 0:
            self._choose(self._cursor, self._cursor)
        elif key == Qt.Key.Key_Escape and self._from >= 0:
            self._from = -1
            self.update()
        else:
            super().keyPressEvent(event)

    def event(self, event: QEvent) -> bool:
        """Say in words what is pointed at."""
        if event.type() == QEvent.Type.ToolTip and isinstance(event, QHelpEvent) and self._buckets:
            number = self._bar_at(event.pos().x())
            QToolTip.showText(event.globalPos(), self.words_of(number), self, self.bar_rect(number).toRect())
            return True
        return super().event(event)

    # painting

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw the bars."""
        theme = theme_of(self)
        painter = QPainter(self)
        painter.fillRect(self.rect(), theme.color("base"))
        painter.fillRect(QRectF(0, self.height() - 1, self.width(), 1), theme.color("border"))
        most = max((one.count for one in self._buckets), default=0)
        low, high = sorted((self._from, self._hovered)) if self._from >= 0 else (self._hovered,) * 2
        for number, bucket in enumerate(self._buckets):
            place = self.bar_rect(number)
            if self._from >= 0 and low <= number <= high:
                painter.fillRect(place, theme.color("accent_tint"))
            marked = low <= number <= high or (number == self._cursor and self.hasFocus())
            self._paint_bar(painter, place, bucket, most, "accent_hover" if marked else self._role(number))
        if self.hasFocus():
            painting.ring(painter, self.rect().toRectF(), 0, theme.color("accent"))
        painter.end()

    def _role(self, number: int) -> str:
        if self._sight is None:
            return "border2"
        start, end = self._spans[number]
        return "accent_fill" if start <= self._sight[1] and end > self._sight[0] else "border2"

    def _paint_bar(self, painter: QPainter, place: QRectF, bucket: Bucket, most: int, role: str) -> None:
        if not bucket.count:
            return
        theme = theme_of(self)
        width = max(1, round(place.width()) - 2)
        left, bottom = round(place.x()), round(place.bottom())
        height = max(2, round(place.height() * bucket.count / most))
        bar = QRectF(left, bottom - height, width, height)
        painter.fillRect(bar, theme.color(role))
        top = bar.top()
        for count, tone in ((bucket.failed, "fail"), (bucket.unknown, "unknown")):
            if count:
                part = min(height, max(2, round(height * count / bucket.count)))
                painter.fillRect(QRectF(left, top, width, part), theme.color(tone))
                top += part


__all__ = ["HEIGHT", "Histogram"]
