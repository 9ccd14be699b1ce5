"""Every screen, and what can be opened over them."""

from __future__ import annotations

import asyncio
from pathlib import Path

from app.main import Desk
from app.screens.fleet.pairing_dialog import PairingSheet
from app.screens.fleet.screen import FleetScreen
from app.screens.targets import OpenDevice, OpenPairing, OpenSection
from core.approvals.operator_keys import create_operator_key
from core.home import Home
from core.service.console import Console
from tests.fakes.console import FakeConsole
from tests.fakes.fleet_data import make_devices
from tests.fakes.hand import press_button
from tests.fakes.story import story
from tests.gui.shots.studio import SETTLE_S, Studio

SHOTS = (
    "wall",
    "pairing",
    "paired",
    "device-link",
    "device-try",
    "device-page",
    "devices-section",
    "palette",
)


async def shoot(studio: Studio, names: list[str]) -> list[Path]:
    """The pictures of these screens, or of all."""
    made: list[Path] = []

    def told(home: Home) -> Console:
        return story([create_operator_key(home, "harbour", None).operator])

    async with studio.desk(told) as desk:
        for name in names or [*desk.window.screen_names, *SHOTS]:
            if name in desk.window.screen_names or name in SHOTS:
                await _show(desk, name)
                await asyncio.sleep(SETTLE_S)
                made.append(studio.take(desk, name))
    if not names or "first-run" in names:
        own = [device for device in make_devices() if device.name == "this-computer"]
        async with studio.desk(lambda home: FakeConsole(own)) as desk:
            made.append(studio.take(desk, "first-run"))
    return made


async def _show(desk: Desk, name: str) -> None:
    """Bring what a picture shows to the front."""
    window = desk.window
    match name:
        case "palette":
            window.open("fleet")
            window.open_palette("shell build")
        case "wall":
            window.open("fleet")
            _fleet(desk).show_as(True)
            _fleet(desk).listing.choose("db-primary")
        case "pairing" | "paired":
            window.open("fleet", OpenPairing())
            await asyncio.sleep(SETTLE_S)
            sheet = next(iter(window.findChildren(PairingSheet)))
            sheet.name_field.setText("db-4")
            sheet.tags_field.setText("db prod")
            sheet.production.setChecked(True)
            if name == "paired":
                press_button(sheet.answer("pair"))
        case "device-link" | "device-try":
            _fleet(desk).show_as(False)
            tab = name.removeprefix("device-")
            window.open("fleet", OpenDevice("build-lnx-03", tab, "action::shell_execute"))
            await asyncio.sleep(SETTLE_S)
            if tab == "link":
                _fleet(desk).panel.link_tab.doctor.run()
        case "device-page":
            window.open("fleet", OpenDevice("build-lnx-03", "tools", "action::shell_execute"))
            _fleet(desk).listing.opened.emit("build-lnx-03")
        case "devices-section":
            window.open("settings", OpenSection("devices"))
        case _:
            window.open(name)
            if name == "fleet":
                _fleet(desk).show_as(False)
                _fleet(desk).listing.choose("build-lnx-03")


def _fleet(desk: Desk) -> FleetScreen:
    if desk.window.current.name != "fleet":
        desk.window.open("fleet")
    fleet = desk.window.current
    assert isinstance(fleet, FleetScreen)
    return fleet
