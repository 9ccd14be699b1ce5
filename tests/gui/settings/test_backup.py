"""Settings, About: the home is backed up to a new file, under a passphrase, with progress and Cancel."""

from __future__ import annotations

import os
import threading
from pathlib import Path

from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QLineEdit

from app.main import ConsoleApplication
from app.screens.settings.backup_bar import BackupBar
from app.screens.targets import OpenSection
from app.theme.theme import Theme
from app.widgets.dialog import Dialog
from app.widgets.fields import Field
from app.widgets.labels import Label
from core.service.backup.checking import check
from core.service.backup.reading import BackupFile
from core.service.backup.sealing import key_of
from core.service.console import WorkProgressed
from tests.fakes.console import FakeConsole
from tests.fakes.window import open_frame, seen
from tests.fakes.window_on_service import open_on_service
from tests.gui.page import problem_in, visible
from tests.gui.settings.page import dialog_in_front, open_section

PHRASE = "correct horse battery"


def backup_bar(desk: ConsoleApplication) -> BackupBar:
    return open_section(desk, OpenSection("about")).about.backup


async def asked(desk: ConsoleApplication, bar: BackupBar, path: Path) -> Dialog:
    """Choose a file; the dialog that asks for the passphrase."""
    bar.start.click()
    chooser = bar.dialog
    assert chooser is not None
    assert not chooser.isModal()
    chooser.fileSelected.emit(str(path))
    chooser.reject()
    return await dialog_in_front(desk)


def type_twice(dialog: Dialog, phrase: str) -> None:
    for field in dialog.findChildren(QLineEdit):
        field.clear()
        QTest.keyClicks(field, phrase)


async def test_a_backup_of_the_window_can_be_restored(theme: Theme, tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    target = tmp_path / "disk" / "desk.tar"
    async with open_on_service(theme, tmp_path / "bay") as bay:
        bar = backup_bar(bay.desk)
        dialog = await asked(bay.desk, bar, target)
        assert any("cannot be restored" in label.text() for label in dialog.findChildren(Label))
        assert not dialog.answer("backup").isEnabled()
        type_twice(dialog, "short")
        dialog.answer("backup").click()
        await seen(lambda: "at least 10" in problem_in(dialog))
        secret, again = dialog.findChildren(QLineEdit)
        assert {secret.echoMode(), again.echoMode()} == {QLineEdit.EchoMode.Password}
        type_twice(dialog, PHRASE)
        QTest.keyClicks(again, "x")
        assert "not the same" in dialog.findChildren(Field)[1].error
        QTest.keyClick(again, Qt.Key.Key_Backspace)
        dialog.answer("backup").click()
        await seen(bar.outcome.isVisible)
        assert "Without its passphrase it cannot be restored" in bar.outcome.text()
        with BackupFile(target) as backup:
            key = key_of(PHRASE, backup.description.salt)
            description = check(backup, key, lambda done, total: None, threading.Event())
        assert f"up to entry {description.entries:,}" in bar.outcome.text()
        assert bar.start.isEnabled()
        # Once more to the same place: nothing is written over.
        before = target.read_bytes()
        dialog = await asked(bay.desk, bar, target)
        type_twice(dialog, PHRASE)
        dialog.answer("backup").click()
        await seen(bar.problem.isVisible)
        assert target.read_bytes() == before
        assert os.listdir(target.parent) == ["desk.tar"]


async def test_its_progress_is_shown_and_it_can_be_cancelled(theme: Theme, tmp_path: Path) -> None:
    console = FakeConsole()
    held = console.hold_back("backup")
    async with open_frame(theme, tmp_path, console) as desk:
        bar = backup_bar(desk)
        console.emit(WorkProgressed(what="backup", done=1, total=2))
        # Another client's: this window makes none.
        await seen(lambda: desk.state.work.get("backup") == (1, 2))
        assert not bar.progress.isVisible()
        dialog = await asked(desk, bar, tmp_path / "desk.tar")
        type_twice(dialog, PHRASE)
        dialog.answer("backup").click()
        await seen(lambda: "backup" in console.asked)
        assert not visible(desk.window, Dialog)
        assert not bar.start.isEnabled()
        console.emit(WorkProgressed(what="backup", done=3_000_000, total=12_000_000))
        await seen(lambda: bar.progress.words.text() == "3.0 of 12.0 MB")
        assert bar.progress.bar.share() == 0.25
        bar.progress.cancel.click()
        assert bar.start.isEnabled()
        assert not bar.progress.isVisible()
        assert bar.outcome.text() == "It was cancelled; no backup was made."
        held.set()
        await seen(lambda: bar.outcome.isVisible())
        assert "cancelled" in bar.outcome.text()
