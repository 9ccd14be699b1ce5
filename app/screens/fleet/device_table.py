"""The fleet's table: what changes of a device is found and painted cell by cell.

While a run goes over a thousand devices, hundreds of them change a few times a second, each in two or three
cells. Only those cells are told to the view, so that only their rectangles are painted, and rows are put in
order anew only when something that they are sorted by is different.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from typing import Any

from PySide6.QtCore import QModelIndex, QObject, Qt, Signal
from PySide6.QtGui import QContextMenuEvent, QKeyEvent
from PySide6.QtWidgets import QAbstractItemView

from app.items.cell_painter import PAD, cell_width
from app.items.context_menu import ask_for_menu
from app.items.table_model import Index, Row, TableModel, cell_text
from app.items.table_view import TableView
from app.screens.fleet.device_rows import DEVICE_COLUMNS, NAME, said_aloud
from app.theme.theme import theme_of
from app.theme.tokens import FRAME
from app.widgets import painting

Span = tuple[int, int]
_EVERY_COLUMN: tuple[Span, ...] = ((0, len(DEVICE_COLUMNS) - 1),)

_BESIDE_NAME = FRAME.first_column + PAD + 1


class DeviceRows(TableModel):
    """Rows of devices, of which single ones may be changed without a look at the rest."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(DEVICE_COLUMNS, parent)
        # In the order they were given in: among equals the rows stand so.
        self._given: list[str] | None = None

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        """As of every row; a name is read aloud with what its band and its check say."""
        if role == Qt.ItemDataRole.AccessibleTextRole and index.column() == NAME:
            row = self.row_at(index.row())
            return said_aloud(row) if row is not None else None
        return super().data(index, role)

    def sort(self, column: int, order: Qt.SortOrder = Qt.SortOrder.AscendingOrder) -> None:
        """Sort by a column and keep it sorted on updates."""
        # Equals stand as they stood before the sort now; the next rows put them as they are given.
        self._given = None
        super().sort(column, order)

    def set_rows(self, rows: Iterable[Row]) -> None:
        """Show these rows; when all of them stay in their places, only those that changed cost something."""
        wanted = list(rows)
        given = [row.key for row in wanted]
        if given != self._given or self.change_rows(wanted) < len(wanted):
            super().set_rows(wanted)
            self._given = given

    def change_rows(self, rows: Iterable[Row]) -> int:
        """Show these rows in the place of those with their keys, where none of the order changes by it.

        Returns how many are shown so; the others wait for `set_rows`.
        """
        stay = 0
        changed: list[tuple[int, Row]] = []
        for row in rows:
            place = self.place_of(row.key)
            if place < 0:
                continue
            old = self._rows[place]
            if old is not row:
                if self._sorts_as(old) != self._sorts_as(row):
                    continue
                changed.append((place, row))
            stay += 1
        self._put(changed)
        return stay

    def _sorts_as(self, row: Row) -> Any:
        """What decides on the row's place; the text of a cell that has no value of its own for it."""
        if self._sorted_by is None:
            return None
        column = self._sorted_by[0]
        value = row.order[column] if column < len(row.order) else None
        return row.cells[column] if value is None else value

    def _update_changed(self, wanted: list[Row]) -> None:
        self._put([(place, row) for place, row in enumerate(wanted) if self._rows[place] is not row])

    def _put(self, rows: list[tuple[int, Row]]) -> None:
        """Take these rows and tell the view about the cells that look different, as few times as may be."""
        spans: list[tuple[int, tuple[Span, ...]]] = []
        for place, row in sorted(rows, key=lambda one: one[0]):
            if changed := _changed_columns(self._rows[place], row):
                spans.append((place, changed))
            self._rows[place] = row
        # Rows below each other that changed in the same columns are one rectangle.
        for (_, changed), block in groupby(enumerate(spans), lambda one: (one[1][0] - one[0], one[1][1])):
            places = [place for _, (place, _) in block]
            for left, right in changed:
                self.dataChanged.emit(self.index(places[0], left), self.index(places[-1], right))


def _changed_columns(old: Row, new: Row) -> tuple[Span, ...]:
    """The columns, from first to last of each group side by side, whose cells do not look as before."""
    if (old.production, old.muted, old.tint) != (new.production, new.muted, new.tint):
        return _EVERY_COLUMN
    spans: list[Span] = []
    for column, (before, now) in enumerate(zip(old.cells, new.cells, strict=True)):
        if before == now:
            continue
        if spans and spans[-1][1] == column - 1:
            spans[-1] = (spans[-1][0], column)
        else:
            spans.append((column, column))
    return tuple(spans)


