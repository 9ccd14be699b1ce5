"""The first tab of a device: facts, what changed and must be reviewed, its tools in short."""

from __future__ import annotations

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QVBoxLayout, QWidget

from app.components.banner import Notice
from app.components.facts import Fact, Facts
from app.components.label import Label
from app.components.tables import DataTable
from app.link import ConsoleLink
from app.screens.base import Navigator
from app.screens.fleet.review import start_review
from app.screens.fleet.rows import TOOL_COLUMNS, tool_rows, tool_title
from app.shell.words import milliseconds
from core.fleet.models import Device, Tool


class OverviewTab(QWidget):
    """Facts, the contract notice, and the tools.

    Signals:
        tool_opened(tool_key): the operator wants to see one tool.
        reviewed: a changed definition was accepted.
    """

    tool_opened = Signal(str)
    reviewed = Signal()

    def __init__(self, link: ConsoleLink, nav: Navigator) -> None:
        super().__init__()
        self._link, self._nav = link, nav
        self._tools: list[Tool] = []
        self.facts = Facts(name="Facts of the device")
        self.notice = Notice("warn", "")
        self.notice.acted.connect(self._review)
        self.notice.hide()
        self.message = Label("", "meta", "text3", wrap=True)
        self.message.hide()
        self.table = DataTable(TOOL_COLUMNS, "Tools of the device")
        self.table.opened.connect(self.tool_opened)
        top = QVBoxLayout()
        top.setContentsMargins(12, 10, 12, 10)
        top.setSpacing(10)
        top.addWidget(self.facts)
        top.addWidget(self.notice)
        top.addWidget(self.message)
        whole = QVBoxLayout(self)
        whole.setContentsMargins(0, 0, 0, 0)
        whole.setSpacing(0)
        whole.addLayout(top)
        whole.addWidget(self.table, 1)

    def show_device(self, device: Device, tools: list[Tool] | None) -> None:
        """Show facts at once, and the tools when they are known."""
        self.facts.show_facts(device_facts(device))
        self._show_notice(device)
        self._tools = tools or []
        self.message.setVisible(tools is None)
        if tools is None:
            self.message.setText("Reading the tools…")
        self.table.show_rows(tool_rows(self._tools))

    def say_no_tools(self, why: str) -> None:
        """The tools cannot be read."""
        self.message.setText(why)
        self.message.show()

    def chosen(self) -> Tool | None:
        """The tool under the cursor."""
        key = self.table.current_key()
        return next((tool for tool in self._tools if tool.tool_key == key), None)

    def _show_notice(self, device: Device) -> None:
        changed = device.changed_tools
        self.notice.setVisible(bool(changed))
        if not changed:
            return
        names = [self._title(key) for key in changed]
        fact = f"{names[0]} changed its definition."
        if len(names) > 1:
            fact = f"{names[0]} and {len(names) - 1} more changed their definitions."
        self.notice.say("warn", fact, "Blocked until you review it.", "Review")

    def _title(self, key: str) -> str:
        tool = next((one for one in self._tools if one.tool_key == key), None)
        return tool_title(tool) if tool else key.rpartition("::")[2] or key

    def _review(self) -> None:
        changed = next((tool for tool in self._tools if tool.changed), None)
        if changed is None:
            self.say_no_tools("The tools are still being read; review it in a moment.")
            return
        start_review(self.window(), self._link, changed, self.reviewed.emit)


def device_facts(device: Device) -> list[Fact]:
    """What is known about a device, in words."""
    facts = [Fact("System", device.system or "not known")]
    facts.append(Fact("Client", device.client or "not known"))
    trip = milliseconds(device.round_trip_ms)
    if device.round_trips_ms and device.round_trip_ms is not None:
        trip = f"{trip}, worst {milliseconds(max(device.round_trips_ms))} lately"
    facts.append(Fact("Round trip", trip))
    facts.append(Fact("Channel", device.channel or "not known"))
    if device.restarts:
        times = "once" if device.restarts == 1 else f"{device.restarts} times"
        facts.append(Fact("Restarted", f"{times} since the service started", tone="warn"))
    facts.append(Fact("Profile", device.profile or "not known"))
    if device.unavailable:
        count = len(device.unavailable)
        facts.append(Fact("Missing", f"{count} tools not available; see Tools for why", tone="text2"))
    return facts
