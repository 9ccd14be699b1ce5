"""The table view of all lists of rows, with its delegate and its header."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple

from PySide6.QtCore import (
    QItemSelectionModel,
    QModelIndex,
    QPoint,
    QRect,
    QRectF,
    QSettings,
    QSize,
    Qt,
    QTimer,
    Signal,
)
from PySide6.QtGui import (
    QAccessible,
    QContextMenuEvent,
    QFocusEvent,
    QGuiApplication,
    QKeyEvent,
    QKeySequence,
    QMouseEvent,
    QPainter,
    QResizeEvent,
    QShowEvent,
)
from PySide6.QtWidgets import (
    QAbstractItemView,
    QHeaderView,
    QMenu,
    QStyle,
    QStyleOptionViewItem,
    QTableView,
    QWidget,
)

from app.items.cell_painter import PAD, cell_width, paint_cell
from app.items.item_view import ENTER, AnimatedItemView, ItemDelegate
from app.items.keyed_model import Index
from app.items.table_model import Cell, Column, Kind, Row, RowsModel, TableModel, cell_text
from app.theme.shapes import paint_glyph
from app.theme.state_looks import cell_look
from app.theme.theme import Theme, theme_of
from app.theme.tokens import FRAME
from app.widgets import painting
from app.widgets.badges import paint_production_band
from app.widgets.util import debounce

__all__ = ["Cell", "Column", "Kind", "Row", "RowsModel", "TableModel", "TableView"]

RowHeight = Literal["table", "journal", "finding", "tree"]
# The share of a table that names have for certain, and the room of the arrow in a head.
MOST_NAME = 0.3
SORT_MARK = 15
SCROLL_PAUSE_MS = 120
# Texts that stay as they are; what the others show changes all the time, and their columns must not move.
_GIVING = (Kind.TEXT, Kind.MONO, Kind.NAME)


class CellLook(NamedTuple):
    """What a cell shows, and what it has of the style of its row."""

    cell: str | Cell
    production: bool
    muted: bool
    tint: str


class TableView(AnimatedItemView, QTableView):
    """Rows with a head, chosen whole, moved through with the arrow keys.

    Signals:
        current_changed: the row under the cursor has this key now; empty when there is none.
        opened: the operator pressed Enter on, or double-clicked, the row with this key.
        marked_changed: the chosen rows are others now.
    """

    current_changed = Signal(str)
    opened = Signal(str)
    marked_changed = Signal()

    def __init__(
        self,
        model: TableModel[Any] | Sequence[Column[Row]],
        name: str,
        rows: RowHeight = "table",
        multiple: bool = False,
        sortable: bool = True,
        parent: QWidget | None = None,
    ) -> None:
        """`name` is what the table lists, for assistive technology and for remembering its columns.

        Columns alone are those of ready rows.
        """
        super().__init__(name, parent, multiple)
        self.rows_model: TableModel[Any] = model if isinstance(model, TableModel) else RowsModel(model)
        self.rows_model.setParent(self)
        self._row_kind: RowHeight = rows
        # Columns that have no room now, and what the operator said of columns: these widths, away, always.
        self._no_room: set[int] = set()
        self._sized: set[int] = set()
        self._put_away: set[int] = set()
        self._wanted: set[int] = set()
        self.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self.setModel(self.rows_model)
        self._set_up_head(sortable)
        self.setItemDelegate(CellDelegate(self))
        self._fit_soon = debounce(self, 0, self.fit_widths)
        self._fit_scrolled = debounce(self, SCROLL_PAUSE_MS, self.fit_widths)
        self._follow_soon = debounce(self, 0, self._follow_selection)
        # What columns needed since the rows were others: none becomes narrower while they are scrolled.
        self._needed: dict[int, int] = {}
        # How cells in sight were painted last, by row and column. Where rows come, go or move, Qt paints all.
        self._painted: dict[tuple[int, int], CellLook] = {}
        self._connect_model()
        self._measure_rows()

    def _set_up_head(self, sortable: bool) -> None:
        head = TableHead(self)
        self.setHorizontalHeader(head)
        head.setSectionsClickable(sortable)
        head.setSortIndicatorShown(sortable)
        head.setSortIndicatorClearable(False)
        self.verticalHeader().hide()
        self.verticalHeader().setSectionResizeMode(QHeaderView.ResizeMode.Fixed)
        for number, column in enumerate(self.rows_model.columns):
            self.setColumnWidth(number, column.width)
            if column.stretch:
                head.setSectionResizeMode(number, QHeaderView.ResizeMode.Stretch)
        if sortable:
            head.setSortIndicator(-1, Qt.SortOrder.AscendingOrder)
            self.setSortingEnabled(True)

    def _connect_model(self) -> None:
        self.selectionModel().currentRowChanged.connect(self._current_moved)
        self.selectionModel().selectionChanged.connect(lambda *_: self.marked_changed.emit())
        if self.selectionMode() is QAbstractItemView.SelectionMode.SingleSelection:
            self.selectionModel().selectionChanged.connect(lambda *_: self._follow_soon.start())
        self.doubleClicked.connect(self._double_clicked)
        for changed in (
            self.rows_model.modelReset, self.rows_model.rowsInserted, self.rows_model.rowsRemoved
        ):  # fmt: skip
            changed.connect(self._fit_anew)
        self.verticalScrollBar().valueChanged.connect(self._scrolled_to)

    def _scrolled_to(self, _value: int) -> None:
        # Or else every row of a long table would be kept here in the end.
        self._painted.clear()
        self._fit_scrolled.start()

    # what the delegate asks

    def look_of(self, index: Index) -> CellLook:
        """All that a change of its object can change in how a cell looks."""
        row, model = index.row(), self.rows_model
        style = model.style(row)
        return CellLook(model.cell(row, index.column()), style.production, style.muted, style.tint)

    def note_painted(self, index: Index, look: CellLook) -> None:
        """A cell was painted like this; it is painted again when it is to look otherwise."""
        self._painted[index.row(), index.column()] = look

    def row_height(self) -> int:
        """The height of a row in the current density."""
        metrics = theme_of(self).metrics
        return {
            "table": metrics.table_row,
            "journal": metrics.journal_row,
            "finding": metrics.finding_row,
            "tree": metrics.tree_row,
        }[self._row_kind]

    def is_first_column(self, column: int) -> bool:
        """True for the leftmost shown column."""
        return self._edge_column(first=True) == column

    def is_last_column(self, column: int) -> bool:
        """True for the rightmost shown column."""
        return self._edge_column(first=False) == column

    def _edge_column(self, first: bool) -> int:
        head = self.horizontalHeader()
        places = range(head.count()) if first else range(head.count() - 1, -1, -1)
        for place in places:
            logical = head.logicalIndex(place)
            if not head.isSectionHidden(logical):
                return logical
        return -1

    def shows_current_ring(self, row: int) -> bool:
        """True for the current row when the focus came by keyboard."""
        return self.shows_ring() and row == self.currentIndex().row()

    def turning(self) -> Iterator[QModelIndex]:
        """The cells in sight whose state goes on."""
        states = [n for n, column in enumerate(self.rows_model.columns) if column.kind is Kind.VERDICT]
        for row in self.rows_in_sight() if states else ():
            for column in states:
                if cell_look(cell_text(self.rows_model.cell(row, column))).turning:
                    yield self.rows_model.index(row, column)

    def row_under(self, at: QPoint) -> int:
        """The row at a height; beside the last column too."""
        return self.rowAt(at.y())

    def _repaint_row(self, row: int) -> None:
        top, height = self.rowViewportPosition(row), self.rowHeight(row)
        self.viewport().update(0, top, self.viewport().width(), height)

    # what screens ask

    def show_rows(self, rows: Iterable[Any]) -> None:
        """Show these objects of the model; the current row, the chosen ones and the scroll position stay."""
        self.rows_model.sync(rows)

    def current_key(self) -> str:
        """The key of the row under the cursor; empty when there is none."""
        return self.rows_model.key_at(self.currentIndex().row())

    def choose(self, key: str) -> bool:
        """Move the cursor to the row with this key; False when it is not here."""
        row = self.rows_model.row_of(key)
        if row < 0:
            return False
        index = self.rows_model.index(row, max(0, self._edge_column(first=True)))
        flags = QItemSelectionModel.SelectionFlag
        self.selectionModel().setCurrentIndex(index, flags.ClearAndSelect | flags.Rows)
        self.scrollTo(index)
        return True

    def marked_keys(self) -> list[str]:
        """The keys of the chosen rows, from top to bottom."""
        return [self.rows_model.key_at(row) for row in self._marked_rows()]

    def _marked_rows(self) -> list[int]:
        return sorted(index.row() for index in self.selectionModel().selectedRows())

    def sort_by(self, key: str, descending: bool = False) -> None:
        """Sort by the column with this key and show the arrow there."""
        number = [column.key for column in self.rows_model.columns].index(key)
        order = Qt.SortOrder.DescendingOrder if descending else Qt.SortOrder.AscendingOrder
        self.sortByColumn(number, order)

    def _fit_anew(self) -> None:
        self._needed.clear()
        self._fit_soon.start()

    def widest_name(self) -> int:
        """The width that a name has for certain where other columns need the room, in logical px."""
        return round(self.viewport().width() * MOST_NAME)

    def fit_widths(self) -> None:
        """Share the room so that nothing is cut beside room to spare; what the operator sized stays.

        Measured are titles and the rows in sight. A column gives what its texts do not need to those that are
        cut, the least missing first. What is left goes to the width that columns were made with, then to the
        stretching one.
        """
        if not self.rows_model.rowCount() or not self.isVisible():
            return
        shown = [n for n in range(len(self.rows_model.columns)) if not self.isColumnHidden(n)]
        able = [n for n in shown if n not in self._sized]
        room = self.viewport().width() - sum(self.columnWidth(n) for n in shown if n in self._sized)
        for number, width in self._shared(able, room).items():
            if not self._stretches(number) and self.columnWidth(number) != width:
                self.setColumnWidth(number, width)

    def _shared(self, able: list[int], room: int) -> dict[int, int]:
        """How wide each of these columns is when together they have so much room."""
        columns = self.rows_model.columns
        needed = {n: self.needed_width(n) for n in able}
        wanted = {
            n: needed[n] if columns[n].kind in _GIVING else max(needed[n], columns[n].width) for n in able
        }
        widths = {n: min(wanted[n], self.least_width(n, needed[n])) for n in able}
        spare = room - sum(widths.values())
        made = {n: max(columns[n].width, widths[n]) for n in able if not self._stretches(n)}
        for goal in (wanted, made):
            for number in sorted(goal, key=lambda n: goal[n] - widths[n]):
                more = max(0, min(goal[number] - widths[number], spare))
                widths[number] += more
                spare -= more
        return widths

    def least_width(self, number: int, needed: int) -> int:
        """What a column that needs so much has for certain, in logical px."""
        column = self.rows_model.columns[number]
        share = min(needed, self.widest_name()) if column.kind is Kind.NAME else 0
        return max(column.width, share)

    def _stretches(self, number: int) -> bool:
        return self.horizontalHeader().sectionResizeMode(number) is QHeaderView.ResizeMode.Stretch

    def needed_width(self, number: int) -> int:
        """What a column's title and the rows that were in sight need in logical px."""
        theme = theme_of(self)
        column = self.rows_model.columns[number]
        cells = (self.rows_model.cell(row, number) for row in self.rows_in_sight())
        widths = [cell_width(column, cell, theme) for cell in cells]
        mark = SORT_MARK if self.horizontalHeader().isSortIndicatorShown() else 0
        title = painting.text_width(column.title, theme, "label") + mark
        self._needed[number] = max(
            self._needed.get(number, 0), self._with_edges(number, max([title, *widths]))
        )
        return self._needed[number]

    def cell_width(self, number: int, cell: str | Cell) -> int:
        """The width of the column in which this cell is not cut, in logical px."""
        return self._with_edges(number, cell_width(self.rows_model.columns[number], cell, theme_of(self)))

    def _with_edges(self, number: int, width: float) -> int:
        edge = FRAME.first_column if self.is_first_column(number) else PAD
        return math.ceil(width) + edge + PAD + 1

    # what the operator may do with columns

    def head_menu(self) -> QMenu:
        """The menu of the head: which columns are shown, fit, reset."""
        menu = QMenu(self)
        head = self.horizontalHeader()
        for place in range(head.count()):
            number = head.logicalIndex(place)
            action = menu.addAction(self.rows_model.columns[number].title.replace("&", "&&"))
            action.setCheckable(True)
            action.setChecked(not self.isColumnHidden(number))
            # The first column says which row it is.
            action.setEnabled(number != 0)
            action.toggled.connect(partial(self.show_column, number))
        menu.addSeparator()
        menu.addAction("Fit columns", self.fit_to_content)
        menu.addAction("Reset columns", self.reset_columns)
        return menu

    def show_column(self, number: int, shown: bool) -> None:
        """Show a column also where there is little room, or put it away until it is wanted again."""
        chosen, other = (self._wanted, self._put_away) if shown else (self._put_away, self._wanted)
        chosen.add(number)
        other.discard(number)
        self._show_columns()
        self._fit_soon.start()

    def size_column(self, number: int, width: int) -> None:
        """Give a column a width that it keeps, as the operator does by dragging its edge."""
        self._sized.add(number)
        self.setColumnWidth(number, width)

    def fit_to_content(self) -> None:
        """Make every shown column as wide as what stands in its rows in sight."""
        self._sized.clear()
        for number, column in enumerate(self.rows_model.columns):
            if not column.stretch and column.kind is not Kind.NAME and not self.isColumnHidden(number):
                self.size_column(number, self.needed_width(number))
        self.fit_widths()

    def reset_columns(self) -> None:
        """Show the columns as they were made: order, widths, and which are shown."""
        for chosen in (self._sized, self._put_away, self._wanted):
            chosen.clear()
        head = self.horizontalHeader()
        for number, column in enumerate(self.rows_model.columns):
            head.moveSection(head.visualIndex(number), number)
            if not column.stretch:
                self.setColumnWidth(number, column.width)
        self._show_columns()
        self._drop_columns()
        self._fit_soon.start()

    def take_room(self, no_room: set[int]) -> None:
        """Hide these columns, for which there is no room, but for those that the operator wants."""
        self._no_room = no_room
        self._show_columns()

    def _show_columns(self) -> None:
        for number in range(len(self.rows_model.columns)):
            hidden = number in self._put_away or (number in self._no_room and number not in self._wanted)
            if hidden != self.isColumnHidden(number):
                self.setColumnHidden(number, hidden)

    def section_dragged(self, number: int) -> None:
        """The operator drags the edge of a column: its width is kept."""
        self._sized.add(number)

    def copy_marked(self) -> str:
        """Put the chosen rows on the clipboard as lines of tab-separated words, and return them."""
        text = "\n".join(self.rows_model.words(row) for row in self._marked_rows())
        if text:
            QGuiApplication.clipboard().setText(text)
        return text

    def save_columns(self, settings: QSettings, key: str) -> None:
        """Keep order and sorting under `key`, and what the operator chose: widths, columns shown and away."""
        settings.setValue(f"{key}/columns", self.horizontalHeader().saveState())
        settings.setValue(f"{key}/keys", self._column_keys())
        for name, numbers in self._chosen().items():
            keys = [self.rows_model.columns[number].key for number in sorted(numbers)]
            settings.setValue(f"{key}/{name}", ",".join(keys))

    def restore_columns(self, settings: QSettings, key: str) -> bool:
        """Take back what `save_columns` kept; False when there is nothing, or it is of other columns.

        Only what the operator chose is taken back of widths and hidden columns: the rest follows the window.
        """
        kept, keys = settings.value(f"{key}/columns"), settings.value(f"{key}/keys")
        # The state of a head counts its columns: with one more among them it is of others.
        if (
            kept is None
            or keys not in (None, self._column_keys())
            or not self.horizontalHeader().restoreState(kept)
        ):
            return False
        numbers = {column.key: number for number, column in enumerate(self.rows_model.columns)}
        for name, chosen in self._chosen().items():
            chosen.clear()
            names = str(settings.value(f"{key}/{name}", "") or "").split(",")
            chosen.update(numbers[name] for name in names if name in numbers)
        for number, column in enumerate(self.rows_model.columns):
            if number not in self._sized and not column.stretch:
                self.setColumnWidth(number, column.width)
        self._show_columns()
        self._drop_columns()
        return True

    def _column_keys(self) -> str:
        return ",".join(column.key for column in self.rows_model.columns)

    def _chosen(self) -> dict[str, set[int]]:
        return {"sized": self._sized, "away": self._put_away, "wanted": self._wanted}

    # how it behaves

    def _current_moved(self, now: QModelIndex, before: QModelIndex) -> None:
        del before
        self.current_changed.emit(self.rows_model.key_at(now.row()))

    def _follow_selection(self) -> None:
        """Move the cursor to the one row that is selected: assistive technology only selects."""
        rows = self._marked_rows()
        if len(rows) == 1 and rows[0] != self.currentIndex().row():
            self.choose(self.rows_model.key_at(rows[0]))

    def _double_clicked(self, index: QModelIndex) -> None:
        if key := self.rows_model.key_at(index.row()):
            self.opened.emit(key)

    def measure(self) -> None:
        """Take the new density's heights. The head is polished after its view, and undoes it until then."""
        QTimer.singleShot(0, self, self._measure_rows)

    def _measure_rows(self) -> None:
        self.verticalHeader().setMinimumSectionSize(1)
        self.verticalHeader().setDefaultSectionSize(self.row_height())

    def dataChanged(self, top: Index, bottom: Index, roles: Sequence[int] = ()) -> None:
        """Paint the cells in sight that look otherwise now.

        Models tell of whole rows, in which most cells look as before. A cell of Fleet takes 80 µs to paint,
        and 9 µs to compare. For rows out of sight Qt (6.11) paints everything that is in sight.
        """
        if QAccessible.isActive():
            # Assistive technology is told of all cells.
            super().dataChanged(top, bottom, list(roles))
            return
        sight = self.rows_in_sight()
        columns = [n for n in range(top.column(), bottom.column() + 1) if not self.isColumnHidden(n)]
        for row in range(max(top.row(), sight.start), min(bottom.row() + 1, sight.stop)):
            for cell in (top.sibling(row, column) for column in columns):
                if self._painted.get((row, cell.column())) != self.look_of(cell):
                    super().dataChanged(cell, cell, list(roles))

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Enter opens, Ctrl+C copies; of what is written, Qt gets Space."""
        if event.matches(QKeySequence.StandardKey.Copy):
            self.copy_marked()
        elif event.key() in ENTER and not event.modifiers():
            if key := self.current_key():
                self.opened.emit(key)
        elif event.key() == Qt.Key.Key_Space:
            QTableView.keyPressEvent(self, event)
        else:
            super().keyPressEvent(event)

    def focusInEvent(self, event: QFocusEvent) -> None:
        """Show where the cursor is when the focus came by keyboard; at the first row, if nowhere."""
        super().focusInEvent(event)
        if self.shows_ring() and not self.currentIndex().isValid() and self.rows_model.rowCount():
            self.choose(self.rows_model.key_at(0))

    def showEvent(self, event: QShowEvent) -> None:
        """Fit what came in while it was hidden."""
        super().showEvent(event)
        self._fit_soon.start()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Hide columns that may go, the least needed first, when names would not fit."""
        super().resizeEvent(event)
        self._drop_columns()
        self._fit_soon.start()

    def _drop_columns(self) -> None:
        columns = self.rows_model.columns
        drops = sorted((n for n, c in enumerate(columns) if c.drop > 0), key=lambda n: -columns[n].drop)
        if not drops:
            return
        needed = sum(column.width for column in columns)
        gone: set[int] = set()
        for number in drops:
            if needed <= self.viewport().width():
                break
            gone.add(number)
            needed -= columns[number].width
        if gone != self._no_room:
            self.take_room(gone)


