"""Where this console listens for devices, what it is known by, and who was refused."""

from __future__ import annotations

import re

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QVBoxLayout

from app.items.table_view import TableView
from app.query import Mutation, Query
from app.records.device_text import fingerprint_groups
from app.records.rejected_connections import REFUSED_COLUMNS, refusal_rows
from app.screens.screen import Navigator
from app.screens.settings.section import SettingsSection
from app.screens.targets import OpenPairing, OpenQuery, OpenSection
from app.service_client import ConsoleLink
from app.state import AppState
from app.text import plural
from app.widgets.banner import Banner
from app.widgets.buttons import Button
from app.widgets.empty_state import IN_COLUMN, EmptyState
from app.widgets.fields import Field, TextField
from app.widgets.labels import Link
from app.widgets.layouts import hbox
from app.widgets.property_list import Property, PropertyList
from app.widgets.section import SectionHead
from core.errors import QuarterdeckError
from core.fleet.models import Listening, Refusal
from core.service.wishes import listening_change

MOST_ROWS = 10
_ADDRESS = re.compile(r"^(\[[0-9A-Fa-f:.%]+\]|[A-Za-z0-9._-]+):(\d{1,5})$")
_LOOPBACK = re.compile(r"^(127(\.\d{1,3}){3}|localhost|\[::1\])$")


def address_problem(address: str) -> str:
    """What is wrong with an address to listen at; empty when nothing is."""
    match = _ADDRESS.match(address)
    if match is None:
        return "Write host:port, such as 127.0.0.1:5000, or 0.0.0.0:5000 for every network."
    return "" if 0 < int(match[2]) < 65_536 else "A port is a number from 1 to 65535."


def address_help(address: str) -> str:
    """What listening at an address means."""
    match = _ADDRESS.match(address)
    if match is None or address_problem(address):
        return ""
    if _LOOPBACK.match(match[1]):
        return "Only programs on this computer can connect. No TLS is needed."
    return "Other computers can connect: with TLS and a token only, plain connections are refused."


class DevicesPage(SettingsSection):
    """The address, the state of listening, the fingerprint, and refused attempts of everybody."""

    def __init__(self, state: AppState, link: ConsoleLink, nav: Navigator) -> None:
        super().__init__(
            "Devices", "Devices dial in here, or are dialled. Each has a token of its own, made by pairing."
        )
        self._link, self._nav = link, nav
        self._where = Query(self, link, self._show, self._failed, "ask where the console listens")
        self._rejected = Query(self, link, self._show_refusals, self._failed, "list refused attempts")
        self._listening: Listening | None = None
        self.banner = Banner()
        self.column.insertWidget(0, self.banner)
        self.address = TextField("Address to listen at", "127.0.0.1:5000", mono=True)
        self.address_row = Field("Address to listen at", self.address)
        self.listen = Button("Listen here")
        line = hbox((self.address_row, 1), spacing=12)
        beside = QVBoxLayout()
        # As far down as the label above the field is high.
        beside.addSpacing(22)
        beside.addWidget(self.listen)
        beside.addStretch(1)
        line.addLayout(beside)
        self.column.addLayout(line)
        self.facts = PropertyList(140, "Listening")
        self.column.addWidget(self.facts)
        certificate = Link("The certificate, and how to renew it")
        certificate.clicked.connect(lambda: nav.open("settings", OpenSection("certificate")))
        self.column.addWidget(certificate, 0, Qt.AlignmentFlag.AlignLeft)
        pair = Link("Pair a device")
        pair.clicked.connect(lambda: nav.open("fleet", OpenPairing()))
        self.column.addWidget(pair, 0, Qt.AlignmentFlag.AlignLeft)
        self.head = SectionHead("Refused attempts")
        self.column.addWidget(self.head)
        self.none_refused = EmptyState(
            "No attempt was refused.", "Attempts to connect without a valid token are listed here."
        )
        self.none_refused.setMinimumHeight(IN_COLUMN)
        self.none_refused.hide()
        self.column.addWidget(self.none_refused)
        self.refused = TableView(REFUSED_COLUMNS, "Refused attempts", rows="journal", sortable=False)
        self.refused.hide()
        self.column.addWidget(self.refused)
        journal = Link("All of them in the journal")
        journal.clicked.connect(lambda: nav.open("journal", OpenQuery("kind:device_refused")))
        self.column.addWidget(journal, 0, Qt.AlignmentFlag.AlignLeft)
        self.address.textChanged.connect(self._check)
        self.address.returnPressed.connect(self.listen.click)
        self.listen.clicked.connect(self._ask_to_listen)
        state.reset.connect(self._read_if_shown)
        self._check()

    def read(self) -> None:
        """Ask the service how it listens and whom it refused."""
        self._where.load(lambda console: console.devices.listening())
        self._rejected.load(lambda console: console.devices.rejected_connections())

    def _read_if_shown(self) -> None:
        if self.isVisible():
            self.read()

    def _show(self, listening: Listening) -> None:
        first = self._listening is None or self.address.text() in ("", self._listening.address)
        self._listening = listening
        if first:
            self.address.setText(listening.address)
        facts = []
        if listening.problem:
            self.banner.say("warn", "This console does not listen.", listening.problem)
            facts.append(Property("State", f"not listening. {listening.problem}", tone="warn"))
        else:
            self.banner.hide()
            facts.append(
                Property(
                    "State", "listening" + (", with TLS" if listening.secure else ", this computer only")
                )
            )
            facts.append(Property("Devices dial", listening.url, mono=True))
        if listening.fingerprint:
            words = fingerprint_groups(listening.fingerprint)
            facts.append(Property("Certificate", words, mono=True, full=listening.fingerprint))
        self.facts.show_facts(facts)
        self.head.set_hint(f"{plural(listening.refused, 'attempt')} in all" if listening.refused else "")
        self._check()

    def _show_refusals(self, refusals: list[Refusal]) -> None:
        rows = refusal_rows(refusals, named=True)
        self.refused.show_rows(rows)
        self.refused.setVisible(bool(rows))
        self.none_refused.setVisible(not rows)
        self.refused.setFixedHeight(self.refused.row_height() * (min(len(rows), MOST_ROWS) + 1) + 6)

    def _failed(self, error: QuarterdeckError) -> None:
        self.banner.say("fail", error.message, error.info.next)

    def _check(self) -> None:
        address = self.address.text().strip()
        problem = address_problem(address) if address else ""
        self.address_row.set_error(problem)
        self.address_row.set_help(address_help(address))
        known = self._listening
        same = known is not None and not known.problem and known.address == address
        reason = "It listens there already." if same else ""
        self.listen.set_off(problem or reason or ("" if address else "Write an address first."))

    def _ask_to_listen(self) -> None:
        address = self.address.text().strip()
        listen = Mutation(
            self,
            self._link,
            self._show_listens,
            self._say_not_listening,
            f"listen at {address}",
            self.listen,
            declined=self._check,
        )
        listen.carry(
            lambda: self._nav.signing.carry_out(
                listening_change(address), lambda console, signed: console.devices.listen(address, signed)
            )
        )

    def _show_listens(self, listening: Listening) -> None:
        self._show(listening)
        if not listening.problem:
            self._nav.toast(f"Listening at {listening.address}")

    def _say_not_listening(self, error: QuarterdeckError) -> None:
        self._check()
        self.address_row.set_error(error.info.sentences)
