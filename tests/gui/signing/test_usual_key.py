"""Whose key is offered first where several lie in a home."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication

from app.main import ConsoleApplication
from app.signing.signing_session import SigningSession
from app.signing.unlock_section import UnlockSection
from app.theme.theme import Theme
from core.home import Home
from tests.fakes.console import FakeConsole
from tests.fakes.sign_sheets import PHRASE, operator_of
from tests.fakes.window import open_frame, seen


async def offered(desk: ConsoleApplication) -> UnlockSection:
    """The open question which key to unlock."""
    await seen(lambda: len(desk.keys.listed) == 2)
    desk.window.start_unlock()
    await seen(lambda: any(one.isVisible() for one in desk.window.findChildren(UnlockSection)))
    return desk.window.findChildren(UnlockSection)[-1]


async def test_the_key_that_was_used_last_on_this_computer_is_offered_by_the_next_window(
    theme: Theme, tmp_path: Path
) -> None:
    operators = [operator_of(tmp_path, name, PHRASE) for name in ("ada", "zoe")]
    async with open_frame(theme, tmp_path, FakeConsole(operators=operators)) as desk:
        part = await offered(desk)
        part.who.setCurrentIndex(part.who.findData("zoe"))
        part.secret.setFocus()
        QTest.keyClicks(part.secret, PHRASE)
        QTest.keyClick(QApplication.focusWidget() or part.secret, Qt.Key.Key_Return)
        await seen(lambda: desk.keys.unlocked == "zoe")
    async with open_frame(theme, tmp_path, FakeConsole(operators=operators)) as desk:
        part = await offered(desk)
        assert part.file.name == "zoe"


async def test_before_any_was_used_it_is_the_one_named_like_the_user(theme: Theme, tmp_path: Path) -> None:
    del theme
    for name in ("ada", "root", "zoe"):
        operator_of(tmp_path, name, PHRASE)
    for last, user, wanted in (("", "root", "root"), ("zoe", "root", "zoe"), ("gone", "no-one", "")):
        keys = SigningSession(Home(tmp_path), last, user)
        await keys.refresh()
        assert keys.usual_name == wanted
