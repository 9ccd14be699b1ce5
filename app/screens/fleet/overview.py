"""The first tab of a device: facts, what changed and must be reviewed, its tools in short."""

from __future__ import annotations

import time

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QVBoxLayout, QWidget

from app.items.table_view import TableView
from app.records.device_text import clock_words, direction_words, feature_words
from app.screens.fleet.contract_review_dialog import start_review
from app.screens.fleet.device_columns import is_measured, no_tools_words, tool_model, tool_title
from app.screens.fleet.health_series import band_start, device_series, health_spans
from app.screens.screen import Navigator
from app.service_client import ConsoleLink
from app.text import clock, milliseconds, one_line, plural
from app.widgets.banner import Notice
from app.widgets.charts import HealthPlot
from app.widgets.empty_state import IN_COLUMN, ContentOrEmpty
from app.widgets.layouts import vbox
from app.widgets.line_breaks import breakable
from app.widgets.property_list import Property, PropertyList, short_digest, show_facts
from app.widgets.util import ScrollArea
from core.fleet.models import DeviceDetails, HealthChange
from core.models.devices import Device, Health
from core.models.tools import OTHERWISE, Tool

REDRAW_S = 10.0


class OverviewTab(QWidget):
    """Facts, the contract notice, and the tools.

    Signals:
        tool_opened(tool_key): the operator wants to see one tool.
        reviewed: a changed tool was accepted.
    """

    tool_opened = Signal(str)
    reviewed = Signal()

    def __init__(self, link: ConsoleLink, nav: Navigator) -> None:
        super().__init__()
        self._link, self._nav = link, nav
        self._tools: list[Tool] = []
        self._device: Device | None = None
        self._fingerprint, self._low = "", False
        self._history: list[HealthChange] = []
        self._drawn_at = 0.0
        self.facts = PropertyList(name="Facts of the device")
        self.notice = Notice("warn", "")
        self.notice.acted.connect(self._review)
        self.notice.hide()
        self.plot = HealthPlot()
        self.table = TableView(tool_model(), "Tools of the device")
        self.table.opened.connect(self.tool_opened)
        self.place = ContentOrEmpty(self.table)
        self.place.setMinimumHeight(IN_COLUMN)
        self._top = top = QVBoxLayout()
        top.setContentsMargins(12, 10, 12, 10)
        top.setSpacing(10)
        top.addWidget(self.facts)
        top.addWidget(self.plot)
        top.addWidget(self.notice)
        inner = QWidget()
        inner.setProperty("clear", "true")
        column = vbox(top, (self.place, 1), parent=inner)
        self._rest = QWidget()
        self._rest.hide()
        column.addWidget(self._rest, 1)
        # Facts wrap into as many lines as they need: a low window scrolls, it does not squeeze them.
        self.area = ScrollArea(inner, "Overview of the device")
        vbox(self.area, parent=self, spacing=None)

    def set_beside_tabs(self, beside: bool) -> None:
        """Leave the tools to the tab that stands beside this."""
        self.place.setVisible(not beside)
        self._rest.setVisible(beside)
        # On the page how it was comes before what it is; beside the devices the tools need the room below.
        self._top.removeWidget(self.plot)
        self._top.insertWidget(self._top.indexOf(self.facts) + (not beside), self.plot)
        self._place_notice()

    def set_low(self, low: bool) -> None:
        """The window has few lines."""
        self._low = low
        self._place_notice()

    def _place_notice(self) -> None:
        # Where not all is in sight at once, what must be answered stands first.
        first = self._low or not self._rest.isHidden()
        self._top.removeWidget(self.notice)
        self._top.insertWidget(0 if first else self._top.count(), self.notice)

    def show_device(self, device: Device, tools: list[Tool] | None) -> None:
        """Show facts at once, and the tools when they are known."""
        show_facts(self.facts, device_facts(device, self._fingerprint))
        self.plot.show_series(device_series(device))
        if time.monotonic() - self._drawn_at >= REDRAW_S and self._history:
            self._draw_health()
        self._device = device
        self._tools = tools or []
        self._show_notice(device)
        self.table.show_rows(self._tools)
        if self._tools:
            self.place.show_content()
        elif tools is None:
            self.place.say("Reading the tools…", "They are shown as soon as the device answers.")
        else:
            self.place.say(*no_tools_words(device))

    def show_details(self, details: DeviceDetails | None) -> None:
        """Show how its health was, and what it is known by; None while that is read."""
        self._fingerprint = details.fingerprint if details is not None else ""
        self._history = details.history if details is not None else []
        self._draw_health()
        if self._device is not None and details is not None:
            show_facts(self.facts, device_facts(self._device, self._fingerprint))

    def _draw_health(self) -> None:
        """The band ends now, and goes on as time does."""
        self._drawn_at = time.monotonic()
        spans = health_spans(self._history)
        first = clock(band_start(self._history), seconds=False) if spans else ""
        self.plot.show_health(spans, first, "now")

    def say_no_tools(self, why: str) -> None:
        """The tools cannot be read."""
        self.place.say("The tools cannot be read.", breakable(one_line(why)))

    def chosen(self) -> Tool | None:
        """The tool under the cursor."""
        key = self.table.current_key()
        return next((tool for tool in self._tools if tool.tool_key == key), None)

    def _show_notice(self, device: Device) -> None:
        changed = device.changed_tools
        self.notice.setVisible(bool(changed))
        if not changed:
            return
        tool = next((one for one in self._tools if one.tool_key == changed[0]), None)
        name = breakable(tool_title(tool) if tool else one_line(changed[0].rpartition("::")[2] or changed[0]))
        fact = f"{name} {(tool.change if tool else '') or OTHERWISE}."
        if len(changed) > 1:
            fact = f"{name} and {len(changed) - 1} more are not what was trusted."
        self.notice.say("warn", fact, "Blocked until you review it.", "Review")

    def _review(self) -> None:
        changed = next((tool for tool in self._tools if tool.changed), None)
        if changed is None:
            self.say_no_tools("The tools are still being read; review it in a moment.")
            return
        start_review(self.window(), self._link, self._nav.signing, changed, self.reviewed.emit)


