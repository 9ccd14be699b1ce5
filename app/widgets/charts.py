"""Charts: a device's health over time with its round trip, CPU and memory; spark lines and meters in rows."""

from __future__ import annotations

import math
from dataclasses import dataclass

from PySide6.QtCore import QEvent, QPointF, QRectF, QSize, QSizeF, Qt
from PySide6.QtGui import QColor, QHelpEvent, QPainter, QPaintEvent, QPen, QPixmap, QPolygonF
from PySide6.QtWidgets import QSizePolicy, QToolTip, QWidget

from app.theme.shapes import paint_glyph
from app.theme.state_looks import health_look
from app.theme.theme import Theme, theme_of
from app.widgets import painting
from app.widgets.labels import escaped_tooltip

BAND = 14
_FILLS = {
    "online": ("ok_tint", "ok"),
    "busy": ("accent_tint", "accent"),
    "stale": ("warn_tint", "warn"),
    "reconnecting": ("warn_tint", "warn"),
    "offline": ("low_tint", "text3"),
}


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of one health: `start` and `end` are shares of the band, `words` say when and why."""

    health: str
    start: float
    end: float
    words: str


@dataclass(frozen=True, slots=True)
class Series:
    """One line with its title, newest value in words, and the scale of its edges."""

    title: str
    value: str
    values: tuple[float, ...]
    scale: tuple[float, float] | None = None

    @classmethod
    def percent(cls, title: str, values: list[float]) -> Series:
        """A load in per cent."""
        return cls(title, f"{values[-1]:.0f} %" if values else "not told", tuple(values), PERCENT)


class HealthPlot(QWidget):
    """Band and lines; every stretch is colour, pattern and, where it is wide enough, a shape."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.spans: tuple[Span, ...] = ()
        self._series: tuple[Series, ...] = ()
        self._from, self._to = "", ""
        self.setMouseTracking(True)
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Fixed)
        self.setAccessibleName("Health over time")

    def show_health(self, spans: tuple[Span, ...], first: str, last: str) -> None:
        """Show stretches between two times in words."""
        self.spans, self._from, self._to = spans, first, last
        told = "; ".join(span.words for span in spans)
        self.setAccessibleDescription(told)
        self.updateGeometry()
        self.update()

    def show_series(self, series: tuple[Series, ...]) -> None:
        """Show lines below the band."""
        if series != self._series:
            self._series = series
            self.updateGeometry()
            self.update()

    def sizeHint(self) -> QSize:
        """Band with its times, and the lines."""
        return QSize(200, (BAND + 18 if self.spans else 0) + (50 if self._series else 0))

    def minimumSizeHint(self) -> QSize:
        """As high as it is."""
        return QSize(120, self.sizeHint().height())

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw the band, its times, then the lines side by side."""
        theme = theme_of(self)
        painter = QPainter(self)
        top = 0.0
        if self.spans:
            for span in self.spans:
                self._paint_span(painter, span, theme)
            times = QRectF(0, BAND + 1, self.width(), 16)
            painting.text(painter, times, self._from, theme, "label", "text3")
            right = Qt.AlignmentFlag.AlignRight
            painting.text(painter, times, self._to, theme, "label", "text3", right)
            top = BAND + 20.0
        if self._series:
            gap = 14.0
            width = (self.width() - gap * (len(self._series) - 1)) / len(self._series)
            for number, series in enumerate(self._series):
                place = QRectF(number * (width + gap), top, width, 46)
                _paint_series(painter, place, series, theme)
        painter.end()

    def _place(self, span: Span) -> QRectF:
        left, right = round(span.start * self.width()), round(span.end * self.width())
        return QRectF(left, 0, max(2, right - left), BAND)

    def _paint_span(self, painter: QPainter, span: Span, theme: Theme) -> None:
        place = self._place(span)
        tint, ink = _FILLS.get(span.health, _FILLS["offline"])
        painter.fillRect(place, theme.color(tint))
        # Patterns, so that a grey print tells them apart: a line at the foot is well, stripes are not.
        if span.health in ("online", "busy"):
            high = 4.0 if span.health == "online" else 9.0
            painter.fillRect(QRectF(place.x(), place.bottom() - high, place.width(), high), theme.color(ink))
        elif span.health == "offline":
            painter.fillRect(QRectF(place.x(), place.center().y(), place.width(), 1), theme.color(ink))
        else:
            painting.stripes(painter, place, theme.color(tint), theme.color(ink))
        if place.width() >= 40 and span.health == "offline":
            mark = QRectF(place.center().x() - 6, place.center().y() - 6, 12, 12)
            painter.fillRect(mark.adjusted(-2, -1, 2, 1), theme.color(tint))
            paint_glyph(painter, mark, health_look(span.health).glyph, theme.color(ink))

    def event(self, event: QEvent) -> bool:
        """Say when and why of the stretch under the pointer."""
        if event.type() == QEvent.Type.ToolTip and isinstance(event, QHelpEvent):
            words = self.words_at(event.pos().x()) if event.pos().y() <= BAND + 4 else ""
            if words:
                QToolTip.showText(event.globalPos(), escaped_tooltip(words), self)
            else:
                QToolTip.hideText()
            return True
        return super().event(event)

    def words_at(self, x: int) -> str:
        """What is told of the stretch at a place."""
        return next((span.words for span in self.spans if self._place(span).contains(x, 2)), "")


def _paint_series(painter: QPainter, place: QRectF, series: Series, theme: Theme) -> None:
    head = QRectF(place.x(), place.y(), place.width(), 16)
    hot = series.scale == PERCENT and series.values and series.values[-1] >= HOT_PERCENT
    taken = painting.text(painter, head, series.title, theme, "label", "text3")
    value = head.adjusted(taken + 6, 0, 0, 0)
    right = Qt.AlignmentFlag.AlignRight
    painting.text(painter, value, series.value, theme, "label", "warn" if hot else "text", right)
    line = QRectF(place.x(), place.y() + 19, place.width(), 24)
    painter.setPen(QPen(theme.color("border"), 1))
    painter.drawLine(QPointF(line.x(), line.bottom() + 1.5), QPointF(line.right(), line.bottom() + 1.5))
    paint_spark(painter, line, series.values, theme, "warn" if hot else "accent", series.scale, filled=True)


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
    taken = painting.text(painter, rect, word, theme, "meta", tone)
    width = max(painting.text_width(words, theme, "meta") for words in (f"99{sign}", number))
    place = QRectF(rect.right() - width, rect.y(), width, rect.height())
    right = Qt.AlignmentFlag.AlignRight
    painting.text(painter, place, number, theme, "meta", "warn" if hot else "text2", right)
    line = QRectF(rect.x() + taken + 5, rect.y() + 3, rect.width() - taken - width - 9, rect.height() - 6)
    if line.width() >= 12:
        role = "warn" if hot else "text3"
        paint_spark(painter, line, percents[-24:], theme, role, PERCENT, filled=True)
