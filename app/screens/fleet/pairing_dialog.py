"""Pairing: a name and what goes with it, then the one string by which the device finds and trusts us."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar
from urllib.parse import urlsplit

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QPlainTextEdit, QWidget

from app.query import Mutation, Query
from app.records.device_text import (
    agent_problem,
    fingerprint_groups,
    name_note,
    name_problem,
    split_tags,
    tags_problem,
)
from app.screens.screen import Navigator
from app.screens.targets import OpenDevice, OpenSection
from app.service_client import ConsoleLink
from app.state import AppState
from app.text import plural
from app.theme.theme import theme_of
from app.widgets.badges import HealthBadge, ProductionStrip
from app.widgets.banner import Notice
from app.widgets.buttons import Segmented
from app.widgets.copyable_text import CopyableText
from app.widgets.dialog import CANCELLED, Dialog
from app.widgets.fields import CheckBox, Field, TextField
from app.widgets.labels import Label
from app.widgets.layouts import hbox, vbox
from app.widgets.progress import Spinner
from core.aip.pairing import decode_pairing
from core.errors import BadInput, QuarterdeckError
from core.fleet.advertised import advertised, check_host
from core.fleet.models import DeviceSettings, Listening, Pairing
from core.models.devices import Device, Health
from core.service.wishes import pairing_change

Answer = TypeVar("Answer")

DIALS_IN, LISTENS = "in", "out"
STRING_LINES = 3


def address_help(url: str) -> str:
    """What the address of this console is for; `url` is what a device dials without it."""
    usual = urlsplit(url).hostname or "the one where this console listens"
    return f"The name or number by which the device reaches this computer. Left empty, it is {usual}."


class PairingForm(QWidget):
    """Who the device is, and who dials."""

    def __init__(self) -> None:
        super().__init__()
        self.direction = Segmented(
            [(DIALS_IN, "The device dials in"), (LISTENS, "The device listens")], "Who dials"
        )
        self.not_listening = Notice("warn", "", "", "Settings")
        self.not_listening.hide()
        self.name_field = TextField("Name", "db-4", mono=True)
        self.name_row = Field("Name", self.name_field, required=True, help_text="What it is called here.")
        self.tags_field = TextField("Tags", "lab linux")
        self.tags_row = Field("Tags", self.tags_field, help_text="For filters, rules and profiles.")
        self.production = CheckBox("Production: it carries its colour band wherever it is shown")
        self.agent_field = TextField("Agent", "found out when it connects", mono=True)
        agent_help = "Only for a stock UFO client: whose tools it has, such as LinuxAgent."
        self.agent_row = Field("Agent", self.agent_field, help_text=agent_help)
        self.string_field = QPlainTextEdit()
        self.string_field.setProperty("input", "true")
        self.string_field.setFont(theme_of(self).font("mono_small"))
        self.string_field.setTabChangesFocus(True)
        self.string_field.setFixedHeight(self.string_field.fontMetrics().lineSpacing() * STRING_LINES + 16)
        self.string_row = Field(
            "String",
            self.string_field,
            required=True,
            help_text="The line that quarterdeck-device --listen HOST:PORT --pair printed there.",
        )
        self.string_row.hide()
        self.address_field = TextField("Address of this console", "console.lan", mono=True)
        self.address_row = Field("Address of this console", self.address_field, help_text=address_help(""))
        pair = hbox(
            (self.name_row, 1, Qt.AlignmentFlag.AlignTop),
            (self.tags_row, 1, Qt.AlignmentFlag.AlignTop),
            spacing=12,
        )
        vbox(
            self.direction,
            self.not_listening,
            pair,
            self.string_row,
            self.address_row,
            self.production,
            self.agent_row,
            parent=self,
            margins=(0, 4, 0, 0),
            spacing=12,
        )

    def settings(self) -> DeviceSettings:
        """What was set. What was left empty stays as it is for a device that is known already."""
        agent = self.agent_field.text().strip()
        return DeviceSettings(
            tags=split_tags(self.tags_field.text()) or None,
            production=self.production.isChecked() or None,
            agent=agent or None,
        )


class PairingAnswer(QWidget):
    """The command that asks for the string, the string, a stock client's address, and whether it has come."""

    def __init__(self) -> None:
        super().__init__()
        self.strip = ProductionStrip("")
        self.strip.hide()
        self.once = Notice("note", "This is shown once.", "It is kept nowhere in this form, not even here.")
        # Pasted, the string stands in no list of processes and no shell's history there.
        self.command = CopyableText("Run this on the device", lines=1)
        self.string = CopyableText("Then paste this string there", lines=2)
        self.start = CopyableText("Then start the client there", lines=1)
        self.start.show_text("quarterdeck-device")
        self.stock = CopyableText("Address for a stock UFO client", lines=2)
        self.fingerprint_head = Label("Certificate of this console, SHA-256", "name")
        self.fingerprint = Label("", "mono_small", "text2", selectable=True)
        self.spinner = Spinner("Waiting for the device")
        self.health = HealthBadge("online")
        self.health.hide()
        self.waiting = Label("", tone="text2", wrap=True)
        line = hbox(
            (self.spinner, 0, Qt.AlignmentFlag.AlignTop),
            (self.health, 0, Qt.AlignmentFlag.AlignTop),
            (self.waiting, 1),
            spacing=8,
        )
        column = vbox(parent=self, margins=(0, 4, 0, 0), spacing=10)
        parts = (
            self.once, self.command, self.string, self.start, self.stock, self.fingerprint_head,
            self.fingerprint,
        )  # fmt: skip
        column.addWidget(self.strip)
        # Whether it has come is what one waits for: in sight, however much stands below.
        column.addLayout(line)
        for widget in parts:
            column.addWidget(widget)

    def show_pairing(self, pairing: Pairing, production: bool) -> None:
        """Show what was made."""
        self.strip.set_detail(pairing.name)
        self.strip.setVisible(production)
        self.string.show_text(pairing.string)
        self.command.show_text(pairing.command)
        self.stock.show_text(pairing.stock_url)
        for label in (self.fingerprint_head, self.fingerprint):
            label.setVisible(bool(pairing.fingerprint))
        self.fingerprint.setText(fingerprint_groups(pairing.fingerprint))

    def show_dialling(self, name: str, production: bool) -> None:
        """A device that listens has no string from here."""
        self.strip.set_detail(name)
        self.strip.setVisible(production)
        for widget in (
            self.once, self.string, self.command, self.start, self.stock, self.fingerprint_head,
            self.fingerprint,
        ):  # fmt: skip
            widget.hide()

    def show_device(self, name: str, device: Device | None, dialled: bool) -> bool:
        """Say whether the device is here; True when it is."""
        here = device is not None and device.health in (Health.ONLINE, Health.BUSY)
        self.spinner.setVisible(not here)
        self.health.setVisible(here)
        if here and device is not None:
            self.health.set_health(device.health.value)
            self.waiting.setText(f"{name} is connected, {plural(device.tool_count, 'tool')}.")
        else:
            words = f"Dialling {name} …" if dialled else f"Waiting for {name} …"
            reason = device.reason if dialled and device is not None else ""
            self.waiting.setText(f"{words} {reason}".strip())
        return here

    def forget(self) -> None:
        """Nothing of the string stays in this window."""
        for box in (self.string, self.command, self.stock):
            box.show_text("")


