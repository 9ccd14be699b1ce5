"""Pictures of Settings and of a contract's review: `python -m app.shots_settings --out build/shots NAME…`.

As `app.shots`, with things typed, chosen and run.
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
from app.screens.base import OpenDevice, OpenSection
from app.screens.fleet.screen import FleetScreen
from app.screens.settings.screen import SettingsScreen
from app.shell.sheet import Overlay
from core.home import Home
from core.policy.operator_keys import create_operator_key
from core.service.console import Console, ControlChanged

SETTLE_S = 0.7
POLICY = ("policy", "policy-broken", "policy-examples", "policy-time", "policy-why", "policy-rule",
          "policy-compare", "policy-banner")  # fmt: skip
SHOTS = (*POLICY, "grants", "revoke", "operators", "review")
_TABS = {"policy-examples": "examples", "policy-time": "time", "policy-why": "why"}


def main(arguments: list[str] | None = None) -> int:
    """Write the pictures and say where they are."""
    parser = argparse.ArgumentParser(prog="python -m app.shots_settings")
    parser.add_argument("--out", type=Path, default=Path("build/shots"))
    parser.add_argument("--size", default="1440x900")
    parser.add_argument("--mode", action="append", default=[], choices=["dark", "light"])
    parser.add_argument("names", nargs="*", default=[])
    given = parser.parse_args(arguments)
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    gc.disable()  # as `app.main.run` does, and for its reason
    app = QApplication.instance() or QApplication(sys.argv[:1])
    assert isinstance(app, QApplication)
    load_icons()
    given.out.mkdir(parents=True, exist_ok=True)
    width, height = (int(part) for part in given.size.split("x"))
    modes: list[Mode] = given.mode or ["dark", "light"]
    for mode in modes:
        for name in given.names or SHOTS:
            path = given.out / f"{name}-{mode}.png"
            run_on_qt(app, _shoot(app, mode, QSize(width, height), name, path))
            sys.stdout.write(f"{path}\n")
    return 0


async def _shoot(app: QApplication, mode: Mode, size: QSize, name: str, path: Path) -> None:
    from tests.fakes.story import story  # a source tree has it, an installed program does not

    with tempfile.TemporaryDirectory() as folder:
        home = Home(Path(folder)).create()
        operators = [create_operator_key(home, "harbour", None).operator]
        console = story(operators)
        console.judge_changed_tools()
        theme = Theme(mode, "comfortable", True, parent=app)
        theme.apply(app)

        async def opened() -> Console:
            return console

        desk = Desk(home, theme, opened)
        desk.window.resize(size)
        desk.begin()
        await asyncio.sleep(SETTLE_S)
        if name == "operators":
            await asyncio.to_thread(create_operator_key, home, "quay", "correct horse battery")
            await desk.window.keys.refresh()
        await _show(desk, name, console)
        await asyncio.sleep(SETTLE_S)
        desk.window.grab().save(str(path))
        for cover in desk.window.findChildren(Overlay):
            cover.dismiss()
        await desk.end()


async def _show(desk: Desk, name: str, console: object) -> None:
    window = desk.window
    if name == "review":
        window.open("fleet", OpenDevice("build-lnx-03", "tools"))
        await asyncio.sleep(SETTLE_S)
        fleet = window.current
        assert isinstance(fleet, FleetScreen)
        fleet.panel.tools_tab.choose(desk.state.devices["build-lnx-03"].changed_tools[0])
        fleet.panel.tools_tab.details.review_asked.emit()
        return
    section = {"revoke": "grants"}.get(name, "policy" if name in POLICY else name)
    window.open("settings", OpenSection(section))
    await asyncio.sleep(SETTLE_S)
    settings = window.current
    assert isinstance(settings, SettingsScreen)
    if name == "revoke":
        settings.grants.revoke()
    elif name == "operators":
        settings.operators.table.choose("quay")
    elif name in POLICY:
        await _show_policy(settings, name, console)


async def _show_policy(settings: SettingsScreen, name: str, console: object) -> None:
    from tests.fakes.console import FakeConsole

    assert isinstance(console, FakeConsole)
    page, text = settings.policy, settings.policy.editor.text()
    page.show_tab(_TABS.get(name, "check"))
    match name:
        case "policy":
            page.go_to(32)
        case "policy-broken":
            page.editor.replace_text(text.replace('tool = "write_file"', 'tol = "write_file"'))
            page.check_now()
            await asyncio.sleep(SETTLE_S)
            page.check.table.choose("p0")
        case "policy-examples":
            page.editor.replace_text(text.replace("/srv/spool/label.txt", "/srv/other/label.txt"))
        case "policy-time":
            page.time_machine.start()
            await asyncio.sleep(SETTLE_S)
            page.time_machine.chips["against"].click()
        case "policy-why":
            page.why.choose("lab-lnx-01", "shell_execute", {"command": "df -h /srv"})
        case "policy-rule":
            page.insert_rule()
            await asyncio.sleep(SETTLE_S)
        case "policy-compare":
            page.editor.append_text('\n[[rule]]\nid = "mine"\ndecision = "ask"\n')
            console.policy_on_disk = text.replace('"guarded"', '"trusted"', 1)
            page.work.read()
            await asyncio.sleep(SETTLE_S)
            page.compare()
        case "policy-banner":
            problem = "policy.toml line 29: rule spool-files: tol: there is no such key"
            console.policy_on_disk = text.replace('tool = "write_file"', 'tol = "write_file"')
            console.policy = console.policy.model_copy(update={"problem": problem})
            console.emit(
                ControlChanged(
                    stopped=False, stopped_note="", policy=console.policy, operators=console.operators
                )
            )


if __name__ == "__main__":
    raise SystemExit(main())
