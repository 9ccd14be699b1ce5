"""A Qt model over objects that are known by a key: an update is told to views as what it changes."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Generic, TypeVar

from PySide6.QtCore import QAbstractTableModel, QModelIndex, QObject, QPersistentModelIndex, Qt, Signal

Index = QModelIndex | QPersistentModelIndex
Item = TypeVar("Item")
NO_PARENT = QModelIndex()
ITEM_ROLE = int(Qt.ItemDataRole.UserRole) + 1


class KeyedModel(QAbstractTableModel, Generic[Item]):
    """One row an object. Selection, cursor, scroll position and open editors survive every `sync`.

    `roles` says what `data()` answers from an object, worked out when Qt asks for it; `ITEM_ROLE` is the
    object. While it is `syncing` a cursor may move on from a row that goes, which is no wish of the operator.

    Signals:
        arranged: a `sync` is over in which rows came, went or moved.
    """

    arranged = Signal()

    def __init__(
        self,
        key: Callable[[Item], Hashable],
        roles: Mapping[Qt.ItemDataRole, Callable[[Item], Any]] | None = None,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self.syncing = False
        self._key = key
        self._roles = {int(role): value for role, value in (roles or {}).items()}
        self._items: list[Item] = []
        self._keys: list[Hashable] = []
        # None until it is asked for: rows come and go in blocks.
        self._rows: dict[Hashable, int] | None = None
        self._order: Callable[[Item], Any] | None = None
        self._descending = False
        # By key, with the object that it was worked out from.
        self._order_values: dict[Hashable, tuple[Item, Any]] = {}

    # what Qt asks

    def rowCount(self, parent: Index = NO_PARENT) -> int:
        """Number of objects; none of them has children."""
        return 0 if parent.isValid() else len(self._items)

    def columnCount(self, parent: Index = NO_PARENT) -> int:
        """One column, as lists have."""
        return 0 if parent.isValid() else 1

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        """What `roles` make of the object now."""
        item = self.item(index.row())
        if item is None:
            return None
        if role == ITEM_ROLE:
            return item
        value = self._roles.get(role)
        return value(item) if value is not None else None

    # what screens ask

    @property
    def items(self) -> Sequence[Item]:
        """All objects, as shown."""
        return self._items

    def item(self, row: int) -> Item | None:
        """The object in this row."""
        return self._items[row] if 0 <= row < len(self._items) else None

    def row_of(self, key: Hashable) -> int:
        """Where the object with this key is; -1 when it is not here."""
        return self._row_map().get(key, -1)

    def index_of(self, key: Hashable) -> QModelIndex:
        """The first cell of the object with this key; invalid when it is not here."""
        return self.index(self.row_of(key), 0)

    def sync(self, objects: Iterable[Item]) -> None:
        """Show these objects and no others, in their order or in that of `set_order`.

        Raises:
            ValueError: two objects have the same key.
        """
        wanted = self._in_order(list(objects))
        keys = [self._key(item) for item in wanted]
        if keys != self._keys:
            if len(set(keys)) != len(keys):
                raise ValueError("Rows need different keys.")
            self.syncing = True
            self._remove_all_but(set(keys))
            here = self._row_map()
            self._move([key for key in keys if key in here])
            self._insert_missing(wanted, keys)
            self.syncing = False
            self._change(wanted)
            self.arranged.emit()
        else:
            self._change(wanted)

    def reset(self, objects: Iterable[Item] = ()) -> None:
        """Show these objects as others than before, whatever their keys: cursor and selection are dropped."""
        self.beginResetModel()
        self._items = self._in_order(list(objects))
        self._keys = [self._key(item) for item in self._items]
        self._rows = None
        self.endResetModel()

    def set_order(self, order: Callable[[Item], Any] | None, descending: bool = False) -> None:
        """Sort by this value, now and in every `sync`; objects for which it is None come last either way.

        Without an order, objects stand as they are given from the next `sync` on.
        """
        self._order, self._descending = order, descending
        self._order_values = {}
        if order is not None:
            self._move([self._key(item) for item in self._in_order(self._items)])

    def refresh(self, keys: Iterable[Hashable]) -> None:
        """Have these rows read again: what their roles answer depends on more than the object."""
        self._tell_changed(sorted(row for key in keys if (row := self.row_of(key)) >= 0))

    # how an update is worked out

    def _in_order(self, items: list[Item]) -> list[Item]:
        """The objects sorted; each one's value is worked out once, whatever else is in an update."""
        if self._order is None:
            return items
        known, values = self._order_values, {}
        full: list[tuple[Any, Item]] = []
        empty: list[Item] = []
        for item in items:
            key = self._key(item)
            before = known.get(key)
            value = before[1] if before is not None and before[0] is item else self._order(item)
            values[key] = (item, value)
            if value is None:
                empty.append(item)
            else:
                full.append((value, item))
        self._order_values = values
        full.sort(key=lambda pair: pair[0], reverse=self._descending)
        return [item for _, item in full] + empty

    def _row_map(self) -> dict[Hashable, int]:
        if self._rows is None:
            self._rows = {key: row for row, key in enumerate(self._keys)}
        return self._rows

    def _remove_all_but(self, keys: set[Hashable]) -> None:
        gone = [row for row, key in enumerate(self._keys) if key not in keys]
        for first, last in reversed(list(neighbours(gone))):
            self.beginRemoveRows(NO_PARENT, first, last)
            del self._items[first : last + 1], self._keys[first : last + 1]
            self._rows = None
            self.endRemoveRows()

    def _move(self, keys: list[Hashable]) -> None:
        """Put the objects into this order, as one change: to Qt's views every move is a new layout anyway."""
        if keys == self._keys:
            return
        self.layoutAboutToBeChanged.emit()
        before = self.persistentIndexList()
        moved = [self._keys[index.row()] for index in before]
        rows = self._row_map()
        self._items = [self._items[rows[key]] for key in keys]
        self._keys, self._rows = keys, None
        after = [
            self.index(self.row_of(key), index.column()) for key, index in zip(moved, before, strict=True)
        ]
        self.changePersistentIndexList(before, after)
        self.layoutChanged.emit()

    def _insert_missing(self, wanted: list[Item], keys: list[Hashable]) -> None:
        here = self._row_map()
        missing = [row for row, key in enumerate(keys) if key not in here]
        for first, last in neighbours(missing):
            self.beginInsertRows(NO_PARENT, first, last)
            self._items[first:first] = wanted[first : last + 1]
            self._keys[first:first] = keys[first : last + 1]
            self._rows = None
            self.endInsertRows()

    def _change(self, wanted: list[Item]) -> None:
        changed = [
            row
            for row, (old, new) in enumerate(zip(self._items, wanted, strict=True))
            if old is not new and old != new
        ]
        self._items = wanted
        self._tell_changed(changed)

    def _tell_changed(self, rows: list[int]) -> None:
        last_column = self.columnCount() - 1
        for first, last in neighbours(rows):
            self.dataChanged.emit(self.index(first, 0), self.index(last, last_column))


def neighbours(numbers: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Ascending numbers as (first, last) of those that follow each other."""
    start = 0
    for place, number in enumerate(numbers):
        if place + 1 == len(numbers) or numbers[place + 1] != number + 1:
            yield numbers[start], number
            start = place + 1


__all__ = ["ITEM_ROLE", "NO_PARENT", "Index", "KeyedModel", "neighbours"]
