"""The certificate by which devices know this console, the next one, and which devices accept which."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QWidget

from app.form_dialog import FormDialog
from app.items.table_view import Cell, Column, Kind, Row, TableView
from app.query import Mutation, Query
from app.records.device_text import fingerprint_groups
from app.screens.screen import Navigator
from app.screens.settings.section import SettingsSection
from app.screens.targets import OpenDevice, OpenQuery
from app.service_client import ConsoleLink
from app.state import AppState
from app.text import parse_time, plural
from app.widgets.banner import Banner
from app.widgets.buttons import Button
from app.widgets.empty_state import IN_COLUMN, EmptyState
from app.widgets.labels import Label, Link
from app.widgets.layouts import STRETCH, hbox
from app.widgets.property_list import Property, PropertyList
from app.widgets.section import SectionHead
from core.errors import QuarterdeckError, Refused
from core.fleet.models import Certificates, DeviceCertificates
from core.service.console import Console
from core.service.wishes import NEXT_CERTIFICATE
from core.text import some_names

MOST_ROWS = 12
# Devices take the next certificate one after another: one read for many of them.
READ_AGAIN_MS = 300

COLUMNS: tuple[Column[Row], ...] = (
    Column("device", "Device", Kind.NAME, 130),
    Column("accepts", "Accepts", Kind.TEXT, 150, tone="text"),
    Column("why", "Why not the next", Kind.TEXT, 180, stretch=True, drop=1),
)


def certificate_rows(found: Certificates) -> list[Row]:
    """The devices that dial in; those that do not accept a certificate come first."""
    devices = sorted(found.devices, key=lambda row: (row.takes_present, row.takes_next, row.device))
    return [
        Row(row.device, (row.device, _accepts(row, found), row.why), (None, place, None))
        for place, row in enumerate(devices)
    ]


def _accepts(row: DeviceCertificates, found: Certificates) -> str | Cell:
    if not row.takes_present:
        words = "neither: pair it again" if found.next else "another one: pair it again"
        return Cell(words, glyph="cross_octagon", tone="fail")
    if found.next and row.takes_next:
        return Cell("this one and the next", glyph="check")
    return "this one" if row.accepted else "not known yet"


def lacking(found: Certificates) -> list[str]:
    """The devices that would have to be paired again if the console switched now."""
    return [row.device for row in found.devices if not row.takes_next]


def certificate_facts(found: Certificates) -> list[Property]:
    """The fingerprints of the certificates, and until when they are valid."""
    if not found.present:
        return [Property("Certificate", "none: this console listens for this computer only")]
    facts = [
        _fingerprint("Certificate", found.present),
        Property("Valid until", _day(found.present_until)),
    ]
    if found.next:
        facts += [_fingerprint("Next", found.next), Property("Next valid until", _day(found.next_until))]
    return facts


def _fingerprint(label: str, fingerprint: str) -> Property:
    return Property(label, fingerprint_groups(fingerprint), mono=True, full=fingerprint)


def _day(stamp: str) -> str:
    return f"{parse_time(stamp):%Y-%m-%d}" if stamp else "not known"


class CertificatePage(SettingsSection):
    """Fingerprints, the devices that accept them, and the two steps of a renewal: announce, then switch."""

    def __init__(self, state: AppState, link: ConsoleLink, nav: Navigator) -> None:
        super().__init__(
            "Certificate",
            "Devices know this console by its certificate, whose fingerprint they keep when they are paired. "
            "To renew it, announce the next one; once the devices accept it, switch.",
        )
        self._link, self._nav = link, nav
        self._found = Certificates()
        self._read = Query(self, link, self._show, self._failed, "read the certificates")
        self.banner = Banner()
        self.column.insertWidget(0, self.banner)
        self.facts = PropertyList(140, "Certificates")
        self.renew = Button("Renew…")
        self.switch = Button("Switch to the next…")
        self.hint = Label("", "meta", "text3", wrap=True)
        self.head = SectionHead("Devices that dial in")
        self.empty = EmptyState("No device dials in.", "Devices that are paired and dial in are listed here.")
        self.empty.setMinimumHeight(IN_COLUMN)
        self.empty.hide()
        self.devices = TableView(COLUMNS, "Certificates of devices", rows="journal")
        self.devices.hide()
        journal = Link("All of it in the journal")
        self.column.addWidget(self.facts)
        self.column.addLayout(hbox(self.renew, self.switch, STRETCH, spacing=8))
        for part in (self.hint, self.head, self.empty, self.devices):
            self.column.addWidget(part)
        self.column.addWidget(journal, 0, Qt.AlignmentFlag.AlignLeft)
        self.renew.clicked.connect(self._ask_to_renew)
        self.switch.clicked.connect(self._ask_to_switch)
        self.devices.opened.connect(lambda name: nav.open("fleet", OpenDevice(name)))
        journal.clicked.connect(
            lambda: nav.open(
                "journal", OpenQuery("kind:certificate_made,certificate_taken,certificate_switched")
            )
        )
        state.reset.connect(self._read_if_shown)
        state.devices_changed.connect(self._read_soon)
        self._check()

    def read(self) -> None:
        """Ask the service for the certificates."""
        self._read.load(lambda console: console.devices.certificates(), key="certificates")

    def _read_if_shown(self) -> None:
        if self.isVisible():
            self.read()

    def _read_soon(self) -> None:
        if self.isVisible():
            self._read.refresh_within(READ_AGAIN_MS)

    def _show(self, found: Certificates) -> None:
        self._found = found
        self.facts.show_facts(certificate_facts(found))
        rows = certificate_rows(found)
        self.devices.show_rows(rows)
        self.devices.setVisible(bool(rows))
        self.empty.setVisible(not rows)
        self.devices.setFixedHeight(self.devices.row_height() * (min(len(rows), MOST_ROWS) + 1) + 6)
        self.head.set_hint(self._count())
        self._show_stranded()
        self._check()

    def _count(self) -> str:
        devices = self._found.devices
        if not self._found.next or not devices:
            return ""
        return f"{len(devices) - len(lacking(self._found))} of {len(devices)} accept the next"

    def _show_stranded(self) -> None:
        """Name the devices that cannot connect any more."""
        names = [row.device for row in self._found.devices if not row.takes_present]
        if not names:
            self.banner.hide()
            return
        fact = f"{plural(len(names), 'device')} cannot connect: paired with another certificate."
        self.banner.say("warn", fact, f"Pair again: {some_names(names)}.")

    def _check(self) -> None:
        found = self._found
        self.renew.set_words("Announce again" if found.next else "Renew…")
        self.renew.set_off("" if found.present else "This console shows no certificate.")
        self.switch.set_off("" if found.next else "There is no next certificate yet.")
        ready = bool(found.next) and not lacking(found)
        self.switch.set_kind("primary" if ready else "normal")
        self.hint.setText(self._words())
        self.hint.setVisible(bool(self.hint.text()))

    def _words(self) -> str:
        if not self._found.next:
            return ""
        if lacking(self._found):
            return "Connected devices are told at once, others when they connect; the switch is up to you."
        return "All devices accept the next certificate: switch to it."

    def _failed(self, error: QuarterdeckError) -> None:
        self._check()
        self.banner.say("fail", error.message, error.info.next)

    def _ask_to_renew(self) -> None:
        renewing = Mutation(
            self,
            self._link,
            self._show_renewed,
            self._failed,
            "renew the certificate",
            self.renew,
            declined=self._check,
        )
        if self._found.next:
            renewing.run(lambda console: console.devices.renew_certificate())
            return
        renewing.carry(
            lambda: self._nav.signing.carry_out(
                NEXT_CERTIFICATE, lambda console, signed: console.devices.renew_certificate(signed)
            )
        )

    def _show_renewed(self, found: Certificates) -> None:
        self._show(found)
        self._nav.toast("The next certificate is announced")

    def _ask_to_switch(self) -> None:
        start_switch(self.window(), self._link, self._found, self._switched)

    def _switched(self) -> None:
        self.read()
        self._nav.toast("The next certificate is shown")


def start_switch(
    window: QWidget, link: ConsoleLink, found: Certificates, done: Callable[[], None]
) -> FormDialog:
    """Ask before the next certificate is shown; names the devices that have to be paired again for it."""
    sheet = FormDialog(
        window,
        link,
        "Switch to the next certificate?",
        "The console shows it from now on. Devices connect again by it and drop the earlier one.",
    )
    stranded = lacking(found)
    if stranded:
        words = f"Have not taken it, and have to be paired again: {some_names(stranded)}."
        sheet.add(Label(words, tone="warn", wrap=True))

    async def switch() -> Certificates:
        return await link.perform(lambda console: switch_as_shown(console, found))

    sheet.add_act(
        "switch",
        "Switch anyway" if stranded else "Switch",
        switch,
        "switch the certificate",
        done,
        "danger" if stranded else "primary",
    )
    sheet.open()
    return sheet


async def switch_as_shown(console: Console, shown: Certificates) -> Certificates:
    """Switch to the next certificate if that strands no other devices than those that were shown.

    Raises:
        Refused: another certificate is next now, or other devices have not taken it.
        QuarterdeckError: the service refuses it.
    """
    now = await console.devices.certificates()
    if now.next != shown.next or not set(lacking(now)) <= set(lacking(shown)):
        raise Refused(
            "The certificates, or the devices that accept them, have changed since they were shown.",
            next_step="Close this, look at them again, then switch.",
        )
    return await console.devices.switch_certificate(bool(lacking(now)))
