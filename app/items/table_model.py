"""Rows for tables: plain data with stable keys, and the model that shows them.

A screen makes `Row`s with ready strings from its state and hands over the whole list; the model finds out
what changed, so that selection, scroll position and open editors survive an update.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from PySide6.QtCore import QAbstractTableModel, QModelIndex, QObject, QPersistentModelIndex, Qt, Signal

from app.theme.status_styles import cell_look, health_look, plan_look, risk_look
from app.widgets.labels import escaped_tooltip

Index = QModelIndex | QPersistentModelIndex
_NO_PARENT = QModelIndex()


class Kind(StrEnum):
    """How a column's cells are painted."""

    TEXT = "text"
    NAME = "name"  # what the row is; weight 500, never cut
    MONO = "mono"
    NUMBER = "number"  # right, figures of one width
    TIME = "time"
    RISK = "risk"  # the cell is low, medium, high or critical
    VERDICT = "verdict"  # the cell is a verdict or a cell state
    HEALTH = "health"
    PLAN = "plan"
    SPARK = "spark"  # `Cell.spark` as a line, the cell's text at its right


@dataclass(frozen=True, slots=True)
class Column:
    """One column. `stretch` takes what is left over; `drop` > 0 hides it in narrow panes, highest first."""

    key: str
    title: str
    kind: Kind = Kind.TEXT
    width: int = 120
    stretch: bool = False
    tone: str = ""
    drop: int = 0
    right: bool = False


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell that is more than a string: an icon before it, a colour, a bold part at its end, a line.

    `scale` is what the edges of the line stand for; without it the line's own least and most. `parts` are the
    words that the text is made of: where not all have room, those that do are shown and the others counted.
    """

    text: str
    icon: str = ""
    tone: str = ""
    bold: str = ""
    bold_tone: str = "prod"
    spark: tuple[float, ...] = ()
    glyph: str = ""
    tip: str = ""
    scale: tuple[float, float] | None = None
    parts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Row:
    """One row: a stable key, one cell for each column, ready to be painted.

    `order` holds one comparable value for each column where the text would sort wrongly; None keeps the text.
    `tint` is a token name behind the whole row.
    """

    key: str
    cells: tuple[str | Cell, ...]
    production: bool = False
    muted: bool = False
    tint: str = ""
    order: tuple[Any, ...] = ()


def cell_text(cell: str | Cell) -> str:
    """What a person reads in a cell, also for copying."""
    if isinstance(cell, str):
        return cell
    return f"{cell.text} {cell.bold}".strip() if cell.bold else cell.text


def spoken(kind: Kind, text: str) -> str:
    """The word that the painted state of a cell shows."""
    if not text:
        return text
    match kind:
        case Kind.RISK:
            return risk_look(text).word
        case Kind.VERDICT:
            return cell_look(text).word
        case Kind.HEALTH:
            return health_look(text).word
        case Kind.PLAN:
            return plan_look(text).word
        case _:
            return text


LONG_NAME = 16


class TableModel(QAbstractTableModel):
    """A table of rows.

    Signals:
        more_wanted: the view came near the end of rows that are not all here; answer with `append_rows`.
    """

    more_wanted = Signal()

    def __init__(self, columns: Sequence[Column], parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.columns = tuple(columns)
        self._rows: list[Row] = []
        self._places: dict[str, int] = {}
        self._sorted_by: tuple[int, Qt.SortOrder] | None = None
        self._more = False
        self._asked = False

    # what Qt asks

    def rowCount(self, parent: Index = _NO_PARENT) -> int:
        """Number of rows; cells have no children."""
        return 0 if parent.isValid() else len(self._rows)

    def columnCount(self, parent: Index = _NO_PARENT) -> int:
        """Number of columns."""
        return 0 if parent.isValid() else len(self.columns)

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        """Ready strings; the delegate reads `row_at` instead."""
        if not index.isValid() or index.row() >= len(self._rows):
            return None
        if role not in (
            Qt.ItemDataRole.DisplayRole,
            Qt.ItemDataRole.AccessibleTextRole,
            Qt.ItemDataRole.ToolTipRole,
        ):
            return None
        cell = self._rows[index.row()].cells[index.column()]
        if role == Qt.ItemDataRole.ToolTipRole:
            return self._tip(cell, self.columns[index.column()])
        column = self.columns[index.column()]
        text = spoken(column.kind, cell_text(cell))
        return f"{column.title}: {text}" if role == Qt.ItemDataRole.AccessibleTextRole else text

    def _tip(self, cell: str | Cell, column: Column) -> str | None:
        if isinstance(cell, Cell) and cell.tip:
            return escaped_tooltip(cell.tip)
        # A name of this length may be cut in its middle.
        long = column.kind is Kind.NAME and len(cell_text(cell)) > LONG_NAME
        return escaped_tooltip(cell_text(cell)) if long else None

    def headerData(
        self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole
    ) -> Any:
        """Titles of the columns; rows have no heads."""
        if orientation == Qt.Orientation.Horizontal and role == Qt.ItemDataRole.DisplayRole:
            return self.columns[section].title if 0 <= section < len(self.columns) else None
        return None

    def canFetchMore(self, parent: Index) -> bool:
        """True while there are rows that are not here yet."""
        return self._more and not self._asked and not parent.isValid()

    def fetchMore(self, parent: Index) -> None:
        """Ask for the next page; it comes later, through `append_rows`."""
        if self.canFetchMore(parent):
            self._asked = True
            self.more_wanted.emit()

    def sort(self, column: int, order: Qt.SortOrder = Qt.SortOrder.AscendingOrder) -> None:
        """Sort by a column and keep it sorted on updates; -1 takes rows in the order they are given in."""
        self._sorted_by = (column, order) if 0 <= column < len(self.columns) else None
        if self._sorted_by is not None:
            self._reorder(self._in_order(self._rows))

    # what screens ask

    def row_at(self, place: int) -> Row | None:
        """The row in this place."""
        return self._rows[place] if 0 <= place < len(self._rows) else None

    def place_of(self, key: str) -> int:
        """Where the row with this key is; -1 when it is not here."""
        return self._places.get(key, -1)

    @property
    def rows(self) -> tuple[Row, ...]:
        """All rows, as shown."""
        return tuple(self._rows)

    def set_more(self, more: bool) -> None:
        """Say whether there are rows after the last one."""
        self._more, self._asked = more, False

    def set_rows(self, rows: Iterable[Row]) -> None:
        """Show these rows. What is equal stays untouched; keys tell which row is which.

        Raises:
            ValueError: two rows have the same key.
        """
        wanted = self._in_order(rows)
        keys = {row.key for row in wanted}
        if len(keys) != len(wanted):
            raise ValueError("Rows need different keys.")
        self._remove_all_but(keys)
        old_order = {row.key: number for number, row in enumerate(wanted)}
        self._reorder(sorted(self._rows, key=lambda row: old_order[row.key]))
        self._insert_missing(wanted)
        self._update_changed(wanted)

    def append_rows(self, rows: Iterable[Row]) -> None:
        """Add rows at the end, which costs nothing for the rows that are here; for logs and pages."""
        self.insert_rows(len(self._rows), rows)
        self._asked = False

    def insert_rows(self, place: int, rows: Iterable[Row]) -> None:
        """Add rows before `place`; rows whose keys are here already are left out."""
        new = [row for row in rows if row.key not in self._places]
        if not new:
            return
        self.beginInsertRows(QModelIndex(), place, place + len(new) - 1)
        self._rows[place:place] = new
        if place + len(new) == len(self._rows):
            self._places.update((row.key, place + number) for number, row in enumerate(new))
        else:
            self._count_places()
        self.endInsertRows()

    def clear(self) -> None:
        """Show nothing."""
        self.beginResetModel()
        self._rows, self._places = [], {}
        self._more = self._asked = False
        self.endResetModel()

    # how an update is found

    def _in_order(self, rows: Iterable[Row]) -> list[Row]:
        if self._sorted_by is None:
            return list(rows)
        column, order = self._sorted_by
        values = [(_sort_value(row, column), row) for row in rows]
        empty = [row for value, row in values if value[0] == 2]
        full = [pair for pair in values if pair[0][0] != 2]
        full.sort(key=lambda pair: pair[0], reverse=order == Qt.SortOrder.DescendingOrder)
        # Rows without a value come last in both directions.
        return [row for _, row in full] + empty

    def _count_places(self) -> None:
        self._places = {row.key: place for place, row in enumerate(self._rows)}

    def _remove_all_but(self, keys: set[str]) -> None:
        end = len(self._rows)
        while end > 0:
            if self._rows[end - 1].key in keys:
                end -= 1
                continue
            start = end - 1
            while start > 0 and self._rows[start - 1].key not in keys:
                start -= 1
            self.beginRemoveRows(QModelIndex(), start, end - 1)
            del self._rows[start:end]
            self.endRemoveRows()
            end = start
        self._count_places()

    def _reorder(self, rows: list[Row]) -> None:
        if [row.key for row in rows] == [row.key for row in self._rows]:
            return
        self.layoutAboutToBeChanged.emit()
        before = self.persistentIndexList()
        keys = [self._rows[index.row()].key for index in before]
        self._rows = rows
        self._count_places()
        after = [
            self.index(self._places[key], index.column()) for key, index in zip(keys, before, strict=True)
        ]
        self.changePersistentIndexList(before, after)
        self.layoutChanged.emit()

    def _insert_missing(self, wanted: list[Row]) -> None:
        place = 0
        while place < len(wanted):
            if wanted[place].key in self._places:
                place += 1
                continue
            end = place
            while end + 1 < len(wanted) and wanted[end + 1].key not in self._places:
                end += 1
            self.beginInsertRows(QModelIndex(), place, end)
            self._rows[place:place] = wanted[place : end + 1]
            self.endInsertRows()
            place = end + 1
        self._count_places()

    def _update_changed(self, wanted: list[Row]) -> None:
        last = len(self.columns) - 1
        first_changed = -1
        for place, row in enumerate(wanted):
            if self._rows[place] != row:
                self._rows[place] = row
                first_changed = place if first_changed < 0 else first_changed
            elif first_changed >= 0:
                self.dataChanged.emit(self.index(first_changed, 0), self.index(place - 1, last))
                first_changed = -1
        if first_changed >= 0:
            self.dataChanged.emit(self.index(first_changed, 0), self.index(len(wanted) - 1, last))


def _sort_value(row: Row, column: int) -> tuple[int, Any]:
    """Numbers before words; (2, …) is a row without a value."""
    value = row.order[column] if column < len(row.order) else None
    if isinstance(value, int | float):
        return (0, value)
    text = cell_text(row.cells[column]) if value is None else str(value)
    return (1, text.casefold()) if text and text != "—" else (2, "")
