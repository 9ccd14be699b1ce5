"""The undo of a run in the window: what it would do is shown first, then it is a run of its own."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import Qt

from app.screens.approvals.screen import ApprovalsScreen
from app.screens.runs.undo_dialog import UndoDialog
from app.screens.targets import OpenApproval
from app.theme.theme import Theme
from core.batch.models import RunState
from tests.fakes.window import seen
from tests.gui.page import link_in
from tests.gui.runs.page import RunsPage, open_runs
from tests.gui.runs.test_controls import write

SHELL = {"id": "shell", "tool": "shell_execute", "with": {"command": "true"}}


async def shown(page: RunsPage) -> UndoDialog:
    """The dialog once it was read what can be undone."""
    await seen(lambda: page.has_dialog)
    dialog = page.dialog()
    assert isinstance(dialog, UndoDialog)
    await seen(lambda: dialog.table.isVisible())
    return dialog


async def test_an_undo_is_shown_first_and_is_a_run_of_its_own(theme: Theme, tmp_path: Path) -> None:
    async with open_runs(theme, tmp_path) as page:
        note = page.work / "note"
        note.write_text("as it was")
        first = await page.start(write("one", note, "1"), write("two", note, "2"), SHELL)
        await page.approve()
        await page.until(RunState.DONE)
        page.press_key(Qt.Key.Key_U)
        dialog = await shown(page)
        assert dialog.summary.text() == "2 files restored, 1 shell command cannot be undone."
        rows = [dialog.table.rows_model.words(row) for row in range(3)]
        assert "cannot be undone" in rows[0]
        assert "What a shell line changes is not recorded" in rows[0]
        assert rows[1].startswith("this-computer\ttwo\twrite_file\tundone\truns")
        assert note.read_text() == "2"
        page.press("Start the undo", dialog)
        await seen(lambda: page.run != first)
        undo = await page.until(RunState.DONE)
        assert undo.summary.undoes == first
        assert note.read_text() == "as it was"
        assert page.screen.notice.words() == f"It undoes {first}."
        assert page.buttons() == ["Replay"]
        await page.open(first)
        page.press_key(Qt.Key.Key_U)
        dialog = await shown(page)
        assert "2 undone already" in dialog.summary.text()
        assert page.off("Start the undo", dialog)


async def test_what_was_shown_is_what_is_undone_or_nothing(theme: Theme, tmp_path: Path) -> None:
    async with open_runs(theme, tmp_path) as page:
        note = page.work / "note"
        first = await page.start(write("one", note, "1"))
        await page.until(RunState.DONE)
        page.press_key(Qt.Key.Key_U)
        dialog = await shown(page)
        other = await page.bay.beside.runs.undo(first)
        await page.bay.beside.runs.wait(other.summary.id, 60)
        page.press("Start the undo", dialog)
        await seen(lambda: "has changed since it was shown" in page.words(dialog))
        assert page.run == first


async def test_the_card_that_says_can_be_undone_leads_to_the_undo(theme: Theme, tmp_path: Path) -> None:
    async with open_runs(theme, tmp_path, policy='profile = "guarded"\n') as page:
        note = page.work / "note"
        await page.start(write("one", note, "1"))
        desk = page.bay.desk
        await seen(lambda: desk.state.approvals)
        [approval] = desk.state.approvals
        desk.window.open("approvals", OpenApproval(approval))
        screen = desk.window.current
        assert isinstance(screen, ApprovalsScreen)
        await seen(lambda: screen.card.undo.isVisible())
        await page.approve()
        await seen(lambda: note.exists() and not desk.state.open_runs())
        link_in(screen.card.undo, "Undo in Runs…").click()
        dialog = await shown(page)
        assert dialog.summary.text() == "1 file restored."
