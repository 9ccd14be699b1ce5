"""Keys as little caps, with the word of what they do."""

from __future__ import annotations

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QPainter, QPaintEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from app.theme.theme import theme_of
from app.widgets import painting

_CAP_PAD = 5
_GAP = 4


class ShortcutLabel(QWidget):
    """Caps such as Ctrl K, and what they do: `ShortcutLabel("Ctrl+Enter", "approve")`."""

    def __init__(self, keys: str, words: str = "", parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._keys = [key for key in keys.replace(" ", "+").split("+") if key] or [keys]
        self._words = words
        self.setAccessibleName(f"{keys} {words}".strip())
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)

    def _cap_width(self, key: str) -> float:
        return max(18.0, painting.text_width(key, theme_of(self), "hint") + 2 * _CAP_PAD)

    def sizeHint(self) -> QSize:
        """All caps and the word."""
        width = sum(self._cap_width(key) + _GAP for key in self._keys)
        if self._words:
            width += 2 + painting.text_width(self._words, theme_of(self), "meta")
        return QSize(round(width) + 1, 20)

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw caps and word."""
        theme = theme_of(self)
        painter = QPainter(self)
        x = 0.0
        for key in self._keys:
            width = self._cap_width(key)
            paint_key_cap(painter, QRectF(x, 1, width, 18), key)
            x += width + _GAP
        if self._words:
            room = QRectF(x + 2, 0, self.width() - x, self.height())
            painting.text(painter, room, self._words, theme, "meta", "text3")
        painter.end()


def paint_key_cap(painter: QPainter, rect: QRectF, key: str) -> None:
    """Draw one key."""
    theme = theme_of()
    painting.box(painter, rect, 4, theme.color("raised"), theme.color("border2"))
    painting.text(painter, rect, key, theme, "hint", "text2", Qt.AlignmentFlag.AlignHCenter)
