"""What the operator wants done with a run: cancel it, or keep its batch. Asked inline, then carried out."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from PySide6.QtCore import QObject, Qt, Signal
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QWidget

from app.query import Mutation
from app.screens.screen import Navigator
from app.screens.targets import OpenQuery, OpenReplay
from app.service_client import ConsoleLink
from app.text import problem_text
from app.theme.tokens import SPACE
from app.widgets.action import Action
from app.widgets.buttons import Button
from app.widgets.fields import TextField
from app.widgets.labels import Label, separator, set_surface
from app.widgets.layouts import hbox, vbox
from core.batch.file_names import MOST_CHARACTERS
from core.batch.models import Run, RunState, RunSummary
from core.errors import QuarterdeckError
from core.service.console import Console
from core.text import escape_hidden

Answer = TypeVar("Answer")


class InlineConfirm(QWidget):
    """One question across the pane, asked where the wish was made: words, perhaps a field, two answers.

    Signals:
        answered(text): the operator went on; `text` is what is in the field.
        closed: the question went away, in whichever way.
    """

    answered = Signal(str)
    closed = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        set_surface(self, "raised")
        self.words = Label("", "head")
        self.detail = Label("", "body", "text2", wrap=True)
        self.field = TextField("Name of the batch")
        self.field.setMinimumWidth(200)
        self.field.returnPressed.connect(self._go_on)
        self.problem = Label("", "meta", "fail", wrap=True)
        self.problem.hide()
        self.keep = Button("")
        self.keep.clicked.connect(lambda *_: self.close_question())
        self.go_on = Button("", "danger")
        self.go_on.clicked.connect(lambda *_: self._go_on())
        row = hbox(self.words, self.field, (self.detail, 1), self.keep, self.go_on, spacing=SPACE.small)
        inside = vbox(row, self.problem, margins=(SPACE.pane, 8, SPACE.pane, 8), spacing=SPACE.tight)
        vbox(inside, separator(), parent=self)
        self.hide()

    def ask_to_cancel(self, summary: RunSummary) -> None:
        """Ask whether this run should be cancelled."""
        self.words.setText("Cancel this run?")
        waits = " What waits is withdrawn." if summary.state is RunState.WAITING else ""
        self.detail.setText(f"Nothing further starts.{waits} Devices are asked to stop what they have.")
        self._open("Let it run", "Cancel the run", "danger", None)

    def ask_for_name(self, name: str) -> None:
        """Ask under which name the run's batch is saved."""
        self.words.setText("Save as batch")
        self.detail.setText(f"Under a name of at most {MOST_CHARACTERS} characters")
        self._open("Cancel", "Save", "normal", name)

    def _open(self, keep: str, go_on: str, kind: str, field: str | None) -> None:
        self.problem.hide()
        self.keep.set_words(keep)
        self.go_on.set_words(go_on)
        self.go_on.set_kind("danger" if kind == "danger" else "normal")
        self.field.setVisible(field is not None)
        self.setAccessibleName(self.words.text())
        self.go_on.set_working("")
        self.show()
        if field is not None:
            self.field.setText(field)
            self.field.selectAll()
            self.field.setFocus(Qt.FocusReason.OtherFocusReason)
        else:
            self.keep.setFocus(Qt.FocusReason.TabFocusReason)

    def say(self, problem: str, go_on: str = "") -> None:
        """Say what is in the way; `go_on` are new words for going on all the same."""
        self.problem.setText(problem)
        self.problem.setVisible(bool(problem))
        if go_on:
            self.go_on.set_words(go_on)

    def _go_on(self) -> None:
        if self.go_on.isEnabled():
            self.answered.emit(self.field.text().strip())

    def close_question(self) -> None:
        """Take the question back."""
        if self.isVisible():
            self.hide()
            self.closed.emit()


