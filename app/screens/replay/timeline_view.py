"""The lanes: who did what when, under an axis of time, with the playhead that is dragged to scrub.

What does not move with the playhead is painted once into a pixmap for the stretch of time that is shown, so
that a step of a run with ten thousand spans draws one pixmap, one line and a few labels.
"""

from __future__ import annotations

from bisect import bisect_right

from PySide6.QtCore import QEvent, QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import (
    QColor,
    QHelpEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QPixmap,
    QPolygonF,
    QResizeEvent,
    QWheelEvent,
)
from PySide6.QtWidgets import QScrollBar, QSizePolicy, QToolTip, QWidget

from app.screens.replay.text import Clock
from app.screens.replay.time_axis import Ticks, ticks_between
from app.screens.replay.timeline_index import TimelineIndex
from app.screens.replay.timeline_painter import MARK, TimelinePainter, mark_words, span_words
from app.text import one_line
from app.theme.theme import Theme, theme_of
from app.widgets import painting
from app.widgets.labels import escaped_tooltip
from core.replay.models import Mark, Span

MOST_LANES = 6
# What a person or an agent does without taking time: drawn as a small outline on their lane.
# Who asked is the actor of `command_sent`, too, if the request stands in it.
ASKING = frozenset(
    {"run_started", "command_prepared", "command_sent", "run_cancel_asked", "all_stopped", "all_resumed"}
)
PAD = 7
LEAST_BRUSH = 5
LEAST_RANGE_S = 0.02
LEAST_NAMES, MOST_NAMES = 104, 240


