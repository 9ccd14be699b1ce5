"""How a step's card is painted: handle, number, risk shape, id, tool, plan counts; below it the arguments."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QModelIndex, QPersistentModelIndex, QRectF, QSize, Qt
from PySide6.QtGui import QPainter
from PySide6.QtWidgets import QStyle, QStyledItemDelegate, QStyleOptionViewItem

from app.screens.batch.steps_model import StepRow
from app.screens.batch.words import counted, outcome_look
from app.theme.icons import paint_icon
from app.theme.shapes import paint_glyph
from app.theme.status_styles import risk_look
from app.theme.theme import Theme, theme_of
from app.theme.tokens import RADIUS
from app.widgets import painting
from app.widgets.shortcut_label import paint_key_cap

if TYPE_CHECKING:
    from app.screens.batch.steps_view import StepsView

SIDE = 12
GAP = 6
GROUP_HEAD = 22
INDENT = 16
TEXT_LEFT = 52
HANDLE = 24
LOW_CARD, CARD = 46, 50
END_ROW = 40


class StepDelegate(QStyledItemDelegate):
    """Paints the rows of a `StepsView`."""

    def __init__(self, view: StepsView) -> None:
        super().__init__(view)
        self._view = view

    def sizeHint(self, option: QStyleOptionViewItem, index: QModelIndex | QPersistentModelIndex) -> QSize:
        """Cards are alike; the first of a group has the group's head above it."""
        row = self._view.steps.row_at(index.row())
        if row is None:
            return QSize(100, END_ROW)
        head = GROUP_HEAD if row.bracket == "first" else 0
        return QSize(100, card_height(theme_of(self._view)) + GAP + head)

    def paint(
        self, painter: QPainter, option: QStyleOptionViewItem, index: QModelIndex | QPersistentModelIndex
    ) -> None:
        """Draw a card, or the row at the end."""
        theme = theme_of(self._view)
        row = self._view.steps.row_at(index.row())
        whole = QRectF(option.rect)
        painter.save()
        if row is None:
            _paint_end(painter, whole, theme, self._view.end_is_hot())
        else:
            if row.bracket:
                _paint_bracket(painter, whole, row, theme)
            card = card_rect(whole, row, theme)
            self._paint_card(painter, card, row, option.state, index.row(), theme)
        painter.restore()

    def _paint_card(
        self,
        painter: QPainter,
        card: QRectF,
        row: StepRow,
        state: QStyle.StateFlag,
        place: int,
        theme: Theme,
    ) -> None:
        marked = bool(state & QStyle.StateFlag.State_Selected)
        open_here = place == self._view.currentIndex().row()
        fill, edge = "raised", "border"
        if marked:
            fill = "selected" if self._view.drives() else "sel_idle"
            edge = "accent" if open_here else "border2"
        elif place == self._view.hovered_row():
            fill, edge = "hover", "border2"
        painting.box(painter, card, RADIUS.card, theme.color(fill), theme.color(edge))
        if marked and open_here and self._view.shows_ring():
            painting.ring(painter, card, RADIUS.card, theme.color("accent"))
        _paint_first_line(painter, card, row, theme)
        _paint_second_line(painter, card, row, theme)


def card_height(theme: Theme) -> int:
    """The height of one card in the current density."""
    return LOW_CARD if theme.density == "compact" else CARD


def card_rect(whole: QRectF, row: StepRow, theme: Theme) -> QRectF:
    """Where the card lies within its row."""
    head = GROUP_HEAD if row.bracket == "first" else 0
    left = SIDE + (INDENT if row.bracket else 0)
    return QRectF(whole.x() + left, whole.y() + head, whole.width() - left - SIDE, float(card_height(theme)))


def _paint_bracket(painter: QPainter, whole: QRectF, row: StepRow, theme: Theme) -> None:
    x = whole.x() + SIDE + 5
    top = whole.y() if row.bracket != "first" else whole.y() + 2
    bottom = whole.bottom() - (GAP if row.bracket == "last" else 0)
    painter.fillRect(QRectF(x, top, 2, bottom - top), theme.color("border2"))
    if row.bracket != "first":
        return
    line = QRectF(whole.x() + SIDE + INDENT, whole.y(), whole.width() - 2 * SIDE - INDENT, GROUP_HEAD - 4)
    paint_icon(painter, QRectF(line.x(), line.y(), 16, line.height()), "parallel", theme.color("text2"))
    words = line.adjusted(22, 0, 0, 0)
    painting.text(painter, words, "In parallel", theme, "badge", "text2")
    painting.text(painter, line, row.bracket_note, theme, "meta", "text3", Qt.AlignmentFlag.AlignRight)


