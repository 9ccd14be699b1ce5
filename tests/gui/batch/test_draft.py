"""Batch: drafts that outlive the window, saving, and opening another batch."""

from __future__ import annotations

import stat
from pathlib import Path

from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication

from app.screens.batch.draft import FILE
from app.screens.targets import OpenBatch
from app.theme.theme import Theme
from tests.fakes.batch_screen import batch_of, risky, sheet_of
from tests.fakes.console import FakeConsole
from tests.fakes.story import story
from tests.fakes.window import open_frame, seen

Key, Mod = Qt.Key, Qt.KeyboardModifier


async def test_a_half_built_batch_is_there_again_after_a_restart(theme: Theme, tmp_path: Path) -> None:

    async with open_frame(theme, tmp_path, FakeConsole()) as desk:
        screen = await batch_of(desk)
        screen.editor.add("shell_execute")
        screen.editor.add("screenshot")
        screen.editor.rename("Half")
        # The file is written while the window lives, so that a crash loses a second at most.
        await seen((tmp_path / FILE).exists)
        assert stat.S_IMODE((tmp_path / FILE).stat().st_mode) == 0o600
        screen.editor.group()

    async with open_frame(theme, tmp_path, FakeConsole()) as desk:
        screen = await batch_of(desk)
        assert screen.editor.content.name == "Half"
        assert [step.tool for step in screen.editor.content.steps] == ["shell_execute", "screenshot"]
        assert all(step.group for step in screen.editor.content.steps)
        assert screen.editor.dirty
        assert not screen.editor.undo_stack.canUndo()


async def test_a_draft_that_cannot_be_read_is_set_aside_and_said(theme: Theme, tmp_path: Path) -> None:
    (tmp_path / FILE).write_text('{"format": "quarterdeck.window-draft/9"')

    async with open_frame(theme, tmp_path, FakeConsole()) as desk:
        screen = await batch_of(desk)
        assert screen.notice.isVisible()
        assert "window-draft.broken" in screen.notice.accessibleName()
        assert (tmp_path / "window-draft.broken").exists()


async def test_the_first_save_asks_for_a_name_and_the_next_one_does_not(theme: Theme, tmp_path: Path) -> None:
    console = FakeConsole()

    async with open_frame(theme, tmp_path, console) as desk:
        screen = await batch_of(desk)
        screen.editor.add("screenshot")
        assert screen.head.mark.text() == "• not saved"
        QTest.keyClick(screen.steps.view, Key.Key_S, Mod.ControlModifier)
        assert QApplication.focusWidget() is screen.head.name
        assert not console.saved
        QTest.keyClicks(screen.head.name, "Nightly picture")
        QTest.keyClick(screen.head.name, Key.Key_Return)
        await seen(lambda: "Nightly picture" in console.saved)
        await seen(lambda: not screen.head.mark.isVisible())
        screen.editor.add("screenshot")
        QTest.keyClick(screen.steps.view, Key.Key_S, Mod.ControlModifier)
        await seen(lambda: len(console.saved["Nightly picture"].steps) == 2)


async def test_another_batch_of_the_same_name_is_not_overwritten_without_a_question(
    theme: Theme, tmp_path: Path
) -> None:
    console = FakeConsole()
    console.saved["Clean"] = risky("name:db-primary", "old")

    async with open_frame(theme, tmp_path, console) as desk:
        screen = await batch_of(desk, risky("name:this-computer", "new"))
        screen.head.save.click()
        await seen(lambda: sheet_of(desk))
        QTest.keyClick(desk.window, Key.Key_Escape)
        await seen(lambda: sheet_of(desk) is None)
        assert console.saved["Clean"] == risky("name:db-primary", "old")
        await seen(lambda: not screen.files.saving)
        screen.head.save.click()
        await seen(lambda: sheet_of(desk))
        sheet = sheet_of(desk)
        assert sheet is not None
        sheet.answer("replace").click()
        await seen(lambda: console.saved["Clean"] == risky("name:this-computer", "new"))


async def test_loading_another_batch_asks_about_what_is_not_saved(theme: Theme, tmp_path: Path) -> None:
    console = story()

    async with open_frame(theme, tmp_path, console) as desk:
        screen = await batch_of(desk, risky("name:this-computer"))
        screen.editor.rename("Mine")
        desk.window.open("batch", OpenBatch("free-disk-space"))
        await seen(lambda: sheet_of(desk))
        QTest.keyClick(desk.window, Key.Key_Escape)
        await seen(lambda: sheet_of(desk) is None)
        assert screen.editor.content.name == "Mine"
        desk.window.open("batch", OpenBatch("free-disk-space"))
        await seen(lambda: sheet_of(desk))
        sheet = sheet_of(desk)
        assert sheet is not None
        sheet.answer("save").click()
        await seen(lambda: screen.editor.saved_as == "free-disk-space")
        assert "Mine" in console.saved
        assert not screen.editor.undo_stack.canUndo()


async def test_open_lists_saved_batches_and_examples_and_is_worked_by_keyboard(
    theme: Theme, tmp_path: Path
) -> None:
    async with open_frame(theme, tmp_path, story()) as desk:
        screen = await batch_of(desk)
        QTest.keyClick(desk.window, Key.Key_O, Mod.ControlModifier)
        await seen(lambda: sheet_of(desk))
        focus = QApplication.focusWidget()
        assert focus is not None
        QTest.keyClicks(focus, "look at this")
        QTest.keyClick(focus, Key.Key_Return)
        await seen(lambda: screen.editor.content.name == "Look at this computer")
        assert [step.group for step in screen.editor.content.steps] == [1, 1, 1]
        assert not screen.editor.dirty


async def test_secrets_are_not_kept_in_the_draft(theme: Theme, tmp_path: Path) -> None:
    console = FakeConsole()
    tools = console.tools_of["this-computer"]
    schema = {"type": "object", "properties": {"token": {"type": "string", "writeOnly": True}, "a": {}}}
    tools[0] = tools[0].model_copy(update={"input_schema": schema})

    async with open_frame(theme, tmp_path, console) as desk:
        screen = await batch_of(desk)
        screen.editor.add(tools[0].tool_name, parameters={"token": "hunter2", "a": "kept"})
        await seen(lambda: "kept" in _draft(tmp_path))
        assert "hunter2" not in _draft(tmp_path)
        screen.leave()
        assert "hunter2" not in _draft(tmp_path)


def _draft(folder: Path) -> str:
    file = folder / FILE
    return file.read_text() if file.exists() else ""
