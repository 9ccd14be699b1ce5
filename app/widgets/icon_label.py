"""An icon that only accompanies words beside it."""

from __future__ import annotations

from PySide6.QtCore import QSize
from PySide6.QtGui import QPainter, QPaintEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from app.theme.icons import ICONS, paint_icon
from app.theme.shapes import glyph_path, paint_glyph
from app.theme.theme import theme_of


class IconLabel(QWidget):
    """A decorative icon (a concept) or glyph; assistive technology reads the words beside it instead."""

    def __init__(
        self,
        icon: str,
        role: str = "text2",
        size: int = 16,
        painted: bool = False,
        parent: QWidget | None = None,
    ) -> None:
        """`painted` takes `icon` for the name of a glyph."""
        super().__init__(parent)
        self._size, self._painted, self._role = size, painted, role
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
        self.set_icon(icon, role)

    def set_icon(self, icon: str, role: str | None = None) -> None:
        """Show another one.

        Raises:
            KeyError: there is none of this name.
        """
        if self._painted:
            glyph_path(icon)
        else:
            ICONS[icon]
        self._icon = icon
        self._role = role or self._role
        self.update()

    def sizeHint(self) -> QSize:
        """A square."""
        return QSize(self._size, self._size)

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw it."""
        painter = QPainter(self)
        draw = paint_glyph if self._painted else paint_icon
        draw(painter, self.rect().toRectF(), self._icon, theme_of(self).color(self._role))
        painter.end()