def _paint_first_line(painter: QPainter, card: QRectF, row: StepRow, theme: Theme) -> None:
    step, note = row.step, row.note
    line = QRectF(card.x(), card.y() + 5, card.width(), 20)
    paint_icon(painter, QRectF(card.x() + 4, line.y(), 16, 20), "drag", theme.color("text3"))
    number = QRectF(card.x() + 16, line.y(), 20, 20)
    painting.text(painter, number, str(row.number), theme, "body", "text2", Qt.AlignmentFlag.AlignRight)
    look = risk_look(note.risk) if note.risk else None
    shape = QRectF(card.x() + 44, line.y() + 5, 10, 10)
    paint_glyph(painter, shape, look.glyph if look else "dot", theme.color(look.color if look else "text3"))
    right = _paint_counts(painter, line, row, theme)
    x = card.x() + 62
    tone = "text" if step.enabled else "text3"
    room = QRectF(x, line.y(), max(20.0, right - x), 20)
    x += painting.text(painter, room, step.id or "no id", theme, "head", tone if step.id else "fail") + 8
    if right - x > 24:
        rest = QRectF(x, line.y(), right - x, 20)
        painting.text(
            painter, rest, note.title or step.tool, theme, "mono_small", "text2" if step.enabled else "text3"
        )


def _paint_counts(painter: QPainter, line: QRectF, row: StepRow, theme: Theme) -> float:
    """Draw what the plan says at the right end; returns where it begins."""
    right = line.right() - 10
    if not row.step.enabled:
        width = painting.text_width("off", theme, "meta")
        painting.text(painter, QRectF(right - width, line.y(), width + 1, 20), "off", theme, "meta", "text3")
        return right - width - 10
    for outcome, number in reversed(list(row.note.counts.items())):
        look = outcome_look(outcome)
        words = str(number)
        width = painting.text_width(words, theme, "meta_strong")
        right -= width
        place = QRectF(right, line.y(), width + 1, 20)
        painting.text(painter, place, words, theme, "meta_strong", look.word_color)
        right -= 17
        paint_glyph(painter, QRectF(right, line.y() + 3.5, 13, 13), look.glyph, theme.color(look.color))
        right -= 8
    return right - 4


def _paint_second_line(painter: QPainter, card: QRectF, row: StepRow, theme: Theme) -> None:
    line = QRectF(card.x() + 62, card.y() + 25, card.width() - 72, 18)
    if row.note.problem and row.step.enabled:
        paint_glyph(painter, QRectF(line.x(), line.y() + 3, 12, 12), "cross_octagon", theme.color("fail"))
        painting.text(painter, line.adjusted(17, 0, 0, 0), row.note.problem, theme, "meta", "fail")
        return
    tone = "text2" if row.step.enabled else "text3"
    painting.text(painter, line, row.note.summary or "no arguments", theme, "meta", tone)


def _paint_end(painter: QPainter, whole: QRectF, theme: Theme, hot: bool) -> None:
    box = QRectF(whole.x() + SIDE, whole.y(), whole.width() - 2 * SIDE, END_ROW - 8)
    edge = theme.color("accent" if hot else "border2")
    painting.box(painter, box, RADIUS.card, theme.color("hover") if hot else None, edge, dashed=True)
    words = "Drop a tool here, or press"
    width = 22 + painting.text_width(words, theme) + 8 + 20
    x = box.x() + (box.width() - width) / 2
    paint_icon(painter, QRectF(x, box.y(), 16, box.height()), "add", theme.color("text3"))
    x += 22
    room = QRectF(x, box.y(), box.right() - x, box.height())
    x += painting.text(painter, room, words, theme, "body", "text3") + 8
    paint_key_cap(painter, QRectF(x, box.y() + (box.height() - 18) / 2, 20, 18), "A")


def counts_words(row: StepRow) -> str:
    """The plan's counts of a card in words."""
    return ", ".join(f"{number} {counted(outcome)}" for outcome, number in row.note.counts.items())
