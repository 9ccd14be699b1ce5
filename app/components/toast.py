"""A short word at the bottom right: done, nothing to decide. Never for errors."""

from __future__ import annotations

from PySide6.QtCore import QEasingCurve, QEvent, QObject, QPoint, QPropertyAnimation, QRectF, QTimer
from PySide6.QtGui import QPainter, QPaintEvent
from PySide6.QtWidgets import QWidget

from app.components import paint
from app.look.glyphs import paint_glyph
from app.look.theme import theme_of
from app.look.tokens import MOTION_MS, RADIUS

WIDTH = 320
HEIGHT = 40
SHOWN_MS = 4000
MARGIN = 16


class Toast(QWidget):
    """One per window; a new word replaces the old one."""

    def __init__(self, window: QWidget, bottom: int = 26) -> None:
        """`bottom` px are kept free below it, for the status bar."""
        super().__init__(window)
        self._window = window
        self._words = ""
        self._bottom, self._above = bottom, 0
        self.resize(WIDTH, HEIGHT)
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.setInterval(SHOWN_MS)
        self._timer.timeout.connect(self.hide)
        self._slide = QPropertyAnimation(self, b"pos", self)
        self._slide.setDuration(MOTION_MS)
        self._slide.setEasingCurve(QEasingCurve.Type.OutCubic)
        window.installEventFilter(self)
        self.hide()

    def say(self, words: str) -> None:
        """Show `words` for four seconds, without taking the focus."""
        self._words = words
        self.setAccessibleName(words)
        end = self._place()
        self.raise_()
        self.show()
        if theme_of(self).reduced_motion:
            self.move(end)
        else:
            self._slide.stop()
            self._slide.setStartValue(end + QPoint(0, 12))
            self._slide.setEndValue(end)
            self._slide.start()
        self._timer.start()
        self.update()

    def leave_free(self, above: int) -> None:
        """Another screen is in front: so many px at its bottom stay uncovered."""
        self._above = above
        if self.isVisible():
            self._slide.stop()
            self.move(self._place())

    def words(self) -> str:
        """What it says, or said last."""
        return self._words

    def _place(self) -> QPoint:
        size = self._window.size()
        return QPoint(
            size.width() - WIDTH - MARGIN, size.height() - HEIGHT - MARGIN - self._bottom - self._above
        )

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Stay in the corner when the window is resized; go when the window does."""
        if event.type() == QEvent.Type.Resize and self.isVisible():
            self._slide.stop()
            self.move(self._place())
        elif event.type() == QEvent.Type.Hide:
            # What was done is old when the window comes back, and the timer would find nothing to hide.
            self._timer.stop()
            self.hide()
        return super().eventFilter(watched, event)

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw the box, a check and the words."""
        theme = theme_of(self)
        painter = QPainter(self)
        rect = self.rect().toRectF()
        painter.fillRect(rect, theme.color("app"))
        paint.box(painter, rect, RADIUS.card, theme.color("raised"), theme.color("border2"))
        paint_glyph(painter, QRectF(12, (HEIGHT - 14) / 2, 14, 14), "check_disc", theme.color("ok"))
        paint.text(painter, QRectF(36, 0, WIDTH - 48, HEIGHT), self._words, theme)
        painter.end()
