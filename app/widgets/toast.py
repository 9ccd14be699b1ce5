"""A short word in the status bar: done, nothing to decide. Never for errors."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QObject, QRectF, QSize, Qt, QTimer
from PySide6.QtGui import QPainter, QPaintEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from app.theme.shapes import paint_glyph
from app.theme.theme import theme_of
from app.theme.tokens import RADIUS
from app.widgets import painting

WIDTH = 320
SHOWN_MS = 4000


class Toast(QWidget):
    """One per window; a new word replaces the old one.

    It has a place of its own, which stays empty while there is nothing to say: whatever lies over a screen
    covers something there, and takes the clicks that were meant for it.
    """

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self._words = ""
        policy = QSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)
        policy.setRetainSizeWhenHidden(True)
        self.setSizePolicy(policy)
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.setInterval(SHOWN_MS)
        self._timer.timeout.connect(self.hide)
        parent.window().installEventFilter(self)
        self.hide()

    def say(self, words: str) -> None:
        """Show `words` for four seconds, without taking the focus."""
        self._words = words
        self.setAccessibleName(words)
        self.show()
        self._timer.start()
        self.update()

    def words(self) -> str:
        """What it says, or said last."""
        return self._words

    def sizeHint(self) -> QSize:
        """As wide as there is room, up to a bound."""
        return QSize(WIDTH, 0)

    def minimumSizeHint(self) -> QSize:
        """It gives way to everything else in the bar."""
        return QSize(0, 0)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Go when the window does: what was done is old when that comes back."""
        if event.type() == QEvent.Type.Hide:
            self._timer.stop()
            self.hide()
        return super().eventFilter(watched, event)

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw a check and the words, at the right of its room."""
        theme = theme_of(self)
        painter = QPainter(self)
        wide = min(
            self.width() - 2.0, WIDTH, 36 + painting.text_width(self._words, theme, "meta_strong") + 12
        )
        rect = QRectF(self.width() - wide - 1, 1, wide, self.height() - 2)
        painting.box(painter, rect, RADIUS.control, theme.color("raised"), theme.color("border2"))
        mark = QRectF(rect.x() + 10, rect.y() + (rect.height() - 14) / 2, 14, 14)
        paint_glyph(painter, mark, "check_disc", theme.color("ok"))
        room = QRectF(rect.x() + 30, rect.y(), wide - 38, rect.height())
        painting.text(painter, room, self._words, theme, "meta_strong", "text", Qt.AlignmentFlag.AlignLeft)
        painter.end()
