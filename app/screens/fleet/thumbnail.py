"""The latest picture of a device, small: fetched by its digest, decoded once, kept for a while."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

from PySide6.QtCore import QObject, QRectF, QSize, Qt
from PySide6.QtGui import QImage, QPainter, QPainterPath, QPaintEvent, QPixmap
from PySide6.QtWidgets import QSizePolicy, QWidget

from app.images import decoded
from app.service_client import ConsoleLink
from app.theme.icons import paint_icon
from app.theme.theme import theme_of
from app.theme.tokens import RADIUS
from app.widgets import painting
from app.widgets.badges import paint_production_band
from core.errors import QuarterdeckError
from core.service.console import Console

KEPT = 64


class PictureStore(QObject):
    """Fetches pictures through the door; each digest once."""

    def __init__(self, link: ConsoleLink, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._link = link
        self._kept: OrderedDict[str, QImage] = OrderedDict()
        self._wanted: dict[str, list[Callable[[QImage], None]]] = {}

    def want(self, blob: str, show: Callable[[QImage], None]) -> None:
        """Call `show` with the picture, now or when it has come; a null image when it cannot be had."""
        if (image := self._kept.get(blob)) is not None:
            self._kept.move_to_end(blob)
            show(image)
            return
        waiting = self._wanted.setdefault(blob, [])
        waiting.append(show)
        if len(waiting) == 1:

            async def read(console: Console) -> QImage:
                return await decoded(await console.journal.blob(blob))

            self._link.ask(
                read,
                lambda image: self._came(blob, image),
                lambda error: self._failed(blob, error),
                what="read a picture",
            )

    def _came(self, blob: str, image: QImage) -> None:
        self._kept[blob] = image
        while len(self._kept) > KEPT:
            self._kept.popitem(last=False)
        for show in self._wanted.pop(blob, []):
            show(image)

    def _failed(self, blob: str, error: QuarterdeckError) -> None:
        del error
        for show in self._wanted.pop(blob, []):
            show(QImage())


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
