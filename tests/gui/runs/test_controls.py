"""What an operator does with a run: pause it, cancel a step, resume it, settle what is not known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from PySide6.QtCore import Qt

from app.screens.runs.resume_dialog import ResumeDialog
from app.theme.theme import Theme
from core.batch.models import CellState, RunState
from tests.fakes.window import seen
from tests.gui.runs.page import UNTIL, open_runs


def read(step: str, path: Path) -> dict[str, Any]:
    return {"id": step, "tool": "read_file", "with": {"file_path": str(path)}}


def write(step: str, path: Path, content: str) -> dict[str, Any]:
    return {"id": step, "tool": "write_file", "with": {"file_path": str(path), "content": content}}


def wait_for(step: str, gate: Path) -> dict[str, Any]:
    return {"id": step, "tool": "shell_execute", "with": {"command": UNTIL.format(gate), "timeout": 300}}


async def test_space_pauses_a_run_and_lets_it_go_on(theme: Theme, tmp_path: Path) -> None:
    async with open_runs(theme, tmp_path) as page:
        gate, note = page.work / "gate", page.work / "note"
        await page.start(wait_for("first", gate), write("second", note, "x"))
        await page.approve()
        await seen(lambda: page.words_of("first") == "running")
        assert page.buttons()[:2] == ["Pause", "Cancel run…"]
        page.press_key(Qt.Key.Key_Space)
        await page.until(RunState.PAUSED)
        assert "nothing further starts" in page.screen.notice.words()
        gate.touch()
        await seen(lambda: page.words_of("first") == "unverified")
        assert page.words_of("second") == "queued"
        assert not note.exists()
        page.press("Go on")
        await page.until(RunState.DONE)
        assert note.read_text() == "x"
        assert page.buttons() == ["Undo…", "Replay"]


async def test_one_step_is_cancelled_after_a_question_and_the_rest_goes_on(
    theme: Theme, tmp_path: Path
) -> None:
    async with open_runs(theme, tmp_path) as page:
        note = page.work / "note"
        run = await page.start(
            wait_for("first", page.work / "never"), write("second", note, "x"), on_failure="continue"
        )
        page.choose("first")
        await page.approve()
        await seen(lambda: page.words_of("first") == "running")
        page.press_key(Qt.Key.Key_C)
        assert page.screen.ask.words.text() == "Cancel first on this-computer?"
        assert page.screen.ask.keep.hasFocus()
        page.press("Let it run")
        assert (await page.bay.beside.runs.get(run)).cells[0].state is CellState.RUNNING
        page.press("Cancel this…")
        page.press("Cancel this step")
        await seen(lambda: page.words_of("first") == "cancelled")
        await seen(lambda: page.drawer.banner.fact.text() == "The device confirmed that it stopped.")
        await seen(note.exists)
        await seen(lambda: not page.screen.ask.isVisible())
        assert page.screen.wishes.cancel_step.reason


async def test_a_step_that_waits_is_cancelled_without_anything_sent(theme: Theme, tmp_path: Path) -> None:
    async with open_runs(theme, tmp_path) as page:
        await page.start(wait_for("first", page.work / "never"))
        await seen(lambda: page.words_of("first") == "waits for you")
        page.choose("first")
        page.press_key(Qt.Key.Key_C)
        assert "Nothing was sent" in page.screen.ask.detail.text()
        page.press("Cancel this step")
        await page.until(RunState.CANCELLED)
        assert page.drawer.banner.fact.text() == "Cancelled before anything was sent."


async def test_the_button_says_what_is_run_again_and_what_is_done_is_not_repeated(
    theme: Theme, tmp_path: Path
) -> None:
    async with open_runs(theme, tmp_path) as page:
        note, missing = page.work / "note", page.work / "missing"
        first = await page.start(write("note", note, "once"), read("look", missing))
        await page.until(RunState.FAILED)
        note.write_text("changed since")
        missing.write_text("here now")
        assert page.buttons() == ["Re-run failed step on 1 device…", "Undo…", "Replay"]
        page.press_key(Qt.Key.Key_R)
        dialog = page.dialog()
        assert "1 step is done and not repeated." in page.words(dialog)
        assert "look on this-computer" in page.words(dialog)
        page.press("Re-run failed step on 1 device", dialog)
        await seen(lambda: page.run != first)
        again = await page.until(RunState.DONE)
        assert again.summary.resumes == first
        assert note.read_text() == "changed since"
        page.choose("note")
        await seen(lambda: page.drawer.banner.fact.text() == f"{first} did it; it was not repeated.")
        await page.open(first)
        assert page.screen.notice.words() == f"Resumed as {again.summary.id}."
        assert page.buttons() == ["Undo…", "Replay"]
        assert again.summary.id in page.screen.wishes.resume.reason


async def test_a_batch_that_was_changed_since_is_resumed_as_it_was_and_that_is_said(
    theme: Theme, tmp_path: Path
) -> None:
    async with open_runs(theme, tmp_path) as page:
        missing = page.work / "missing"
        await page.start(read("look", missing), name="frozen")
        run = await page.until(RunState.FAILED)
        await page.bay.beside.runs.save_batch("frozen", run.batch)
        page.press_key(Qt.Key.Key_R)
        await seen(lambda: page.dialog().saved.value is not None)  # type: ignore[union-attr]
        assert "another one now" not in page.words(page.dialog())
        page.press("Cancel", page.dialog())
        changed = run.batch.model_copy(update={"description": "Another one"})
        await page.bay.beside.runs.save_batch("frozen", changed)
        page.press_key(Qt.Key.Key_R)
        await seen(lambda: "The saved batch frozen is another one now" in page.words(page.dialog()))
        page.press("Re-run failed step on 1 device", page.dialog())
        await seen(lambda: page.run != run.summary.id)
        await page.until(RunState.FAILED)
        assert "this run has the batch of the first run" in page.screen.notice.words()


async def test_secret_inputs_are_given_again_and_another_value_is_refused_in_words(
    theme: Theme, tmp_path: Path
) -> None:
    async with open_runs(theme, tmp_path) as page:
        first = await page.start(
            read("look", page.work / "missing"),
            inputs={"token": {"type": "string", "secret": True}},
            values={"token": "hunter2"},
        )
        await page.until(RunState.FAILED)
        page.press_key(Qt.Key.Key_R)
        dialog = page.dialog()
        assert isinstance(dialog, ResumeDialog)
        field = dialog.secrets["token"]
        assert field.hasFocus()
        assert page.off("Re-run failed step on 1 device", dialog) == "token is missing."
        field.setText("another")
        page.press("Re-run failed step on 1 device", dialog)
        await seen(lambda: "had another value" in page.words(dialog))
        assert page.run == first
        field.setText("hunter2")
        page.press("Re-run failed step on 1 device", dialog)
        await seen(lambda: not page.has_dialog and page.run != first)
        assert "hunter2" not in page.words(page.screen)


async def test_what_is_not_known_is_asked_for_and_needs_a_word_if_no_device_tells(
    theme: Theme, tmp_path: Path
) -> None:
    async with open_runs(theme, tmp_path) as page, page.device("lab-1") as device:
        # Without it the console waits for the device to come back for longer.
        lost = wait_for("first", page.work / "never") | {"timeout": 6}
        first = await page.start(lost, wait_for("second", page.work), targets="name:lab-1")
        await page.approve()
        await seen(lambda: page.words_of("first", "lab-1") == "running")
        await device.stop()
        await page.until(RunState.UNKNOWN)
        page.press("Resume on 1 device…", page.screen.head)
        dialog = page.dialog()
        assert "first on lab-1" in page.words(dialog)
        assert page.off("Resume on 1 device", dialog) == ""
        page.press("Resume on 1 device", dialog)
        why = "lab-1: the device is not connected, and is asked when it is back"
        await seen(lambda: why in page.words(dialog))
        assert page.run == first
        assert "asked again when it is back" in page.screen.notice.words()
        page.press("It is done", dialog)
        await seen(lambda: "second on lab-1" in page.words(dialog))
        page.press("Cancel", dialog)
        # What was said of it shows on the screen, and in the journal.
        await seen(lambda: page.words_of("first", "lab-1") == "done by hand")
        page.choose("first", "lab-1")
        await seen(lambda: page.drawer.banner.fact.text() == "An operator's word.")
        cell = (await page.bay.beside.runs.get(first)).cells[0]
        assert (cell.settled, cell.settled_by) == ("done", "operator:harbour")


async def test_a_failed_step_is_done_by_hand_after_a_question(theme: Theme, tmp_path: Path) -> None:
    async with open_runs(theme, tmp_path) as page:
        note = page.work / "note"
        first = await page.start(read("look", page.work / "missing"), write("note", note, "x"))
        await page.until(RunState.FAILED)
        page.choose("look")
        await seen(lambda: page.drawer.isVisible())
        page.press("Done by hand…")
        assert "The journal records it as your word." in page.screen.ask.detail.text()
        page.press("It is done")
        await seen(lambda: page.words_of("look") == "done by hand")
        assert not note.exists()
        await seen(lambda: page.buttons()[0] == "Resume on 1 device…")
        page.press_key(Qt.Key.Key_R)
        page.press("Resume on 1 device", page.dialog())
        await seen(lambda: page.run != first)
        await page.until(RunState.DONE)
        assert note.exists()


async def test_what_can_be_said_of_a_step_is_offered_as_soon_as_its_run_has_ended(
    theme: Theme, tmp_path: Path
) -> None:
    async with open_runs(theme, tmp_path) as page:
        run = await page.start(read("look", page.work / "missing"))
        await page.until(RunState.FAILED)
        page.choose("look")
        await seen(lambda: page.offers("Done by hand…"))
        ended = (await page.bay.beside.runs.get(run)).summary
        # As a change that was told before the run was read, and comes after it.
        page.tell(ended.model_copy(update={"state": RunState.RUNNING, "ended_at": None}))
        page.choose("look")
        await seen(lambda: page.state == RunState.RUNNING.value and not page.offers("Done by hand…"))
        page.tell(ended)
        await seen(lambda: page.state == RunState.FAILED.value and page.offers("Done by hand…"))


async def test_a_word_about_a_run_that_only_the_journal_has_shows_at_once(
    theme: Theme, tmp_path: Path
) -> None:
    async with open_runs(theme, tmp_path) as page:
        run = await page.start(read("look", page.work / "missing"))
        await page.until(RunState.FAILED)
        # As after a restart: the service tells nothing of a run that it does not have in memory.
        await page.bay.service.journal.settle()
        page.bay.forget_run(run)
        page.choose("look")
        page.press_key(Qt.Key.Key_D)
        page.press("It is done")
        await seen(lambda: page.words_of("look") == "done by hand")


async def test_a_run_that_two_consoles_resume_says_which_one_goes_on(theme: Theme, tmp_path: Path) -> None:
    async with open_runs(theme, tmp_path) as page:
        run = await page.start(read("look", page.work / "missing"))
        await page.until(RunState.FAILED)
        page.press_key(Qt.Key.Key_R)
        other = await page.bay.beside.runs.resume(run)
        page.press("Re-run failed step on 1 device", page.dialog())
        await seen(lambda: f"was resumed already, as {other.summary.id}" in page.words(page.dialog()))
