"""The queue's cards: a list that paints only what is seen and never takes the focus by itself."""

from __future__ import annotations

import time

from PySide6.QtCore import QEvent, QModelIndex, QPersistentModelIndex, QRect, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QEnterEvent, QFontMetricsF, QKeyEvent, QPainter, QTextLayout, QTextOption
from PySide6.QtWidgets import QAbstractItemView, QListView, QStyledItemDelegate, QStyleOptionViewItem

from app.records.asker import asker_words
from app.screens.approvals.queue_model import (
    ALIKE_ROLE,
    APPROVAL_ROLE,
    DEVICES_ROLE,
    FATE_ROLE,
    SUMMARY_ROLE,
    QueueModel,
    needs_words,
)
from app.screens.approvals.text import TimeLeft, clock_words
from app.text import one_line
from app.theme.shapes import paint_glyph
from app.theme.theme import Theme, theme_of
from app.widgets import painting
from app.widgets.badges import paint_production_band, paint_risk
from core.approvals.models import Approval, ApprovalState

Index = QModelIndex | QPersistentModelIndex
LEFT = 16
RIGHT = 13
SOON_S = 60.0


class QueueDelegate(QStyledItemDelegate):
    """Paints one card: risk, device, time left; what it would do; tool and who asked."""

    def __init__(self, view: QueueView, clock: TimeLeft) -> None:
        super().__init__(view)
        self._view, self._clock = view, clock

    def sizeHint(self, option: QStyleOptionViewItem, index: Index) -> QSize:
        """A card, one line higher when the sentence needs two."""
        theme = theme_of(self._view)
        metrics = theme.metrics
        two = self._width_of(index, theme) > self._room()
        return QSize(
            self._view.viewport().width(), metrics.queue_card + (metrics.queue_extra_line if two else 0)
        )

    def _width_of(self, index: Index, theme: Theme) -> float:
        return QFontMetricsF(theme.font("body")).horizontalAdvance(index.data(SUMMARY_ROLE))

    def _room(self) -> float:
        # The same with and without a scroll bar: its coming must not wrap sentences anew.
        return float(self._view.width() - LEFT - RIGHT)

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        """Draw the card."""
        one = index.data(APPROVAL_ROLE)
        theme = theme_of(self._view)
        rect = QRect(option.rect)
        painter.save()
        painter.setClipRect(rect)
        self._paint_back(painter, rect, index, theme)
        if one.production:
            band = QRectF(3, rect.y() + 1, 5, rect.height() - 3)
            paint_production_band(painter, band, theme)
        tight = theme.density == "compact"
        top = rect.y() + (3 if tight else 6)
        devices = index.data(DEVICES_ROLE)
        fate = index.data(FATE_ROLE)
        self._paint_first(painter, QRectF(LEFT, top, self._room(), 22), one, devices, fate, theme)
        line = theme.metrics.queue_extra_line
        top += 20 if tight else 22
        used = self._paint_summary(painter, QRectF(LEFT, top, self._room(), 2 * line), index, theme)
        last = QRectF(LEFT, top + used * line + (0 if tight else 2), self._room(), 17)
        self._paint_last(painter, last, one, "" if fate else index.data(ALIKE_ROLE), theme)
        painter.restore()

    def _paint_back(self, painter: QPainter, rect: QRect, index: Index, theme: Theme) -> None:
        current = self._view.currentIndex() == index
        fill = "base"
        if current:
            fill = "selected" if self._view.drives() else "sel_idle"
        elif self._view.hovered_row() == index.row():
            fill = "hover"
        painter.fillRect(rect, theme.color(fill))
        painter.fillRect(rect.x(), rect.bottom(), rect.width(), 1, theme.color("border"))
        if current:
            painter.fillRect(rect.right() - 1, rect.y(), 2, rect.height() - 1, theme.color("accent"))

    def _paint_first(
        self, painter: QPainter, rect: QRectF, one: Approval, devices: str, fate: str, theme: Theme
    ) -> None:
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
        painting.text(painter, room, devices, theme, "head", "text3" if fate else "text")

    def _paint_summary(self, painter: QPainter, rect: QRectF, index: Index, theme: Theme) -> int:
        words, line = index.data(SUMMARY_ROLE), theme.metrics.queue_extra_line
        if self._width_of(index, theme) <= rect.width():
            painting.text(painter, QRectF(rect.x(), rect.y(), rect.width(), line), words, theme)
            return 1
        cut = _first_line(words, rect.width(), theme)
        painting.text(painter, QRectF(rect.x(), rect.y(), rect.width(), line), words[:cut].rstrip(), theme)
        second = QRectF(rect.x(), rect.y() + line, rect.width(), line)
        painting.text(painter, second, words[cut:].lstrip(), theme)
        return 2

    def _paint_last(self, painter: QPainter, rect: QRectF, one: Approval, alike: str, theme: Theme) -> None:
        tool = one_line(one.request.tool_name)
        asker = f"run {one.run}" if one.run and not one.actor.startswith("agent:") else asker_words(one.actor)
        note = alike or (needs_words(one) if one.approvers > 1 and one.state is ApprovalState.WAITING else "")
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


class QueueView(QListView):
    """The list. Enter, Space and letters decide nothing in it.

    Signals:
        pointer_left: the pointer is no longer over the cards, so that they may be put in order again.
        opened: Enter was pressed: the operator wants to go on into the card.
    """

    pointer_left = Signal()
    opened = Signal()

    def __init__(self, model: QueueModel, clock: TimeLeft) -> None:
        super().__init__()
        self._hovered = -1
        self.setAccessibleName("Requests that wait")
        self.setModel(model)
        self.setItemDelegate(QueueDelegate(self, clock))
        self.setMouseTracking(True)
        self.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        self.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.setVerticalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setResizeMode(QListView.ResizeMode.Adjust)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.entered.connect(lambda index: self._hover(index.row()))

    def drives(self) -> bool:
        """True while the list has the focus."""
        return self.hasFocus()

    def hovered_row(self) -> int:
        """The row under the pointer; -1 when it is elsewhere."""
        return self._hovered

    def pointer_is_here(self) -> bool:
        """True while the pointer is over the cards."""
        return self._hovered >= 0

    def _hover(self, row: int) -> None:
        self._hovered = row
        self.viewport().update()

    def viewportEvent(self, event: QEvent) -> bool:
        """Notice where the pointer comes and goes."""
        if event.type() == QEvent.Type.Leave:
            self._hover(-1)
            self.pointer_left.emit()
        elif event.type() == QEvent.Type.Enter and isinstance(event, QEnterEvent):
            self._hover(self.indexAt(event.position().toPoint()).row())
        return super().viewportEvent(event)

    def keyboardSearch(self, search: str) -> None:
        """Letters are keys of the screen, never a search."""

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Enter goes on into the card, to read it; Space does nothing."""
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            if event.modifiers() == Qt.KeyboardModifier.NoModifier:
                self.opened.emit()
            return
        if event.key() == Qt.Key.Key_Space:
            return
        super().keyPressEvent(event)

    def changeEvent(self, event: QEvent) -> None:
        """Measure the cards again when the density changes."""
        super().changeEvent(event)
        if event.type() == QEvent.Type.StyleChange:
            self.scheduleDelayedItemsLayout()
