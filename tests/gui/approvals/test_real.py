"""The screen against a real service with a real device in it: approved runs once, denied never."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from PySide6.QtCore import QSettings, Qt
from PySide6.QtTest import QTest

from app.screens.approvals.edit_dialog import EditDialog
from app.screens.approvals.screen import ApprovalsScreen
from app.service_client import ConsoleLink
from app.signing.press_guard import PressGuard
from app.signing.signing_session import SigningSession
from app.state import AppState
from app.theme.theme import Theme
from core.home import Home
from core.service.console import Console
from core.service.local_console import LocalConsole
from tests.fakes.approvals_desk import FakeNav, Uncaught
from tests.fakes.desk import choose_channel, open_service
from tests.fakes.hand import ScriptedHand, press_button
from tests.fakes.patience import PATIENCE_S
from tests.fakes.window import seen


@asynccontextmanager
async def open_screen(home: Home) -> AsyncIterator[tuple[ApprovalsScreen, Console]]:
    """The screen alone on a service in this process, where the operator harbour's key is unlocked."""
    async with open_service(home) as service:
        console = LocalConsole(service, "operator:harbour")
        keys = SigningSession(home)
        await console.approvals.register_operator(await keys.create("harbour", None))
        state = AppState()

        async def open_console() -> Console:
            return console

        uncaught = Uncaught()
        link = ConsoleLink(open_console, state, uncaught.report)
        nav = FakeNav(
            keys, PressGuard(link, keys), QSettings(str(home.path / "w.ini"), QSettings.Format.IniFormat)
        )
        screen = ApprovalsScreen()
        screen.input_source = ScriptedHand()  # type: ignore[attr-defined]  # as the window has it
        screen.bind(state, link, nav)
        screen.resize(1264, 830)
        screen.show()
        screen.activateWindow()
        link.start()
        screen.enter(None)
        try:
            yield screen, console
        finally:
            screen.leave()
            await link.close()
            screen.close()
            screen.deleteLater()
        uncaught.check()


@pytest.mark.parametrize("approve", [True, False], ids=["approved", "denied"])
async def test_the_service_takes_what_the_screen_signs(theme: Theme, tmp_path: Path, approve: bool) -> None:
    home = Home(tmp_path / "home").create()
    choose_channel(home, "in-process")
    touched = tmp_path / "touched"

    async with open_screen(home) as (screen, console):
        run = await console.runs.call("this-computer", "shell_execute", {"command": f"touch '{touched}'"})
        await seen(screen.bar.approve.isEnabled)
        assert not touched.exists()
        if approve:
            QTest.keyClick(screen, Qt.Key.Key_Return, Qt.KeyboardModifier.ControlModifier)
        else:
            QTest.keyClick(screen, Qt.Key.Key_D)
            QTest.keyClicks(screen.bar.reason, "Not now")
            QTest.keyClick(screen.bar.reason, Qt.Key.Key_Return)
        ended = await console.runs.wait(run.summary.id, PATIENCE_S)
        assert ended.summary.state.ended
        await seen(lambda: screen.log.decided)
        outcome = screen.log.outcome(screen.log.decided[0])
        assert touched.exists() is approve
        if not approve:
            assert outcome == "Nothing was sent. Not now"
        assert screen.stack.currentWidget() is screen.nothing


async def test_a_file_is_compared_edited_and_written_as_it_was_approved(theme: Theme, tmp_path: Path) -> None:
    home = Home(tmp_path / "home").create()
    choose_channel(home, "in-process")
    target = tmp_path / "notes.txt"
    target.write_text("one\ntwo\n")

    async with open_screen(home) as (screen, console):
        asked = {"file_path": str(target), "content": "one\n2\n", "mode": "overwrite"}
        run = await console.runs.call("this-computer", "write_file", asked)
        await seen(screen.card.bytes.diff.isVisible)
        assert "1 line added, 1 removed" in screen.card.header.summary.text()
        await seen(screen.bar.edit.isEnabled)
        QTest.keyClick(screen, Qt.Key.Key_E)
        await seen(lambda: any(one.has_form for one in screen.findChildren(EditDialog)))
        sheet = next(iter(screen.findChildren(EditDialog)))
        sheet.form.set_value({**asked, "content": "one\nthree\n"})
        sheet.show_versions()
        press_button(sheet.answer("ask"))
        await seen(lambda: screen.card.approval and screen.card.approval.edited_from)
        await seen(screen.card.edited.isVisible)
        await seen(screen.bar.approve.isEnabled)
        assert target.read_text() == "one\ntwo\n"
        QTest.keyClick(screen, Qt.Key.Key_Return, Qt.KeyboardModifier.ControlModifier)
        await console.runs.wait(run.summary.id, PATIENCE_S)
        assert target.read_text() == "one\nthree\n"
