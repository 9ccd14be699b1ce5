"""What can be done with the run on show and with its chosen cell. What changes something is asked first."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Literal, TypeVar

from PySide6.QtCore import QObject, Signal
from PySide6.QtGui import QGuiApplication

from app.query import Mutation, Query, quietly
from app.screens.runs.export_bar import ExportBar
from app.screens.runs.inline_confirm import InlineConfirm, Question
from app.screens.runs.remainder_text import Left, left_of
from app.screens.runs.resume_dialog import ResumeDialog
from app.screens.runs.undo_dialog import UndoDialog
from app.screens.screen import Navigator
from app.screens.targets import OpenQuery, OpenReplay, OpenRun
from app.service_client import ConsoleLink
from app.text import one_line, problem_text
from app.widgets.action import Action
from core.batch.file_names import MOST_CHARACTERS
from core.batch.models import Cell, CellState, Run, RunState, RunSummary
from core.errors import QuarterdeckError
from core.service.console import Console
from core.text import escape_hidden

Answer = TypeVar("Answer")
Outcome = Literal["done", "not_done"]
_CANCELLABLE = (CellState.QUEUED, CellState.RUNNING, CellState.RETRYING, CellState.WAITING)
# Cells of a run of which it is seen at once what is left; with more that would be a visible stall.
MOST_AT_ONCE = 2_000
_NOT_READ = "The run was not read yet."


class RunActions(QObject):
    """Acts on the run on show; its questions come one at a time.

    Signals:
        changed: the run is another one now, and the service does not tell of it.
        renamed: an action says something else now.
    """

    changed = Signal()
    renamed = Signal()

    def __init__(self, link: ConsoleLink, nav: Navigator, ask: InlineConfirm, export: ExportBar) -> None:
        super().__init__(ask)
        self._link, self._nav, self._ask, self._export = link, nav, ask, export
        export.written.connect(nav.toast)
        export.failed.connect(lambda error: link.failed.emit("export the results", error))
        self._summary: RunSummary | None = None
        self._run: Run | None = None
        self._cell: Cell | None = None
        self._left: Left | None = None
        self._reading_left = Query(self, link, self._show_left, quietly, "see what of the run is left")
        self._replaces = ""
        self._make_controls()
        self._make_cell_actions()
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
            off=lambda: "" if self._run else _NOT_READ,
        )
        self.export = Action(
            "Export the results of this run…",
            "export",
            self._choose_file,
            "Ctrl+E",
            label="Export results…",
            off=self._why_no_run,
        )
        ask.field.textEdited.connect(self._edited)

    def _make_controls(self) -> None:
        self.pause = Action(
            "Pause the run, or let it go on",
            "pause",
            self._pause_or_go_on,
            acts_at_once=True,
            label="Pause",
            off=self._why_ended,
        )
        self.cancel = Action(
            "Cancel run…", "stop", self.ask_to_cancel, "Shift+Esc", off=self._why_ended,
            tip="Start nothing further in this run (Shift+Esc)",
        )  # fmt: skip
        self.resume = Action(
            "Resume the run, or re-run what failed…",
            "run",
            self._open_resume,
            "R",
            label="Resume…",
            off=self._why_no_resume,
        )
        self.undo = Action(
            "Undo what the run changed…", "undo", self._open_undo, "U", label="Undo…", off=self._why_no_undo
        )

    def _make_cell_actions(self) -> None:
        self.cancel_step = Action(
            "Cancel this step on this device…",
            "stop",
            self._ask_to_cancel_step,
            "C",
            label="Cancel this…",
            off=self._why_no_cancel_step,
        )
        self.settle_done = Action(
            "Say that this step is done by hand…",
            "approve",
            lambda: self._ask_to_settle("done"),
            "D",
            label="Done by hand…",
            off=self._why_not_settled,
        )
        self.settle_not_done = Action(
            "Say that this step was not done…",
            "deny",
            lambda: self._ask_to_settle("not_done"),
            label="It was not done…",
            off=self._why_not_unknown,
        )

    @property
    def keys(self) -> tuple[Action, ...]:
        """Those with keys, as F1 lists them."""
        return (self.cancel, self.resume, self.undo, self.cancel_step, self.settle_done, self.export)

    @property
    def others(self) -> tuple[Action, ...]:
        """Those without keys."""
        return (self.pause, self.settle_not_done, self.replay, self.copy, self.journal, self.save)

    def show_run(self, summary: RunSummary | None, run: Run | None) -> None:
        """Another run is on show, or has changed; `run` once it was read."""
        other = run is not self._run
        self._summary, self._run = summary, run
        if other:
            self._find_left(run)
        paused = summary is not None and summary.state is RunState.PAUSED
        self.pause.set_label("Go on" if paused else "Pause")
        ended = summary is not None and summary.state.ended
        self.resume.set_label(f"{self._left.words}…" if ended and self._left else "Resume…")
        self._refresh(*self.keys, *self.others)
        self.renamed.emit()

    @staticmethod
    def _refresh(*actions: Action) -> None:
        for action in actions:
            action.refresh()

    def _find_left(self, run: Run | None) -> None:
        """See what is left of a run that has ended; of a large one in a thread, for it takes a while."""
        self._left = None
        self._reading_left.cancel()
        if run is None or not run.summary.state.ended:
            return
        if len(run.cells) <= MOST_AT_ONCE:
            self._left = left_of(run)
            return

        async def find(_console: Console) -> Left:
            return await asyncio.to_thread(left_of, run)

        self._reading_left.load(find)

    def _show_left(self, left: Left) -> None:
        self._left = left
        self.show_run(self._summary, self._run)

    def show_cell(self, cell: Cell | None) -> None:
        """Another cell is chosen, or has changed."""
        self._cell = cell
        self._refresh(self.cancel_step, self.settle_done, self.settle_not_done)

    # Why not

    def _why_no_run(self) -> str:
        return "" if self._summary else "No run is chosen."

    def _why_ended(self) -> str:
        ended = self._summary is not None and self._summary.state.ended
        return "The run has ended." if ended else self._why_no_run()

    def _why_open(self) -> str:
        open_ = self._summary is not None and not self._summary.state.ended
        return "The run has not ended." if open_ else self._why_no_run()

    def _why_no_resume(self) -> str:
        if why := self._why_open():
            return why
        return self._left.off if self._left is not None else _NOT_READ

    def _why_no_undo(self) -> str:
        if why := self._why_open():
            return why
        assert self._summary is not None
        return f"It undoes {self._summary.undoes} itself." if self._summary.undoes else ""

    def _why_no_cancel_step(self) -> str:
        cell = self._cell
        if cell is None:
            return "No cell is chosen."
        if cell.state is CellState.CANCEL_ASKED:
            return "The device was asked already, and has not confirmed."
        return self._why_ended() or ("" if cell.state in _CANCELLABLE else "This step has ended.")

    def _why_not_settled(self) -> str:
        cell = self._cell
        if cell is None:
            return "No cell is chosen."
        if why := self._why_open():
            return why
        assert self._summary is not None
        if self._summary.resumed_by:
            return f"The run was resumed as {self._summary.resumed_by}."
        done = cell.state in (CellState.DONE, CellState.SKIPPED)
        return f"This step is {cell.state.value} already." if done else ""

    def _why_not_unknown(self) -> str:
        known = self._cell is not None and self._cell.state is not CellState.UNKNOWN
        return "What became of this step is known." if known else self._why_not_settled()

    # Elsewhere

    def _open_replay(self) -> None:
        self._nav.open("replay", OpenReplay(run=self._id()))

    def _open_journal(self) -> None:
        self._nav.open("journal", OpenQuery(f"run:{self._id()}"))

    def _copy(self) -> None:
        QGuiApplication.clipboard().setText(self._id())
        self._nav.toast(f"Copied {self._id()}")

    def _choose_file(self) -> None:
        assert self._summary is not None
        self._export.choose(self._summary.id, self._summary.name)

    def _id(self) -> str:
        assert self._summary is not None
        return self._summary.id

    def _open_new(self, run: Run) -> None:
        self._nav.open("runs", OpenRun(run.summary.id))

    # A run that goes on

    def _pause_or_go_on(self) -> None:
        run = self._id()
        paused = self._summary is not None and self._summary.state is RunState.PAUSED

        async def pause_or_go_on(console: Console) -> RunSummary:
            return await (console.runs.unpause(run) if paused else console.runs.pause(run))

        # Its answer shows in the head; a failure has no question to stand in.
        what = f"let run {run} go on" if paused else f"pause run {run}"
        Mutation[RunSummary](self._ask, self._link, what=what).run(pause_or_go_on)

    def ask_to_cancel(self) -> None:
        """Ask whether this run is to be cancelled."""
        assert self._summary is not None
        run = self._summary.id
        waits = " What waits is withdrawn." if self._summary.state is RunState.WAITING else ""
        self._ask_first(
            "Cancel this run?",
            f"Nothing further starts.{waits} Devices are asked to stop what they have.",
            ("Let it run", "Cancel the run"),
            lambda console: console.runs.stop(run),
            f"cancel run {run}",
        )

    def _ask_to_cancel_step(self) -> None:
        cell = self._cell
        assert cell is not None
        sent = cell.state is CellState.RUNNING
        detail = (
            "The device is asked to stop it. Until it confirms, it counts as running; without an answer its "
            "outcome is unknown."
            if sent
            else "Nothing was sent of it, and nothing is."
        )
        self._ask_first(
            f"Cancel {_place(cell)}?",
            f"{detail} The other devices go on.",
            ("Let it run", "Cancel this step"),
            lambda console: console.runs.cancel_step(cell.run, cell.device, cell.step),
            f"cancel {_place(cell)}",
        )

    # A run that has ended

    def _open_resume(self) -> None:
        assert self._run is not None
        dialog = ResumeDialog(self._ask.window(), self._link, self._run, self._open_new)
        dialog.settled.connect(self.changed)
        dialog.begin()

    def _open_undo(self) -> None:
        assert self._summary is not None
        name = f"{one_line(self._summary.name)} ({self._summary.id})"
        UndoDialog(self._ask.window(), self._link, self._summary.id, name, self._open_new).begin()

    def _ask_to_settle(self, outcome: Outcome) -> None:
        cell = self._cell
        assert cell is not None
        said = "is done" if outcome == "done" else "was not done"
        then = "A resumed run goes on after it." if outcome == "done" else "A resumed run begins it again."

        def settled(_cell: Cell) -> None:
            self.changed.emit()

        self._ask_first(
            f"Say that {_place(cell)} {said}?",
            f"The journal records it as your word. {then}",
            ("Leave it", f"It {said}"),
            lambda console: console.runs.settle(cell.run, cell.device, cell.step, outcome),
            f"record that {_place(cell)} {said}",
            settled,
            danger=False,
        )

    # Questions

    def _ask_first(
        self,
        words: str,
        detail: str,
        answers: tuple[str, str],
        act: Callable[[Console], Awaitable[Answer]],
        what: str,
        done: Callable[[Answer], None] | None = None,
        *,
        danger: bool = True,
    ) -> None:
        """Ask, then do `act`; the question goes once that has succeeded."""

        def succeeded(answer: Answer) -> None:
            self._ask.done(question)
            if done is not None:
                done(answer)

        def go_on(_text: str) -> None:
            self._mutation(succeeded, what).run(act)

        question = Question(words, detail, *answers, go_on, "danger" if danger else "normal")
        self._ask.ask(question)

    def _mutation(self, done: Callable[[Answer], None] | None, what: str) -> Mutation[Answer]:
        """What a question leads to; when that was closed meanwhile, the banner says the failure."""
        return Mutation(self._ask, self._link, done, self._failed, what, self._ask.go_on)

    def _failed(self, error: QuarterdeckError) -> None:
        self._ask.say(problem_text(error))

    # Saving its batch

    def ask_for_name(self) -> None:
        """Ask for the name under which the run's batch is saved."""
        run = self._run
        assert run is not None
        self._replaces = ""
        name = escape_hidden(run.batch.name, keep_lines=False).strip()[:MOST_CHARACTERS].strip()
        detail = f"Under a name of at most {MOST_CHARACTERS} characters"
        question = Question(
            "Save as batch",
            detail,
            "Cancel",
            "Save",
            lambda text: self._save(run, text, question),
            "normal",
            name,
        )
        self._ask.ask(question)

    def _edited(self, text: str) -> None:
        del text
        if self._replaces:
            self._replaces = ""
            self._ask.say("", "Save")

    def _save(self, run: Run, name: str, question: Question) -> None:
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
            if self._ask.question is not question:
                return
            if done:
                self._ask.close_question()
                self._nav.toast(f"Saved as batch {name}")
            else:
                self._replaces = name
                self._ask.say(f"There is a batch {name} already.", "Replace it")

        self._mutation(saved, "save the batch").run(save)


def _place(cell: Cell) -> str:
    return f"{one_line(cell.step)} on {one_line(cell.device)}"
