"""The devices as a table or as a wall: one choice, one set of marks, one way to be shown.

Only the one in front is brought up to date, and a large fleet less often than it changes: what is painted is
always the newest state, and nothing is worked out for the one behind.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from PySide6.QtCore import QSettings, QTimer, Signal
from PySide6.QtGui import QGuiApplication, QImage, QShowEvent
from PySide6.QtWidgets import QStackedWidget

from app.items.tile_painter import TileItem
from app.items.tile_view import TileView
from app.screens.fleet.device_columns import DeviceModel
from app.screens.fleet.device_table import DeviceTable
from app.screens.fleet.device_tiles import device_tile, group_devices
from app.screens.fleet.tile_thumbnails import TileThumbnails
from app.service_client import ConsoleLink
from core.models.devices import Device
from core.service.console import LivePicture

LARGE = 100
TABLE_PAUSE_S, LARGE_TABLE_PAUSE_S, WALL_PAUSE_S = 0.0, 0.25, 0.5
REFRESH_TIMES_MS = 10_000


class DevicesView(QStackedWidget):
    """Table and wall over the same devices.

    Signals:
        current_changed(name): another device is under the cursor.
        opened(name): Enter or a double click.
        marks_changed: `marked()` is another.
        due: devices changed and it is time to show them; answer with `show_devices`.
        filled: what `show_devices` was given is shown.
        menu_asked(column, point): the menu of the chosen devices is wanted at a point of the screen.
    """

    current_changed = Signal(str)
    opened = Signal(str)
    marks_changed = Signal()
    due = Signal()
    filled = Signal()
    menu_asked = Signal(int, object)

    def __init__(self) -> None:
        super().__init__()
        self._devices: dict[str, Device] = {}
        # Which picture the tile of each device showed last.
        self._pictures: dict[str, str] = {}
        # How the live picture of a device stands; None where none is wished for.
        self.live_of: Callable[[str], LivePicture | None] = lambda name: None
        self._marks: frozenset[str] = frozenset()
        self._group = "tag"
        self._shown_at = 0.0
        self.table = DeviceTable()
        self.thumbnails: TileThumbnails | None = None
        self.wall = TileView("Devices as tiles", self.tile, self._picture)
        for view in (self.table, self.wall):
            self.addWidget(view)
            view.current_changed.connect(self._moved)
            view.opened.connect(self.opened)
            view.mark_asked.connect(self.toggle_mark)
            view.marked_changed.connect(self.marks_changed)
            view.menu_asked.connect(self.menu_asked)
        self.wall.copy_asked.connect(lambda: copy_rows([self._devices[name] for name in self._chosen()]))
        self._soon = QTimer(self)
        self._soon.setSingleShot(True)
        self._soon.timeout.connect(self.due)
        self._times = QTimer(self)
        self._times.setInterval(REFRESH_TIMES_MS)
        self._times.timeout.connect(self._times_passed)

    def bind(self, link: ConsoleLink) -> None:
        """Pictures can be had from now on."""
        self.thumbnails = TileThumbnails(link, self)
        self.thumbnails.is_shown = self._is_shown
        # With the devices' changes, so that live pictures too are painted twice a second at most.
        self.thumbnails.came.connect(self.devices_changed)

    # which view

    @property
    def view(self) -> TileView | DeviceTable:
        """The one in front."""
        return self.wall if self.is_wall else self.table

    @property
    def is_wall(self) -> bool:
        """Whether the wall is in front."""
        return self.currentWidget() is self.wall

    def show_wall(self, wall: bool) -> None:
        """Bring one to the front; cursor and marks are the same in both."""
        if wall == self.is_wall:
            return
        current = self.current_key()
        had_focus = self.view.hasFocus()
        self.setCurrentWidget(self.wall if wall else self.table)
        self.due.emit()
        self.view.choose(current)
        if had_focus:
            self.view.setFocus()

    @property
    def group(self) -> str:
        """What the wall is grouped by."""
        return self._group

    def set_group(self, group: str) -> None:
        """Group the wall by something else."""
        self._group = group
        if self.is_wall:
            self.due.emit()

    # devices

    def devices_changed(self) -> None:
        """Something is different: ask for it at once, or when the last time is long enough ago."""
        if not self.isVisible():
            return
        pause = WALL_PAUSE_S
        if not self.is_wall:
            pause = LARGE_TABLE_PAUSE_S if len(self._devices) > LARGE else TABLE_PAUSE_S
        left = pause - (time.monotonic() - self._shown_at)
        if left <= 0:
            self.due.emit()
        elif not self._soon.isActive():
            self._soon.start(round(left * 1000) + 1)

    def show_devices(self, devices: Iterable[Device]) -> None:
        """Show these devices in the view in front."""
        self._soon.stop()
        self._devices = {device.name: device for device in devices}
        if self.is_wall:
            self.wall.show_groups(
                group_devices(self._devices.values(), self._group), heads=self._group != "none"
            )
        else:
            self.table.devices.sync(self._devices.values())
        # After the work: a slow machine gets its pause all the same.
        self._shown_at = time.monotonic()
        self.filled.emit()

    def shown_count(self) -> int:
        """How many devices are shown."""
        return len(self._devices)

    def tile(self, name: str) -> TileItem | None:
        device = self._devices.get(name)
        if device is None:
            return None
        tile, old = device_tile(device, self.live_of(name)), self._pictures.get(name, "")
        if tile.picture != old:
            self._pictures[name] = tile.picture
            if old and tile.picture and self.thumbnails is not None:
                self.thumbnails.replace(old, tile.picture)
        return tile

    def _is_shown(self, picture: str) -> bool:
        return picture in self._pictures.values()

    def _picture(self, blob: str, px: int) -> QImage | None:
        return self.thumbnails.get(blob, px) if self.thumbnails is not None else None

    def _times_passed(self) -> None:
        """ "6 min ago" changes by the clock alone."""
        self.view.viewport().update()
        if self.isVisible():
            self.due.emit()

    def start_times(self) -> None:
        """The screen is in front."""
        self._times.start()

    def stop_times(self) -> None:
        """Another screen is in front."""
        self._times.stop()
        self._soon.stop()

    def showEvent(self, event: QShowEvent) -> None:
        """What changed unseen is shown."""
        super().showEvent(event)
        self.due.emit()

    # choice and marks

    def current_key(self) -> str:
        """The device under the cursor."""
        return self.view.current_key()

    def choose(self, name: str) -> bool:
        """Move the cursor to a device; False when it is not shown."""
        return self.view.choose(name)

    def choose_first(self) -> None:
        """Move the cursor to the first device."""
        if self.is_wall:
            self.wall.choose(self.wall.wall_model.key_at(0))
        else:
            self.table.choose(self.table.devices.key_at(0))

    def marked(self) -> list[str]:
        """Marked devices that are shown; without any, the chosen ones when they are several."""
        marks = [name for name in self._devices if name in self._marks]
        if marks:
            return marks
        chosen = self.view.marked_keys()
        return chosen if len(chosen) > 1 else []

    def _chosen(self) -> list[str]:
        return [name for name in self.view.marked_keys() if name in self._devices]

    def shown_names(self) -> list[str]:
        """The names of the devices that are shown."""
        return list(self._devices)

    def toggle_mark(self, name: str) -> None:
        """Mark a device, or take its mark away; where several are chosen, all of them."""
        chosen = frozenset(self.view.marked_keys())
        names = chosen if name in chosen else frozenset((name,))
        self.set_marks(self._marks - names if names <= self._marks else self._marks | names)

    def set_marks(self, names: frozenset[str]) -> None:
        """Mark exactly these."""
        if names == self._marks:
            return
        self._marks = names
        self.wall.set_marks(names)
        self.table.devices.set_marks(names)
        self._say_tile()
        self.due.emit()
        self.marks_changed.emit()

    @property
    def marks(self) -> frozenset[str]:
        """The names that carry a mark, shown or not."""
        return self._marks

    def _moved(self, name: str) -> None:
        if self.sender() is self.view or self.sender() is None:
            self.current_changed.emit(name)
        self._say_tile()

    def _say_tile(self) -> None:
        """The wall is one thing to assistive technology: it is described by the tile at its cursor."""
        tile = self.tile(name) if (name := self.wall.current_key()) else None
        marked = ", marked" if name in self._marks else ""
        self.wall.setAccessibleDescription(f"{tile.spoken}{marked}" if tile is not None else "")

    # layout

    def restore(self, store: QSettings, key: str) -> None:
        """Take the table's columns back."""
        if not self.table.restore_columns(store, key):
            self.table.sort_by("device")

    def keep(self, store: QSettings, key: str) -> None:
        """Keep the table's columns."""
        self.table.save_columns(store, key)


def copy_rows(devices: Iterable[Device]) -> None:
    """Put devices on the clipboard as the table shows them, a line each."""
    rows = DeviceModel()
    rows.sync(devices)
    QGuiApplication.clipboard().setText("\n".join(map(rows.words, range(rows.rowCount()))))
