"""Cards of runs in the real window: the question of a batch, and one answer for all devices of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QAbstractButton

from app.screens.approvals.grant_dialog import GrantDialog
from app.screens.approvals.grant_draft import MOST_DEVICES, devices_of_run
from app.screens.approvals.screen import ApprovalsScreen
from app.screens.targets import OpenApproval
from app.theme.theme import Theme
from core.batch.models import CellState, RunState
from tests.fakes.approvals_desk import make_approval
from tests.fakes.hand import press_button
from tests.fakes.window import seen
from tests.gui.approvals.page import end_guard
from tests.gui.page import visible
from tests.gui.runs.page import RunsPage, open_runs
from tests.gui.runs.test_controls import read, write

QUESTION = {
    "id": "ask",
    "approval": {"question": "Nothing broke.\nGo on\u202e with the others?", "deadline": 600},
    "note": "Look at the graphs",
}


async def card_of(page: RunsPage, waiting: int = 1) -> ApprovalsScreen:
    """The card of what waits, ready for an answer."""
    desk = page.bay.desk
    await seen(lambda: len(desk.state.approvals) == waiting)
    desk.window.open("approvals", OpenApproval(next(iter(desk.state.approvals))))
    screen = desk.window.current
    assert isinstance(screen, ApprovalsScreen)
    await seen(lambda: screen.card.isVisible() and screen.card.approval is not None)
    end_guard(screen.bar)
    return screen


def offered(screen: ApprovalsScreen) -> list[str]:
    return [one.text() for one in visible(screen.bar, QAbstractButton) if one.text()]


async def test_the_card_of_a_question_says_what_is_asked_and_where_the_answer_counts(
    theme: Theme, tmp_path: Path
) -> None:
    async with open_runs(theme, tmp_path) as page:
        note = page.work / "note"
        note.write_text("x")
        run = await page.start(read("look", note), QUESTION, write("then", note, "y"), name="Clean up")
        screen = await card_of(page)
        card = screen.card
        assert card.question.words.text() == "Nothing broke.\nGo on[U+202E] with the others?"
        assert card.question.devices.value("Devices").text() == "this-computer"
        assert card.header.summary.text() == "Nothing broke. Go on[U+202E] with the others?"
        assert card.header.device.text() == "wave 1 of Clean up, 1 device"
        assert card.bytes.head.title.text() == "Exactly what is signed; nothing is sent"
        # What is about a command does not stand there.
        assert not any(part.isVisible() for part in (card.findings, card.undo, card.helpers, screen.bar.code))
        assert offered(screen) == ["Deny…", "Approve once"]
        QTest.keyClick(screen, Qt.Key.Key_G)
        QTest.keyClick(screen, Qt.Key.Key_E)
        assert not page.has_dialog
        QTest.keyClick(screen, Qt.Key.Key_Return, Qt.KeyboardModifier.ControlModifier)
        await seen(lambda: note.read_text() == "y")
        await page.open(run)
        await page.until(RunState.DONE)
        page.choose("ask")
        assert page.drawer.facts.value("Asks").text().startswith("Nothing broke.")


async def test_a_question_that_is_denied_ends_the_run_with_the_reason(theme: Theme, tmp_path: Path) -> None:
    async with open_runs(theme, tmp_path) as page:
        note = page.work / "note"
        run = await page.start(QUESTION, write("then", note, "y"))
        screen = await card_of(page)
        QTest.keyClick(screen, Qt.Key.Key_D)
        await seen(screen.bar.reason.isVisible)
        screen.bar.reason.setText("The graphs are red")
        QTest.keyClick(screen.bar.reason, Qt.Key.Key_Return)
        await seen(lambda: not page.bay.desk.state.approvals)
        await page.open(run)
        await page.until(RunState.REFUSED)
        page.choose("ask")
        await seen(lambda: "The graphs are red" in page.drawer.banner.detail.text())
        assert not note.exists()


async def test_one_act_lets_a_step_run_on_all_devices_of_its_run(theme: Theme, tmp_path: Path) -> None:
    async with (
        open_runs(theme, tmp_path, policy='profile = "guarded"\n') as page,
        page.device("lab-1"),
        page.device("lab-2"),
        page.device("lab-3"),
    ):
        step: dict[str, Any] = {"id": "go", "tool": "shell_execute", "with": {"command": "true"}}
        # Two ask at a time; the third asks when one of them is done.
        run = await page.start(step, targets="name:lab-*", rollout={"canary": 2, "wave": 1})
        screen = await card_of(page, waiting=2)
        await seen(lambda: len(screen.card.others) == 1)
        end_guard(screen.bar)
        assert "Approve for…" in offered(screen)
        await seen(lambda: screen.card.end_was_seen)
        QTest.keyClick(screen, Qt.Key.Key_G)
        [sheet] = visible(page.bay.desk.window, GrantDialog)
        assert sheet.scope.current() == "all"
        assert sheet.devices.text() == "lab-1, lab-2, lab-3"
        assert f"Only in run {run}" in sheet.lines.text()
        assert "1 other request fits" in sheet.covers.text()
        press_button(sheet.approve)
        await page.open(run)
        ended = await page.bay.beside.runs.wait(run, 60)
        # No one was asked about the third.
        assert not page.bay.desk.state.approvals
        assert {cell.state for cell in ended.cells} == {CellState.DONE}, [c.note for c in ended.cells]


def test_production_devices_and_the_others_are_in_no_grant_together() -> None:
    few = [f"lab-{number}" for number in range(3)]
    plain, production = make_approval(1), make_approval(2, production=True)
    assert devices_of_run(plain, [*few, "prod-1"], {"prod-1"}) == (few, "")
    assert devices_of_run(production, [*few, "prod-1"], {"prod-1"}) == (["prod-1"], "")
    assert devices_of_run(plain, few[:1], ())[0] == []
    many = [f"lab-{number}" for number in range(MOST_DEVICES + 1)]
    assert devices_of_run(plain, many, ()) == (["*"], "")
    names, why = devices_of_run(plain, [*many, "prod-1"], {"prod-1"})
    assert names == []
    assert "apart" in why
