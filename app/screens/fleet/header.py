"""The line above the devices: how many, which, as what, and what can be done with them."""

from __future__ import annotations

from math import ceil

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QSlider, QWidget

from app.items.tile_layout import LEAST, MOST, STEP, USUAL
from app.screens.fleet.device_filter import DeviceFilterEdit
from app.screens.fleet.device_tiles import GROUPINGS
from app.text import count_words, plural
from app.theme.theme import theme_of
from app.widgets import painting
from app.widgets.action import Action
from app.widgets.action_buttons import ActionButton
from app.widgets.buttons import Segmented
from app.widgets.fields import DropDown
from app.widgets.section import ScreenHead

LEAST_FILTER, MOST_FILTER, NARROW = 112, 320, 1100


class FleetHeader(ScreenHead):
    """Filter, grouping, size, Live, table or wall, Run and Pair.

    Signals:
        wall_chosen(bool), group_chosen(name), size_chosen(px): the operator chose another view.
    """

    wall_chosen = Signal(bool)
    group_chosen = Signal(str)
    size_chosen = Signal(int)

    def __init__(self, run: Action, pair: Action, live: Action) -> None:
        super().__init__("Fleet")
        self.filter_field = DeviceFilterEdit()
        self._filter_room = MOST_FILTER
        self.filter_field.setFixedWidth(self._filter_room)
        self.group = DropDown("Group by", ghost=True)
        for name in GROUPINGS:
            self.group.addItem(f"Group: {name}", name)
        self.group.activated.connect(lambda place: self.group_chosen.emit(str(self.group.itemData(place))))
        self.size_slider = QSlider(Qt.Orientation.Horizontal)
        self.size_slider.setRange(LEAST, MOST)
        self.size_slider.setSingleStep(STEP)
        self.size_slider.setPageStep(2 * STEP)
        self.size_slider.setValue(USUAL)
        self.size_slider.setFixedWidth(96)
        self.size_slider.setAccessibleName("Size of the tiles")
        self.size_slider.setToolTip("Size of the tiles (+ and −)")
        self.size_slider.valueChanged.connect(self.size_chosen)
        self.live = ActionButton(live)
        self.live.setAccessibleName("Live pictures")
        self.view = Segmented([("table", "Table", "table"), ("wall", "Wall", "wall")], "Show devices as")
        self.view.chosen.connect(lambda key: self.wall_chosen.emit(key == "wall"))
        self.run_button = ActionButton(run, words="Run on all…", icon="run")
        self.pair_button = ActionButton(pair, "primary", "Pair a device", "add")
        for left in (self.filter_field, self.group, self.size_slider):
            self.add_left(left)
        for right in (self.live, self.view, self.run_button, self.pair_button):
            self.add(right)
        self._wall = self._work = False

    def set_filter_room(self, px: int) -> None:
        """How wide the filter is where nothing else needs the room."""
        self._filter_room = px
        self._fit_filter()

    def set_detail(self, detail: str) -> None:
        """Change the words beside the title; the filter gives way to them."""
        super().set_detail(detail)
        self._fit_filter()

    def controls(self) -> list[QWidget]:
        """What is only there while devices are shown."""
        left = [self.filter_field, self.group, self.size_slider]
        return [*left, self.live, self.view, self.run_button, self.pair_button]

    def show_work(self, work: bool) -> None:
        """Devices are shown, or the first run is."""
        # With every change of a device, of which a large fleet has thirty a second.
        if work != self._work:
            self._work = work
            self._arrange()

    def show_view(self, wall: bool, group: str, size: int) -> None:
        """Show what is chosen, without emitting."""
        self._wall = wall
        self.view.choose("wall" if wall else "table")
        self.group.setCurrentIndex(max(0, self.group.findData(group)))
        self.size_slider.blockSignals(True)
        self.size_slider.setValue(size)
        self.size_slider.blockSignals(False)
        self._arrange()

    def show_counts(self, shown: int, total: int, marked: int, loaded: bool) -> None:
        """How many are shown of how many, and how many a run would be for."""
        # Beside marks and tiles a small window has no room for what goes without saying.
        short = bool(marked) and self._wall and self.width() < NARROW
        words = count_words(total) if short else plural(total, "device")
        tail = f", {count_words(marked)} marked" if marked else ""
        longest = f"{count_words(total)} of {words}{tail}"
        if shown != total:
            words = f"{count_words(shown)} of {words}"
        # Room for each count that a filter may leave: the field must not move while it is typed into.
        self.detail.setMinimumWidth(ceil(painting.text_width(longest, theme_of(self))) if loaded else 0)
        self.set_detail(words + tail if loaded else "reading…")
        count = marked or shown
        self.run_button.set_words(f"Run on {count_words(count)}…")
        self.run_button.setAccessibleName(f"Run a batch on {plural(count, 'device')}…")
        self.run_button.action.set_off("" if count else "There is no device to run on.")

    def _arrange(self) -> None:
        for widget in self.controls():
            widget.setVisible(self._work)
        for only_there in (self.group, self.live):
            only_there.setVisible(self._work and self._wall)
        # The keys + and − do the same where there is no room.
        self.size_slider.setVisible(self._work and self._wall and self.width() >= 1180)
        self._fit_filter()

    def _fit_filter(self) -> None:
        """Words and controls beside the filter are never cut while it has room to give."""
        beside = [self.title, self.detail, *self.controls()]
        shown = [one for one in beside if one is not self.filter_field and not one.isHidden()]
        edges = self._row.contentsMargins()
        taken = edges.left() + edges.right() + self._row.spacing() * (len(shown) + 1)
        taken += sum(max(one.sizeHint().width(), one.minimumWidth()) for one in shown)
        self.filter_field.setFixedWidth(max(LEAST_FILTER, min(self._filter_room, self.width() - taken)))

    def resizeEvent(self, event: QResizeEvent) -> None:
        """The size slider goes first."""
        super().resizeEvent(event)
        self._arrange()