class CellDelegate(ItemDelegate):
    """Paints every cell of a `TableView`."""

    _view: TableView

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        """Draw background, marks of the row, content, the line below."""
        view, column = self._view, self._view.rows_model.columns[index.column()]
        look = view.look_of(index)
        view.note_painted(index, look)
        theme = theme_of(view)
        rect = QRectF(option.rect)
        marked = bool(option.state & QStyle.StateFlag.State_Selected)
        first = view.is_first_column(index.column())
        painter.save()
        painter.setClipRect(rect)
        if fill := view.row_fill(marked, index.row()) or look.tint:
            painter.fillRect(rect, theme.color(fill))
        painter.fillRect(QRectF(rect.x(), rect.bottom() - 1, rect.width(), 1), theme.color("border"))
        if first and marked and view.hasFocus():
            painter.fillRect(QRectF(rect.x(), rect.y(), 2, rect.height() - 1), theme.color("accent"))
        if first and look.production:
            band = QRectF(rect.x() + 3, rect.y() + 1, 5, rect.height() - 3)
            paint_production_band(painter, band, theme)
        inner = rect.adjusted(FRAME.first_column if first else PAD, 0, -PAD, -1)
        paint_cell(painter, inner, column, look.cell, look.muted, theme, view.turn())
        if view.shows_current_ring(index.row()):
            self._paint_current_ring(painter, rect, index.column(), theme)
        painter.restore()

    def _paint_current_ring(self, painter: QPainter, rect: QRectF, column: int, theme: Theme) -> None:
        accent = theme.color("accent")
        painter.fillRect(QRectF(rect.x(), rect.y(), rect.width(), 2), accent)
        painter.fillRect(QRectF(rect.x(), rect.bottom() - 2, rect.width(), 2), accent)
        if self._view.is_first_column(column):
            painter.fillRect(QRectF(rect.x(), rect.y(), 2, rect.height()), accent)
        if self._view.is_last_column(column):
            painter.fillRect(QRectF(rect.right() - 2, rect.y(), 2, rect.height()), accent)

    def sizeHint(self, option: QStyleOptionViewItem, index: Index) -> QSize:
        """What the cell needs, for fitting a column to its content."""
        cell = self._view.rows_model.cell(index.row(), index.column())
        return QSize(self._view.cell_width(index.column(), cell), self._view.row_height())


class TableHead(QHeaderView):
    """Column heads: small grey words, an arrow at the sorted one, aligned as their column is."""

    def __init__(self, table: TableView) -> None:
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
