"""Fleet: the devices as table or wall, and the panel of the one under the cursor. Which device needs me?"""

from __future__ import annotations

from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import QStackedWidget, QWidget

from app.items.tile_layout import kept_size
from app.screens.fleet.actions import FleetActions
from app.screens.fleet.device_menu import open_menu
from app.screens.fleet.device_tiles import GROUPINGS
from app.screens.fleet.devices_view import DevicesView
from app.screens.fleet.empty_state import NoDevices
from app.screens.fleet.first_run import FirstRunPage
from app.screens.fleet.header import FleetHeader
from app.screens.fleet.live_preview import LivePreview
from app.screens.fleet.panel import DevicePanel
from app.screens.fleet.screenshot_action import BulkScreenshot
from app.screens.screen import Navigator
from app.screens.targets import OpenDevice, OpenPairing, OpenQuery, Target
from app.service_client import ConsoleLink
from app.state import AppState
from app.widgets.labels import Label, separator, set_surface
from app.widgets.layouts import hbox, vbox
from core.models.devices import Device

COLUMNS_KEY = "fleet/table-v5"
_PANEL_KEYS = {False: "panel_beside_table", True: "panel_beside_wall"}


class FleetScreen(FleetActions):
    """Table or wall, panel, and the first run while this home has no operator."""

    name = "fleet"
    title = "Fleet"
    icon = "fleet"

    def __init__(self) -> None:
        super().__init__()
        set_surface(self, "base")
        self._wanted = ""
        # The wall shows no panel until it is asked for.
        self._panel_shown = {False: True, True: False}
        self.head = FleetHeader(self.run_act, self.pair_act, self.live_act)
        self.filter_field, self.run_button = self.head.filter_field, self.head.run_button
        self.problem = Label("", "meta", "fail", wrap=True)
        self.problem.setContentsMargins(16, 4, 16, 4)
        self.problem.hide()
        self.listing = DevicesView()
        self.table, self.wall = self.listing.table, self.listing.wall
        self.live = LivePreview(self.wall, self.wall, self)
        self.listing.live_of = self.live.standing
        self.nothing = NoDevices(self.listing, self.pair_act)

    def bind(self, state: AppState, link: ConsoleLink, nav: Navigator) -> None:
        """Build what needs the door."""
        self.panel = DevicePanel(state, link, nav, self.call_act)
        self.panel.closed.connect(self.escape_panel)
        self.panel.wide_asked.connect(self._open_page)
        self.many = BulkScreenshot(link, nav, self)
        self.many.progressed.connect(self._show_progress)
        self.first_run = FirstRunPage(state, link, nav)
        self.first_run.dismissed.connect(self._end_first_run)
        self._build()
        super().bind(state, link, nav)
        self.listing.bind(link)
        self.live.bind(link, nav)
        self.filter_field.things = lambda: list(self.state.devices.values())
        self._connect()
        self.listing.restore(nav.layout_store, COLUMNS_KEY)
        group = str(self.remembered("group", "tag"))
        self.listing.set_group(group if group in GROUPINGS else "tag")
        self.wall.set_tile_size(kept_size(self.remembered("tile_size")))
        self._restore_open_parts()
        self.show_as(str(self.remembered("view", "table")) == "wall")
        self._show_devices()
        self._choose_page()

    def _connect(self) -> None:
        state = self.state
        for show in (self.listing.devices_changed, self._choose_page, self._show_page):
            state.devices_changed.connect(show)
        state.control_changed.connect(self._choose_page)
        state.service_changed.connect(self._choose_page)
        self.listing.due.connect(self._show_devices)
        self.listing.filled.connect(self._shown_now)
        self.listing.current_changed.connect(self._show_current)
        self.listing.opened.connect(self._open_page)
        self.listing.marks_changed.connect(self._show_counts)
        self.listing.menu_asked.connect(lambda column, point: open_menu(self, column, point))
        self.wall.size_changed.connect(self._size_changed)
        self.filter_field.applied.connect(self._show_devices)
        self.filter_field.refused.connect(self.say_problem)
        self.filter_field.down_pressed.connect(self._focus_devices)
        self.filter_field.returnPressed.connect(self._enter_devices)
        self.head.wall_chosen.connect(self.show_as)
        self.head.group_chosen.connect(self._group_by)
        self.head.size_chosen.connect(self._size_chosen)
        self.live.changed.connect(self._live_changed)
        self.nothing.acted.connect(lambda _key: self._clear_filter())
        self.panel.tabs.currentChanged.connect(lambda _: self.keep("tab", self.panel.tab))

    def _build(self) -> None:
        self._devices_pane = left = QWidget()
        vbox(self.problem, (self.listing, 1), parent=left)
        work = QWidget()
        hbox((left, 1), (self.panel, 1), parent=work)
        self.pages = QStackedWidget()
        self.pages.addWidget(work)
        self.pages.addWidget(self.first_run)
        vbox(self.head, separator(), (self.pages, 1), parent=self)

    @property
    def shows_devices(self) -> bool:
        """Whether devices are in front, and not the first run."""
        return self.pages.currentIndex() == 0

    # What the window asks

    def enter(self, target: Target | None) -> None:
        """Show a device or the devices of a filter, or pair one."""
        self.listing.start_times()
        if isinstance(target, OpenDevice):
            self.filter_field.clear()
            self.filter_field.apply()
            self._wanted = target.device
            self._leave_first_run()
            self._close_page()
            self._show_panel(True)
            self.listing.choose(target.device)
            self.panel.show_tab(target.tab, target.tool_key)
        elif isinstance(target, OpenQuery):
            self.filter_field.setText(target.query)
            self.filter_field.apply()
        self._show_devices()
        if self.shows_devices:
            self.listing.view.setFocus()
        if isinstance(target, OpenPairing):
            self.pair()

    def showEvent(self, event: QShowEvent) -> None:
        """Show what changed while another screen was in front."""
        super().showEvent(event)
        self._show_devices()
        self._show_page()

    def leave(self) -> None:
        """Stop counting times."""
        self.listing.stop_times()
        self.filter_field.close_list()

    def primary_filter(self) -> QWidget:
        """The filter field."""
        return self.filter_field

    def panes(self) -> list[QWidget]:
        """Table or wall, and panel."""
        if not self.shows_devices:
            return [self.first_run]
        return [self.panel] if self.panel.is_wide else [self.listing.view, self.panel]

    def escape(self) -> bool:
        """First the list of offers, a form in the panel, the page, then the filter, the marks, the panel."""
        if self.filter_field.close_list() or self.panel.escape() or self._close_page():
            return True
        if self.filter_field.text():
            self._clear_filter()
            return True
        if self.listing.marks:
            self.listing.set_marks(frozenset())
            return True
        if self.panel.isVisible() and self.shows_devices:
            self._close_panel()
            return True
        return False

    def set_compact(self, narrow: bool, low: bool) -> None:
        """The panel gives way a little."""
        self.panel.set_room(360 if narrow else 424, low)
        self.head.set_filter_room(208 if narrow else 320)

    def save_layout(self) -> None:
        """Keep the columns, and which groups are closed."""
        super().save_layout()
        self.keep("closed_groups", "\n".join(sorted(self.wall.closed_groups)))
        self.listing.keep(self.nav.layout_store, COLUMNS_KEY)

    def _restore_open_parts(self) -> None:
        """What was open or closed when the window was left, is again."""
        for wall in (False, True):
            kept = self.remembered(_PANEL_KEYS[wall], self._panel_shown[wall])
            self._panel_shown[wall] = str(kept).lower() == "true"
        for group in str(self.remembered("closed_groups", "")).split("\n"):
            if group:
                self.wall.toggle_group(group)
        self.panel.show_tab(str(self.remembered("tab", "")))

    # Table or wall

    def show_as(self, wall: bool) -> None:
        """Bring table or wall to the front."""
        self._close_page()
        self.listing.show_wall(wall)
        self.head.show_view(wall, self.listing.group, self.wall.tile_size)
        self._place_panel()
        self.keep("view", "wall" if wall else "table")
        self._show_counts()

    def _group_by(self, group: str) -> None:
        self.listing.set_group(group)
        self.head.show_view(self.listing.is_wall, group, self.wall.tile_size)
        self.keep("group", group)

    def next_group(self) -> None:
        """Group the wall by something else."""
        at = GROUPINGS.index(self.listing.group)
        self._group_by(GROUPINGS[(at + 1) % len(GROUPINGS)])

    def toggle_group(self) -> None:
        """Close or open the group under the cursor."""
        self.wall.toggle_group()

    def turn_view(self) -> None:
        """Bring the wall to the front, or the table."""
        self.show_as(not self.listing.is_wall)

    def turn_live(self) -> None:
        """Turn live pictures on or off, where there are tiles."""
        self.live.turn(not self.live.on)
        self.live_act.setChecked(self.live.on)

    def why_no_wall(self) -> str:
        """Why what is only for the wall cannot be done; empty when it can."""
        table = "" if self.listing.is_wall else "The table is in front; W shows the wall."
        return self.why_no_list() or table

    def _live_changed(self) -> None:
        self.live_act.setChecked(self.live.on)
        self.listing.devices_changed()

    def _size_chosen(self, px: int) -> None:
        self.wall.set_tile_size(px)
        self.keep("tile_size", px)

    def _size_changed(self, px: int) -> None:
        self.head.show_view(self.listing.is_wall, self.listing.group, px)
        self.keep("tile_size", px)

    # State

    def _shown(self) -> list[Device]:
        wanted = self.filter_field.filter
        if not wanted.terms:
            return list(self.state.devices.values())
        return [device for device in self.state.devices.values() if wanted.matches(device)]

    def _show_devices(self) -> None:
        self._choose_page()
        if not self.isVisible():
            return  # `enter` shows what is new
        self.listing.show_devices(self._shown())

    def _shown_now(self) -> None:
        shown = self.listing.shown_count()
        self.nothing.show_for(self.state.loaded, shown, len(self.state.devices))
        if shown and not self.listing.current_key():
            kept = self._wanted or str(self.remembered("device", ""))
            if not self.listing.choose(kept):
                self.listing.choose_first()
        self._follow_cursor()
        self._show_counts()

    def _show_counts(self) -> None:
        # Behind a page, or before the first run is over, the list is not filled.
        shown = self.listing.shown_count() if self.listing.isVisible() else len(self._shown())
        marked = len(self.listing.marked())
        self.head.show_counts(shown, len(self.state.devices), marked, self.state.loaded)

    def _show_current(self, name: str) -> None:
        if self.panel.isVisible():
            self.panel.show_device(self.state.devices.get(name))
        if name:
            self._wanted = ""
            self.keep("device", name)

    def say_problem(self, problem: str) -> None:
        """Say what is wrong with the filter, or with a wish; empty when it is mended."""
        # What was shown stays: half a term must not empty the table.
        self.problem.setText(problem)
        self.problem.setVisible(bool(problem))

    def _focus_devices(self) -> None:
        if self.listing.shown_count():
            if not self.listing.current_key():
                self.listing.choose_first()
            # Table or wall: whichever is in front then.
            self.listing.view.setFocus()

    def _enter_devices(self) -> None:
        """Enter in the filter: on to the devices, and to the page of the only one."""
        if self.filter_field.problem:
            return
        self._focus_devices()
        if self.listing.shown_count() == 1:
            self._open_page(self.listing.current_key())

    def _clear_filter(self) -> None:
        self.filter_field.clear()
        self.filter_field.apply()

    def focus_filter(self) -> None:
        """Write a filter."""
        self.filter_field.setFocus()
        self.filter_field.selectAll()

    def _choose_page(self) -> None:
        first = self.first_run.needed()
        if self.pages.currentIndex() != int(first):
            self.pages.setCurrentIndex(int(first))
            if first and self.isVisible():
                self.first_run.focus_first()
        self.head.show_work(not first)
        if not self.listing.isVisible():
            self._show_counts()

    def _end_first_run(self) -> None:
        self._leave_first_run()
        # The list has filled itself while the panel beside it was not there yet, and nothing may change soon.
        self._follow_cursor()
        self.listing.view.setFocus()

    def _leave_first_run(self) -> None:
        self.first_run.dismiss()
        self._choose_page()

    # Wishes

    def _show_panel(self, shown: bool, lasting: bool = False) -> None:
        """Show or close it; `lasting` when the operator asked for just that."""
        self._panel_shown[self.listing.is_wall] = shown
        if lasting:
            self.keep(_PANEL_KEYS[self.listing.is_wall], shown)
        self._place_panel()

    def _place_panel(self) -> None:
        """Show the panel where it is wanted; another device may have been chosen while it was closed."""
        self.panel.setVisible(self._panel_shown[self.listing.is_wall])
        self._follow_cursor()

    def _follow_cursor(self) -> None:
        if self.panel.isVisible() and not self.panel.is_wide:
            self.panel.show_device(self.state.devices.get(self.listing.current_key()))

    def show_servers(self) -> None:
        """Go to the MCP servers of the device under the cursor, or of the page."""
        if not self.shows_devices:
            return
        if not self.panel.is_wide:
            self._show_panel(True)
        if self.panel.device_name:
            self.panel.show_tab("servers")
            self.panel.servers_tab.focus_first()

    def turn_panel(self) -> None:
        """Show the panel, or close it; a page goes back to the list."""
        if not self._close_page():
            self._show_panel(not self.panel.isVisible(), lasting=True)

    def _open_page(self, name: str = "") -> None:
        """Lay the device out over the whole pane; the list comes back with Esc."""
        self.panel.set_wide(True)
        self._devices_pane.hide()
        self.panel.show()
        self.panel.show_device(self.state.devices.get(name or self.listing.current_key()))
        self.panel.focus_first()

    def _show_page(self) -> None:
        """The list is hidden behind the page and follows nothing then, so the page does by itself."""
        if self.panel.is_wide:
            if (device := self.state.devices.get(self.panel.device_name)) is None:
                self._close_page()
            elif self.isVisible():
                self.panel.show_device(device)

    def _close_page(self) -> bool:
        if not self.panel.is_wide:
            return False
        self.panel.set_wide(False)
        self._devices_pane.show()
        self._place_panel()
        self.listing.view.setFocus()
        return True

    def escape_panel(self) -> None:
        """Leave the page, or close the panel."""
        if not self._close_page():
            self._close_panel()

    def _close_panel(self) -> None:
        self._show_panel(False, lasting=True)
        self.listing.view.setFocus()