class TimelineView(QWidget):
    """Lanes under a time axis.

    Signals:
        scrubbed(seconds): the operator moved the playhead to this time.
        range_changed: another stretch of time is shown.
    """

    scrubbed = Signal(float)
    range_changed = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._reel: TimelineIndex | None = None
        self._clock = Clock()
        self._production: frozenset[str] = frozenset()
        self._at = 0.0
        self._found: list[float] = []
        self._range: tuple[float, float] | None = None
        self._row, self._axis = 35, 20
        self._names = LEAST_NAMES
        self._all_lanes: dict[str, list[Span]] = {}
        self._only: frozenset[str] | None = None
        self._by_lane: dict[str, list[Span]] = {}
        self._asked: dict[str, list[float]] = {}
        self._drawn = QPixmap()
        self._drawn_for: object = None
        self._brush: tuple[float, float] | None = None
        self._dragging = ""
        self._bar = QScrollBar(Qt.Orientation.Vertical, self)
        self._bar.valueChanged.connect(lambda *_: self.update())
        self._bar.hide()
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setProperty("own_ring", True)
        self.setAccessibleName("Lanes over time")

    # What is shown

    def set_compact(self, low: bool) -> None:
        """Lanes of 35 px, or 24 in a low window."""
        self._row, self._axis = (24, 18) if low else (35, 20)
        self._fit()

    def show_reel(self, reel: TimelineIndex | None, clock: Clock, production: frozenset[str]) -> None:
        """Show another timeline, or a longer one; a stretch that was zoomed to stays."""
        self._reel, self._clock, self._production = reel, clock, production
        self._all_lanes = {lane: [] for lane in reel.timeline.lanes} if reel else {}
        for span in reel.timeline.spans if reel else ():
            self._all_lanes.setdefault(span.lane, []).append(span)
        self._asked = {}
        for moment in reel.moments if reel else ():
            if moment.kind in ASKING:
                self._asked.setdefault(moment.actor, []).append(moment.at)
        theme = theme_of(self)
        widest = max(
            (painting.text_width(one_line(lane), theme, "name") for lane in self._all_lanes), default=0.0
        )
        self._names = max(LEAST_NAMES, min(MOST_NAMES, round(widest) + 28))
        self._choose_lanes()

    def _choose_lanes(self) -> None:
        """Where there are more lanes than fit, a search leaves those that it found something on."""
        narrow = self._only is not None and len(self._all_lanes) > MOST_LANES
        self._by_lane = {
            lane: spans
            for lane, spans in self._all_lanes.items()
            if not narrow or (self._only is not None and lane in self._only)
        }
        self._drawn_for = None
        self._fit()

    @property
    def shown_lanes(self) -> list[str]:
        """The names of the lanes that can be scrolled to, from top to bottom."""
        return list(self._by_lane)

    def show_clock(self, clock: Clock) -> None:
        """Write times another way."""
        self._clock = clock
        self.update()

    def show_at(self, seconds: float, words: str) -> None:
        """Put the playhead here; a zoomed stretch follows it."""
        self._at = seconds
        if self._range is not None and not self._dragging:
            start, end = self._range
            if not start <= seconds <= end:
                half = (end - start) / 2
                self._range = self._bounded(seconds - half, seconds + half)
        self.setAccessibleDescription(words)
        self.update()

    def show_found(self, times: list[float], lanes: frozenset[str] | None = None) -> None:
        """Tick the moments that a search found, and of many lanes show these; None for all."""
        self._found = times
        if lanes != self._only:
            self._only = lanes
            self._choose_lanes()
        self.update()

    def reset_range(self) -> bool:
        """Show everything again; False when that is so already."""
        if self._brush is not None or self._range is not None:
            self._brush, self._range, self._dragging = None, None, ""
            self.range_changed.emit()
            self.update()
            return True
        return False

    def zoom(self, factor: float) -> None:
        """Show more of the time around the playhead (below 1), or less (above 1)."""
        start, end = self.range()
        width = (end - start) / factor
        if width >= self._whole()[1]:
            self.reset_range()
            return
        self.zoom_to(self._at - width / 2, self._at + width / 2)

    def zoom_to(self, start: float, end: float) -> None:
        """Show this stretch of time."""
        self._range = self._bounded(min(start, end), max(start, end))
        self.range_changed.emit()
        self.update()

    @property
    def zoomed(self) -> bool:
        """Whether only a stretch is shown."""
        return self._range is not None

    def range(self) -> tuple[float, float]:
        """The first and last second that are shown."""
        return self._range or self._whole()

    def _whole(self) -> tuple[float, float]:
        return (0.0, max(self._reel.timeline.length_s, LEAST_RANGE_S)) if self._reel else (0.0, 1.0)

    def _bounded(self, start: float, end: float) -> tuple[float, float]:
        last = self._whole()[1]
        width = min(last, max(end - start, LEAST_RANGE_S))
        start = max(0.0, min(start, last - width))
        return start, start + width

    # Places

    def x_at(self, seconds: float) -> float:
        """Where a time is in the widget."""
        start, end = self.range()
        return self._left() + (seconds - start) / (end - start) * self._width()

    def time_at(self, x: float) -> float:
        """Which time is at a place."""
        start, end = self.range()
        part = (x - self._left()) / max(1.0, self._width())
        return start + min(1.0, max(0.0, part)) * (end - start)

    def _left(self) -> float:
        return self._names + PAD

    def _width(self) -> float:
        bar = self._bar.width() if self._bar.isVisibleTo(self) else 0
        return max(1.0, self.width() - self._left() - 16 - bar)

    def row_rect(self, lane: str) -> QRectF:
        """Where a lane is in the widget."""
        number = list(self._by_lane).index(lane)
        return QRectF(0, self._axis + number * self._row - self._bar.value(), self.width(), self._row)

    def sizeHint(self) -> QSize:
        """The axis and up to six lanes."""
        lanes = max(1, min(MOST_LANES, len(self._all_lanes)))
        return QSize(480, self._axis + lanes * self._row)

    def _fit(self) -> None:
        self.setFixedHeight(self.sizeHint().height())
        self._place_bar()
        self.update()

    def _place_bar(self) -> None:
        seen = self.height() - self._axis
        whole = len(self._by_lane) * self._row
        self._bar.setRange(0, max(0, whole - seen))
        self._bar.setPageStep(seen)
        self._bar.setSingleStep(self._row)
        self._bar.setVisible(whole > seen)
        width = self._bar.sizeHint().width()
        self._bar.setGeometry(self.width() - width, self._axis, width, seen)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Keep the scroll bar at the right."""
        super().resizeEvent(event)
        self._place_bar()

    # Painting

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw lanes from their pixmap, then axis, brush and playhead."""
        theme = theme_of(self)
        painter = QPainter(self)
        painter.fillRect(self.rect(), theme.color("base"))
        if self._reel is None:
            painter.end()
            return
        start, end = self.range()
        ticks = ticks_between(start, end, self._width(), self._clock, self._reel.timeline.start)
        painter.save()
        painter.setClipRect(QRectF(0, self._axis, self.width(), self.height() - self._axis))
        painter.drawPixmap(QPointF(0, self._axis - self._bar.value()), self._still_part(theme, ticks))
        painter.restore()
        self._paint_axis(painter, ticks, theme)
        self._paint_brush(painter, theme)
        self._paint_playhead(painter, theme)
        if self.hasFocus():
            painter.fillRect(QRectF(0, 0, 2, self.height()), theme.color("accent"))
        painter.end()

    def _still_part(self, theme: Theme, ticks: Ticks) -> QPixmap:
        assert self._reel is not None
        ratio = self.devicePixelRatioF()
        height = max(1, len(self._by_lane)) * self._row
        key = (self.range(), self.width(), height, ratio, theme.mode, self._names, self._clock)
        if self._drawn_for != key:
            self._drawn_for = key
            self._drawn = QPixmap(round(self.width() * ratio), round(height * ratio))
            self._drawn.setDevicePixelRatio(ratio)
            self._drawn.fill(theme.color("base"))
            painter = QPainter(self._drawn)
            lanes = TimelinePainter(
                painter, theme, self, self._row, self._left(), self._left() + self._width()
            )
            lanes.paint_grid([self.x_at(tick) for tick in ticks.places], list(self._by_lane))
            for number, (lane, spans) in enumerate(self._by_lane.items()):
                lanes.paint_name(number, lane, self._names, lane in self._production)
                marks = [mark for mark in self._reel.timeline.marks if mark.lane == lane]
                lanes.paint_asked(number, self._asked.get(lane, []))
                lanes.paint_lane(number, spans, marks, self._reel.timeline.length_s)
            painter.end()
        return self._drawn

    def _paint_axis(self, painter: QPainter, ticks: Ticks, theme: Theme) -> None:
        head = self.x_at(self._at)
        for tick, words in zip(ticks.places, ticks.words, strict=True):
            x = self.x_at(tick)
            width = painting.text_width(words, theme, "hint")
            left = min(x + 4, self.width() - width - 4)
            if not left - 10 < head < left + width + 8:
                painting.text(painter, QRectF(left, 0, width + 2, self._axis), words, theme, "hint", "text3")
        if len(self._by_lane) < len(self._all_lanes):
            words = f"{len(self._by_lane):,} of {len(self._all_lanes):,} lanes"
            painting.text(painter, QRectF(16, 0, self._names - 16, self._axis), words, theme, "hint", "text3")
        for found in self._found:
            x = self.x_at(found)
            if self._left() <= x <= self._left() + self._width():
                painter.fillRect(QRectF(round(x) - 1, self._axis - 5, 2, 4), theme.color("accent"))
        line = QRectF(0, self._axis - 1, self.width(), 1)
        painter.fillRect(line, theme.color("border"))

    def _paint_brush(self, painter: QPainter, theme: Theme) -> None:
        if self._brush is None:
            return
        left, right = sorted(self._brush)
        area = QRectF(left, 0, right - left, self.height())
        tint = QColor(theme.color("accent"))
        tint.setAlphaF(0.07)
        painter.fillRect(area, tint)
        for x in (left, right):
            painter.fillRect(QRectF(round(x), 0, 1, self.height()), theme.color("accent"))

    def _paint_playhead(self, painter: QPainter, theme: Theme) -> None:
        x = self.x_at(self._at)
        if not self._left() - 1 <= x <= self._left() + self._width() + 1:
            return
        accent = theme.color("accent")
        painter.fillRect(QRectF(x - 0.75, self._axis - 6, 1.5, self.height()), accent)
        top = self._axis - 14
        flag = [(-5, 0), (5, 0), (5, 6), (0, 11), (-5, 6)]
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(accent)
        painter.drawPolygon(QPolygonF([QPointF(x + dx, top + dy) for dx, dy in flag]))

    # Hands

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """On the axis a brush begins, below it the playhead is taken."""
        if event.button() != Qt.MouseButton.LeftButton or self._reel is None:
            return
        x = event.position().x()
        if event.position().y() < self._axis:
            self._dragging, self._brush = "brush", (x, x)
        else:
            self._dragging = "playhead"
            self.scrubbed.emit(self.time_at(x))

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        """Drag the playhead, or the brush's other edge."""
        x = event.position().x()
        if self._dragging == "playhead":
            self.scrubbed.emit(self.time_at(x))
        elif self._dragging == "brush" and self._brush is not None:
            edge = min(self._left() + self._width(), max(self._left(), x))
            self._brush = (self._brush[0], edge)
            self.update()

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        """Zoom to what was brushed; a press without a move on the axis goes there."""
        brush, dragging = self._brush, self._dragging
        self._brush, self._dragging = None, ""
        if dragging == "brush" and brush is not None:
            if abs(brush[1] - brush[0]) >= LEAST_BRUSH:
                self.zoom_to(self.time_at(brush[0]), self.time_at(brush[1]))
            else:
                self.scrubbed.emit(self.time_at(brush[0]))
        self.update()

    def wheelEvent(self, event: QWheelEvent) -> None:
        """Scroll the lanes; with Ctrl, zoom around the playhead."""
        turned = event.angleDelta().y()
        if event.modifiers() & Qt.KeyboardModifier.ControlModifier and turned:
            self.zoom(1.25 ** (turned / 120))
        else:
            self._bar.setValue(self._bar.value() - turned // 2)
        event.accept()

    def event(self, event: QEvent) -> bool:
        """Say what is under the pointer."""
        if event.type() == QEvent.Type.ToolTip and isinstance(event, QHelpEvent):
            words = self.words_at(QPointF(event.pos()))
            if words:
                QToolTip.showText(event.globalPos(), escaped_tooltip(words), self)
            else:
                QToolTip.hideText()
            return True
        return super().event(event)

    def words_at(self, point: QPointF) -> str:
        """What is at a place, in words; empty where nothing is."""
        thing = self.thing_at(point)
        if thing is None or self._reel is None:
            return ""
        if isinstance(thing, Mark):
            return mark_words(thing, self._reel, self._clock)
        return span_words(thing, self._reel, self._clock)

    def thing_at(self, point: QPointF) -> Span | Mark | None:
        """The decision or the span at a place."""
        number = int((point.y() - self._axis + self._bar.value()) // self._row)
        lanes = list(self._by_lane)
        if point.y() < self._axis or not 0 <= number < len(lanes) or self._reel is None:
            return None
        lane = lanes[number]
        for mark in self._reel.timeline.marks:
            if mark.lane == lane and abs(self.x_at(mark.at) - point.x()) <= MARK / 2 + 1:
                return mark
        late = self.time_at(point.x() + 2)
        spans = self._by_lane[lane]
        last = bisect_right(spans, late, key=lambda span: span.start)
        for span in reversed(spans[:last]):
            end = self._reel.timeline.length_s if span.end is None else span.end
            if max(self.x_at(end), self.x_at(span.start) + 4) >= point.x() - 2 and span.start <= late:
                return span
        return None
