"""Key caps as the window draws them: small boxes with the key's name."""

from __future__ import annotations

from PySide6.QtCore import QRectF, QSize
from PySide6.QtGui import QPainter, QPaintEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from app.components import paint
from app.look.theme import Theme, theme_of
from app.look.tokens import RADIUS

HEIGHT = 16
GAP = 3
_SHOWN = {"Up": "↑", "Down": "↓", "Left": "←", "Right": "→", "Return": "Enter", "Escape": "Esc"}


def cap_words(keys: str) -> list[str]:
    """The caps of a chord in Qt's portable form."""
    return [_SHOWN.get(part, part) for part in keys.replace("++", "+Plus").split("+")]


def caps_width(words: list[str], theme: Theme) -> float:
    """How wide the caps are side by side."""
    return sum(_cap_width(word, theme) for word in words) + GAP * (len(words) - 1)


def _cap_width(word: str, theme: Theme) -> float:
    return max(float(HEIGHT), paint.text_width(word, theme, "hint") + 10)


def paint_caps(painter: QPainter, left: float, middle: float, words: list[str], theme: Theme) -> float:
    """Draw caps from `left`, around the height `middle`; returns the width taken."""
    x = left
    for word in words:
        width = _cap_width(word, theme)
        rect = QRectF(round(x), round(middle - HEIGHT / 2), round(width), HEIGHT)
        paint.box(painter, rect, RADIUS.badge - 1, theme.color("raised"), theme.color("border2"))
        room = rect.adjusted((rect.width() - paint.text_width(word, theme, "hint")) / 2, 0, 4, 0)
        paint.text(painter, room, word, theme, "hint", "text2")
        x += round(width) + GAP
    return x - GAP - left


class KeyCaps(QWidget):
    """The caps of one chord."""

    def __init__(self, keys: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._words = cap_words(keys)
        self.setAccessibleName(keys)
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)

    def sizeHint(self) -> QSize:
        """As wide as its caps."""
        return QSize(round(caps_width(self._words, theme_of(self))) + 2, HEIGHT + 4)

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw the caps."""
        painter = QPainter(self)
        paint_caps(painter, 0, self.height() / 2, self._words, theme_of(self))
        painter.end()