class RunActions(QObject):
    """What can be done with the run on show; its questions come one at a time."""

    def __init__(self, link: ConsoleLink, nav: Navigator, ask: InlineConfirm) -> None:
        super().__init__(ask)
        self._link, self._nav, self._ask = link, nav, ask
        self._summary: RunSummary | None = None
        self._run: Run | None = None
        self._cancels = ""
        self._saves: Run | None = None
        self._replaces = ""
        self.cancel = Action("Cancel run…", "stop", self.ask_to_cancel, "Shift+Esc", off=self._why_no_cancel)
        self.replay = Action(
            "Replay this run", "replay", self._open_replay, label="Replay", off=self._why_no_run
        )
        self.copy = Action("Copy run id", "copy", self._copy, off=self._why_no_run)
        self.journal = Action(
            "Open this run in the journal",
            "journal",
            self._open_journal,
            label="Open in journal",
            off=self._why_no_run,
        )
        self.save = Action(
            "Save this run's batch…",
            "save",
            self.ask_for_name,
            label="Save as batch…",
            off=lambda: "" if self._run else "The run was not read yet.",
        )
        self.all = (self.cancel, self.replay, self.copy, self.journal, self.save)
        ask.answered.connect(self._answered)
        ask.closed.connect(self._closed)
        ask.field.textEdited.connect(self._edited)

    def show_run(self, summary: RunSummary | None, run: Run | None) -> None:
        """Another run is on show, or has changed; `run` once it was read."""
        self._summary, self._run = summary, run

    def _why_no_run(self) -> str:
        return "" if self._summary else "No run is chosen."

    def _why_no_cancel(self) -> str:
        ended = self._summary is not None and self._summary.state.ended
        return "The run has ended." if ended else self._why_no_run()

    def _open_replay(self) -> None:
        self._nav.open("replay", OpenReplay(run=self._id()))

    def _open_journal(self) -> None:
        self._nav.open("journal", OpenQuery(f"run:{self._id()}"))

    def _copy(self) -> None:
        QGuiApplication.clipboard().setText(self._id())
        self._nav.toast(f"Copied {self._id()}")

    def _id(self) -> str:
        assert self._summary is not None
        return self._summary.id

    def ask_to_cancel(self) -> None:
        """Ask whether this run is to be cancelled."""
        assert self._summary is not None
        self._cancels, self._saves = self._summary.id, None
        self._ask.ask_to_cancel(self._summary)

    def ask_for_name(self) -> None:
        """Ask for the name under which the run's batch is saved."""
        run = self._run
        assert run is not None
        self._cancels, self._saves, self._replaces = "", run, ""
        name = escape_hidden(run.batch.name, keep_lines=False).strip()
        self._ask.ask_for_name(name[:MOST_CHARACTERS].strip())

    def _closed(self) -> None:
        self._cancels, self._saves, self._replaces = "", None, ""

    def _edited(self, text: str) -> None:
        del text
        if self._replaces:
            self._replaces = ""
            self._ask.say("", "Save")

    def _answered(self, text: str) -> None:
        if self._cancels:
            self._cancel(self._cancels)
        elif self._saves is not None:
            self._save(self._saves, text)

    def _cancel(self, run: str) -> None:
        self._mutation(self._cancelled, f"cancel run {run}").run(lambda console: console.runs.stop(run))

    def _mutation(self, done: Callable[[Answer], None], what: str) -> Mutation[Answer]:
        """What a question leads to; when that was closed meanwhile, the banner says the failure."""
        return Mutation(self._ask, self._link, done, self._failed, what, self._ask.go_on)

    def _cancelled(self, summary: RunSummary) -> None:
        if summary.id == self._cancels:
            self._ask.close_question()

    def _save(self, run: Run, name: str) -> None:
        if not name:
            self._ask.say("A name is needed.")
            return
        replace = self._replaces == name

        async def save(console: Console) -> bool:
            if not replace and name in await console.runs.batch_names():
                return False
            await console.runs.save_batch(name, run.batch)
            return True

        def saved(done: bool) -> None:
            if self._saves is not run:
                return
            if done:
                self._ask.close_question()
                self._nav.toast(f"Saved as batch {name}")
            else:
                self._replaces = name
                self._ask.say(f"There is a batch {name} already.", "Replace it")

        self._mutation(saved, "save the batch").run(save)

    def _failed(self, error: QuarterdeckError) -> None:
        self._ask.say(problem_text(error))
