"""One device: its picture, how it is, what it is, what it can do, and what it did lately."""

from __future__ import annotations

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QImage, QPainter, QPaintEvent
from PySide6.QtWidgets import QBoxLayout, QWidget

from app.images import images_of
from app.query import Mutation, Query
from app.screens.fleet.call_tab import CallTab
from app.screens.fleet.connection_tab import ConnectionTab
from app.screens.fleet.device_columns import platform_icon
from app.screens.fleet.device_tabs import TABS, DeviceTabs
from app.screens.fleet.history_tab import HistoryTab
from app.screens.fleet.panel_layout import PanelLayout
from app.screens.fleet.screenshot_action import picture_problem, shoot
from app.screens.fleet.servers_tab import ServersTab
from app.screens.fleet.thumbnail import Thumbnail
from app.screens.fleet.tools_tab import ToolsTab
from app.screens.screen import Navigator
from app.screens.targets import OpenQuery, OpenReplay, OpenTool
from app.service_client import ConsoleLink
from app.state import AppState
from app.text import clock, one_line
from app.theme.theme import theme_of
from app.theme.tokens import SPACE
from app.widgets.action import Action
from app.widgets.action_buttons import ActionButton
from app.widgets.badges import HealthBadge, ProductionStrip
from app.widgets.buttons import Button, IconButton
from app.widgets.icon_label import IconLabel
from app.widgets.labels import DeviceName, ElidedLabel, Label, separator, set_surface
from app.widgets.layouts import STRETCH, Gap, hbox, vbox
from app.widgets.line_breaks import breakable
from core.batch.models import Run
from core.errors import QuarterdeckError
from core.fleet.models import DeviceDetails
from core.models.devices import Device, Health
from core.models.tools import Tool
from core.service.console import EntryPage

# Moving through the table with a held key must not ask every device it passes.
PAUSE_MS = 90
_UNBROKEN = "\N{NO-BREAK SPACE}"


