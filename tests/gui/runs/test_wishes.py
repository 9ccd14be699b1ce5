"""Runs: what an operator wants done with a run, and where the list hides."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication

from app.screens.runs.screen import RunsScreen
from app.screens.targets import OpenQuery, OpenReplay, OpenRun
from app.theme.theme import Theme
from core.errors import DeviceError
from tests.fakes.console import FakeConsole
from tests.fakes.runs_screen import CLEAN, runs_of
from tests.fakes.story import story
from tests.fakes.window import open_frame, opened_screens, seen
from tests.gui.page import part_of


async def test_cancel_asks_inline_and_only_the_second_press_cancels(theme: Theme, tmp_path: Path) -> None:
    console = story()

    async with open_frame(theme, tmp_path, console) as desk:
        screen = await runs_of(desk, OpenRun(CLEAN))
        await seen(lambda: screen.matrix.cells.rowCount() == 7)
        QTest.keyClick(screen.matrix, Qt.Key.Key_Escape, Qt.KeyboardModifier.ShiftModifier)
        assert screen.ask.isVisible()
        assert screen.ask.keep.hasFocus()
        QTest.keyClick(screen.ask.keep, Qt.Key.Key_Return)
        assert not screen.ask.isVisible()
        assert "cancel_run" not in console.asked
        screen.head.cancel.click()
        screen.ask.go_on.click()
        await seen(lambda: not screen.ask.isVisible())
        await seen(lambda: screen.counts.chips["cancelled"].isVisible())
        assert not screen.head.cancel.isVisible()
        assert console.asked.count("cancel_run") == 1


async def test_a_cancel_that_fails_says_so_where_it_was_asked(theme: Theme, tmp_path: Path) -> None:
    console = story()
    console.fail_next["cancel_run"] = DeviceError("The line broke.")

    async with open_frame(theme, tmp_path, console) as desk:
        screen = await runs_of(desk, OpenRun(CLEAN))
        await seen(lambda: screen.matrix.cells.rowCount() == 7)
        screen.head.cancel.click()
        screen.ask.go_on.click()
        await seen(screen.ask.problem.isVisible)
        assert screen.ask.problem.text().startswith("The line broke.")
        assert screen.ask.go_on.isEnabled()


async def test_a_cancel_that_fails_after_its_question_was_closed_is_told_by_the_banner(
    theme: Theme, tmp_path: Path
) -> None:
    console = story()
    console.answer("cancel_run", DeviceError("The line broke."))
    answer = console.hold_back("cancel_run")

    async with open_frame(theme, tmp_path, console) as desk:
        screen = await runs_of(desk, OpenRun(CLEAN))
        await seen(lambda: screen.matrix.cells.rowCount() == 7)
        screen.head.cancel.click()
        screen.ask.go_on.click()
        await seen(lambda: "cancel_run" in console.asked)
        screen.ask.keep.click()
        assert not screen.ask.isVisible()
        answer.set()
        await seen(desk.window.notices.words)
        told = " ".join(desk.window.notices.words())
        assert told.count(f"Could not cancel run {CLEAN}. The line broke.") == 1


async def test_a_run_is_saved_as_a_batch_and_none_is_replaced_unasked(theme: Theme, tmp_path: Path) -> None:
    console = story()

    async with open_frame(theme, tmp_path, console) as desk:
        screen = await runs_of(desk, OpenRun(CLEAN))
        await seen(lambda: screen.matrix.cells.rowCount() == 7)
        kept = console.saved["check-limits"]
        screen.wishes.save.trigger()
        assert screen.ask.field.text() == "Free disk space"
        screen.ask.field.selectAll()
        QTest.keyClicks(screen.ask.field, "check-limits")
        QTest.keyClick(screen.ask.field, Qt.Key.Key_Return)
        await seen(screen.ask.problem.isVisible)
        assert screen.ask.go_on.text() == "Replace it"
        assert console.saved["check-limits"] == kept
        QTest.keyClicks(screen.ask.field, "-2")
        assert screen.ask.go_on.text() == "Save"
        QTest.keyClick(screen.ask.field, Qt.Key.Key_Return)
        await seen(lambda: "check-limits-2" in console.saved)
        assert console.saved["check-limits-2"].name == "Free disk space"


async def test_replay_journal_and_copy_are_about_this_run(theme: Theme, tmp_path: Path) -> None:
    async with open_frame(theme, tmp_path, story()) as desk:
        screen = await runs_of(desk, OpenRun("r-0410"))
        await seen(lambda: screen.head.number.text() == "r-0410")
        opened = opened_screens(desk)
        screen.head.replay.click()
        for action in screen.head.menu.actions()[:2]:
            action.trigger()
        assert opened == [("replay", OpenReplay(run="r-0410")), ("journal", OpenQuery("run:r-0410"))]
        assert QApplication.clipboard().text() == "r-0410"


async def test_a_narrow_window_hides_the_list_behind_the_title(theme: Theme, tmp_path: Path) -> None:
    async with open_frame(theme, tmp_path, story(), size=(1280, 720)) as desk:
        screen = await runs_of(desk, OpenRun(CLEAN))
        assert not screen.list.isVisible()
        screen.head.show_list.click()
        assert screen.list.isVisible()
        screen.list.choose("r-0410")
        screen.list.opened.emit("r-0410")
        await seen(lambda: screen.head.number.text() == "r-0410")
        assert not screen.list.isVisible()
        assert not part_of(screen.drawer.tabs, "Facts").isHidden()


async def test_without_a_run_the_screen_says_what_to_do(theme: Theme, tmp_path: Path) -> None:
    console = FakeConsole()

    async with open_frame(theme, tmp_path, console) as desk:
        desk.window.open("runs")
        screen = desk.window.current
        assert isinstance(screen, RunsScreen)
        assert screen.empty.isVisible()
        assert screen.empty.accessibleName().startswith("Nothing has run yet.")
        await console.runs.call("this-computer", "get_system_info", {"info_type": "memory"})
        await seen(lambda: screen.matrix.cells.total() == 1)
        assert not screen.empty.isVisible()


async def test_a_pause_that_fails_is_told_by_the_banner_and_the_keyboard_stays(
    theme: Theme, tmp_path: Path
) -> None:
    console = story()
    console.fail_next["pause_run"] = DeviceError("The line broke.")

    async with open_frame(theme, tmp_path, console) as desk:
        screen = await runs_of(desk, OpenRun(CLEAN))
        await seen(lambda: screen.matrix.cells.rowCount() == 7)
        screen.matrix.setFocus()
        QTest.keyClick(screen.matrix, Qt.Key.Key_Space)
        await seen(desk.window.notices.words)
        told = " ".join(desk.window.notices.words())
        assert f"Could not pause run {CLEAN}. The line broke." in told
        assert QApplication.focusWidget() is screen.matrix
        QTest.keyClick(screen.matrix, Qt.Key.Key_Space)
        await seen(lambda: screen.head.pause.text() == "Go on")
