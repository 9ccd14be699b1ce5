"""How spans and decisions look in a lane."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from PySide6.QtCore import QRectF
from PySide6.QtGui import QColor, QPainter

from app.screens.replay.text import Clock, lasting
from app.screens.replay.timeline_index import TimelineIndex
from app.text import one_line
from app.theme.shapes import paint_glyph
from app.theme.theme import Theme
from app.widgets import painting
from app.widgets.badges import paint_production_band
from core.replay.models import Mark, Span

SPAN = 16
MARK = 11
LEAST_SPAN = 4.0
EDGE = 14  # how far words may stand out of the range, towards the edge of the window
_GLYPHS = {"approved": ("diamond", "ok"), "denied": ("diamond", "fail"), "expired": ("diamond", "fail")}
_TONES = {"failed": "fail", "unknown": "unknown", "lost": "warn", "approval_wait": "waiting"}


class Scale(Protocol):
    """Knows where a time is."""

    def x_at(self, seconds: float) -> float:
        """The place of a time in px."""


class TimelinePainter:
    """Paints the still part of the lanes, from y = 0."""

    def __init__(
        self, painter: QPainter, theme: Theme, scale: Scale, row: int, left: float, right: float
    ) -> None:
        self._painter, self._theme, self._scale = painter, theme, scale
        self._row, self._left, self._right = row, left, right
        self._taken: list[tuple[float, float]] = []  # what stands in the lane that is being painted

    def paint_grid(self, places: Sequence[float], lanes: Sequence[str]) -> None:
        """Draw hairlines at the ticks and below the lanes."""
        height = max(1, len(lanes)) * self._row
        line = self._theme.color("border")
        for x in places:
            self._painter.fillRect(QRectF(round(x), 0, 1, height), line)
        for number in range(len(lanes)):
            y = (number + 1) * self._row - 1
            self._painter.fillRect(QRectF(0, y, self._right + 64, 1), line)

    def paint_name(self, number: int, lane: str, width: int, production: bool) -> None:
        """Write whose lane it is."""
        row = QRectF(0, number * self._row, width, self._row)
        if production:
            paint_production_band(self._painter, QRectF(3, row.y(), 5, row.height() - 3), self._theme)
        name = row.adjusted(16, 0, -4, 0)
        painting.text(self._painter, name, one_line(lane), self._theme, "name", "text")

    def paint_lane(self, number: int, spans: Sequence[Span], marks: Sequence[Mark], until: float) -> None:
        """Draw the spans and decisions of one lane; what has not ended reaches to `until`."""
        self._painter.save()
        area = QRectF(self._left - 2, number * self._row, self._right - self._left + 20, self._row)
        self._painter.setClipRect(area)
        shapes = [shape for span in spans if (shape := self._shape(number, span, until)) is not None]
        shapes = _thinned(shapes)
        diamonds = [self._diamond(number, mark) for mark in marks]
        drawn = [rect for _, rect in shapes] + diamonds
        self._taken = [(rect.left(), rect.right()) for rect in drawn]
        for span, rect in shapes:
            self._paint_span(span, rect)
        for span, rect in shapes:
            self._paint_label(span, rect)
        waits = [rect for span, rect in shapes if span.kind == "approval_wait"]
        for mark, rect in zip(marks, diamonds, strict=True):
            glyph, tone = _GLYPHS[mark.kind]
            if not self._beside(rect, mark.kind, "text2"):
                self._on_wait(rect, mark.kind, waits)
            paint_glyph(self._painter, rect, glyph, self._theme.color(tone))
        self._painter.restore()

    def paint_asked(self, number: int, times: Sequence[float]) -> None:
        """Draw what was asked for as small outlines, one for each place on the screen."""
        y = number * self._row + (self._row - SPAN) // 2
        last = -1e9
        for at in times:
            x = round(self._scale.x_at(at))
            if x - last >= 3 and self._left - 2 <= x <= self._right + 2:
                last = x
                painting.box(self._painter, QRectF(x, y, 6, SPAN), 2, None, self._theme.color("border2"))

    def _shape(self, number: int, span: Span, until: float) -> tuple[Span, QRectF] | None:
        end = until if span.end is None else span.end
        left, right = self._scale.x_at(span.start), self._scale.x_at(end)
        if right < self._left - 4 or left > self._right + 4:
            return None
        left, right = max(left, self._left - 20), min(right, self._right + 20)
        y = number * self._row + (self._row - SPAN) // 2
        return span, QRectF(round(left), y, max(LEAST_SPAN, round(right - left)), SPAN)

    def _diamond(self, number: int, mark: Mark) -> QRectF:
        x = self._scale.x_at(mark.at)
        return QRectF(x - MARK / 2, number * self._row + (self._row - MARK) / 2, MARK, MARK)

    def _paint_span(self, span: Span, rect: QRectF) -> None:
        painter, theme = self._painter, self._theme
        match span.kind:
            case "action":
                painting.box(painter, rect, 2, theme.color("accent_fill"))
            case "observation":
                painting.box(painter, rect, 2, theme.color("border2"))
            case "approval_wait":
                painting.stripes(painter, rect, theme.color("waiting_tint"), _mixed(theme, "waiting"))
                painting.box(painter, rect, 2, None, theme.color("waiting"))
            case "lost":
                painting.stripes(painter, rect, theme.color("warn_tint"), _mixed(theme, "warn"))
                painting.box(painter, rect, 2, None, theme.color("warn"), dashed=True)
            case "failed":
                painting.box(painter, rect, 2, theme.color("fail_tint"), theme.color("fail"))
            case "unknown":
                painting.box(painter, rect, 2, theme.color("unknown_tint"), theme.color("unknown"))
        if span.end is None:
            # What still goes on has an open end.
            painter.fillRect(QRectF(rect.right() - 2, rect.y() - 2, 2, SPAN + 4), theme.color("accent"))

    def _paint_label(self, span: Span, rect: QRectF) -> None:
        words = label_of(span)
        width = painting.text_width(words, self._theme, "hint_strong")
        if span.kind in ("action", "observation") and rect.width() < width + 12:
            if rect.width() > 24:
                self._beside(rect, words, "text2")
            return
        if rect.width() < width + 12:
            self._beside(rect, words, _TONES[span.kind])
            return
        tone = {"action": "on_accent", "observation": "text"}.get(span.kind) or _TONES[span.kind]
        place = QRectF(rect.x() + 1, rect.y() + 1, width + 11, SPAN - 2)
        if span.kind in ("approval_wait", "lost"):
            # Words never lie on stripes.
            tint = "waiting_tint" if span.kind == "approval_wait" else "warn_tint"
            self._painter.fillRect(place, self._theme.color(tint))
        painting.text(self._painter, place.adjusted(5, 0, 0, 0), words, self._theme, "hint_strong", tone)

    def _beside(self, rect: QRectF, words: str, tone: str) -> bool:
        """Write at the right, else at the left, where nothing else stands; False where there is no room."""
        width = painting.text_width(words, self._theme, "hint_strong")
        left = place_beside((rect.left(), rect.right()), width, self._taken, (self._left, self._right + EDGE))
        if left is None:
            return False
        self._taken.append((left, left + width))
        place = QRectF(left, rect.center().y() - 8, width + 2, 16)
        painting.text(self._painter, place, words, self._theme, "hint_strong", tone)
        return True

    def _on_wait(self, rect: QRectF, words: str, waits: Sequence[QRectF]) -> None:
        """Write a decision on the end of the wait that it ended, on plain tint: never by colour alone."""
        width = painting.text_width(words, self._theme, "hint_strong")
        least = width * 2 + 100  # the wait's own words stand at its beginning
        if any(wait.width() > least and abs(wait.right() - rect.center().x()) <= MARK for wait in waits):
            place = QRectF(rect.left() - width - 10, rect.center().y() - SPAN / 2 + 1, width + 8, SPAN - 2)
            self._painter.fillRect(place, self._theme.color("waiting_tint"))
            words_at = place.adjusted(4, 0, 0, 0)
            painting.text(self._painter, words_at, words, self._theme, "hint_strong", "text2")


def place_beside(
    shape: tuple[float, float],
    width: float,
    taken: Sequence[tuple[float, float]],
    within: tuple[float, float],
) -> float | None:
    """Where words of this width begin beside a shape: at its right, else at its left; None without room."""
    others = [one for one in taken if one != shape]
    for left in (shape[1] + 6, shape[0] - 6 - width):
        inside = within[0] <= left and left + width <= within[1]
        if inside and not any(start < left + width + 4 and end > left - 4 for start, end in others):
            return left
    return None


def _mixed(theme: Theme, tone: str) -> QColor:
    color = QColor(theme.color(tone))
    color.setAlphaF(0.45)
    return color


def _thinned(shapes: list[tuple[Span, QRectF]]) -> list[tuple[Span, QRectF]]:
    """Leave out what another span of its kind covers: at full zoom-out thousands fall on the same pixels."""
    kept: list[tuple[Span, QRectF]] = []
    reach: dict[str, float] = {}
    for span, rect in shapes:
        if rect.width() <= LEAST_SPAN and rect.right() <= reach.get(span.kind, -1.0):
            continue
        reach[span.kind] = max(reach.get(span.kind, -1.0), rect.right())
        kept.append((span, rect))
    return kept


def label_of(span: Span) -> str:
    """The words on a span."""
    match span.kind:
        case "approval_wait":
            waited = "" if span.end is None else f" {lasting(span.end - span.start)}"
            return f"approval waits{waited}"
        case "failed":
            return f"{one_line(span.label)} failed"
        case "unknown":
            return f"{one_line(span.label)}: unknown"
        case "lost":
            return "connection lost"
    return one_line(span.label)


def span_words(span: Span, reel: TimelineIndex, clock: Clock) -> str:
    """A span for its tooltip."""
    moment = reel.moments[reel.at_seq(span.seq)] if len(reel) else None
    began = clock.words(moment.time, span.start, exact=True) if moment else ""
    took = "not ended yet" if span.end is None else lasting(span.end - span.start)
    more = f": {one_line(span.label)}" if span.kind in ("approval_wait", "lost") else ""
    return f"{label_of(span)}{more}\n{one_line(span.lane)}, {began}, {took}\nentry {span.seq:,}"


def mark_words(mark: Mark, reel: TimelineIndex, clock: Clock) -> str:
    """A decision for its tooltip."""
    moment = reel.moments[reel.at_seq(mark.seq)] if len(reel) else None
    when = clock.words(moment.time, mark.at, exact=True) if moment else ""
    return f"{one_line(mark.label)}\n{one_line(mark.lane)}, {when}\nentry {mark.seq:,}"
