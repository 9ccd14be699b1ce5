"""The queue's cards: a list that paints only what is seen and never takes the focus by itself."""

from __future__ import annotations

import time

from PySide6.QtCore import QRect, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QFontMetricsF, QKeyEvent, QPainter, QTextLayout, QTextOption
from PySide6.QtWidgets import QListView, QStyleOptionViewItem

from app.items.item_view import ENTER, ItemDelegate, ItemView
from app.items.keyed_model import ITEM_ROLE, Index
from app.records.asker import asker_words
from app.screens.approvals.question_section import question_of
from app.screens.approvals.queue_cards import QueueCard, QueueModel, needs_words
from app.screens.approvals.text import TimeLeft, clock_words
from app.text import one_line
from app.theme.shapes import paint_glyph
from app.theme.theme import Theme, theme_of
from app.widgets import painting
from app.widgets.badges import paint_production_band, paint_risk
from core.approvals.models import ApprovalState

LEFT = 16
RIGHT = 13
SOON_S = 60.0


class QueueDelegate(ItemDelegate):
    """Paints one card: risk, device, time left; what it would do; tool and who asked."""

    _view: QueueView

    def __init__(self, view: QueueView, clock: TimeLeft) -> None:
        super().__init__(view)
        self._clock = clock

    def sizeHint(self, option: QStyleOptionViewItem, index: Index) -> QSize:
        """A card, one line higher when the sentence needs two."""
        theme = theme_of(self._view)
        metrics = theme.metrics
        two = self._width_of(index.data(ITEM_ROLE).summary, theme) > self._room()
        return QSize(
            self._view.viewport().width(), metrics.queue_card + (metrics.queue_extra_line if two else 0)
        )

    def _width_of(self, words: str, theme: Theme) -> float:
        return QFontMetricsF(theme.font("body")).horizontalAdvance(words)

    def _room(self) -> float:
        # The same with and without a scroll bar: its coming must not wrap sentences again.
        return float(self._view.width() - LEFT - RIGHT)

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        """Draw the card."""
        card: QueueCard = index.data(ITEM_ROLE)
        theme = theme_of(self._view)
        rect = QRect(option.rect)
        painter.save()
        painter.setClipRect(rect)
        self.paint_card_back(painter, rect, index.row(), theme)
        if card.approval.production:
            band = QRectF(3, rect.y() + 1, 5, rect.height() - 3)
            paint_production_band(painter, band, theme)
        tight = theme.density == "compact"
        top = rect.y() + (3 if tight else 6)
        self._paint_first(painter, QRectF(LEFT, top, self._room(), 22), card, theme)
        line = theme.metrics.queue_extra_line
        top += 20 if tight else 22
        used = self._paint_summary(painter, QRectF(LEFT, top, self._room(), 2 * line), card.summary, theme)
        last = QRectF(LEFT, top + used * line + (0 if tight else 2), self._room(), 17)
        self._paint_last(painter, last, card, theme)
        painter.restore()

    def _paint_first(self, painter: QPainter, rect: QRectF, card: QueueCard, theme: Theme) -> None:
        one, fate = card.approval, card.fate
        x = rect.x() + paint_risk(painter, rect, one.decision.risk.value, theme, boxed=True) + 8
        # Clear of the edge of the chosen card also when a scroll bar takes room.
        right = min(rect.right(), self._view.viewport().width() - 8.0)
        if not fate:
            left = self._clock.seconds(one, time.time())
            words, tone = clock_words(left), "warn" if left < SOON_S else "text2"
        else:
            words, tone = fate, "text3"
        wide = painting.text_width(words, theme, "body")
        right -= wide
        painting.text(painter, QRectF(right, rect.y(), wide + 2, rect.height()), words, theme, "body", tone)
        glyph = "pause" if one.paused else "sand"
        if not fate:
            paint_glyph(painter, QRectF(right - 15, rect.y() + 5, 12, 12), glyph, theme.color(tone))
            right -= 15
        room = QRectF(x, rect.y(), max(40.0, right - x - 6), rect.height())
        painting.text(painter, room, card.devices, theme, "head", "text3" if fate else "text")

    def _paint_summary(self, painter: QPainter, rect: QRectF, words: str, theme: Theme) -> int:
        line = theme.metrics.queue_extra_line
        if self._width_of(words, theme) <= rect.width():
            painting.text(painter, QRectF(rect.x(), rect.y(), rect.width(), line), words, theme)
            return 1
        cut = _first_line(words, rect.width(), theme)
        painting.text(painter, QRectF(rect.x(), rect.y(), rect.width(), line), words[:cut].rstrip(), theme)
        second = QRectF(rect.x(), rect.y() + line, rect.width(), line)
        painting.text(painter, second, words[cut:].lstrip(), theme)
        return 2

    def _paint_last(self, painter: QPainter, rect: QRectF, card: QueueCard, theme: Theme) -> None:
        one = card.approval
        tool = "question" if question_of(one.request) else one_line(one.request.tool_name)
        asker = f"run {one.run}" if one.run and not one.actor.startswith("agent:") else asker_words(one.actor)
        needs = needs_words(one) if one.approvers > 1 and one.state is ApprovalState.WAITING else ""
        note = ("" if card.fate else card.alike) or needs
        if note:
            right = min(rect.right(), self._view.viewport().width() - 8.0)
            place = QRectF(rect.x(), rect.y(), right - rect.x(), rect.height())
            align = Qt.AlignmentFlag.AlignRight
            taken = painting.text(painter, place, note, theme, "meta_strong", "waiting", align)
            rect = QRectF(rect.x(), rect.y(), right - taken - 10 - rect.x(), rect.height())
        wide = painting.text_width(asker, theme, "meta")
        room = QRectF(rect.x(), rect.y(), max(60.0, rect.width() - wide - 12), rect.height())
        x = rect.x() + painting.text(painter, room, tool, theme, "mono_small", "text2") + 10
        rest = QRectF(x, rect.y(), max(20.0, rect.right() - x), rect.height())
        painting.text(painter, rest, asker, theme, "meta", "text2")


