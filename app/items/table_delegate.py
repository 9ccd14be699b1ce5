"""How table cells and heads are painted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QModelIndex, QPersistentModelIndex, QRect, QRectF, QSize, Qt
from PySide6.QtGui import QContextMenuEvent, QMouseEvent, QPainter
from PySide6.QtWidgets import QHeaderView, QStyle, QStyledItemDelegate, QStyleOptionViewItem, QWidget

from app.items.table_model import Cell, Column, Kind, Row
from app.theme.icons import paint_icon
from app.theme.shapes import paint_glyph
from app.theme.status_styles import cell_look, health_look, plan_look, risk_look
from app.theme.theme import Theme, theme_of
from app.theme.tokens import FRAME
from app.widgets import painting
from app.widgets.badges import HEALTH_SHAPE, paint_production_band, paint_risk, paint_state
from app.widgets.charts import paint_spark

if TYPE_CHECKING:
    from app.items.table_view import DataTable

PAD = 8
BOLD = "head"
_ROLES = {Kind.NAME: "name", Kind.MONO: "mono_small", Kind.TIME: "body"}


class CellDelegate(QStyledItemDelegate):
    """Paints every cell of a `DataTable` from its row; state comes from the view, words are ready."""

    def __init__(self, table: DataTable) -> None:
        super().__init__(table)
        self._table = table

    def paint(
        self, painter: QPainter, option: QStyleOptionViewItem, index: QModelIndex | QPersistentModelIndex
    ) -> None:
        """Draw background, marks of the row, content, the line below."""
        row = self._table.rows_model.row_at(index.row())
        if row is None:
            return
        theme = theme_of(self._table)
        rect = QRectF(option.rect)
        state = option.state
        first = self._table.is_first_column(index.column())
        painter.save()
        painter.setClipRect(rect)
        self._paint_back(painter, rect, row, state, index.row(), theme)
        if first:
            self._paint_row_marks(painter, rect, row, state, theme)
        column = self._table.rows_model.columns[index.column()]
        left = FRAME.first_column if first else PAD
        inner = rect.adjusted(left, 0, -PAD, -1)
        paint_cell(painter, inner, column, row.cells[index.column()], row, theme, self._table.step())
        if self._table.shows_current_ring(index.row()):
            self._paint_current_ring(painter, rect, index.column(), theme)
        painter.restore()

    def _paint_back(
        self, painter: QPainter, rect: QRectF, row: Row, state: QStyle.StateFlag, place: int, theme: Theme
    ) -> None:
        fill = row.tint
        if state & QStyle.StateFlag.State_Selected:
            fill = "selected" if self._table.drives() else "sel_idle"
        elif place == self._table.hovered_row():
            fill = "hover"
        if fill:
            painter.fillRect(rect, theme.color(fill))
        painter.fillRect(QRectF(rect.x(), rect.bottom() - 1, rect.width(), 1), theme.color("border"))

    def _paint_row_marks(
        self, painter: QPainter, rect: QRectF, row: Row, state: QStyle.StateFlag, theme: Theme
    ) -> None:
        if state & QStyle.StateFlag.State_Selected and self._table.drives():
            painter.fillRect(QRectF(rect.x(), rect.y(), 2, rect.height() - 1), theme.color("accent"))
        if row.production:
            band = QRectF(rect.x() + 3, rect.y() + 1, 5, rect.height() - 3)
            paint_production_band(painter, band, theme)

    def _paint_current_ring(self, painter: QPainter, rect: QRectF, column: int, theme: Theme) -> None:
        accent = theme.color("accent")
        painter.fillRect(QRectF(rect.x(), rect.y(), rect.width(), 2), accent)
        painter.fillRect(QRectF(rect.x(), rect.bottom() - 2, rect.width(), 2), accent)
        if self._table.is_first_column(column):
            painter.fillRect(QRectF(rect.x(), rect.y(), 2, rect.height()), accent)
        if self._table.is_last_column(column):
            painter.fillRect(QRectF(rect.right() - 2, rect.y(), 2, rect.height()), accent)

    def sizeHint(self, option: QStyleOptionViewItem, index: QModelIndex | QPersistentModelIndex) -> QSize:
        """What the cell needs, for fitting a column to its content."""
        row = self._table.rows_model.row_at(index.row())
        if row is None:
            return QSize(0, 0)
        column = self._table.rows_model.columns[index.column()]
        left = FRAME.first_column if self._table.is_first_column(index.column()) else PAD
        width = cell_width(column, row.cells[index.column()], theme_of(self._table))
        return QSize(round(width) + left + PAD + 1, self._table.row_height())


def paint_cell(
    painter: QPainter, rect: QRectF, column: Column, cell: str | Cell, row: Row, theme: Theme, step: int
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
        case _:
            _paint_words(painter, rect, column, what, row, theme)


def _tone(column: Column, cell: Cell, row: Row) -> str:
    if cell.tone:
        return cell.tone
    if row.muted:
        return "text3"
    if column.tone:
        return column.tone
    return "text" if column.kind in (Kind.NAME, Kind.MONO) else "text2"


def _paint_words(painter: QPainter, rect: QRectF, column: Column, cell: Cell, row: Row, theme: Theme) -> None:
    tone = _tone(column, cell, row)
    if cell.icon or cell.glyph:
        side = 14.0 if cell.glyph else float(FRAME.icon)
        place = QRectF(rect.x() - 1, rect.y() + (rect.height() - side) / 2, side, side)
        if cell.glyph:
            paint_glyph(painter, place, cell.glyph, theme.color(tone))
        else:
            paint_icon(painter, place, cell.icon, theme.color("text3" if row.muted else "text2"))
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


def cell_width(column: Column, cell: str | Cell, theme: Theme) -> float:
    """The width that a cell's content needs."""
    what = cell if isinstance(cell, Cell) else Cell(cell)
    looks = {
        Kind.RISK: risk_look, Kind.VERDICT: cell_look, Kind.HEALTH: health_look, Kind.PLAN: plan_look
    }  # fmt: skip
    if column.kind in looks:
        return 20.0 + painting.text_width(looks[column.kind](what.text).word, theme)
    width = painting.text_width(what.text, theme, _ROLES.get(column.kind, "body"))
    if what.icon or what.glyph:
        width += FRAME.icon + 6
    if what.bold:
        width += _bold_gap(what) + painting.text_width(what.bold, theme, BOLD)
    return width + (52 if column.kind is Kind.SPARK else 0)


