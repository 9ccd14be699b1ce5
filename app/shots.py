"""Pictures of every screen of the real window, on invented data: `python -m app.shots --out build/shots`.

The data come from `tests.fakes`, so this works from a source tree only. What the pictures show is invented,
how they look is the program's own.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import sys
import tempfile
from pathlib import Path

from PySide6.QtCore import QSize
from PySide6.QtWidgets import QApplication

from app.event_loop import run_on_qt
from app.look.icons import load_icons
from app.look.theme import Theme
from app.look.tokens import Mode
from app.main import Desk
from app.screens.base import OpenDevice, OpenPairing, OpenSection
from app.screens.fleet.pairing import PairingSheet
from app.screens.fleet.screen import FleetScreen
from app.shell.sheet import Overlay
from core.home import Home
from core.policy.operator_keys import create_operator_key
from core.service.console import Console

SETTLE_S = 0.6
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
EXTRA = ("first-run", *SHOTS)


def main(arguments: list[str] | None = None) -> int:
    """Write the pictures and say where they are."""
    given = _read(arguments)
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    gc.disable()  # as `app.main.run` does, and for its reason
    app = QApplication.instance() or QApplication(sys.argv[:1])
    assert isinstance(app, QApplication)
    load_icons()
    modes: list[Mode] = ["light"] if given.light else ["dark"]
    if given.both:
        modes = ["dark", "light"]
    for mode in modes:
        for path in run_on_qt(app, _shoot(app, given, mode)):
            sys.stdout.write(f"{path}\n")
    return 0


def _read(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m app.shots")
    parser.add_argument("--out", type=Path, default=Path("build/shots"))
    parser.add_argument("--light", action="store_true")
    parser.add_argument("--both", action="store_true", help="dark and light")
    parser.add_argument("--size", default="1440x900")
    parser.add_argument("--screen", action="append", default=[], help="a screen's name; may be repeated")
    return parser.parse_args(arguments)


def _desk(app: QApplication, mode: Mode, size: QSize, console: Console, folder: str) -> Desk:
    theme = Theme(mode, "comfortable", True, parent=app)
    theme.apply(app)

    async def opened() -> Console:
        return console

    desk = Desk(Home(Path(folder)).create(), theme, opened)
    desk.window.resize(size)
    return desk


async def _shoot(app: QApplication, given: argparse.Namespace, mode: Mode) -> list[Path]:
    from tests.fakes.console import FakeConsole  # a source tree has them, an installed program does not
    from tests.fakes.fleet_data import make_devices
    from tests.fakes.story import story

    given.out.mkdir(parents=True, exist_ok=True)
    width, height = (int(part) for part in given.size.split("x"))
    size = QSize(width, height)
    made: list[Path] = []
    with tempfile.TemporaryDirectory() as folder:
        key = create_operator_key(Home(Path(folder)).create(), "harbour", None)
        desk = _desk(app, mode, size, story([key.operator]), folder)
        desk.begin()
        await asyncio.sleep(SETTLE_S)
        for name in given.screen or [*desk.window.screen_names, *EXTRA]:
            if name not in desk.window.screen_names and name not in SHOTS:
                continue
            await _show(desk, name)
            await asyncio.sleep(SETTLE_S)
            made.append(_save(desk, given.out, name, mode))
            for cover in desk.window.findChildren(Overlay):
                cover.dismiss()
        await desk.end()
    if not given.screen or "first-run" in given.screen:
        own = [device for device in make_devices() if device.name == "this-computer"]
        with tempfile.TemporaryDirectory() as folder:
            desk = _desk(app, mode, size, FakeConsole(own), folder)
            desk.begin()
            await asyncio.sleep(SETTLE_S)
            made.append(_save(desk, given.out, "first-run", mode))
            await desk.end()
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
                sheet.answer("pair").click()
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


def _save(desk: Desk, out: Path, name: str, mode: Mode) -> Path:
    path = out / f"{name}-{mode}.png"
    desk.window.grab().save(str(path))
    return path


if __name__ == "__main__":
    raise SystemExit(main())
