"""Small plots inside rows and tiles: a line of values, and a meter of per cents with its word and number."""

from __future__ import annotations

import math

from PySide6.QtCore import QPointF, QRectF, QSizeF, Qt
from PySide6.QtGui import QColor, QPainter, QPen, QPixmap, QPolygonF

from app.components import paint
from app.theme.theme import Theme

PERCENT = (0.0, 100.0)
HOT_PERCENT = 90.0
ROOM_FOR_SIGN = 110
MOST_KEPT = 1024
_kept: dict[tuple[object, ...], QPixmap] = {}


def paint_spark(
    painter: QPainter,
    rect: QRectF,
    values: tuple[float, ...] | list[float],
    theme: Theme,
    role: str = "text3",
    scale: tuple[float, float] | None = None,
    filled: bool = False,
) -> None:
    """Draw values as a thin line over the whole of `rect`.

    `scale` is what the lower and the upper edge stand for; without it the values' own least and most.
    """
    if len(values) < 2 or rect.width() < 1 or rect.height() < 1:
        return
    ratio = painter.device().devicePixelRatio()
    key = (tuple(values), rect.width(), rect.height(), theme.color(role).rgba(), scale, filled, ratio)
    if (kept := _kept.get(key)) is None:
        if len(_kept) >= MOST_KEPT:
            _kept.clear()
        kept = _kept[key] = _render(tuple(values), rect.size(), theme.color(role), scale, filled, ratio)
    painter.drawPixmap(QPointF(rect.x() - 1, rect.y() - 1), kept)


def _render(
    values: tuple[float, ...],
    size: QSizeF,
    color: QColor,
    scale: tuple[float, float] | None,
    filled: bool,
    ratio: float,
) -> QPixmap:
    """The line with a margin of 1 px, so that its ends keep their whole width."""
    pixmap = QPixmap(math.ceil((size.width() + 2) * ratio), math.ceil((size.height() + 2) * ratio))
    pixmap.setDevicePixelRatio(ratio)
    pixmap.fill(Qt.GlobalColor.transparent)
    painter = QPainter(pixmap)
    rect = QRectF(QPointF(1, 1), size)
    low, high = scale or (min(values), max(values))
    span = (high - low) or 1.0
    step = rect.width() / (len(values) - 1)
    left, bottom, height = rect.x(), rect.bottom(), rect.height()
    points = [
        QPointF(left + number * step, bottom - min(1.0, max(0.0, (value - low) / span)) * height)
        for number, value in enumerate(values)
    ]
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    if filled:
        area = QPolygonF([QPointF(left, bottom), *points, QPointF(rect.right(), bottom)])
        soft = QColor(color)
        soft.setAlphaF(0.22)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(soft)
        painter.drawPolygon(area)
        painter.setBrush(Qt.BrushStyle.NoBrush)
    painter.setPen(QPen(color, 1.2))
    painter.drawPolyline(QPolygonF(points))
    painter.end()
    return pixmap


def paint_meter(
    painter: QPainter, rect: QRectF, word: str, percents: list[float], theme: Theme, tone: str = "text3"
) -> None:
    """Draw a word, a line of per cents from 0 to 100, and the newest of them as a number.

    A load of 90 % and more is coloured; without any value a dash stands for the number.
    """
    newest = percents[-1] if percents else None
    hot = newest is not None and newest >= HOT_PERCENT
    # In a narrow place the line is worth more than the sign: the word says what is measured.
    sign = " %" if rect.width() >= ROOM_FOR_SIGN else ""
    number = "—" if newest is None else f"{newest:.0f}{sign}"
    taken = paint.text(painter, rect, word, theme, "meta", tone)
    width = max(paint.text_width(words, theme, "meta") for words in (f"99{sign}", number))
    place = QRectF(rect.right() - width, rect.y(), width, rect.height())
    right = Qt.AlignmentFlag.AlignRight
    paint.text(painter, place, number, theme, "meta", "warn" if hot else "text2", right)
    line = QRectF(rect.x() + taken + 5, rect.y() + 3, rect.width() - taken - width - 9, rect.height() - 6)
    if line.width() >= 12:
        role = "warn" if hot else "text3"
        paint_spark(painter, line, percents[-24:], theme, role, PERCENT, filled=True)