class DeviceTable(TableView):
    """The table, with marks. No two names look alike in it; where they would, other columns give way.

    Signals:
        mark_asked(key): Space: mark this device, or take its mark away.
        menu_asked(column, point): the menu of the chosen rows is wanted at a point of the screen, opened on a
            cell of this column; -1 when it was asked for by key.
    """

    mark_asked = Signal(str)
    menu_asked = Signal(int, object)

    def __init__(self) -> None:
        self.device_rows = DeviceRows()
        super().__init__(DEVICE_COLUMNS, "Devices", self.device_rows, multiple=True)
        self.device_rows.setParent(self)
        self._name_widths: dict[str, float] = {}

    # names

    def measure_name(self, row: Row) -> None:
        """Note how much room the name of a row needs; measured once for each name."""
        if row.key not in self._name_widths:
            cell = row.cells[NAME]
            self._name_widths[row.key] = cell_width(DEVICE_COLUMNS[NAME], cell, theme_of(self))

    def fit_widths(self) -> None:
        """Share the room between names and what there is room for beside them."""
        self._drop_columns()
        super().fit_widths()

    def needed_width(self, number: int) -> int:
        """As of every table; of names the longest of all rows, not only of those in sight."""
        if number != NAME:
            return super().needed_width(number)
        widest = max((self._name_widths.get(row.key, 0.0) for row in self.device_rows.rows), default=0.0)
        return round(widest) + _BESIDE_NAME

    def least_width(self, number: int, needed: int) -> int:
        """As of every table; names have all their room where two would look alike: they must never."""
        least = super().least_width(number, needed)
        if number == NAME and needed > least:
            alike = self._would_look_alike(self.device_rows.rows, least - _BESIDE_NAME)
            return needed if alike else least
        return least

    def _would_look_alike(self, rows: Iterable[Row], width: int) -> bool:
        """Whether two names that are cut to a width are the same to the eye."""
        column, theme = DEVICE_COLUMNS[NAME], theme_of(self)
        metrics = painting.metrics_of(theme, "name")
        cut: list[str] = []
        for row in rows:
            if self._name_widths.get(row.key, 0.0) > width:
                text = cell_text(row.cells[NAME])
                beside = cell_width(column, row.cells[NAME], theme) - painting.text_width(text, theme, "name")
                cut.append(metrics.elidedText(text, Qt.TextElideMode.ElideMiddle, round(width - beside)))
        return len(set(cut)) < len(cut)

    def _drop_columns(self) -> None:
        """Show of the columns that may go what there is room for, beside names as wide as they are."""
        columns = self.rows_model.columns
        names = self.columnWidth(NAME)
        if NAME not in self._sized:
            names = self.least_width(NAME, self.needed_width(NAME))
        taken = names + sum(one.width for one in columns[NAME + 1 :] if not one.drop)
        gone: set[int] = set()
        for number in sorted((n for n, one in enumerate(columns) if one.drop), key=lambda n: columns[n].drop):
            if taken + columns[number].width > self.viewport().width():
                gone.add(number)
            else:
                taken += columns[number].width
        if gone != self._no_room:
            self.take_room(gone)

    # keys

    def moveCursor(
        self, action: QAbstractItemView.CursorAction, modifiers: Qt.KeyboardModifier
    ) -> QModelIndex:
        """Home and End are the first and the last row; Qt's own move within a row, which is chosen whole."""
        ends = {QAbstractItemView.CursorAction.MoveHome: 0}
        ends[QAbstractItemView.CursorAction.MoveEnd] = self.rows_model.rowCount() - 1
        if action in ends:
            return self.rows_model.index(ends[action], max(0, self._edge_column(first=True)))
        return super().moveCursor(action, modifiers)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Space marks; the rest is as in every table."""
        if event.key() == Qt.Key.Key_Space and not event.modifiers():
            if key := self.current_key():
                self.mark_asked.emit(key)
            return
        super().keyPressEvent(event)

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        """The menu of the chosen rows, or of the one under the pointer."""
        ask_for_menu(self, event, self.choose, self.menu_asked)
