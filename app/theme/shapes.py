"""Painted shapes of risks, verdicts, cell states and health, drawn as paths at device pixels.

They are not drawn from files: many are made of the same parts (an octagon, a check), and each must be told
apart by shape alone. Coordinates are on a grid of 24 by 24; a glyph fills the rectangle it is given.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QPainter, QPainterPath, QPainterPathStroker, QPen, QPolygonF, QTransform

from app.theme.tokens import TURN_STEPS

Points = tuple[tuple[float, float], ...]


def _polygon(points: Points) -> QPainterPath:
    path = QPainterPath()
    path.addPolygon(QPolygonF([QPointF(x, y) for x, y in points]))
    path.closeSubpath()
    return path


def _line(points: Points, width: float = 2.2) -> QPainterPath:
    """The outline of a pen stroke, so that a shape of strokes fills like any other."""
    path = QPainterPath(QPointF(*points[0]))
    for x, y in points[1:]:
        path.lineTo(x, y)
    pen = QPainterPathStroker()
    pen.setWidth(width)
    pen.setCapStyle(Qt.PenCapStyle.FlatCap)
    pen.setJoinStyle(Qt.PenJoinStyle.MiterJoin)
    return pen.createStroke(path)


def _disc(radius: float = 10.0) -> QPainterPath:
    path = QPainterPath()
    path.addEllipse(QPointF(12, 12), radius, radius)
    return path


def _ring(radius: float = 10.0, width: float = 2.0) -> QPainterPath:
    return _disc(radius).subtracted(_disc(radius - width))


def _arc(start: float, span: float, radius: float = 9.0, width: float = 2.2) -> QPainterPath:
    path = QPainterPath()
    box = QRectF(12 - radius, 12 - radius, 2 * radius, 2 * radius)
    path.arcMoveTo(box, start)
    path.arcTo(box, start, span)
    pen = QPainterPathStroker()
    pen.setWidth(width)
    pen.setCapStyle(Qt.PenCapStyle.FlatCap)
    return pen.createStroke(path)


def _octagon(radius: float = 12.0) -> QPainterPath:
    half = math.pi / 8
    return _polygon(
        tuple(
            (12 + radius * math.cos(half + i * math.pi / 4), 12 + radius * math.sin(half + i * math.pi / 4))
            for i in range(8)
        )
    )


def _rhombus(reach: float) -> QPainterPath:
    return _polygon(((12, 12 - reach), (12 + reach, 12), (12, 12 + reach), (12 - reach, 12)))


def _check(width: float = 2.4) -> QPainterPath:
    return _line(((6.3, 12.4), (10.3, 16.3), (17.7, 8.6)), width)


def _cross(reach: float = 4.2) -> QPainterPath:
    low, high = 12 - reach, 12 + reach
    return _line(((low, low), (high, high))).united(_line(((low, high), (high, low))))


def _sand() -> QPainterPath:
    glass = _line(((6.5, 3.6), (17.5, 3.6)), 2.2).united(_line(((6.5, 20.4), (17.5, 20.4)), 2.2))
    glass = glass.united(_line(((7.6, 3.6), (7.6, 7.6), (12, 12), (16.4, 7.6), (16.4, 3.6)), 1.9))
    glass = glass.united(_line(((7.6, 20.4), (7.6, 16.4), (12, 12), (16.4, 16.4), (16.4, 20.4)), 1.9))
    return glass.united(_polygon(((9, 20), (12, 15.5), (15, 20))))


def _question() -> QPainterPath:
    hook = QPainterPath(QPointF(9.4, 10.2))
    hook.cubicTo(9.4, 6.6, 14.6, 6.6, 14.6, 10.0)
    hook.cubicTo(14.6, 12.0, 12.0, 12.0, 12.0, 14.2)
    pen = QPainterPathStroker()
    pen.setWidth(1.9)
    dot = QPainterPath()
    dot.addEllipse(QPointF(12, 16.6), 1.25, 1.25)
    return pen.createStroke(hook).united(dot)


def _sync() -> QPainterPath:
    top = _arc(25, 130, 7.5).united(_polygon(((19.2, 3.6), (19.2, 10.4), (13.6, 9.6))))
    low = _arc(205, 130, 7.5).united(_polygon(((4.8, 20.4), (4.8, 13.6), (10.4, 14.4))))
    # The arrows are drawn close to the grid's edge: at 12 px the shape has to read from its outline.
    return QTransform().translate(12, 12).scale(1.22, 1.22).translate(-12, -12).map(top.united(low))


def _slice() -> QPainterPath:
    pie = QPainterPath(QPointF(12, 12))
    pie.arcTo(QRectF(5, 5, 14, 14), 90, -270)
    pie.closeSubpath()
    return _ring().united(pie)


def _half() -> QPainterPath:
    left = QPainterPath(QPointF(12, 2))
    left.arcTo(QRectF(2, 2, 20, 20), 90, 180)
    left.closeSubpath()
    return _ring().united(left)


def _step_over() -> QPainterPath:
    head = _polygon(((21.5, 7.0), (21.5, 14.6), (14.4, 14.6)))
    dot = QPainterPath()
    dot.addEllipse(QPointF(12, 18.5), 2.2, 2.2)
    return _arc(20, 140, 8.4, 2.2).translated(-0.4, 3).united(head).united(dot)


def _soft_wrap() -> QPainterPath:
    hook = QPainterPath(QPointF(5, 5))
    hook.lineTo(15, 5)
    hook.arcTo(QRectF(10, 5, 10, 10), 90, -180)
    hook.lineTo(6, 15)
    pen = QPainterPathStroker()
    pen.setWidth(2.0)
    pen.setCapStyle(Qt.PenCapStyle.FlatCap)
    return pen.createStroke(hook).united(_line(((10, 10), (5, 15), (10, 20)), 2))


def _stop_square() -> QPainterPath:
    path = QPainterPath()
    path.addRect(QRectF(8.3, 8.3, 7.4, 7.4))
    return path


def _dashed_ring() -> QPainterPath:
    path = QPainterPath()
    for step in range(TURN_STEPS):
        path = path.united(_arc(step * 45 + 8, 29))
    return path


def _pause() -> QPainterPath:
    return _line(((8.5, 5), (8.5, 19)), 4).united(_line(((15.5, 5), (15.5, 19)), 4))


_SHAPES: dict[str, Callable[[], QPainterPath]] = {
    "circle": lambda: _disc(10),
    "triangle": lambda: _polygon(((12, 2), (23, 21.5), (1, 21.5))),
    "diamond": lambda: _rhombus(12),
    "octagon": lambda: _octagon(12.99),
    "check": lambda: _line(((4, 12.6), (9.4, 18), (20.4, 6.6)), 2.6),
    "check_disc": lambda: _disc(10.5).subtracted(_check()),
    "check_ring": lambda: _ring(10.5, 2).united(_check(2.2)),
    "minus_ring": lambda: _ring(10.5, 2).united(_line(((7, 12), (17, 12)))),
    "minus": lambda: _line(((4.5, 12), (19.5, 12)), 2.2),
    "cancel": lambda: _ring(10.5, 2.2).united(_line(((5, 5), (19, 19)), 2.2)),
    "help_rhombus": lambda: _rhombus(12).subtracted(_rhombus(9.2)).united(_question()),
    "stop_ring": lambda: _ring(10.5, 2).united(_stop_square()),
    "cross_octagon": lambda: _octagon(11.6).subtracted(_cross()),
    "sand": _sand,
    "ring": _dashed_ring,
    "dot": lambda: _disc(2.6),
    "step_over": _step_over,
    "pause": _pause,
    "slice": _slice,
    "half": _half,
    "sync": _sync,
    "circle_off": lambda: _ring(9.4, 2).united(_line(((3.2, 3.2), (20.8, 20.8)), 2.0)),
    # A line break in the bytes turns a corner; a wrap that is only drawn is an open hook.
    "line_end": lambda: _line(((21, 5), (21, 14), (5, 14)), 2).united(_polygon(((2, 14), (9, 9), (9, 19)))),
    "soft_wrap": _soft_wrap,
    "sort_up": lambda: _line(((12, 20), (12, 5)), 2).united(_line(((6, 11), (12, 5), (18, 11)), 2)),
    "sort_down": lambda: _line(((12, 4), (12, 19)), 2).united(_line(((6, 13), (12, 19), (18, 13)), 2)),
    "chevron_down": lambda: _line(((5.5, 9), (12, 15.5), (18.5, 9)), 2.2),
    "chevron_right": lambda: _line(((9, 5.5), (15.5, 12), (9, 18.5)), 2.2),
}
GLYPHS = tuple(_SHAPES)
_made: dict[str, QPainterPath] = {}


def glyph_path(name: str) -> QPainterPath:
    """The shape on its grid of 24 by 24.

    Raises:
        KeyError: there is no such glyph.
    """
    if (path := _made.get(name)) is None:
        path = _made[name] = _SHAPES[name]().simplified()
        path.setFillRule(Qt.FillRule.OddEvenFill)
    return path


def paint_glyph(painter: QPainter, rect: QRectF, name: str, color: QColor, step: int = 0) -> None:
    """Fill the glyph into the largest square in the middle of `rect`.

    `step` counts eighths of a turn for the running ring, whose segments fade behind its head.
    """
    side = min(rect.width(), rect.height())
    painter.save()
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.setPen(QPen(Qt.PenStyle.NoPen))
    painter.translate(rect.center().x() - side / 2, rect.center().y() - side / 2)
    painter.scale(side / 24, side / 24)
    if name == "ring":
        _paint_ring(painter, color, step)
    else:
        painter.fillPath(glyph_path(name), color)
    painter.restore()


def _paint_ring(painter: QPainter, color: QColor, step: int) -> None:
    for part in range(TURN_STEPS):
        faded = QColor(color)
        # The head is full, the tail 45 %: the ring still has one shape when it does not turn.
        faded.setAlphaF(1.0 - 0.55 * part / (TURN_STEPS - 1))
        painter.fillPath(_ring_part((step - part) % TURN_STEPS), faded)


def _ring_part(place: int) -> QPainterPath:
    name = f"ring{place}"
    if (path := _made.get(name)) is None:
        path = _made[name] = _arc(90 - place * 45 - 37, 29)
    return path