def _first_line(words: str, width: float, theme: Theme) -> int:
    """How many UTF-16 units fit on the first line; text is broken at a space where there is one."""
    layout = QTextLayout(words, theme.font("body"))
    option = QTextOption()
    option.setWrapMode(QTextOption.WrapMode.WrapAtWordBoundaryOrAnywhere)
    layout.setTextOption(option)
    layout.beginLayout()
    line = layout.createLine()
    line.setLineWidth(width)
    layout.endLayout()
    units = line.textLength()
    return len(words.encode("utf-16-le")[: 2 * units].decode("utf-16-le", "ignore"))


class QueueView(ItemView, QListView):
    """The list. Enter, Space and letters decide nothing in it.

    Signals:
        pointer_left: the pointer is no longer over the cards, so that they may be put in order again.
        opened: Enter was pressed: the operator wants to go on into the card.
    """

    pointer_left = Signal()
    opened = Signal()

    def __init__(self, model: QueueModel, clock: TimeLeft) -> None:
        super().__init__("Requests that wait")
        self.setModel(model)
        self.setItemDelegate(QueueDelegate(self, clock))

    def pointer_is_here(self) -> bool:
        """True while the pointer is over the cards."""
        return self.hovered_row() >= 0

    def hover_changed(self) -> None:
        """Notice when the pointer leaves the cards."""
        if not self.pointer_is_here():
            self.pointer_left.emit()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Enter goes on into the card, to read it; Space does nothing."""
        if event.key() in ENTER:
            if event.modifiers() == Qt.KeyboardModifier.NoModifier:
                self.opened.emit()
        elif event.key() != Qt.Key.Key_Space:
            super().keyPressEvent(event)
