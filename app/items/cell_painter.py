"""Painting of one table cell, and the width that it needs."""

from __future__ import annotations

from typing import Any

from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QPainter

from app.items.table_model import Cell, Column, Kind
from app.theme.icons import paint_icon
from app.theme.shapes import paint_glyph
from app.theme.state_looks import cell_look, health_look, plan_look, risk_look, server_look
from app.theme.theme import Theme
from app.theme.tokens import FRAME
from app.widgets import painting
from app.widgets.badges import HEALTH_SHAPE, paint_risk, paint_state
from app.widgets.charts import paint_spark

PAD = 8
BOLD = "head"
_ROLES = {Kind.NAME: "name", Kind.MONO: "mono_small", Kind.TIME: "body"}


def paint_cell(
    painter: QPainter,
    rect: QRectF,
    column: Column[Any],
    cell: str | Cell,
    muted: bool,
    theme: Theme,
    step: int,
) -> None:
    """Draw one cell's content into `rect`."""
    what = cell if isinstance(cell, Cell) else Cell(cell)
    if not what.text and not what.spark and not what.bold:
        return
    match column.kind:
        case Kind.RISK:
            paint_risk(painter, rect, what.text, theme, boxed=False)
        case Kind.VERDICT:
            paint_state(painter, rect, cell_look(what.text), theme, step=step)
        case Kind.HEALTH:
            paint_state(painter, rect, health_look(what.text), theme, HEALTH_SHAPE, step=step)
        case Kind.PLAN:
            paint_state(painter, rect, plan_look(what.text), theme, step=step)
        case Kind.SERVER:
            paint_state(painter, rect, server_look(what.text), theme, HEALTH_SHAPE, step=step)
        case _:
            _paint_words(painter, rect, column, what, muted, theme)


def _tone(column: Column[Any], cell: Cell, muted: bool) -> str:
    if cell.tone:
        return cell.tone
    if muted:
        return "text3"
    if column.tone:
        return column.tone
    return "text" if column.kind in (Kind.NAME, Kind.MONO) else "text2"


def _paint_words(
    painter: QPainter, rect: QRectF, column: Column[Any], cell: Cell, muted: bool, theme: Theme
) -> None:
    tone = _tone(column, cell, muted)
    if cell.icon or cell.glyph:
        side = 14.0 if cell.glyph else float(FRAME.icon)
        place = QRectF(rect.x() - 1, rect.y() + (rect.height() - side) / 2, side, side)
        if cell.glyph:
            paint_glyph(painter, place, cell.glyph, theme.color(tone))
        else:
            paint_icon(painter, place, cell.icon, theme.color("text3" if muted else "text2"))
        rect = rect.adjusted(side + 6, 0, 0, 0)
    if column.kind is Kind.SPARK:
        room = rect.width() - painting.text_width(cell.text, theme) - 6
        line = QRectF(rect.x(), rect.y() + 6, max(0.0, min(44.0, room)), rect.height() - 12)
        paint_spark(painter, line, cell.spark, theme, scale=cell.scale, filled=cell.scale is not None)
    right = column.right or column.kind in (Kind.NUMBER, Kind.SPARK)
    align = Qt.AlignmentFlag.AlignRight if right else Qt.AlignmentFlag.AlignLeft
    # Names of devices are told apart by their ends; their columns are as wide as they may be.
    elide = Qt.TextElideMode.ElideMiddle if column.kind is Kind.NAME else Qt.TextElideMode.ElideRight
    role = _ROLES.get(column.kind, "body")
    if not cell.bold:
        shown = text_that_fits(cell, rect.width(), theme, role)
        painting.text(painter, rect, shown, theme, role, tone, align, elide)
        return
    # The bold word is what must not be missed: it has its room first, and the text before it is cut.
    strong = painting.text_width(cell.bold, theme, BOLD)
    words = QRectF(rect)
    words.setWidth(max(0.0, rect.width() - strong - _bold_gap(cell)))
    if right:
        words.setLeft(max(words.left(), words.right() - painting.text_width(cell.text, theme, role)))
    taken = (
        painting.text(
            painter, words, text_that_fits(cell, words.width(), theme, role), theme, role, tone, elide=elide
        )
        if words.width() > 0
        else 0.0
    )
    rest = QRectF(rect)
    rest.setLeft(words.left() + taken + (_bold_gap(cell) if taken else 0.0))
    painting.text(painter, rest, cell.bold, theme, BOLD, cell.bold_tone)


def text_that_fits(cell: Cell, room: float, theme: Theme, role: str) -> str:
    """The text of a cell; where it has not the room, the parts that do and how many more there are."""
    if not cell.parts or painting.text_width(cell.text, theme, role) <= room:
        return cell.text
    end = "," if cell.bold else ""
    for count in range(len(cell.parts) - 1, 0, -1):
        words = ", ".join([*cell.parts[:count], f"+{len(cell.parts) - count}"]) + end
        if painting.text_width(words, theme, role) <= room:
            return words
    return f"+{len(cell.parts)}{end}"


def _bold_gap(cell: Cell) -> float:
    """What lies between a cell's text and its bold word."""
    return 4.0 if cell.text else 0.0


def cell_width(column: Column[Any], cell: str | Cell, theme: Theme) -> float:
    """The width that a cell's content needs."""
    what = cell if isinstance(cell, Cell) else Cell(cell)
    looks = {
        Kind.RISK: risk_look, Kind.VERDICT: cell_look, Kind.HEALTH: health_look, Kind.PLAN: plan_look,
        Kind.SERVER: server_look,
    }  # fmt: skip
    if column.kind in looks:
        return 20.0 + painting.text_width(looks[column.kind](what.text).word, theme)
    width = painting.text_width(what.text, theme, _ROLES.get(column.kind, "body"))
    if what.icon or what.glyph:
        width += FRAME.icon + 6
    if what.bold:
        width += _bold_gap(what) + painting.text_width(what.bold, theme, BOLD)
    return width + (52 if column.kind is Kind.SPARK else 0)
