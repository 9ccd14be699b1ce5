"""Questions before a device is changed: tags and colour band, the end of its token, the end of it here."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from PySide6.QtWidgets import QWidget

from app.query import Mutation
from app.records.device_text import agent_problem, split_tags, tags_problem
from app.screens.screen import Navigator
from app.service_client import ConsoleLink
from app.widgets.badges import ProductionStrip
from app.widgets.dialog import Dialog
from app.widgets.fields import CheckBox, Field, TextField
from app.widgets.labels import Label
from core.errors import QuarterdeckError
from core.fleet.models import Device, DeviceSettings
from core.service.console import Console
from core.service.wishes import device_change

Toast = Callable[[str], None]


class DeviceDialog(Dialog):
    """A question about one device, with its production strip, whose answer goes through the door."""

    def __init__(self, window: QWidget, title: str, words: str, device: Device, link: ConsoleLink) -> None:
        super().__init__(window, title, words, width=480)
        self._link = link
        if device.production:
            strip = ProductionStrip(device.name)
            self.add(strip)

    def carry(
        self, answer: str, done: str, toast: Toast, wish: Callable[[Console], Awaitable[object]]
    ) -> None:
        """Ask the service; then say it and go, or stay and say what is wrong."""

        def carried(_answer: object) -> None:
            self.finish(answer)
            toast(done)

        what, button = f"{answer} the device", self.answer(answer)
        Mutation(self, self._link, carried, self.say_error, what, button).run(wish)

    def say_error(self, error: QuarterdeckError) -> None:
        """Say what the service refused; the question stays."""
        self.say(error.info.sentences)


class DeviceSettingsDialog(DeviceDialog):
    """Asks for a device's settings, and has them signed where the policy looks at what changes."""

    def __init__(self, window: QWidget, device: Device, link: ConsoleLink, nav: Navigator) -> None:
        super().__init__(window, f"Settings of {device.name}", "They hold at once.", device, link)
        self._name, self._nav = device.name, nav

    def save(self, settings: DeviceSettings) -> None:
        """Have it signed where that is needed, and set it; the fields stay as they are until it is."""
        name = self._name
        self.say("")
        save = Mutation(self, self._link, self._saved, self.say_error, f"set {name}", self.answer("save"))
        save.carry(
            lambda: self._nav.signing.carry_out(
                device_change(name, settings),
                lambda console, signed: console.devices.update(name, settings, signed),
            )
        )

    def _saved(self, _device: Device) -> None:
        self.finish("save")
        self._nav.toast(f"{self._name} is set")


def start_edit(window: QWidget, link: ConsoleLink, device: Device, nav: Navigator) -> DeviceSettingsDialog:
    """Ask for tags, the colour band and a stock client's agent."""
    sheet = DeviceSettingsDialog(window, device, link, nav)
    tags = TextField("Tags", "lab linux")
    tags.setText(" ".join(device.tags))
    row = Field("Tags", tags, help_text="For filters, rules and profiles.")
    production = CheckBox("Production: it carries its colour band wherever it is shown")
    production.setChecked(device.production)
    agent = TextField("Agent", "found out when it connects", mono=True)
    agent.setText(device.agent)
    agent_row = Field("Agent", agent, help_text="Only for a stock UFO client; empty, it is found out.")
    words = "Without the colour band, nothing here tells that this is production."
    warning = Label(words, tone="warn", wrap=True)
    warning.setVisible(False)
    sheet.add(row)
    sheet.add(production)
    sheet.add(warning)
    if device.agent or not device.features:
        sheet.add(agent_row)
    else:
        # Not laid out and never shown; it is deleted with the sheet.
        agent_row.setParent(sheet)
        agent_row.hide()
    sheet.add_answer("cancel", "Cancel")
    save = sheet.add_answer("save", "Save", "primary", closes=False)

    def check() -> None:
        row.set_error(tags_problem(tags.text()))
        agent_row.set_error(agent_problem(agent.text().strip()))
        warning.setVisible(device.production and not production.isChecked())
        save.set_off(row.error or agent_row.error)
        sheet._fit()

    def press() -> None:
        settings = DeviceSettings(
            tags=split_tags(tags.text()),
            production=production.isChecked() if production.isChecked() != device.production else None,
            agent=agent.text().strip() if agent.text().strip() != device.agent else None,
        )
        sheet.save(settings)

    for field in (tags, agent):
        field.textChanged.connect(check)
    production.toggled.connect(lambda _on: check())
    save.clicked.connect(press)
    sheet.open(tags)
    return sheet


def start_revoke(window: QWidget, link: ConsoleLink, device: Device, toast: Toast) -> DeviceDialog:
    """Ask before a token becomes worthless."""
    sheet = DeviceDialog(
        window,
        f"Revoke {device.name}?",
        "Its token is worthless at once and its link ends. What runs there now has an unknown outcome. "
        "It stays in the list, and can be paired again.",
        device,
        link,
    )
    sheet.add_answer("cancel", "Cancel")
    revoke = sheet.add_answer("revoke", "Revoke", "danger", closes=False)

    def press() -> None:
        done = f"{device.name} is revoked"
        sheet.carry("revoke", done, toast, lambda console: console.devices.revoke(device.name))

    revoke.clicked.connect(press)
    sheet.open()
    return sheet


def start_forget(window: QWidget, link: ConsoleLink, device: Device, toast: Toast) -> DeviceDialog:
    """Ask before a device leaves the list; its name is typed, because nothing brings its settings back."""
    sheet = DeviceDialog(
        window,
        f"Forget {device.name}?",
        "It is revoked, and leaves the list with its tags and settings. What it did stays in the journal.",
        device,
        link,
    )
    name = TextField("Name", device.name, mono=True)
    sheet.add(Field("Type its name", name))
    sheet.add_answer("cancel", "Cancel")
    forget = sheet.add_answer("forget", "Forget", "danger", closes=False)

    def check() -> None:
        forget.set_off("" if name.text() == device.name else "Type the device's name first.")

    def press() -> None:
        done = f"{device.name} is forgotten"
        sheet.carry("forget", done, toast, lambda console: console.devices.forget(device.name))

    name.textChanged.connect(check)
    forget.clicked.connect(press)
    check()
    sheet.open(name)
    return sheet
