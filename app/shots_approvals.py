"""Pictures of the Approvals screen: `python -m app.shots_approvals --out build/shots [--size 1440x900]`.

As `app.shots`, on requests that show what the card can do.
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
from app.screens.approvals.edit_sheet import EditSheet
from app.screens.approvals.grant_draft import Breadth
from app.screens.approvals.grant_sheet import GrantSheet
from app.screens.approvals.screen import ApprovalsScreen
from app.screens.base import OpenApproval
from app.shell.sheet import Overlay
from core.home import Home
from core.policy.operator_keys import create_operator_key
from core.service.console import Console

SETTLE_S = 0.9
SHOTS = ("shell", "file", "file-side", "click", "group", "helpers", "grant", "edit", "edited", "several",
         "second", "critical", "locked")  # fmt: skip
_OPENS = {
    "file": "a-file",
    "file-side": "a-file",
    "click": "a-click",
    "group": "a-group-1",
    "edit": "a-file",
    "several": "a-several",
    "second": "a-several",
    "critical": "a-critical",
    "locked": "a-click",
}


def main(arguments: list[str] | None = None) -> int:
    """Write the pictures and say where they are."""
    parser = argparse.ArgumentParser(prog="python -m app.shots_approvals")
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
        names = given.names or list(SHOTS)
        for path in run_on_qt(app, _shoot(app, mode, QSize(width, height), names, given.out)):
            sys.stdout.write(f"{path}\n")
    return 0


async def _shoot(app: QApplication, mode: Mode, size: QSize, names: list[str], out: Path) -> list[Path]:
    from tests.fakes.approvals_story import add_critical, approvals_story

    made: list[Path] = []
    with tempfile.TemporaryDirectory() as folder:
        home = Home(Path(folder)).create()
        operators = [create_operator_key(home, name, phrase).operator for name, phrase in
                     (("harbour", None), ("anna", "a long passphrase"))]  # fmt: skip
        console = approvals_story(operators)
        theme = Theme(mode, "comfortable", True, parent=app)
        theme.apply(app)

        async def opened() -> Console:
            return console

        desk = Desk(home, theme, opened)
        desk.window.resize(size)
        desk.begin()
        await desk.keys.refresh()
        await desk.keys.unlock("harbour", None)
        await asyncio.sleep(SETTLE_S)
        for name in names:
            if name == "critical":
                add_critical(console)
                await asyncio.sleep(0.1)
            desk.window.open("approvals", OpenApproval(_OPENS.get(name, "a-shell")))
            screen = desk.window.current
            assert isinstance(screen, ApprovalsScreen)
            await asyncio.sleep(SETTLE_S)
            await _act(desk, screen, name)
            await asyncio.sleep(0.3)
            path = out / f"approvals-{name}-{mode}.png"
            desk.window.grab().save(str(path))
            made.append(path)
            for cover in desk.window.findChildren(Overlay):
                cover.dismiss()
            screen.card.bytes.views.choose("unified")
            screen.card.bytes._choose("unified")
        await desk.end()
    return made


async def _act(desk: Desk, screen: ApprovalsScreen, name: str) -> None:
    """What a picture shows beyond an open card."""
    match name:
        case "file-side":
            screen.card.bytes.views.choose("side")
            screen.card.bytes._choose("side")
        case "helpers":
            screen.card.helpers.buttons[0].click()
            await asyncio.sleep(0.4)
            bar = screen.card.middle.verticalScrollBar()
            bar.setValue(bar.maximum())
        case "grant":
            screen.open_card("a-file")
            await asyncio.sleep(SETTLE_S)
            screen.bar.press_grant()
            sheet = next(iter(desk.window.findChildren(GrantSheet)))
            sheet.devices.setText("scan-pc-04, lab-lnx-*")
            sheet.actors.setText("agent:clerk, operator:*")
            sheet.row("file_path").widen(Breadth.BELOW, "/etc")
            sheet.row("content").widen(Breadth.ANY)
            sheet.row("mode").widen(Breadth.ONE_OF, "overwrite, create")
        case "edit" | "edited":
            screen.open_card("a-file" if name == "edit" else "a-shell")
            await asyncio.sleep(SETTLE_S)
            screen.bar.press_edit()
            await asyncio.sleep(0.3)
            edit = next(iter(desk.window.findChildren(EditSheet)))
            value = dict(edit.form.value())
            if name == "edit":
                value["content"] = value["content"].replace("keep_days = 30", "keep_days = 7")
            else:
                value["command"] = value["command"].replace("+14", "+30").replace("sudo ", "")
            edit.form.set_value(value)
            edit.show_versions()
            if name == "edited":
                edit.answer("ask").click()
                await asyncio.sleep(2 * SETTLE_S)
        case "second":
            screen.bar.press_second()
        case "locked":
            desk.keys.lock()
        case _:
            pass


if __name__ == "__main__":
    raise SystemExit(main())
