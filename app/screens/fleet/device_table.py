"""The fleet's table: names that are never taken for each other, marks, and a menu."""

from __future__ import annotations

from PySide6.QtCore import QModelIndex, Qt, Signal
from PySide6.QtGui import QContextMenuEvent, QKeyEvent
from PySide6.QtWidgets import QAbstractItemView

from app.items.cell_painter import PAD, cell_width
from app.items.table_view import TableView
from app.screens.fleet.device_columns import DEVICE_COLUMNS, NAME, DeviceModel
from app.theme.theme import theme_of
from app.theme.tokens import FRAME
from app.widgets import painting
from core.models.devices import Device

_BESIDE_NAME = FRAME.first_column + PAD + 1


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
        self.devices = DeviceModel()
        super().__init__(self.devices, "Devices", multiple=True)
        self._name_widths: dict[str, float] = {}

    # names

    def _name_width(self, device: Device) -> float:
        """How much room a device's name needs; measured once for each name."""
        width = self._name_widths.get(device.name)
        if width is None:
            cell = self.devices.cell_of(device, NAME)
            width = self._name_widths[device.name] = cell_width(DEVICE_COLUMNS[NAME], cell, theme_of(self))
        return width

    def fit_widths(self) -> None:
        """Share the room between names and what there is room for beside them."""
        self._drop_columns()
        super().fit_widths()

    def needed_width(self, number: int) -> int:
        """As of every table; of names the longest of all rows, not only of those in sight."""
        if number != NAME:
            return super().needed_width(number)
        return round(max(map(self._name_width, self.devices.items), default=0.0)) + _BESIDE_NAME

    def least_width(self, number: int, needed: int) -> int:
        """As of every table; names have all their room where two would look alike: they must never."""
        least = super().least_width(number, needed)
        if number == NAME and needed > least:
            return needed if self._would_look_alike(least - _BESIDE_NAME) else least
        return least

    def _would_look_alike(self, width: int) -> bool:
        """Whether two names that are cut to a width are the same to the eye."""
        theme = theme_of(self)
        metrics = painting.metrics_of(theme, "name")
        cut: list[str] = []
        for device in self.devices.items:
            if (whole := self._name_width(device)) > width:
                beside = whole - painting.text_width(device.name, theme, "name")
                room = round(width - beside)
                cut.append(metrics.elidedText(device.name, Qt.TextElideMode.ElideMiddle, room))
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
        if (place := self.menu_place(event)) is not None:
            self.menu_asked.emit(place.column, place.point)
