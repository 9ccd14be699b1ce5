"""The tabs of a device. All but the first are made when they are first wanted: they are most of a panel."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from PySide6.QtCore import QObject, Signal
from PySide6.QtWidgets import QStackedWidget, QTabBar, QVBoxLayout, QWidget

from app.screens.fleet.call_tab import CallTab
from app.screens.fleet.connection_tab import ConnectionTab
from app.screens.fleet.device_columns import knows_tool_count
from app.screens.fleet.history_tab import HistoryTab
from app.screens.fleet.overview import OverviewTab
from app.screens.fleet.servers_tab import ServersTab
from app.screens.fleet.tools_tab import ToolsTab
from app.screens.screen import Navigator
from app.service_client import ConsoleLink
from app.state import AppState
from app.text import plural
from app.theme.theme import theme_of
from app.widgets.focus import put_in_tab_order, within
from app.widgets.labels import escaped_tooltip
from core.fleet.models import DeviceDetails
from core.models.devices import Device
from core.models.tools import Tool

TABS = ("overview", "tools", "servers", "try", "recent", "link")
_TITLES = ("Overview", "Tools", "Servers", "Try it", "Recent", "Link")
# Beside five other titles a larger number has no room; it stands in the tooltip.
MOST_COUNTED = 999


class DeviceTabs(QObject):
    """`bar` and `stack` are laid out by the panel; what is known of the device is kept for tabs to come.

    Signals:
        reviewed: a changed tool was accepted.
    """

    reviewed = Signal()

    def __init__(self, state: AppState, link: ConsoleLink, nav: Navigator, overview_place: QWidget) -> None:
        super().__init__()
        self._state, self._link, self._nav = state, link, nav
        self._device: Device | None = None
        self._tools: list[Tool] | None = None
        self._details: DeviceDetails | None = None
        self._no_tools = self._no_details = ""
        self._wanted_tool: str | None = None
        self._wide = False
        self._made: dict[str, QWidget] = {}
        self._makers: dict[str, Callable[[], QWidget]] = {
            "tools": self._make_tools,
            "servers": self._make_servers,
            "try": self._make_try,
            "recent": self._make_recent,
            "link": self._make_link,
        }
        self.bar = QTabBar()
        self.bar.setExpanding(False)
        self.bar.setProperty("many", "true")
        self.bar.setDrawBase(False)
        self.bar.setFont(theme_of(self.bar).font("name"))
        self.bar.setAccessibleName("About the device")
        self.stack = QStackedWidget()
        self._columns: dict[str, QVBoxLayout] = {}
        for name, title in zip(TABS, _TITLES, strict=True):
            self.bar.addTab(title)
            place = overview_place if name == "overview" else QWidget()
            self.stack.addWidget(place)
            if name != "overview":
                column = self._columns[name] = QVBoxLayout(place)
                column.setContentsMargins(0, 0, 0, 0)
        self.overview = OverviewTab(link, nav)
        self.overview.reviewed.connect(self.reviewed)
        self.bar.currentChanged.connect(self._chosen)

    # The tabs

    @property
    def tools_tab(self) -> ToolsTab:
        """All tools and their contracts."""
        return cast("ToolsTab", self._get("tools"))

    @property
    def servers_tab(self) -> ServersTab:
        """The MCP servers that it hosts."""
        return cast("ServersTab", self._get("servers"))

    @property
    def try_tab(self) -> CallTab:
        """A call of one tool."""
        return cast("CallTab", self._get("try"))

    @property
    def recent(self) -> HistoryTab:
        """What happened lately."""
        return cast("HistoryTab", self._get("recent"))

    @property
    def link_tab(self) -> ConnectionTab:
        """Trust, doctor, refused attempts."""
        return cast("ConnectionTab", self._get("link"))

    def _get(self, name: str) -> QWidget:
        if name not in self._made:
            tab = self._made[name] = self._makers[name]()
            self._columns[name].addWidget(tab)
            # Made late, it would come after all else in the window.
            put_in_tab_order(self.bar, [tab, *within(tab)])
        return self._made[name]

    def _make_tools(self) -> ToolsTab:
        tab = ToolsTab(self._link, self._nav)
        tab.reviewed.connect(self.reviewed)
        tab.set_wide(self._wide)
        if self._device is not None:
            tab.show_tools(self._device, self._tools)
            if self._no_tools:
                tab.say_no_tools(self._no_tools)
        if self._wanted_tool is not None:
            tab.choose(self._wanted_tool)
        return tab

    def _make_servers(self) -> ServersTab:
        tab = ServersTab(self._state, self._link, self._nav)
        tab.tools_wanted.connect(self._show_tools_of)
        if self._device is not None:
            tab.show_device(self._device, self._tools)
        tab.set_shown(self.current == "servers")
        return tab

    def _show_tools_of(self, server: str) -> None:
        """Bring the tools of a hosted server to the front."""
        found = next((tool for tool in self._tools or [] if tool.namespace == server), None)
        self.bar.setCurrentIndex(TABS.index("tools"))
        if found is not None:
            self.choose_tool(found.tool_key)

    def _make_try(self) -> CallTab:
        tab = CallTab(self._state, self._link, self._nav)
        if self._device is not None:
            tab.show_tools(self._device, self._tools)
        if self._wanted_tool is not None:
            tab.choose(self._wanted_tool)
        return tab

    def _make_recent(self) -> HistoryTab:
        tab = HistoryTab(self._link, self._nav)
        if self._device is not None:
            tab.show_device(self._device.name)
        tab.set_shown(self.current == "recent")
        self._state.journal_changed.connect(tab.follow)
        return tab

    def _make_link(self) -> ConnectionTab:
        tab = ConnectionTab(self._link, self._nav)
        if self._device is not None:
            tab.show_device(self._device)
            tab.show_details(self._details)
            if self._no_details:
                tab.say_no_details(self._no_details)
        return tab

    @property
    def current(self) -> str:
        """Which of `TABS` is in front."""
        return TABS[self.bar.currentIndex()]

    def _chosen(self, place: int) -> None:
        name = TABS[place]
        if name in self._makers:
            self._get(name)
        self.stack.setCurrentIndex(place)
        if "recent" in self._made:
            self.recent.set_shown(name == "recent")
        if "servers" in self._made:
            self.servers_tab.set_shown(name == "servers")

    def escape(self) -> bool:
        """Close what is open within the tab in front; False when nothing is."""
        return self.current == "servers" and self.servers_tab.escape()

    def set_wide(self, wide: bool) -> None:
        """They stand on the page of the device, or in the panel."""
        self._wide = wide
        if "tools" in self._made:
            self.tools_tab.set_wide(wide)

    # What is known of the device

    def show_device(self, device: Device, tools: list[Tool] | None) -> None:
        """Show what the state knows of a device, and the tools as far as they are known."""
        other = self._device is None or self._device.name != device.name
        self._device, self._tools = device, tools
        if other:
            self._no_tools, self._wanted_tool = "", None
            self.show_details(None)
        self.overview.show_device(device, tools)
        if self._no_tools:
            # They are read again only when they may be others.
            self.overview.say_no_tools(self._no_tools)
        if "servers" in self._made:
            self.servers_tab.show_device(device, tools)
        if "recent" in self._made:
            self.recent.show_device(device.name)
        if "link" in self._made:
            self.link_tab.show_device(device)
        if knows_tool_count(device):
            self._title("tools", _counted(device.tool_count), plural(device.tool_count, "tool"))
        else:
            self._title("tools", "—", "not known how many")
        refused = device.refused > 0
        attempts = f"{plural(device.refused, 'attempt')} in its name refused"
        self._title("link", _counted(device.refused) * refused, attempts * refused)

    def _title(self, name: str, number: str, words: str) -> None:
        place = TABS.index(name)
        text = f"{_TITLES[place]} {number}".rstrip()
        if self.bar.tabText(place) != text:
            self.bar.setTabText(place, text)
        self.bar.setTabToolTip(place, escaped_tooltip(words))
        self.bar.setAccessibleTabName(place, f"{_TITLES[place]}, {words}" if words else _TITLES[place])

    def show_tools(self, device: Device, tools: list[Tool] | None) -> None:
        """Show the tools; None while they are read."""
        failed, self._no_tools = bool(self._no_tools), ""
        self._tools = tools
        if failed:
            self.overview.show_device(device, tools)
        if "tools" in self._made:
            self.tools_tab.show_tools(device, tools)
        if "servers" in self._made:
            self.servers_tab.show_device(device, tools)
        if "try" in self._made:
            self.try_tab.show_tools(device, tools)

    def choose_tool(self, tool_key: str) -> None:
        """Bring one tool to the front of the tabs that show one."""
        self._wanted_tool = tool_key
        if "tools" in self._made:
            self.tools_tab.choose(tool_key)
        if "try" in self._made:
            self.try_tab.choose(tool_key)

    def say_no_tools(self, why: str) -> None:
        """The tools cannot be read."""
        self._no_tools = why
        self.overview.say_no_tools(why)
        if "tools" in self._made:
            self.tools_tab.say_no_tools(why)

    def show_details(self, details: DeviceDetails | None) -> None:
        """Show history, trust and refused attempts; None while they are read."""
        self._details, self._no_details = details, ""
        self.overview.show_details(details)
        if "link" in self._made:
            self.link_tab.show_details(details)

    def say_no_details(self, why: str) -> None:
        """History and trust cannot be read."""
        self._no_details = why
        if "link" in self._made:
            self.link_tab.say_no_details(why)


def _counted(count: int) -> str:
    return f"{MOST_COUNTED}+" if count > MOST_COUNTED else str(count)
