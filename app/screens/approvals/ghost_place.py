"""Where the words of a ghost go on a picture: neither over its target nor over an edge. No painting."""

from __future__ import annotations

from PySide6.QtCore import QPointF, QRectF, QSizeF

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