class TableHead(QHeaderView):
    """Column heads: small grey words, an arrow at the sorted one, aligned as their column is."""

    def __init__(self, table: DataTable) -> None:
        super().__init__(Qt.Orientation.Horizontal, table)
        self._table = table
        self.setHighlightSections(False)
        self.setSectionsMovable(True)
        self.setFirstSectionMovable(False)
        self.setMinimumSectionSize(32)
        self.setAccessibleName("Columns")
        self._pressed = False
        self.sectionResized.connect(self._resized)

    def _resized(self, number: int, before: int, now: int) -> None:
        del before, now
        if self._pressed:
            self._table.section_dragged(number)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """While a button is down, the operator sizes columns; else the program does."""
        self._pressed = True
        super().mousePressEvent(event)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        """The drag has ended."""
        super().mouseReleaseEvent(event)
        self._pressed = False

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        """Which columns are shown, fit, reset."""
        menu = self._table.head_menu()
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        menu.popup(event.globalPos())

    def sizeHint(self) -> QSize:
        """A head's height."""
        return QSize(super().sizeHint().width(), theme_of(self).metrics.table_head)

    def paintSection(self, painter: QPainter, rect: QRect, logical: int) -> None:
        """Draw one head."""
        theme = theme_of(self)
        whole = QRectF(rect)
        painter.save()
        painter.setClipRect(whole)
        painter.fillRect(whole, theme.color("raised"))
        painter.fillRect(QRectF(whole.x(), whole.bottom() - 1, whole.width(), 1), theme.color("border"))
        if 0 <= logical < len(self._table.rows_model.columns):
            self._paint_title(painter, whole, logical, theme)
        painter.restore()

    def _paint_title(self, painter: QPainter, whole: QRectF, logical: int, theme: Theme) -> None:
        column = self._table.rows_model.columns[logical]
        left = FRAME.first_column if self._table.is_first_column(logical) else PAD
        room = whole.adjusted(left, 0, -PAD, -1)
        sorted_here = self.isSortIndicatorShown() and self.sortIndicatorSection() == logical
        mark = 15.0 if sorted_here else 0.0
        width = min(painting.text_width(column.title, theme, "label"), max(0.0, room.width() - mark))
        right = column.right or column.kind in (Kind.NUMBER, Kind.SPARK)
        x = room.right() - width - mark if right else room.x()
        tone = "text" if sorted_here else "text3"
        painting.text(
            painter, QRectF(x, room.y(), width + 1, room.height()), column.title, theme, "label", tone
        )
        if sorted_here:
            up = self.sortIndicatorOrder() == Qt.SortOrder.AscendingOrder
            place = QRectF(x + width + 4, room.y(), 11, room.height())
            paint_glyph(painter, place, "sort_up" if up else "sort_down", theme.color(tone))


def row_rect_in(view: QWidget, top: int, height: int) -> QRect:
    """The whole width of a row, for repainting it."""
    return QRect(0, top, view.width(), height)
