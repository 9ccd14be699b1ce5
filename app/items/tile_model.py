"""The keys of a wall's tiles in their order; what a tile shows is asked for when it is painted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from PySide6.QtCore import QAbstractListModel, QModelIndex, QObject, QPersistentModelIndex, Qt

from app.items.tile_layout import TileGroup
from app.items.tile_painter import TileItem
from app.widgets.labels import escaped_tooltip

Index = QModelIndex | QPersistentModelIndex
_NO_PARENT = QModelIndex()


class TileModel(QAbstractListModel):
    """One row a tile. `tile_of` makes a tile of a key, None when there is none any more."""

    def __init__(self, tile_of: Callable[[str], TileItem | None], parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.tile_of = tile_of
        self.groups: tuple[TileGroup, ...] = ()
        self._keys: list[str] = []
        self._places: dict[str, int] = {}

    def set_groups(self, groups: Sequence[TileGroup]) -> None:
        """Take other keys; the view restores its cursor after the reset."""
        self.beginResetModel()
        self.groups = tuple(groups)
        self._keys = [key for group in groups for key in group.keys]
        self._places = {key: place for place, key in enumerate(self._keys)}
        self.endResetModel()

    def key_at(self, row: int) -> str:
        """The key of a row; empty outside."""
        return self._keys[row] if 0 <= row < len(self._keys) else ""

    def place_of(self, key: str) -> int:
        """The row of a key; -1 when it is not here."""
        return self._places.get(key, -1)

    @property
    def keys(self) -> list[str]:
        """All keys in their order."""
        return list(self._keys)

    def rowCount(self, parent: Index = _NO_PARENT) -> int:
        """Number of tiles."""
        return 0 if parent.isValid() else len(self._keys)

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        """The name, and what is read aloud."""
        key = self.key_at(index.row())
        if not key:
            return None
        if role == Qt.ItemDataRole.DisplayRole:
            return key
        if role in (Qt.ItemDataRole.AccessibleTextRole, Qt.ItemDataRole.ToolTipRole):
            tile = self.tile_of(key)
            words = tile.spoken if tile is not None else key
            return escaped_tooltip(words) if role == Qt.ItemDataRole.ToolTipRole else words
        return None
