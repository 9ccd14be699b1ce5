"""Fleet: the table of devices, and the panel of the one under the cursor. Answers: which device needs me?"""

from __future__ import annotations

from PySide6.QtCore import QTimer
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import QHBoxLayout, QStackedWidget, QVBoxLayout, QWidget

from app.components.buttons import Button
from app.components.inputs import SearchField, mark_failed
from app.components.label import Label, rule, surface
from app.components.section import ScreenHead
from app.components.tables import DataTable, Row
from app.link import ConsoleLink
from app.screens.base import Navigator, OpenBatch, OpenDevice, OpenQuery, Screen, Shortcut, Target
from app.screens.first_run.page import FirstRunPage
from app.screens.fleet.panel import DevicePanel
from app.screens.fleet.rows import DEVICE_COLUMNS, device_row
from app.shell.words import plural
from app.state import AppState
from core.errors import BadInput
from core.fleet.filter import DeviceFilter, parse_filter
from core.fleet.models import Device

REFRESH_TIMES_MS = 10_000
FILTER_PAUSE_MS = 120


class FleetScreen(Screen):
    """Table, panel, and the first run while this home has no operator."""

    name = "fleet"
    title = "Fleet"
    icon = "fleet"

    def __init__(self) -> None:
        super().__init__()
        surface(self, "base")
        self._filter: DeviceFilter = parse_filter("")
        self._wanted = ""
        self.head = ScreenHead("Fleet")
        self.filter_field = SearchField("Filter devices", "os:linux tag:lab !name:db-*", "filter")
        self.filter_field.setFixedWidth(320)
        self.run_button = Button("Run on all…", icon="run")
        self.run_button.setToolTip("Make a batch for the devices that are shown; nothing is sent")
        self.run_button.clicked.connect(self._run_on_shown)
        self.head.add_left(self.filter_field)
        self.head.add(self.run_button)
        self.problem = Label("", "meta", "fail", wrap=True)
        self.problem.setContentsMargins(16, 4, 16, 4)
        self.problem.hide()
        self.table = DataTable(DEVICE_COLUMNS, "Devices", multiple=True)
        self.table.current_changed.connect(self._show_current)
        self.table.opened.connect(self._open_panel)
        self.table.marked_changed.connect(self._show_counts)
        self.nothing = Label("No device matches this filter.", tone="text2")
        self.nothing.setContentsMargins(16, 16, 16, 16)
        self.nothing.hide()
        self._pause = QTimer(self)
        self._pause.setSingleShot(True)
        self._pause.setInterval(FILTER_PAUSE_MS)
        self._pause.timeout.connect(self._apply_filter)
        self.filter_field.textChanged.connect(lambda _text: self._pause.start())
        self.filter_field.down_pressed.connect(self.table.setFocus)
        self._times = QTimer(self)
        self._times.setInterval(REFRESH_TIMES_MS)
        self._times.timeout.connect(self._show_times)
        self._rows: dict[str, tuple[Device, Row]] = {}

    def bind(self, state: AppState, link: ConsoleLink, nav: Navigator) -> None:
        """Build what needs the door."""
        self.panel = DevicePanel(state, link, nav)
        self.panel.closed.connect(self._close_panel)
        self.first_run = FirstRunPage(state, link, nav)
        self.first_run.dismissed.connect(self._leave_first_run)
        self._build()
        super().bind(state, link, nav)
        state.devices_changed.connect(self._show_devices)
        state.control_changed.connect(self._choose_page)
        state.service_changed.connect(self._choose_page)
        if not self.table.restore_columns(nav.layout_store, "fleet/table-v1"):
            self.table.sort_by("device")
        self._show_devices()
        self._choose_page()

    def _build(self) -> None:
        left = QWidget()
        column = QVBoxLayout(left)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.addWidget(self.problem)
        column.addWidget(self.nothing)
        column.addWidget(self.table, 1)
        work = QWidget()
        row = QHBoxLayout(work)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(0)
        row.addWidget(left, 1)
        row.addWidget(self.panel)
        self.pages = QStackedWidget()
        self.pages.addWidget(work)
        self.pages.addWidget(self.first_run)
        whole = QVBoxLayout(self)
        whole.setContentsMargins(0, 0, 0, 0)
        whole.setSpacing(0)
        whole.addWidget(self.head)
        whole.addWidget(rule())
        whole.addWidget(self.pages, 1)

    # What the window asks

    def enter(self, target: Target | None) -> None:
        """Show a device or the devices of a filter."""
        self._times.start()
        if isinstance(target, OpenDevice):
            self.filter_field.clear()
            self._apply_filter()
            self._wanted = target.device
            self._leave_first_run()
            self.panel.show()
            self.table.choose(target.device)
            self.panel.show_tab(target.tab, target.tool_key)
        elif isinstance(target, OpenQuery):
            self.filter_field.setText(target.query)
            self._apply_filter()
        self._show_devices()
        if self.pages.currentIndex() == 0:
            self.table.setFocus()

    def showEvent(self, event: QShowEvent) -> None:
        """Show what changed while another screen was in front."""
        super().showEvent(event)
        self._show_devices()

    def leave(self) -> None:
        """Stop counting times."""
        self._times.stop()

    def shortcuts(self) -> list[Shortcut]:
        """The keys of comp 01."""
        return [
            Shortcut("Up", "Previous device"),
            Shortcut("Down", "Next device"),
            Shortcut("Return", "Panel of the device"),
            Shortcut("T", "Take a picture", self.panel.take_picture),
            Shortcut("C", "Call a tool…", self.panel.call_tool),
            Shortcut("R", "Run a batch on what is shown or marked…", self._run_on_shown),
            Shortcut("Space", "Mark the device"),
        ]

    def primary_filter(self) -> QWidget:
        """The filter field."""
        return self.filter_field

    def panes(self) -> list[QWidget]:
        """Table and panel."""
        return [self.table, self.panel] if self.pages.currentIndex() == 0 else [self.first_run]

    def escape(self) -> bool:
        """First the filter, then the panel."""
        if self.filter_field.text():
            self.filter_field.clear()
            return True
        if self.panel.isVisible() and self.pages.currentIndex() == 0:
            self._close_panel()
            return True
        return False

    def set_compact(self, narrow: bool, low: bool) -> None:
        """The panel gives way a little."""
        del low
        self.panel.setFixedWidth(360 if narrow else 424)
        self.filter_field.setFixedWidth(240 if narrow else 320)

    def save_layout(self) -> None:
        """Keep the columns."""
        super().save_layout()
        self.table.save_columns(self.nav.layout_store, "fleet/table-v1")

    # State

    def _shown(self) -> list[Device]:
        return [device for device in self.state.devices.values() if self._filter.matches(device)]

    def _show_times(self) -> None:
        """ "6 min ago" changes by the clock alone."""
        self._rows.clear()
        self._show_devices()

    def _row(self, device: Device) -> Row:
        """The row of a device; made anew only when the device is another object than before."""
        kept = self._rows.get(device.name)
        if kept is None or kept[0] is not device:
            kept = self._rows[device.name] = (device, device_row(device))
        return kept[1]

    def _show_devices(self) -> None:
        self._choose_page()
        if not self.isVisible():
            return  # `enter` shows what is new
        shown = self._shown()
        self.table.show_rows([self._row(device) for device in shown])
        self.nothing.setVisible(self.state.loaded and not shown)
        if shown and not self.table.current_key():
            kept = self._wanted or str(self.remembered("device", ""))
            if not self.table.choose(kept):
                first = self.table.rows_model.row_at(0)
                self.table.choose(first.key if first else "")
        self.panel.show_device(self.state.devices.get(self.table.current_key()))
        self._show_counts()

    def _show_counts(self) -> None:
        total, shown = len(self.state.devices), self.table.rows_model.rowCount()
        words = plural(total, "device") if shown == total else f"{shown} of {plural(total, 'device')}"
        self.head.set_detail(words if self.state.loaded else "reading…")
        marked = self.table.marked_keys()
        count = len(marked) if len(marked) > 1 else shown
        self.run_button.set_words(f"Run on {count}…")
        self.run_button.set_off("" if count else "There is no device to run on.")

    def _show_current(self, name: str) -> None:
        self.panel.show_device(self.state.devices.get(name))
        if name:
            self._wanted = ""
            self.keep("device", name)

    def _apply_filter(self) -> None:
        self._pause.stop()
        text = self.filter_field.text()
        try:
            self._filter = parse_filter(text)
        except BadInput as error:
            # What was shown stays: half a term must not empty the table.
            self.problem.setText(error.message)
            self.problem.show()
            mark_failed(self.filter_field, True)
            return
        self.problem.hide()
        mark_failed(self.filter_field, False)
        self._show_devices()

    def _choose_page(self) -> None:
        first = self.first_run.needed()
        if self.pages.currentIndex() != int(first):
            self.pages.setCurrentIndex(int(first))
            if first and self.isVisible():
                self.first_run.focus_first()
        self.filter_field.setVisible(not first)
        self.run_button.setVisible(not first)

    def _leave_first_run(self) -> None:
        self.first_run.dismiss()
        self._choose_page()

    # Wishes

    def _open_panel(self, name: str) -> None:
        self.panel.show()
        self.panel.show_device(self.state.devices.get(name))
        self.panel.focus_first()

    def _close_panel(self) -> None:
        self.panel.hide()
        self.table.setFocus()

    def _run_on_shown(self) -> None:
        marked = self.table.marked_keys()
        if len(marked) > 1:
            targets = "name:" + ",".join(marked)
        else:
            targets = self.filter_field.text().strip() or "name:*"
        self.nav.open("batch", OpenBatch(targets=targets))