class DevicePanel(QWidget):
    """The panel right of the table; wide, the page of the device in place of the table.

    Signals:
        closed: the operator closed it.
        wide_asked: the operator wants the whole page.
    """

    closed = Signal()
    wide_asked = Signal()

    def __init__(self, state: AppState, link: ConsoleLink, nav: Navigator, call: Action) -> None:
        """`call` is the screen's act that goes to a call of a tool."""
        super().__init__()
        set_surface(self, "base")
        self.setAccessibleName("Device")
        self._state, self._nav = state, nav
        self._device: Device | None = None
        self._tools = Query(
            self, link, self._show_tools, self._say_no_tools, "read the device's tools", PAUSE_MS
        )
        self._tools_for: tuple[str, int, tuple[str, ...], Health] | None = None
        self._wanted_tool: str | None = None
        self._images = images_of(link)
        self._details_for: tuple[str, str, int, bool] | None = None
        self._details = Query(
            self, link, self._show_details, self._say_no_details, "read the device's history", PAUSE_MS
        )
        self._last_entry = Query(
            self, link, self._open_replay, lambda error: self._say(error.message), "find its last entry"
        )
        self._build_head()
        self._shooting: Mutation[Run] = Mutation(
            self,
            link,
            lambda run: self._say(picture_problem(run)),
            lambda error: self._say(f"No picture was taken. {error.info.sentences}"),
            trigger=self.take,
            busy="The device was asked.",
            label="Taking…",
        )
        self._build_tabs(link, nav)
        self._build_actions(call)
        vbox(
            self.strip, (self._page.layout, 1), separator(), self._actions, parent=self, margins=(1, 0, 0, 0)
        )
        self.show_device(None)

    @property
    def is_wide(self) -> bool:
        """Whether this is the page and not the panel beside the devices."""
        return self._page.wide

    @property
    def tab(self) -> str:
        """Which of `TABS` is in front."""
        return self._tabs.current

    @property
    def device_name(self) -> str:
        """The device on show; empty for none."""
        return self._device.name if self._device is not None else ""

    @property
    def tools(self) -> list[Tool]:
        """The tools of the device on show, as far as they were read."""
        return self._tools.value or []

    def set_room(self, width: int, low: bool) -> None:
        """How wide the panel is while it is not the page; `low`: the page has no room for a large picture."""
        self._page.set_narrow_width(width)
        self._page.low = low
        self._page.fit_head(self.picture)
        self.overview.set_low(low)

    def set_wide(self, wide: bool) -> None:
        """Be the page of the device, or the panel again."""
        if wide == self.is_wide:
            return
        self._tabs.set_wide(wide)
        self._page.set_wide(wide, self.picture, self.tabs, self.overview)
        self.widen.setVisible(not wide)
        if wide:
            self._close.set_icon("left", "Back to the devices")
        else:
            self._close.set_icon("close", "Close the panel")

    def _build_head(self) -> None:
        self.strip = ProductionStrip("")
        self.picture = Thumbnail()
        self._icon = IconLabel("device", size=18)
        self._name = DeviceName()
        self._health = HealthBadge("offline")
        self._since = ElidedLabel("", tone="text3")
        self._picture_words = Label("", "meta", "text3", wrap=True)
        # The screen's own act of this kind is for all marked devices where there are some.
        take = Action(
            "Take a picture of this device", "picture", self.take_picture, acts_at_once=True, parent=self,
            label="Take picture", off=lambda: self.why_no_picture(self._device),
        )  # fmt: skip
        self.take = ActionButton(take, words="Take picture")
        self.widen = IconButton("widen", "The whole page", key="Enter")
        self.widen.clicked.connect(self.wide_asked)
        self._close = IconButton("close", "Close the panel", key="Esc")
        self._close.clicked.connect(self.closed)
        name = hbox(self._icon, (self._name, 1), self.widen, self._close, spacing=SPACE.small)
        health = hbox(self._health, (self._since, 1), spacing=SPACE.small)
        words = vbox(
            name, health, self._picture_words, Gap(2), (self.take, 0, Qt.AlignmentFlag.AlignLeft), spacing=2
        )
        self._head = QWidget()
        self._head_row = QBoxLayout(QBoxLayout.Direction.LeftToRight, self._head)
        self._head_row.setContentsMargins(12, 10, 10, 8)
        self._head_row.setSpacing(SPACE.medium)
        self._head_row.addWidget(self.picture, 0, Qt.AlignmentFlag.AlignTop)
        self._head_row.addLayout(words, 1)
        self._problem = Label("", "meta", "fail", wrap=True)
        self._problem.setContentsMargins(14, 0, 14, 6)
        self._problem.hide()

    def _build_tabs(self, link: ConsoleLink, nav: Navigator) -> None:
        place = QWidget()
        self._tabs = DeviceTabs(self._state, link, nav, place)
        self.tabs, self.stack, self.overview = self._tabs.bar, self._tabs.stack, self._tabs.overview
        self._page = PanelLayout(
            self, self._head_row, [self._head, self._problem], [self.tabs, self.stack], place
        )
        self._page.hold(self.overview)
        self.overview.tool_opened.connect(lambda key: self.show_tab("tools", key))
        self._tabs.reviewed.connect(self._tools.refresh)

    @property
    def tools_tab(self) -> ToolsTab:
        """All tools and their contracts; made when it is first wanted, as those below."""
        return self._tabs.tools_tab

    @property
    def servers_tab(self) -> ServersTab:
        """The MCP servers that it hosts."""
        return self._tabs.servers_tab

    @property
    def try_tab(self) -> CallTab:
        """A call of one tool."""
        return self._tabs.try_tab

    @property
    def recent(self) -> HistoryTab:
        """What happened lately."""
        return self._tabs.recent

    @property
    def link_tab(self) -> ConnectionTab:
        """Trust, doctor, refused attempts."""
        return self._tabs.link_tab

    def _build_actions(self, call: Action) -> None:
        self._actions = QWidget()
        set_surface(self._actions, "base")
        self.call = ActionButton(call, words="Call a tool…", icon="run")
        self.replay = Button("Replay", icon="replay")
        self.replay.clicked.connect(self._replay)
        self.entries = Button("Entries", "ghost", icon="journal")
        self.entries.clicked.connect(self._entries)
        hbox(
            self.call,
            self.replay,
            self.entries,
            STRETCH,
            parent=self._actions,
            margins=(12, 9, 12, 9),
            spacing=SPACE.small,
        )

    # What the screen asks

    def show_device(self, device: Device | None) -> None:
        """Show one device; nothing when there is none."""
        other = (device.name if device else "") != (self._device.name if self._device else "")
        before, self._device = self._device, device
        for part in (self._page.side, self.tabs, self.stack, self._actions):
            part.setVisible(device is not None)
        self.strip.setVisible(device is not None and device.production)
        if other:
            self._forget_answers()
        if device is None:
            return
        name = device.name
        self._show_head(device, before)
        self._tabs.show_device(device, self._tools.value)
        wants = (name, device.tool_count, tuple(device.changed_tools), device.health)
        if wants != self._tools_for:
            self._tools_for = wants
            self._tabs.show_tools(device, self._tools.value)
            self._tools.load(lambda console: console.devices.tools(name), name)
        trust = (name, device.since, device.refused, device.paired)
        if trust != self._details_for:
            self._details_for = trust
            self._details.load(lambda console: console.devices.details(name), name)

    def _forget_answers(self) -> None:
        """Drop what was read of the device before, and what is on its way."""
        self._say("")
        for query in (self._tools, self._details, self._last_entry):
            query.forget()
        self._tools_for = self._details_for = None

    def show_tab(self, tab: str, tool_key: str | None = None) -> None:
        """Bring a tab to the front, with one tool chosen."""
        self._wanted_tool = tool_key
        wanted = TABS.index(tab) if tab in TABS else 0
        if wanted or not self.is_wide:
            self.tabs.setCurrentIndex(wanted)
        if tool_key is not None:
            self._tabs.choose_tool(tool_key)

    def escape(self) -> bool:
        """Close what is open within the tab in front; False when nothing is."""
        return self.isVisible() and self._tabs.escape()

    def focus_first(self) -> None:
        """Put the focus on the tabs."""
        self.tabs.setFocus(Qt.FocusReason.TabFocusReason)

    def _show_head(self, device: Device, before: Device | None) -> None:
        self.strip.set_detail(f"profile {device.profile}" if device.profile else "")
        self._icon.set_icon(platform_icon(device.platform))
        self._name.set_name(device.name)
        self._health.set_health(device.health.value)
        since = f"since {clock(device.since, seconds=False)}"
        self._since.set_text(f"{since}, {one_line(device.reason)}" if device.reason else since)
        self.take.show_action()
        self.call.show_action()
        if before is None or (before.name, before.picture) != (device.name, device.picture):
            self._show_picture(device)

    def _show_picture(self, device: Device) -> None:
        if device.picture is None:
            self.picture.show_picture(QImage(), f"No picture of {device.name} yet", device.production)
            self._picture_words.setText("No picture yet")
            return
        blob, at = device.picture, clock(device.picture_at)
        self._picture_words.setText(f"Picture from {at}")

        def show(image: QImage) -> None:
            if self._device is None or self._device.picture != blob:
                return
            size = image.size() if not image.isNull() else QSize()
            measure = _UNBROKEN.join((str(size.width()), "×", str(size.height())))
            words = f"Picture from {at}, {measure}" if size.isValid() else "No picture"
            self.picture.show_picture(image, f"{words}, {device.name}", device.production)
            self._picture_words.setText(words if size.isValid() else "The picture cannot be read.")

        self._images.want(self, blob, show, lambda _error: show(QImage()))

    def _say(self, problem: str) -> None:
        if problem and not self.isVisible() and self._device is not None:
            # The panel is closed: what went wrong needs another place.
            self._nav.fail(f"{self._device.name}: {problem}", "")
        self._problem.setText(breakable(problem))
        self._problem.setVisible(bool(problem))

    # Tools and history

    def _show_tools(self, tools: list[Tool]) -> None:
        if self._device is None:
            return
        self.overview.show_device(self._device, tools)
        self._tabs.show_tools(self._device, tools)
        if self._wanted_tool is not None:
            self._tabs.choose_tool(self._wanted_tool)
            self._wanted_tool = None

    def _say_no_tools(self, error: QuarterdeckError) -> None:
        self._tabs.say_no_tools(error.message)

    def _show_details(self, details: DeviceDetails) -> None:
        self._tabs.show_details(details)

    def _say_no_details(self, error: QuarterdeckError) -> None:
        self._tabs.say_no_details(error.message)

    # Wishes

    def why_no_picture(self, device: Device | None) -> str:
        """Why no picture of a device can be taken now; empty when it can."""
        if device is None:
            return "No device is chosen."
        if self.take.is_working:
            return "A device was asked, and has not answered yet."
        online = device.health in (Health.ONLINE, Health.BUSY)
        return "" if online else f"{device.name} cannot be asked now."

    def take_picture(self) -> None:
        """Ask the device for a screenshot; the new picture comes with the device's next state."""
        if self.why_no_picture(self._device):
            return
        name = self.device_name
        self._say("")
        self._shooting.run(lambda console: shoot(console, name), f"take a picture of {name}")

    def call_tool(self) -> None:
        """Open the form of the chosen tool; nothing is sent."""
        if self._device is None:
            return
        # Only a tool that the operator chose: the overview's list has its cursor on any.
        at_overview = self.overview.table.hasFocus()
        tool = self.overview.chosen() if at_overview else None
        if self._tabs.current == "tools":
            tool = self.tools_tab.chosen()
        self._nav.open("batch", OpenTool(self._device.name, tool.tool_name if tool else ""))

    def _replay(self) -> None:
        if self._device is not None:
            query = f"device:{self._device.name}"
            self._last_entry.load(lambda console: console.journal.entries(query, limit=1))

    def _open_replay(self, page: EntryPage) -> None:
        if page.entries:
            self._nav.open("replay", OpenReplay(around=page.entries[0].seq))
        else:
            self._say(f"{self.device_name} has no entries to replay yet.")

    def _entries(self) -> None:
        if self._device is not None:
            self._nav.open("journal", OpenQuery(f"device:{self._device.name}"))

    def paintEvent(self, event: QPaintEvent) -> None:
        """A hairline to the table."""
        super().paintEvent(event)
        painter = QPainter(self)
        border = theme_of(self).color("border")
        painter.fillRect(0, 0, 1, self.height(), border)
        painter.end()
