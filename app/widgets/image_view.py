"""A picture from a device: fitted, at 100 % or zoomed, moved by pointer and keys, sharp at device pixels."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import (
    QImage,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QPixmap,
    QResizeEvent,
    QWheelEvent,
)
from PySide6.QtWidgets import QSizePolicy, QWidget

from app.theme.icons import paint_icon
from app.theme.theme import theme_of
from app.widgets import painting

Overlay = Callable[[QPainter, "ImageView"], None]
STEP = 1.25
LEAST, MOST = 0.05, 16.0
SMALLEST_SHARP = 2.0


class ImageView(QWidget):
    """Shows one picture. 100 % is one pixel of the picture on one pixel of the screen.

    Signals:
        zoom_changed: pixels of the screen for one of the picture; 1.0 is 100 %.
        pressed_at: the operator clicked, without dragging, on this pixel of the picture.
    """

    zoom_changed = Signal(float)
    pressed_at = Signal(int, int)

    def __init__(
        self, name: str = "Picture", empty: str = "No picture", parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self._name, self._empty = name, empty
        self._image = QImage()
        self._overlay: Overlay | None = None
        self._fitted = True
        self._zoom = 1.0
        self._middle = QPointF()
        self._grabbed: QPointF | None = None
        self._dragged = False
        self._scaled = QPixmap()
        self._scaled_for: tuple[int, int] = (0, 0)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)
        self.setMinimumSize(64, 48)
        self.set_image(QImage())

    def set_image(self, image: QImage, alt: str = "") -> None:
        """Show another picture; fit or zoom stay as they are. `alt` says what is on it."""
        same_size = image.size() == self._image.size()
        self._image = image
        self._scaled = QPixmap()
        if not same_size:
            self._middle = QPointF(image.width() / 2, image.height() / 2)
        size = f"{image.width()} × {image.height()}" if not image.isNull() else self._empty
        self.setAccessibleName(f"{self._name}: {alt or size}")
        self._apply_fit()
        self.update()

    @property
    def empty_text(self) -> str:
        """What stands in the place of the picture while there is none."""
        return self._empty

    def set_empty_text(self, text: str) -> None:
        """Say why there is no picture."""
        self._empty = text
        self.update()

    def set_overlay(self, overlay: Overlay | None) -> None:
        """Draw on the picture: called with a painter and this view, whose `to_view` maps places."""
        self._overlay = overlay
        self.update()

    def image(self) -> QImage:
        """The picture."""
        return self._image

    def zoom(self) -> float:
        """Pixels of the screen for one of the picture."""
        return self._zoom

    def is_fitted(self) -> bool:
        """True while the picture follows the size of its place."""
        return self._fitted

    def fit(self) -> None:
        """Show the whole picture."""
        self._fitted = True
        self._apply_fit()
        self.update()

    def show_actual_size(self) -> None:
        """100 %."""
        self.zoom_to(1.0)

    def zoom_to(self, zoom: float, around: QPointF | None = None) -> None:
        """Zoom, keeping the place `around` (in the view) where it is."""
        anchor = around or QRectF(self.rect()).center()
        kept = self.to_image(anchor)
        self._fitted = False
        self._set_zoom(min(MOST, max(LEAST, zoom)))
        shift = self.to_image(anchor) - kept
        self._middle = self._bounded(self._middle - shift)
        self.update()

    def to_view(self, rect: QRectF) -> QRectF:
        """Where a rectangle of the picture is in the view."""
        scale = self._scale()
        origin = self._origin()
        return QRectF(
            origin.x() + rect.x() * scale,
            origin.y() + rect.y() * scale,
            rect.width() * scale,
            rect.height() * scale,
        )

    def to_image(self, point: QPointF) -> QPointF:
        """Which place of the picture is at a point of the view."""
        return (point - self._origin()) / self._scale()

    def _scale(self) -> float:
        return self._zoom / self.devicePixelRatioF()

    def _origin(self) -> QPointF:
        ratio, scale = self.devicePixelRatioF(), self._scale()
        center = QRectF(self.rect()).center()
        left, top = center.x() - self._middle.x() * scale, center.y() - self._middle.y() * scale
        # On whole device pixels, so that 100 % is not blurred.
        return QPointF(round(left * ratio) / ratio, round(top * ratio) / ratio)

    def _set_zoom(self, zoom: float) -> None:
        if zoom != self._zoom:
            self._zoom = zoom
            self.zoom_changed.emit(zoom)

    def _apply_fit(self) -> None:
        if not self._fitted or self._image.isNull():
            return
        ratio = self.devicePixelRatioF()
        across = self.width() * ratio / self._image.width()
        down = self.height() * ratio / self._image.height()
        self._middle = QPointF(self._image.width() / 2, self._image.height() / 2)
        self._set_zoom(max(0.001, min(across, down, 1.0)))

    def _bounded(self, middle: QPointF) -> QPointF:
        """Never leave the picture out of sight."""
        x = min(max(middle.x(), 0.0), float(self._image.width()))
        y = min(max(middle.y(), 0.0), float(self._image.height()))
        return QPointF(x, y)

    def sizeHint(self) -> QSize:
        """A usual screen's shape."""
        return QSize(480, 300)

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw the picture and what lies on it, or why there is none."""
        theme = theme_of(self)
        painter = QPainter(self)
        rect = self.rect().toRectF()
        painter.fillRect(rect, theme.color("sunken"))
        if self._image.isNull():
            icon = QRectF(rect.center().x() - 11, rect.center().y() - 24, 22, 22)
            paint_icon(painter, icon, "no_picture", theme.color("text3"))
            below = QRectF(8, rect.center().y() + 2, rect.width() - 16, 20)
            painting.text(painter, below, self._empty, theme, "body", "text3", Qt.AlignmentFlag.AlignHCenter)
        else:
            self._paint_image(painter)
            if self._overlay is not None:
                painter.save()
                self._overlay(painter, self)
                painter.restore()
        painting.box(painter, rect, 4, None, theme.color("border2"))
        painter.end()

    def _paint_image(self, painter: QPainter) -> None:
        place = self.to_view(QRectF(0, 0, self._image.width(), self._image.height()))
        if self._zoom < 1.0:
            # Scaled once by averaging: the painter's own scaling drops lines of small text.
            painter.drawPixmap(place.topLeft(), self._smaller())
            return
        sharp = self._zoom == 1.0 or self._zoom >= SMALLEST_SHARP
        painter.setRenderHint(QPainter.RenderHint.SmoothPixmapTransform, not sharp)
        painter.drawImage(place, self._image)

    def _smaller(self) -> QPixmap:
        size = (
            max(1, round(self._image.width() * self._zoom)),
            max(1, round(self._image.height() * self._zoom)),
        )
        if self._scaled.isNull() or self._scaled_for != size:
            mode = Qt.TransformationMode.SmoothTransformation
            scaled = self._image.scaled(QSize(*size), Qt.AspectRatioMode.IgnoreAspectRatio, mode)
            self._scaled = QPixmap.fromImage(scaled)
            self._scaled_for = size
            self._scaled.setDevicePixelRatio(self.devicePixelRatioF())
        return self._scaled

    def resizeEvent(self, event: QResizeEvent) -> None:
        """A fitted picture follows its place."""
        super().resizeEvent(event)
        self._apply_fit()

    def wheelEvent(self, event: QWheelEvent) -> None:
        """Zoom around the pointer."""
        if self._image.isNull() or not event.angleDelta().y():
            event.ignore()
            return
        steps = event.angleDelta().y() / 120
        self.zoom_to(self._zoom * STEP**steps, event.position())
        event.accept()

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """Take hold of the picture."""
        if event.button() == Qt.MouseButton.LeftButton and not self._image.isNull():
            self._grabbed, self._dragged = event.position(), False

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        """Move the picture with the pointer."""
        if self._grabbed is None:
            return
        moved = event.position() - self._grabbed
        if not self._dragged and moved.manhattanLength() < 4:
            return
        if not self._dragged:
            self.setCursor(Qt.CursorShape.ClosedHandCursor)
        self._dragged = True
        self._fitted = False
        self._middle = self._bounded(self._middle - moved / self._scale())
        self._grabbed = event.position()
        self.update()

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        """Let go; a press without a move says where."""
        if self._grabbed is None:
            return
        if not self._dragged:
            at = self.to_image(event.position())
            if self._image.rect().contains(int(at.x()), int(at.y())):
                self.pressed_at.emit(int(at.x()), int(at.y()))
        self._grabbed, self._dragged = None, False
        self.unsetCursor()

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:
        """Between the whole picture and 100 %."""
        if self._fitted:
            self.zoom_to(1.0, event.position())
        else:
            self.fit()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """+ and − zoom, 0 fits, 1 is 100 %, arrows move what is larger than its place."""
        key = event.key()
        ways = {
            Qt.Key.Key_Left: QPointF(-1, 0),
            Qt.Key.Key_Right: QPointF(1, 0),
            Qt.Key.Key_Up: QPointF(0, -1),
            Qt.Key.Key_Down: QPointF(0, 1),
        }
        if self._image.isNull():
            super().keyPressEvent(event)
        elif key in (Qt.Key.Key_Plus, Qt.Key.Key_Equal):
            self.zoom_to(self._zoom * STEP)
        elif key in (Qt.Key.Key_Minus, Qt.Key.Key_Underscore):
            self.zoom_to(self._zoom / STEP)
        elif key == Qt.Key.Key_0:
            self.fit()
        elif key == Qt.Key.Key_1:
            self.show_actual_size()
        elif key in ways and not self._fitted:
            self._middle = self._bounded(self._middle + ways[Qt.Key(key)] * (48 / self._scale()))
            self.update()
        else:
            super().keyPressEvent(event)
