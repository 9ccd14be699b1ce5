"""The table view of all lists of rows, with its delegate and its header."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Literal

from PySide6.QtCore import (
    QEvent,
    QItemSelectionModel,
    QModelIndex,
    QPersistentModelIndex,
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
    QPaintEvent,
    QResizeEvent,
    QShowEvent,
)
from PySide6.QtWidgets import (
    QAbstractItemView,
    QHeaderView,
    QMenu,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QTableView,
    QWidget,
)

from app.items.cell_painter import PAD, cell_width, paint_cell
from app.items.table_model import Cell, Column, Index, Kind, Row, TableModel, cell_text, spoken
from app.theme.shapes import paint_glyph
from app.theme.status_styles import cell_look
from app.theme.theme import Theme, theme_of
from app.theme.tokens import FRAME
from app.widgets import painting
from app.widgets.animation_timer import animation_timer_of
from app.widgets.badges import paint_production_band
from app.widgets.util import debounce

__all__ = ["Cell", "Column", "Kind", "Row", "TableModel", "TableView"]

RowHeight = Literal["table", "journal", "finding", "tree"]
# The share of a table that names have for certain, and the room of the arrow in a head.
MOST_NAME = 0.3
SORT_MARK = 15
SCROLL_PAUSE_MS = 120
# Texts that stay as they are; what the others show changes all the time, and their columns must not move.
_GIVING = (Kind.TEXT, Kind.MONO, Kind.NAME)
_KEYBOARD = (
    Qt.FocusReason.TabFocusReason,
    Qt.FocusReason.BacktabFocusReason,
    Qt.FocusReason.ShortcutFocusReason,
)


class TableView(QTableView):
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
        columns: Sequence[Column],
        name: str,
        model: TableModel | None = None,
        rows: RowHeight = "table",
        multiple: bool = False,
        sortable: bool = True,
        parent: QWidget | None = None,
    ) -> None:
        """`name` is what the table lists, for assistive technology and for remembering its columns."""
        super().__init__(parent)
        self.rows_model = model or TableModel(columns, self)
        self._row_kind: RowHeight = rows
        self._name = name
        self._hovered = -1
        self._ring = False
        self._kept: tuple[str, list[str]] = ("", [])
        # Columns that have no room now, and what the operator said of columns: these widths, away, always.
        self._no_room: set[int] = set()
        self._sized: set[int] = set()
        self._put_away: set[int] = set()
        self._wanted: set[int] = set()
        self.setAccessibleName(name)
        self._set_up_view(multiple)
        self.setModel(self.rows_model)
        self._set_up_head(sortable)
        self.setItemDelegate(CellDelegate(self))
        self._pulse = animation_timer_of(self)
        self._fit_soon = debounce(self, 0, self.fit_widths)
        self._fit_scrolled = debounce(self, SCROLL_PAUSE_MS, self.fit_widths)
        # What columns needed since the rows were others: none becomes narrower while they are scrolled.
        self._needed: dict[int, int] = {}
        self._connect_model()
        self._measure()

    def _set_up_view(self, multiple: bool) -> None:
        self.setShowGrid(False)
        self.setWordWrap(False)
        self.setTabKeyNavigation(False)
        self.setMouseTracking(True)
        self.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        mode = QAbstractItemView.SelectionMode
        self.setSelectionMode(mode.ExtendedSelection if multiple else mode.SingleSelection)
        self.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.setVerticalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setHorizontalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setCornerButtonEnabled(False)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)

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
        self.doubleClicked.connect(self._double_clicked)
        self.rows_model.modelAboutToBeReset.connect(self._keep_choice)
        self.rows_model.modelReset.connect(self._restore_choice)
        for changed in (
            self.rows_model.modelReset, self.rows_model.rowsInserted, self.rows_model.rowsRemoved
        ):  # fmt: skip
            changed.connect(self._fit_anew)
        self.verticalScrollBar().valueChanged.connect(lambda _value: self._fit_scrolled.start())

    # what the delegate asks

    def row_height(self) -> int:
        """The height of a row in the current density."""
        metrics = theme_of(self).metrics
        return {
            "table": metrics.table_row,
            "journal": metrics.journal_row,
            "finding": metrics.finding_row,
            "tree": metrics.tree_row,
        }[self._row_kind]

    def hovered_row(self) -> int:
        """The row under the pointer; -1 when it is elsewhere."""
        return self._hovered

    def drives(self) -> bool:
        """True while this table's pane has the focus."""
        return self.hasFocus()

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
        return self._ring and self.hasFocus() and row == self.currentIndex().row()

    def step(self) -> int:
        """How far running rings have turned."""
        return self._pulse.step

    def still_turns(self) -> bool:
        """Asked by the shared timer: is a running cell in sight?"""
        return self.isVisible() and self._running_in_sight()

    def _running_in_sight(self) -> bool:
        states = [n for n, column in enumerate(self.rows_model.columns) if column.kind is Kind.VERDICT]
        if not states:
            return False
        for place in self.places_in_sight():
            row = self.rows_model.row_at(place)
            if row and any(cell_look(cell_text(row.cells[n])).turning for n in states):
                return True
        return False

    # what screens ask

    def places_in_sight(self) -> range:
        """Where the rows are that can be seen, the ones cut at the edges included."""
        top, bottom = self.rowAt(0), self.rowAt(self.viewport().height() - 1)
        last = bottom if bottom >= 0 else self.rows_model.rowCount() - 1
        return range(max(0, top), last + 1)

    def show_rows(self, rows: Sequence[Row]) -> None:
        """Show these rows; the current row, the chosen ones and the scroll position stay."""
        self.rows_model.set_rows(rows)

    def current_key(self) -> str:
        """The key of the row under the cursor; empty when there is none."""
        row = self.rows_model.row_at(self.currentIndex().row())
        return row.key if row else ""

    def choose(self, key: str) -> bool:
        """Move the cursor to the row with this key; False when it is not here."""
        place = self.rows_model.place_of(key)
        if place < 0:
            return False
        index = self.rows_model.index(place, max(0, self._edge_column(first=True)))
        flags = QItemSelectionModel.SelectionFlag
        self.selectionModel().setCurrentIndex(index, flags.ClearAndSelect | flags.Rows)
        self.scrollTo(index)
        return True

    def marked_keys(self) -> list[str]:
        """The keys of the chosen rows, from top to bottom."""
        places = sorted(index.row() for index in self.selectionModel().selectedRows())
        return [row.key for place in places if (row := self.rows_model.row_at(place))]

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
        rows = [self.rows_model.row_at(place) for place in self.places_in_sight()]
        widths = [cell_width(column, row.cells[number], theme) for row in rows if row is not None]
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
        lines = []
        columns = self.rows_model.columns
        for index in sorted(self.selectionModel().selectedRows(), key=lambda index: index.row()):
            row = self.rows_model.row_at(index.row())
            if row is not None:
                words = (
                    spoken(column.kind, cell_text(cell))
                    for column, cell in zip(columns, row.cells, strict=True)
                )
                # A tab or line break within a cell would move what follows into other cells.
                lines.append("\t".join(word.translate({9: " ", 10: " ", 13: " "}) for word in words))
        text = "\n".join(lines)
        if text:
            QGuiApplication.clipboard().setText(text)
        return text

    def save_columns(self, settings: QSettings, key: str) -> None:
        """Keep order and sorting under `key`, and what the operator chose: widths, columns shown and away."""
        settings.setValue(f"{key}/columns", self.horizontalHeader().saveState())
        for name, numbers in self._chosen().items():
            keys = [self.rows_model.columns[number].key for number in sorted(numbers)]
            settings.setValue(f"{key}/{name}", ",".join(keys))

    def restore_columns(self, settings: QSettings, key: str) -> bool:
        """Take back what `save_columns` kept; False when there is nothing, or it is of other columns.

        Only what the operator chose is taken back of widths and hidden columns: the rest follows the window.
        """
        kept = settings.value(f"{key}/columns")
        if kept is None or not self.horizontalHeader().restoreState(kept):
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

    def _chosen(self) -> dict[str, set[int]]:
        return {"sized": self._sized, "away": self._put_away, "wanted": self._wanted}

    # how it behaves

    def _current_moved(self, now: QModelIndex, before: QModelIndex) -> None:
        del before
        row = self.rows_model.row_at(now.row()) if now.isValid() else None
        self.current_changed.emit(row.key if row else "")

    def _double_clicked(self, index: QModelIndex) -> None:
        if row := self.rows_model.row_at(index.row()):
            self.opened.emit(row.key)

    def _keep_choice(self) -> None:
        self._kept = (self.current_key(), self.marked_keys())

    def _restore_choice(self) -> None:
        current, marked = self._kept
        flags = QItemSelectionModel.SelectionFlag
        if current and self.choose(current):
            for key in marked:
                if (place := self.rows_model.place_of(key)) >= 0:
                    index = self.rows_model.index(place, 0)
                    self.selectionModel().select(index, flags.Select | flags.Rows)

    def _measure(self) -> None:
        self.verticalHeader().setMinimumSectionSize(1)
        self.verticalHeader().setDefaultSectionSize(self.row_height())

    def changeEvent(self, event: QEvent) -> None:
        """Take the new density's heights."""
        super().changeEvent(event)
        if event.type() == QEvent.Type.StyleChange and hasattr(self, "_row_kind"):
            # The header is polished after its view; measuring now would be undone.
            QTimer.singleShot(0, self, self._measure)

    def dataChanged(self, top: Index, bottom: Index, roles: Sequence[int] = ()) -> None:
        """Paint what can be seen of the cells that changed.

        For more than one column of rows out of sight Qt (6.11) paints everything that is in sight.
        """
        # Whoever listens to a table hears of cells out of sight too.
        if not QAccessible.isActive():
            sight = self.places_in_sight()
            first, last = max(top.row(), sight.start), min(bottom.row(), sight.stop - 1)
            if first > last:
                return
            top, bottom = top.sibling(first, top.column()), bottom.sibling(last, bottom.column())
        super().dataChanged(top, bottom, list(roles))

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw the rows; keep running rings turning while one is in sight."""
        super().paintEvent(event)
        if not self._pulse.running and self._running_in_sight():
            self._pulse.keep_turning(self)

    def update(self, *args: object) -> None:
        """The shared timer asks for a repaint: what turns is in the viewport."""
        if args:
            super().update(*args)
        else:
            self.viewport().update()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Enter opens, Ctrl+C copies, moving by key shows the ring; the rest is Qt's."""
        if event.matches(QKeySequence.StandardKey.Copy):
            self.copy_marked()
            return
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter) and not event.modifiers():
            if key := self.current_key():
                self.opened.emit(key)
            return
        # Letters are keys of the screen here, not a search in the first column.
        if event.text() and event.key() != Qt.Key.Key_Space and event.text().isprintable():
            event.ignore()
            return
        super().keyPressEvent(event)

    def focusInEvent(self, event: QFocusEvent) -> None:
        """Show where the cursor is when the focus came by keyboard."""
        super().focusInEvent(event)
        self._ring = event.reason() in _KEYBOARD
        if not self.currentIndex().isValid() and self.rows_model.rowCount():
            first = self.rows_model.row_at(0)
            if first is not None and self._ring:
                self.choose(first.key)
        self.viewport().update()

    def focusOutEvent(self, event: QFocusEvent) -> None:
        """Chosen rows go grey."""
        super().focusOutEvent(event)
        self.viewport().update()

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        """Follow the pointer with the hovered row."""
        super().mouseMoveEvent(event)
        self._hover(self.rowAt(event.position().toPoint().y()))

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """A pointer needs no ring."""
        self._ring = False
        super().mousePressEvent(event)

    def leaveEvent(self, event: QEvent) -> None:
        """Nothing is hovered."""
        super().leaveEvent(event)
        self._hover(-1)

    def _hover(self, row: int) -> None:
        if row == self._hovered:
            return
        for old in (self._hovered, row):
            if old >= 0:
                top, height = self.rowViewportPosition(old), self.rowHeight(old)
                self.viewport().update(row_rect_in(self.viewport(), top, height))
        self._hovered = row

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


if TYPE_CHECKING:
    from app.items.table_view import TableView


class CellDelegate(QStyledItemDelegate):
    """Paints every cell of a `TableView` from its row; state comes from the view, words are ready."""

    def __init__(self, table: TableView) -> None:
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


def row_rect_in(view: QWidget, top: int, height: int) -> QRect:
    """The whole width of a row, for repainting it."""
    return QRect(0, top, view.width(), height)
