"""The latest picture of a device, small."""

from __future__ import annotations

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QImage, QPainter, QPainterPath, QPaintEvent, QPixmap
from PySide6.QtWidgets import QSizePolicy, QWidget

from app.theme.icons import paint_icon
from app.theme.theme import theme_of
from app.theme.tokens import RADIUS
from app.widgets import painting
from app.widgets.badges import paint_production_band


class Thumbnail(QWidget):
    """A picture of fixed size; without one, sunken with an icon that says so."""

    def __init__(self, width: int = 152, height: int = 95, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._size = QSize(width, height)
        self._image = QImage()
        self._pixmap = QPixmap()
        self._production = False
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
        self.show_picture(QImage(), "No picture yet")

    def show_picture(self, image: QImage, words: str, production: bool = False) -> None:
        """Show a picture, or none; `words` are read aloud."""
        self._image, self._production = image, production
        self._pixmap = QPixmap()
        self.setAccessibleName(words)
        self.update()

    def set_size(self, size: QSize) -> None:
        """Be as large as this from now on."""
        self._size = size
        self._pixmap = QPixmap()
        self.updateGeometry()
        self.update()

    @property
    def has_picture(self) -> bool:
        """Whether there is one."""
        return not self._image.isNull()

    def sizeHint(self) -> QSize:
        """Always the same."""
        return self._size

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw the picture at device pixels, with a hairline round it."""
        theme = theme_of(self)
        painter = QPainter(self)
        rect = self.rect().toRectF()
        painting.box(painter, rect, RADIUS.badge, theme.color("sunken"))
        if self._image.isNull():
            side = 22.0
            place = QRectF((rect.width() - side) / 2, (rect.height() - side) / 2, side, side)
            paint_icon(painter, place, "no_picture", theme.color("text3"))
        else:
            clip = QPainterPath()
            clip.addRoundedRect(rect, RADIUS.badge, RADIUS.badge)
            painter.setClipPath(clip)
            pixmap = self._scaled()
            ratio = pixmap.devicePixelRatio()
            left = (rect.width() - pixmap.width() / ratio) / 2
            top = (rect.height() - pixmap.height() / ratio) / 2
            painter.drawPixmap(round(left), round(top), pixmap)
            if self._production:
                paint_production_band(painter, QRectF(0, 0, rect.width(), 5), theme)
            painter.setClipping(False)
        painting.box(painter, rect, RADIUS.badge, edge=theme.color("border2"))
        painter.end()

    def _scaled(self) -> QPixmap:
        ratio = self.devicePixelRatioF()
        if self._pixmap.isNull() or self._pixmap.devicePixelRatio() != ratio:
            scaled = self._image.scaled(
                self._size * ratio,
                Qt.AspectRatioMode.KeepAspectRatio,
                Qt.TransformationMode.SmoothTransformation,
            )
            self._pixmap = QPixmap.fromImage(scaled)
            self._pixmap.setDevicePixelRatio(ratio)
        return self._pixmap
