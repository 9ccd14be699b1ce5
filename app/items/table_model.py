"""Tables over objects: what a column shows and sorts of one, and the model that asks it when Qt does."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Generic, TypeVar

from PySide6.QtCore import QObject, Qt

from app.items.keyed_model import NO_PARENT, Index, KeyedModel
from app.theme.state_looks import cell_look, health_look, plan_look, risk_look, server_look
from app.widgets.labels import escaped_tooltip

Item = TypeVar("Item")
LONG_NAME = 16
_TEXT_ROLES = (
    Qt.ItemDataRole.DisplayRole,
    Qt.ItemDataRole.AccessibleTextRole,
    Qt.ItemDataRole.ToolTipRole,
)
_BREAKS = {9: " ", 10: " ", 13: " "}


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
    SERVER = "server"  # the cell is a hosted server's state
    SPARK = "spark"  # `Cell.spark` as a line, the cell's text at its right


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
class Column(Generic[Item]):
    """One column. `stretch` takes what is left over; `drop` > 0 hides it in narrow panes, highest first.

    `cell` makes what is shown of an object; `sort` a value for where the text would sort wrongly, None for an
    object that has none. Columns of ready `Row`s need neither.
    """

    key: str
    title: str
    kind: Kind = Kind.TEXT
    width: int = 120
    stretch: bool = False
    tone: str = ""
    drop: int = 0
    right: bool = False
    cell: Callable[[Item], str | Cell] | None = None
    sort: Callable[[Item], Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RowStyle:
    """How a whole row looks; `tint` is a token name behind it."""

    production: bool = False
    muted: bool = False
    tint: str = ""


PLAIN = RowStyle()


@dataclass(frozen=True, slots=True)
class Row(RowStyle):
    """A ready row: a stable key, one cell for each column.

    `order` holds one comparable value for each column where the text would sort wrongly; None keeps the text.
    """

    key: str
    cells: tuple[str | Cell, ...]
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
        case Kind.SERVER:
            return server_look(text).word
        case _:
            return text


class TableModel(KeyedModel[Item]):
    """A table with one row an object and one cell for each column, made when it is looked at."""

    def __init__(
        self,
        columns: Sequence[Column[Item]],
        key: Callable[[Item], Hashable],
        style: Callable[[Item], RowStyle] = lambda _item: PLAIN,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(key, parent=parent)
        self.columns = tuple(columns)
        self._style = style

    # what Qt asks

    def columnCount(self, parent: Index = NO_PARENT) -> int:
        """Number of columns."""
        return 0 if parent.isValid() else len(self.columns)

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        """The words of a cell, alone or after its column's title; the delegate asks `cell` instead."""
        if role not in _TEXT_ROLES or not index.isValid() or index.row() >= self.rowCount():
            return None
        cell, column = self.cell(index.row(), index.column()), self.columns[index.column()]
        if role == Qt.ItemDataRole.ToolTipRole:
            # A name of this length may be cut in its middle.
            cut = column.kind is Kind.NAME and len(cell_text(cell)) > LONG_NAME
            tip = (cell.tip if isinstance(cell, Cell) else "") or (cell_text(cell) if cut else "")
            return escaped_tooltip(tip) if tip else None
        text = spoken(column.kind, cell_text(cell))
        return f"{column.title}: {text}" if role == Qt.ItemDataRole.AccessibleTextRole else text

    def headerData(
        self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole
    ) -> Any:
        """Titles of the columns; rows have no heads."""
        if orientation == Qt.Orientation.Horizontal and role == Qt.ItemDataRole.DisplayRole:
            return self.columns[section].title if 0 <= section < len(self.columns) else None
        return None

    def sort(self, column: int, order: Qt.SortOrder = Qt.SortOrder.AscendingOrder) -> None:
        """Sort by a column and keep it sorted on updates; -1 takes objects in the order they are given in."""
        by = (lambda item: self.sort_value(item, column)) if 0 <= column < len(self.columns) else None
        self.set_order(by, descending=order == Qt.SortOrder.DescendingOrder)

    # what views and screens ask

    def key_at(self, row: int) -> str:
        """The key of a row; empty where there is none."""
        item = self.item(row)
        return str(self._key(item)) if item is not None else ""

    def cell(self, row: int, column: int) -> str | Cell:
        """What stands in a cell."""
        return self.cell_of(self._items[row], column)

    def style(self, row: int) -> RowStyle:
        """How a row looks."""
        return self._style(self._items[row])

    def cell_of(self, item: Item, column: int) -> str | Cell:
        """What stands of an object in a column."""
        make = self.columns[column].cell
        return make(item) if make is not None else ""

    def sort_value(self, item: Item, column: int) -> Any:
        """What an object is sorted by: numbers before words; None where there is nothing."""
        sort = self.columns[column].sort
        return comparable(sort(item) if sort is not None else cell_text(self.cell_of(item, column)))

    def words(self, row: int) -> str:
        """A row as one line of words between tabs, for other programs."""
        cells = (spoken(column.kind, cell_text(self.cell(row, n))) for n, column in enumerate(self.columns))
        return tab_line(cells)


def tab_line(cells: Iterable[str]) -> str:
    """Cells on one line with tabs between; a tab or line break in one would move what follows into others."""
    return "\t".join(cell.translate(_BREAKS) for cell in cells)


def comparable(value: Any) -> tuple[int, Any] | None:
    """A value as it is sorted among others: numbers before words, words whatever their case."""
    if value is None or isinstance(value, int | float):
        return None if value is None else (0, value)
    return (1, str(value).casefold()) if value and value != "—" else None


class RowsModel(TableModel[Row]):
    """A table of ready rows."""

    def __init__(self, columns: Sequence[Column[Row]], parent: QObject | None = None) -> None:
        super().__init__(columns, lambda row: row.key, lambda row: row, parent)

    def cell_of(self, item: Row, column: int) -> str | Cell:
        """The ready cell."""
        return item.cells[column]

    def sort_value(self, item: Row, column: int) -> Any:
        """As the row says."""
        value = item.order[column] if column < len(item.order) else None
        return comparable(cell_text(item.cells[column]) if value is None else value)