def device_facts(device: Device, fingerprint: str = "") -> list[Property]:
    """What is known about a device, in words."""
    facts = [Property("System", one_line(device.system) or "not known")]
    if device.machine.host and device.direction != "local":
        facts.append(Property("Host", one_line(device.machine.host)))
    if device.other_machine is not None:
        other = one_line(device.other_machine.words)
        facts.append(
            Property("Held", f"{other} shows the same pairing; see Link for what to do", tone="warn")
        )
    client = one_line(device.client) or "not known"
    # What was agreed is known as long as it is connected.
    if device.direction != "local" and device.health is not Health.OFFLINE:
        speaks = f"speaks {feature_words(device)}" if device.features else "speaks plain AIP"
        client = f"{client}, {speaks}"
    facts.append(Property("Client", client))
    trip = milliseconds(device.round_trip_ms) if is_measured(device) else "—"
    if is_measured(device) and device.round_trips_ms and device.round_trip_ms is not None:
        trip = f"{trip}, worst {milliseconds(max(device.round_trips_ms))} lately"
    facts.append(Property("Round trip", trip))
    where = direction_words(device)
    if device.direction != "local":
        where += ", TLS" if device.secure else ", no TLS"
    facts.append(Property("Link", where if device.direction != "local" else device.channel or "not known"))
    if device.requires_approval:
        number = "one operator" if device.approvers == 1 else f"{device.approvers} operators"
        facts.append(Property("Actions", f"only signed by {number}; the device checks"))
    if fingerprint and device.direction == "out":
        facts.append(Property("Identity", short_digest(fingerprint), mono=True, full=fingerprint))
    if device.clock_offset_ms is not None:
        facts.append(Property("Clock", clock_words(device.clock_offset_ms)))
    if device.restarts:
        times = "once" if device.restarts == 1 else f"{device.restarts} times"
        facts.append(Property("Restarted", f"{times} since the service started", tone="warn"))
    facts.append(Property("Profile", device.profile or "not known"))
    if device.refused:
        attempts = plural(device.refused, "attempt")
        facts.append(Property("Refused", f"{attempts} in its name; see Link for whose", tone="warn"))
    if device.unavailable:
        count = len(device.unavailable)
        facts.append(Property("Missing", f"{count} tools not available; see Tools for why", tone="text2"))
    return facts