class PairingDialog(Dialog):
    """Asks, pairs, shows the string once, and waits for the device as long as it is open."""

    def __init__(self, window: QWidget, state: AppState, link: ConsoleLink, nav: Navigator) -> None:
        super().__init__(
            window,
            "Pair a device",
            "Pairing gives a device a token of its own and pins certificates on both sides.",
            width=560,
        )
        self._state, self._link, self._nav = state, link, nav
        self._paired, self._dialled, self._warned = "", False, False
        self._offered = ""
        self.form = PairingForm()
        self.result = PairingAnswer()
        self.result.hide()
        self.name_field, self.tags_field = self.form.name_field, self.form.tags_field
        self.production = self.form.production
        self.add(self.form)
        self.add(self.result)
        self.add_answer("cancel", "Cancel")
        self._pair = self.add_answer("pair", "Pair", "primary", closes=False)
        self._show = self.add_answer("show", "Show the device", closes=False)
        self._done = self.add_answer("done", "Done", "primary", closes=False)
        self._show.hide()
        self._done.hide()
        self._pair.clicked.connect(self._ask_to_pair)
        self._show.clicked.connect(self._open_device)
        self._done.clicked.connect(lambda: self._leave("done"))
        fields = (
            self.form.name_field, self.form.tags_field, self.form.address_field, self.form.agent_field,
        )  # fmt: skip
        for field in fields:
            field.textChanged.connect(self._check)
        self.form.string_field.textChanged.connect(self._string_changed)
        self.form.direction.chosen.connect(self._turn)
        self.form.not_listening.acted.connect(self._open_settings)
        state.devices_changed.connect(self._devices_changed)
        self.listening: Listening | None = None
        Query(self, link, self._show_listening, self._cannot_tell, "ask where the console listens").load(
            lambda console: console.devices.listening()
        )
        self._check()

    # The form

    @property
    def _listens(self) -> bool:
        return self.form.direction.current() == LISTENS

    def _turn(self, _direction: str) -> None:
        self.form.string_row.setVisible(self._listens)
        self.form.address_row.setVisible(not self._listens)
        self._show_listening_problem()
        self._check()
        self._fit()

    def _show_listening(self, listening: Listening) -> None:
        self.listening = listening
        self.form.address_row.set_help(address_help(listening.url))
        self._show_listening_problem()
        self._check()

    def _cannot_tell(self, error: QuarterdeckError) -> None:
        self.say(error.info.sentences)

    def _show_listening_problem(self) -> None:
        problem = self.listening.problem if self.listening is not None else ""
        shown = bool(problem) and not self._listens
        self.form.not_listening.setVisible(shown)
        if shown:
            self.form.not_listening.say(
                "warn", "This console does not listen.", f"{problem} No device can dial in until it does.",
                "Settings",
            )  # fmt: skip
        self._fit()

    def _string_changed(self) -> None:
        """The device's own name stands in its string: it is the name offered while no other one was typed."""
        field = self.form.name_field
        if field.text() in ("", self._offered):
            self._offered = _name_in(self.form.string_field.toPlainText())
            field.setText(self._offered)
        self._check()

    def _check(self) -> None:
        form, devices = self.form, self._state.devices
        name = form.name_field.text().strip()
        problem = name_problem(name, devices)
        form.name_row.set_error(problem)
        form.name_row.set_help(name_note(name, devices) or "What it is called here.")
        tags = tags_problem(form.tags_field.text())
        form.tags_row.set_error(tags)
        agent = agent_problem(form.agent_field.text().strip())
        form.agent_row.set_error(agent)
        address = self._address_problem()
        form.address_row.set_error(address)
        self._pair.set_off(self._why_not(name, problem or tags or agent or address))
        self._fit()

    def _address_problem(self) -> str:
        """What is wrong with the address that the device is to dial; empty when nothing is."""
        host = self.form.address_field.text().strip()
        if not host or self._listens:
            return ""
        try:
            check_host(self.listening.url if self.listening is not None else "", host)
        except BadInput as error:
            return error.info.message
        return ""

    def _why_not(self, name: str, problem: str) -> str:
        if not name:
            return "Give the device a name first."
        if problem:
            return problem
        if self._listens:
            return "" if self.form.string_field.toPlainText().strip() else "Paste the device's string first."
        if self.listening is None:
            return "The service is asked where it listens."
        return self.listening.problem and "This console does not listen."

    def _ask_to_pair(self) -> None:
        name, settings = self.form.name_field.text().strip(), self.form.settings()
        string = self.form.string_field.toPlainText().strip() if self._listens else ""
        self.say("")
        try:
            wish = pairing_change(name, settings, string or None)
        except BadInput as error:
            self._refused(error)
            return
        sign, what = self._nav.signing.carry_out, f"pair {name}"
        if string:
            self._mutation(self._made_dialled, what).carry(
                lambda: sign(
                    wish,
                    lambda console, signed: console.devices.pair_listening(name, string, settings, signed),
                    string,
                )
            )
        else:
            self._mutation(self._made, what).carry(
                lambda: sign(wish, lambda console, signed: console.devices.pair(name, settings, signed))
            )

    def _mutation(self, made: Callable[[Answer], None], what: str) -> Mutation[Answer]:
        """Where it is not done, all of the form is still there."""
        return Mutation(self, self._link, made, self._refused, what, self._pair, declined=self._check)

    def _refused(self, error: QuarterdeckError) -> None:
        self._check()
        if self._listens:
            self.form.string_row.set_error(error.info.sentences)
            self._fit()
        else:
            self.say(error.info.sentences)

    # The answer

    def _made(self, pairing: Pairing) -> None:
        if host := self.form.address_field.text().strip():
            pairing = advertised(pairing, host)
        self.result.show_pairing(pairing, self.form.production.isChecked())
        self._turn_over(pairing.name, dialled=False)
        self.result.string.button.setFocus(Qt.FocusReason.TabFocusReason)

    def _made_dialled(self, device: Device) -> None:
        self.form.string_field.clear()
        self.result.show_dialling(device.name, self.form.production.isChecked())
        self._turn_over(device.name, dialled=True)
        self._done.setFocus(Qt.FocusReason.TabFocusReason)

    def _turn_over(self, name: str, dialled: bool) -> None:
        self._paired, self._dialled = name, dialled
        self.form.hide()
        self.result.show()
        for answer in ("cancel", "pair"):
            self.answer(answer).hide()
        self._done.show()
        self.setAccessibleName(f"Pair a device: {name}")
        self._devices_changed()
        self._fit()

    def _devices_changed(self) -> None:
        if not self._paired:
            self._check()
            return
        here = self.result.show_device(self._paired, self._state.devices.get(self._paired), self._dialled)
        if here and self._show.isHidden():
            self._show.show()
        self._fit()

    def _open_device(self) -> None:
        name = self._paired
        self._leave("show")
        self._nav.open("fleet", OpenDevice(name))

    def _open_settings(self) -> None:
        self._leave("settings")
        self._nav.open("settings", OpenSection("devices"))

    # The end

    def _leave(self, answer: str) -> None:
        self._warned = True
        self.finish(answer)

    @property
    def holds_input(self) -> bool:
        """Nor does a click beside the card take away what is shown once."""
        return bool(self._paired) or super().holds_input

    def dismiss(self) -> None:
        """Another screen was opened."""
        self._leave(CANCELLED)

    def finish(self, answer: str) -> None:
        """Go away; Esc asks once more while the string was not used."""
        unused = bool(self._paired) and not self._dialled and self._show.isHidden()
        if answer == CANCELLED and unused and not self._warned:
            self._warned = True
            self.say("The string is not shown again. Press Esc once more to leave without it.")
            return
        self.result.forget()
        self.form.string_field.clear()
        super().finish(answer)


def _name_in(string: str) -> str:
    """The name in a listening device's pairing string; empty for what is none, or not yet whole."""
    try:
        return decode_pairing(string).name
    except BadInput:
        return ""


def start_pairing(window: QWidget, state: AppState, link: ConsoleLink, nav: Navigator) -> PairingDialog:
    """Open the sheet."""
    sheet = PairingDialog(window, state, link, nav)
    sheet.open(sheet.form.name_field)
    return sheet
