"""A picture of a device with everything dimmed but what an action is aimed at."""

from __future__ import annotations

from PySide6.QtCore import QPointF, QRectF, QSizeF, Qt
from PySide6.QtGui import QColor, QPainter, QPainterPath, QPen, QPolygonF, QResizeEvent
from PySide6.QtWidgets import QSizePolicy

from app.theme.legible import legible
from app.theme.theme import Theme, theme_of
from app.widgets import painting
from app.widgets.image_view import ImageView
from core.approvals.preview_models import Region

DIM = 0.46
AROUND_POINT = 24
TALLEST = 420
_ARROW = ((0, 0), (0, 20), (4.6, 15.8), (7.6, 23), (11, 21.5), (8, 14.5), (14, 14.5))


class TargetPreview(ImageView):
    """A picture that says where something would happen. Its height follows its width."""

    def __init__(self) -> None:
        super().__init__("Where it would act", "No picture of this screen")
        self._target = QRectF()
        self._point: QPointF | None = None
        self._words = ""
        self.plate = QRectF()
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.set_overlay(self._paint_ghost)

    def show_target(self, target: Region | None, point: tuple[int, int] | None, words: str) -> None:
        """Say what it is aimed at, in pixels of the picture; a point without a box gets one around it."""
        self._point = QPointF(*point) if point is not None else None
        if target is not None:
            self._target = QRectF(target.x, target.y, target.width, target.height)
        elif self._point is not None:
            side = float(AROUND_POINT)
            self._target = QRectF(self._point.x() - side, self._point.y() - side, 2 * side, 2 * side)
        else:
            self._target = QRectF()
        self._words = words
        self.setAccessibleDescription(words)
        self.fit_height()
        self.update()

    @property
    def target(self) -> QRectF:
        """The box that stays bright, in pixels of the picture; empty when nothing is known."""
        return self._target

    def fit_height(self) -> None:
        """As high as the whole picture is at this width."""
        image = self.image()
        if image.isNull():
            self.setFixedHeight(120)
            return
        ratio = self.devicePixelRatioF()
        whole = image.height() / image.width() * self.width()
        self.setFixedHeight(max(120, round(min(whole, TALLEST, image.height() / ratio))))

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Keep the picture's shape."""
        super().resizeEvent(event)
        if event.oldSize().width() != event.size().width():
            self.fit_height()

    def _paint_ghost(self, painter: QPainter, view: ImageView) -> None:
        if self._target.isEmpty():
            return
        theme = theme_of(self)
        image = self.to_view(QRectF(self.image().rect()))
        target = self.to_view(self._target.intersected(QRectF(self.image().rect())))
        if target.isEmpty():
            target = self.to_view(self._target)
        point = self.to_view(QRectF(self._point, QSizeF(0, 0))).topLeft() if self._point else None
        dim = QPainterPath()
        dim.addRect(image)
        hole = QPainterPath()
        hole.addRect(target)
        ink = QColor(theme.color("picture_ink"))
        ink.setAlphaF(DIM)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.fillPath(dim.subtracted(hole), ink)
        outline = target.adjusted(-AROUND, -AROUND, AROUND, AROUND)
        for width, role in ((5.0, "picture_ink"), (2.5, "picture_mark")):
            painter.setPen(QPen(theme.color(role), width))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.drawRoundedRect(outline, 3, 3)
        if point is not None:
            _paint_pointer(painter, point, theme)
        self._paint_plate(painter, image, target, point, theme)

    def _paint_plate(
        self, painter: QPainter, image: QRectF, target: QRectF, point: QPointF | None, theme: Theme
    ) -> None:
        bounds = image.intersected(self.rect().toRectF()).adjusted(4, 4, -4, -4)
        wide = painting.text_width(self._words, theme, "meta_strong") + 18
        size = QSizeF(min(wide, bounds.width()), 24)
        self.plate = place_plate(bounds, target, size, point) if self._words else QRectF()
        if self.plate.isEmpty():
            return
        ink, mark = theme.color("picture_ink"), theme.color("picture_mark")
        painting.box(painter, self.plate, 4, ink, mark)
        painter.setFont(theme.font("meta_strong"))
        painter.setPen(QColor("#FFFFFF"))
        metrics = painting.metrics_of(theme, "meta_strong")
        room = self.plate.adjusted(9, 0, -9, 0)
        words = legible(self._words, painter.font())
        words = metrics.elidedText(words, Qt.TextElideMode.ElideMiddle, room.width() + 1)
        painter.drawText(room, Qt.AlignmentFlag.AlignVCenter, words)


def _paint_pointer(painter: QPainter, at: QPointF, theme: Theme) -> None:
    arrow = QPolygonF([QPointF(at.x() + x, at.y() + y) for x, y in _ARROW])
    pen = QPen(theme.color("picture_ink"), 1.5)
    pen.setJoinStyle(Qt.PenJoinStyle.RoundJoin)
    painter.setPen(pen)
    painter.setBrush(QColor("#FFFFFF"))
    painter.drawPolygon(arrow)


AROUND = 6.0
"""The outline lies so far outside the target's box."""
GAP = 8.0
POINTER = QSizeF(18.0, 26.0)


def place_plate(bounds: QRectF, target: QRectF, size: QSizeF, point: QPointF | None = None) -> QRectF:
    """A place for a plate of this size within `bounds`: above the target, else below, left or right of it.

    The pointer at `point` is kept free as well, where there is room for that.
    """
    outline = target.adjusted(-AROUND - 3, -AROUND - 3, AROUND + 3, AROUND + 3)
    pointer = QRectF(point, POINTER) if point is not None else QRectF()
    both = outline.united(pointer) if point is not None else outline
    for keep_free in (both, outline):
        for place in _around(bounds, keep_free, size):
            if bounds.contains(place) and not place.intersects(keep_free):
                return place
    # The target leaves no room beside it: along the edge that is farthest from its middle.
    top = target.center().y() > bounds.center().y()
    y = bounds.top() if top else bounds.bottom() - size.height()
    return QRectF(QPointF(_within(target.center().x() - size.width() / 2, bounds, size), y), size)


def _around(bounds: QRectF, free: QRectF, size: QSizeF) -> list[QRectF]:
    along = _within(free.center().x() - size.width() / 2, bounds, size)
    down = free.center().y() - size.height() / 2
    down = max(bounds.top(), min(down, bounds.bottom() - size.height()))
    corners = (
        QPointF(along, free.top() - GAP - size.height()),
        QPointF(along, free.bottom() + GAP),
        QPointF(free.left() - GAP - size.width(), down),
        QPointF(free.right() + GAP, down),
    )
    return [QRectF(corner, size) for corner in corners]


def _within(x: float, bounds: QRectF, size: QSizeF) -> float:
    return max(bounds.left(), min(x, bounds.right() - size.width()))
