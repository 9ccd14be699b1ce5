"""Open… of Batch: saved batches with date, size and steps; renamed and deleted by keyboard and pointer."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication

from app.main import ConsoleApplication
from app.screens.batch.document import BatchDocument, content_of
from app.screens.batch.open_dialog import OpenDialog
from app.screens.batch.screen import BatchScreen
from app.shell.shortcuts_dialog import ShortcutsDialog
from app.text import short_clock
from app.theme.theme import Theme
from core.batch.models import Batch
from tests.fakes.batch_screen import batch_of, sheet_of
from tests.fakes.console import FakeConsole
from tests.fakes.console.runs import SAVED_AT
from tests.fakes.window import open_frame, seen
from tests.gui.page import button_named

Key = Qt.Key


def console_with(*names: str) -> FakeConsole:
    console = FakeConsole()
    steps = [{"id": "a", "tool": "list_processes"}, {"id": "b", "tool": "list_processes"}]
    for name in names:
        console.saved[name] = Batch.model_validate({"name": name, "targets": "tag:lab", "steps": steps})
    return console


async def opened(desk: ConsoleApplication) -> tuple[BatchScreen, OpenDialog]:
    screen = await batch_of(desk)
    QTest.keyClick(desk.window, Key.Key_O, Qt.KeyboardModifier.ControlModifier)
    await seen(lambda: sheet_of(desk))
    sheet = sheet_of(desk)
    assert isinstance(sheet, OpenDialog)
    return screen, sheet


def keys_of(sheet: OpenDialog) -> list[str]:
    model = sheet.list.rows_model
    return [model.key_at(row) for row in range(model.rowCount())]


def shown(sheet: OpenDialog) -> list[str]:
    return [key for key in keys_of(sheet) if key.startswith("saved:")]


def press(key: Qt.Key) -> None:
    focus = QApplication.focusWidget()
    assert focus is not None
    QTest.keyClick(focus, key)


async def test_each_saved_batch_has_its_steps_size_and_time(theme: Theme, tmp_path: Path) -> None:
    async with open_frame(theme, tmp_path, console_with("Tidy")) as desk:
        _, sheet = await opened(desk)
        model = sheet.list.model()
        words = [model.index(0, column).data() for column in range(model.columnCount())]
        assert words == ["Tidy", "2", "512 bytes", short_clock(SAVED_AT)]


async def test_f2_renames_and_the_open_batch_follows(theme: Theme, tmp_path: Path) -> None:
    console = console_with("Other", "Tidy")

    async with open_frame(theme, tmp_path, console) as desk:
        screen, sheet = await opened(desk)
        screen.editor.load(content_of(console.saved["Tidy"]), "Tidy")
        screen.editor.set_targets("tag:desk")
        sheet.list.choose("saved:Tidy")
        press(Key.Key_F2)
        assert sheet.question.field.hasFocus()
        assert sheet.question.field.selectedText() == "Tidy"
        sheet.question.field.setText("x\u202ey")
        press(Key.Key_Return)
        assert "seen" in sheet.question.problem.text()
        assert "Tidy" in console.saved
        sheet.question.field.setText("Other")
        press(Key.Key_Return)
        await seen(lambda: "already" in sheet.question.problem.text())
        assert sorted(console.saved) == ["Other", "Tidy"]
        sheet.question.field.setText("Größe & Ordnung")
        press(Key.Key_Return)
        await seen(lambda: "saved:Größe & Ordnung" in shown(sheet))
        assert sorted(console.saved) == ["Größe & Ordnung", "Other"]
        assert sheet.list.current_key() == "saved:Größe & Ordnung"
        assert sheet.question.isHidden()
        editor = screen.editor
        assert editor.saved_as == editor.content.name == "Größe & Ordnung"
        assert editor.dirty
        editor.undo_stack.undo()
        assert editor.content.name == "Größe & Ordnung"
        assert not editor.dirty


async def test_delete_asks_first_and_the_safe_answer_has_the_keyboard(theme: Theme, tmp_path: Path) -> None:
    console = console_with("Other", "Tidy")

    async with open_frame(theme, tmp_path, console) as desk:
        screen, sheet = await opened(desk)
        screen.editor.load(content_of(console.saved["Tidy"]), "Tidy")
        press(Key.Key_Delete)  # the text's, in the search field
        assert sheet.question.isHidden()
        sheet.list.setFocus()
        sheet.list.choose("saved:Tidy")
        press(Key.Key_Delete)
        assert "Tidy" in sheet.question.words.text()
        assert sheet.question.keep.hasFocus()
        press(Key.Key_Escape)
        assert sheet.question.isHidden()
        assert sheet.isVisible()
        assert sheet.list.hasFocus()
        press(Key.Key_Delete)
        sheet.list.choose("saved:Other")
        assert sheet.question.isHidden()  # it asked about another batch
        sheet.list.choose("saved:Tidy")
        press(Key.Key_Delete)
        press(Key.Key_Return)
        assert "Tidy" in console.saved
        assert sheet.question.isHidden()
        press(Key.Key_Delete)
        sheet.question.go_on.click()
        await seen(lambda: "saved:Tidy" not in shown(sheet))
        assert list(console.saved) == ["Other"]
        assert screen.editor.saved_as == ""
        assert screen.editor.dirty


async def test_examples_are_neither_renamed_nor_deleted(theme: Theme, tmp_path: Path) -> None:
    async with open_frame(theme, tmp_path, FakeConsole()) as desk:
        _, sheet = await opened(desk)
        sheet.list.setFocus()
        assert sheet.list.current_key().startswith("example:")
        for key in (Key.Key_F2, Key.Key_Delete):
            press(key)
            assert sheet.question.isHidden()
        assert not sheet.answer("rename").isEnabled()
        assert not sheet.answer("delete").isEnabled()


async def test_the_list_of_keys_names_renaming_and_deleting(theme: Theme, tmp_path: Path) -> None:
    async with open_frame(theme, tmp_path, FakeConsole()) as desk:
        screen = await batch_of(desk)
        words = {one.keys: one.words for one in screen.listed_keys}
        assert "rename" in words["F2"]
        assert "saved batch" in words["Delete"]
        QTest.keyClick(desk.window, Key.Key_F1)
        await seen(lambda: isinstance(sheet_of(desk), ShortcutsDialog))


async def test_what_was_open_lately_stands_first_and_is_opened_again_after_a_restart(
    theme: Theme, tmp_path: Path
) -> None:
    console = console_with("Other", "Tidy", "Zebra")

    async with open_frame(theme, tmp_path, console) as desk:
        screen, sheet = await opened(desk)
        sheet.list.choose("saved:Zebra")
        press(Key.Key_Return)
        await seen(lambda: screen.editor.saved_as == "Zebra")
        screen.editor.load(BatchDocument())
        _, sheet = await opened(desk)
        assert shown(sheet) == ["saved:Zebra", "saved:Other", "saved:Tidy"]

    async with open_frame(theme, tmp_path, console) as desk:
        screen = await batch_of(desk)
        button_named(screen.steps.empty, "Open Zebra").click()
        await seen(lambda: screen.editor.saved_as == "Zebra")


async def test_a_template_begins_a_new_batch_and_is_left_as_it_is(theme: Theme, tmp_path: Path) -> None:
    console = console_with("Tidy")
    before = console.saved["Tidy"]

    async with open_frame(theme, tmp_path, console) as desk:
        screen, sheet = await opened(desk)
        sheet.list.choose("saved:Tidy")
        sheet.answer("template").click()
        await seen(lambda: screen.editor.content.steps)
        assert (screen.editor.saved_as, screen.editor.dirty) == ("", True)
        QTest.keyClick(screen.steps.view, Key.Key_S, Qt.KeyboardModifier.ControlModifier)
        QTest.keyClicks(screen.head.name, "Mine")
        QTest.keyClick(screen.head.name, Key.Key_Return)
        await seen(lambda: "Mine" in console.saved)
        assert console.saved["Tidy"] == before
        assert console.saved["Mine"].steps == before.steps
        _, sheet = await opened(desk)
        sheet.list.choose(next(key for key in keys_of(sheet) if key.startswith("example:")))
        assert not sheet.answer("template").isEnabled()
