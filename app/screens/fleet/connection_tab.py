"""How a device is linked: who dials, what is trusted, the doctor, and attempts refused in its name."""

from __future__ import annotations

from PySide6.QtWidgets import QVBoxLayout, QWidget

from app.items.table_view import TableView
from app.query import Mutation
from app.records.device_text import clock_words, direction_words, feature_words
from app.records.rejected_connections import REFUSED_COLUMNS, refusal_rows
from app.screens.fleet.device_dialogs import start_edit, start_forget, start_revoke
from app.screens.fleet.diagnostics import Diagnostics
from app.screens.screen import Navigator
from app.service_client import ConsoleLink
from app.text import clock, count_words, one_line
from app.widgets.banner import Notice
from app.widgets.buttons import Button
from app.widgets.empty_state import IN_COLUMN, EmptyState
from app.widgets.labels import Label
from app.widgets.layouts import STRETCH, hbox, vbox
from app.widgets.line_breaks import breakable
from app.widgets.property_list import Property, PropertyList, short_digest, show_facts
from app.widgets.section import SectionHead
from app.widgets.util import ScrollArea
from core.fleet.models import DeviceDetails
from core.models.devices import Device, Health

MOST_ROWS = 6


class ConnectionTab(ScrollArea):
    """Trust, doctor and refused attempts of one device."""

    def __init__(self, link: ConsoleLink, nav: Navigator) -> None:
        super().__init__(name="Link of the device")
        self._link, self._nav = link, nav
        self._device: Device | None = None
        self._details: DeviceDetails | None = None
        self.revoked = Notice("warn", "Its token was revoked.", "Pair it again to let it connect.")
        self.facts = PropertyList(name="Link of the device")
        self.problem = Label("", "meta", "fail", wrap=True)
        self.problem.hide()
        self.reconnect = Button("Reconnect", icon="refresh")
        self.edit = Button("Settings…", icon="edit")
        self.revoke = Button("Revoke…", "danger")
        self.forget = Button("Forget…", "danger")
        self.reconnect.clicked.connect(self._reconnect)
        self._reconnecting: Mutation[Device] = Mutation(
            self, link, fail=lambda error: self._say(error.info.sentences), trigger=self.reconnect
        )
        self.edit.clicked.connect(self._edit)
        self.revoke.clicked.connect(self._revoke)
        self.forget.clicked.connect(self._forget)
        self.doctor = Diagnostics(link)
        self.refused = TableView(REFUSED_COLUMNS, "Refused attempts", rows="journal", sortable=False)
        self.refused_head = SectionHead("Refused attempts")
        self.none_refused = EmptyState(
            "No attempt was refused in its name.", "Attempts to connect without its token are listed here."
        )
        self.none_refused.setMinimumHeight(IN_COLUMN)
        self._build()

    def _build(self) -> None:
        buttons = QVBoxLayout()
        buttons.setSpacing(8)
        for pair in ((self.reconnect, self.edit), (self.revoke, self.forget)):
            row = hbox(*pair, STRETCH, spacing=8)
            buttons.addLayout(row)
        holder = QWidget()
        holder.setProperty("clear", "true")
        vbox(
            self.revoked,
            self.facts,
            self.problem,
            buttons,
            self.refused_head,
            self.none_refused,
            self.refused,
            self.doctor,
            STRETCH,
            parent=holder,
            margins=(12, 10, 12, 12),
            spacing=12,
        )
        self.setWidget(holder)

    def show_device(self, device: Device) -> None:
        """Show what the state knows; the rest comes with `show_details`."""
        other = self._device is None or self._device.name != device.name
        self._device = device
        if other:
            self._details = None
            self._say("")
        own = device.direction == "local"
        self.revoked.setVisible(not device.paired)
        here = "This computer needs no pairing." if own else ""
        self.revoke.set_off(here or ("" if device.paired else "It is revoked already."))
        self.forget.set_off(here)
        well = device.health in (Health.ONLINE, Health.BUSY)
        self.reconnect.set_words("List tools again" if well else "Reconnect")
        waits = "The device dials; only it can connect."
        self.reconnect.set_off(waits if device.direction == "in" and not well else "")
        self.doctor.show_device(device.name, f"{well} {device.paired}")
        self._show()

    def show_details(self, details: DeviceDetails | None) -> None:
        """Show history, trust and refused attempts."""
        self._details = details
        if self._device is not None:
            self._show()

    def _show(self) -> None:
        device, details = self._device, self._details
        if device is None:
            return
        fingerprint = details.fingerprint if details is not None else ""
        secure = "TLS, certificate pinned" if device.secure else "no TLS"
        if not device.secure:
            secure += ", never leaves this computer" if device.direction == "local" else ", loopback only"
        facts = [
            Property("Direction", direction_words(device)),
            Property("Encryption", secure),
        ]
        if fingerprint:
            # A device that dials in pins ours; of one that is dialled we pin its own.
            whose = "of this console, pinned there" if device.direction == "in" else "its own, pinned here"
            words = f"{short_digest(fingerprint)}\n{whose}"
            facts.append(Property("Certificate", words, mono=True, full=fingerprint))
        if device.direction != "local":
            paired = clock(details.paired_at) if details is not None and details.paired_at else "—"
            facts.append(Property("Paired", paired))
        if device.health is Health.OFFLINE:
            facts.append(Property("Extensions", "agreed when it connects", tone="text3"))
        else:
            facts.append(Property("Extensions", feature_words(device)))
        if device.agent:
            facts.append(Property("Agent", one_line(device.agent), mono=True))
        facts.append(Property("Clock", clock_words(device.clock_offset_ms)))
        show_facts(self.facts, facts)
        rows = refusal_rows(details.refusals if details is not None else [])
        self.refused.show_rows(rows)
        self.refused.setVisible(bool(rows))
        self.refused.setFixedHeight(self.refused.row_height() * (min(len(rows), MOST_ROWS) + 1) + 6)
        self.none_refused.setVisible(details is not None and not rows)
        last = f", last {rows[0].cells[0]}" if rows else ""
        self.refused_head.set_hint(f"{count_words(device.refused)} in all{last}" if device.refused else "")

    def say_no_details(self, why: str) -> None:
        """History and trust cannot be read."""
        self._say(why)

    def _say(self, problem: str) -> None:
        self.problem.setText(breakable(problem))
        self.problem.setVisible(bool(problem))

    # Wishes

    def _reconnect(self) -> None:
        device = self._device
        if device is None:
            return
        self._say("")
        self._reconnecting.run(
            lambda console: console.devices.reconnect(device.name), f"reconnect {device.name}"
        )

    def _edit(self) -> None:
        if self._device is not None:
            start_edit(self.window(), self._link, self._device, self._nav)

    def _revoke(self) -> None:
        if self._device is not None:
            start_revoke(self.window(), self._link, self._device, self._nav.toast)

    def _forget(self) -> None:
        if self._device is not None:
            start_forget(self.window(), self._link, self._device, self._nav.toast)
