"""Questions before a device is changed: tags and colour band, the end of its token, the end of it here."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from PySide6.QtWidgets import QWidget

from app.form_dialog import FormDialog
from app.records.device_text import agent_problem, split_tags, tags_problem
from app.screens.screen import Navigator
from app.service_client import ConsoleLink
from app.widgets.badges import ProductionStrip
from app.widgets.fields import CheckBox, Field, TextField
from app.widgets.labels import Label
from core.fleet.models import DeviceSettings
from core.models.devices import Device
from core.service.wishes import device_change

Toast = Callable[[str], None]


def _dialog(window: QWidget, link: ConsoleLink, title: str, words: str, device: Device) -> FormDialog:
    sheet = FormDialog(window, link, title, words, width=480)
    if device.production:
        sheet.add(ProductionStrip(device.name))
    return sheet


def start_edit(window: QWidget, link: ConsoleLink, device: Device, nav: Navigator) -> FormDialog:
    """Ask for tags, the colour band and a stock client's agent; signed where the policy looks at them."""
    sheet = _dialog(window, link, f"Settings of {device.name}", "They hold at once.", device)
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

    async def set_device() -> None:
        settings = DeviceSettings(
            tags=split_tags(tags.text()),
            production=production.isChecked() if production.isChecked() != device.production else None,
            agent=agent.text().strip() if agent.text().strip() != device.agent else None,
        )
        await nav.signing.carry_out(
            device_change(device.name, settings),
            lambda console, signed: console.devices.update(device.name, settings, signed),
        )

    done = partial(nav.toast, f"{device.name} is set")
    save = sheet.add_act("save", "Save", set_device, f"set {device.name}", done)

    def check() -> None:
        row.set_error(tags_problem(tags.text()))
        agent_row.set_error(agent_problem(agent.text().strip()))
        warning.setVisible(device.production and not production.isChecked())
        save.set_off(row.error or agent_row.error)
        sheet._fit()

    for field in (tags, agent):
        field.textChanged.connect(check)
    production.toggled.connect(lambda _on: check())
    sheet.open(tags)
    return sheet


def start_revoke(window: QWidget, link: ConsoleLink, device: Device, toast: Toast) -> FormDialog:
    """Ask before a token becomes worthless."""
    sheet = _dialog(
        window,
        link,
        f"Revoke {device.name}?",
        "Its token is worthless at once and its link ends. What runs there now has an unknown outcome. "
        "It stays in the list, and can be paired again.",
        device,
    )

    async def revoke() -> None:
        await link.perform(lambda console: console.devices.revoke(device.name))

    done = partial(toast, f"{device.name} is revoked")
    sheet.add_act("revoke", "Revoke", revoke, "revoke the device", done, "danger")
    sheet.open()
    return sheet


def start_forget(window: QWidget, link: ConsoleLink, device: Device, toast: Toast) -> FormDialog:
    """Ask before a device leaves the list; its name is typed, because nothing brings its settings back."""
    sheet = _dialog(
        window,
        link,
        f"Forget {device.name}?",
        "It is revoked, and leaves the list with its tags and settings. What it did stays in the journal.",
        device,
    )
    name = TextField("Name", device.name, mono=True)
    sheet.add(Field("Type its name", name))

    async def forget() -> None:
        await link.perform(lambda console: console.devices.forget(device.name))

    done = partial(toast, f"{device.name} is forgotten")
    button = sheet.add_act("forget", "Forget", forget, "forget the device", done, "danger")

    def check() -> None:
        button.set_off("" if name.text() == device.name else "Type the device's name first.")

    name.textChanged.connect(check)
    check()
    sheet.open(name)
    return sheet
