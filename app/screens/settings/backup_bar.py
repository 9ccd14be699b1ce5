"""Backing up the home from the window: where to, under which passphrase, how far it is, what came of it."""

from __future__ import annotations

import asyncio
from pathlib import Path

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QFileDialog, QLineEdit, QWidget

from app.form_dialog import FormDialog
from app.query import Query
from app.service_client import ConsoleLink
from app.state import AppState
from app.text import count_words, one_line, problem_text
from app.widgets.banner import Notice
from app.widgets.buttons import Button
from app.widgets.fields import Field, TextField
from app.widgets.labels import Label
from app.widgets.layouts import STRETCH, hbox, vbox
from app.widgets.progress import Progress
from core.errors import BadInput, QuarterdeckError
from core.service.console import BackupKey, BackupMade, Console

WORDS = (
    "The keys of this home, and what this computer's device keeps, are encrypted under this passphrase; "
    "without it the backup cannot be restored. The journal with its pictures, the policy and the batches are "
    "not encrypted: keep the file as you keep the home."
)


class BackupBar(QWidget):
    """The button, and under it the progress of a backup or its outcome."""

    def __init__(self, state: AppState, link: ConsoleLink) -> None:
        super().__init__()
        self._state, self._link = state, link
        self._path = Path()
        self.dialog: QFileDialog | None = None
        self._making = Query(self, link, self._made, self._failed, "back up the home")
        self.start = Button("Back up…", icon="save")
        self.start.clicked.connect(self.choose)
        self.progress = Progress("Backup", cancellable=True)
        self.progress.cancelled.connect(self._cancel)
        self.outcome = Label("", tone="text2", wrap=True)
        self.problem = Notice("fail", "")
        vbox(hbox(self.start, STRETCH), self.progress, self.outcome, self.problem, parent=self, spacing=8)
        for widget in (self.progress, self.outcome, self.problem):
            widget.hide()
        state.work_changed.connect(self._show_work)

    def choose(self) -> None:
        """Ask for the file; the window goes on meanwhile."""
        dialog = QFileDialog(self, "Back up this home")
        dialog.setAcceptMode(QFileDialog.AcceptMode.AcceptSave)
        dialog.setNameFilters(["Backup (*.tar)"])
        dialog.setDefaultSuffix("tar")
        # The service writes over no file, and says so.
        dialog.setOption(QFileDialog.Option.DontConfirmOverwrite)
        dialog.selectFile("quarterdeck.tar")
        dialog.setModal(False)
        dialog.fileSelected.connect(lambda path: self.ask(Path(path)))
        dialog.finished.connect(dialog.deleteLater)
        self.dialog = dialog
        dialog.show()

    def ask(self, path: Path) -> None:
        """Ask for the passphrase of the backup at `path`, twice; then make it."""
        keys: list[BackupKey] = []
        dialog = FormDialog(self.window(), self._link, f"Back up to {one_line(path.name)}", WORDS)
        secret, again = TextField("Passphrase", "at least 10 characters"), TextField("Passphrase again")
        again_row = Field("Passphrase again", again)
        for field, row in ((secret, Field("Passphrase", secret)), (again, again_row)):
            field.setEchoMode(QLineEdit.EchoMode.Password)
            dialog.add(row)

        async def derive() -> None:
            keys.append(await asyncio.to_thread(_key_of, secret.text()))

        button = dialog.add_act(
            "backup",
            "Back up",
            derive,
            "back up the home",
            done=lambda: self._make(path, keys[-1]),
            busy="The key is made of the passphrase.",
        )

        def check() -> None:
            differ = bool(again.text()) and again.text() != secret.text()
            again_row.set_error("The two are not the same." if differ else "")
            typed = bool(secret.text()) and secret.text() == again.text()
            button.set_off("" if typed else "Type the passphrase twice.")

        for field in (secret, again):
            field.textChanged.connect(check)
            field.returnPressed.connect(button.click)
        check()
        dialog.open(secret)

    def _make(self, path: Path, key: BackupKey) -> None:
        self._path = path
        self.outcome.hide()
        self.problem.hide()
        self.progress.show_progress(None, f"Backing up to {one_line(path.name)}…")
        self.progress.show()
        self.start.set_off("A backup is being made.")

        async def back_up(console: Console) -> BackupMade:
            return await console.service.backup(str(path), key)

        self._making.load(back_up)

    def _show_work(self) -> None:
        done, total = self._state.work.get("backup", (0, 0))
        # Another client's backup is told to every window.
        if self._making.loading and total:
            words = f"{done / 1e6:,.1f} of {total / 1e6:,.1f} MB"
            self.progress.show_progress(done / total, words)

    def _made(self, made: BackupMade) -> None:
        self._end()
        left_out = f" Left out: {one_line(', '.join(made.left_out))}." if made.left_out else ""
        self.outcome.setText(
            f"{one_line(made.path)} has {count_words(made.files)} files, {made.size / 1e6:,.1f} MB, and the "
            f"journal up to entry {made.entries:,}.{left_out} Without its passphrase it cannot be restored."
        )
        self.outcome.show()

    def _failed(self, error: QuarterdeckError) -> None:
        self._end()
        self.problem.say("fail", problem_text(error))
        self.problem.show()

    def _cancel(self) -> None:
        self._making.cancel()
        self._end()
        self.outcome.setText("It was cancelled; no backup was made.")
        self.outcome.show()

    def _end(self) -> None:
        self.progress.hide()
        self.start.set_off("")
        if self.progress.isAncestorOf(self.focusWidget() or self):
            self.start.setFocus(Qt.FocusReason.OtherFocusReason)


def _key_of(passphrase: str) -> BackupKey:
    """The key of a new backup.

    Raises:
        BadInput: the passphrase is too short.
    """
    # Imported here: the window starts without the library that encrypts.
    from core.approvals.operator_keys import SHORTEST_PASSPHRASE
    from core.service.backup.sealing import new_key

    if len(passphrase) < SHORTEST_PASSPHRASE:
        raise BadInput(f"A passphrase has at least {SHORTEST_PASSPHRASE} characters.")
    return new_key(passphrase)
