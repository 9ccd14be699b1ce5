"""What the operator wants done with a run: cancel it, or keep its batch. Asked inline, then carried out."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from PySide6.QtCore import QObject
from PySide6.QtGui import QGuiApplication

from app.query import Mutation
from app.screens.runs.header import InlineConfirm
from app.screens.screen import Navigator
from app.screens.targets import OpenQuery, OpenReplay
from app.service_client import ConsoleLink
from app.text import problem_text
from core.batch.file_names import MOST_CHARACTERS
from core.batch.models import Run, RunSummary
from core.errors import QuarterdeckError
from core.service.console import Console
from core.text import escape_hidden

Answer = TypeVar("Answer")


class RunActions(QObject):
    """Questions about one run, one at a time."""

    def __init__(self, link: ConsoleLink, nav: Navigator, ask: InlineConfirm) -> None:
        super().__init__(ask)
        self._link, self._nav, self._ask = link, nav, ask
        self._cancels = ""
        self._saves: Run | None = None
        self._replaces = ""
        ask.answered.connect(self._answered)
        ask.closed.connect(self._closed)
        ask.field.textEdited.connect(self._edited)

    def carry_out(self, what: str, summary: RunSummary, run: Run | None) -> None:
        """Do what the head offers: `cancel`, `replay`, `copy`, `journal` or `save`."""
        match what:
            case "cancel" if not summary.state.ended:
                self.ask_to_cancel(summary)
            case "replay":
                self._nav.open("replay", OpenReplay(run=summary.id))
            case "copy":
                QGuiApplication.clipboard().setText(summary.id)
                self._nav.toast(f"Copied {summary.id}")
            case "journal":
                self._nav.open("journal", OpenQuery(f"run:{summary.id}"))
            case "save" if run is not None:
                self.ask_for_name(run)

    def ask_to_cancel(self, summary: RunSummary) -> None:
        """Ask whether this run is to be cancelled."""
        self._cancels, self._saves = summary.id, None
        self._ask.ask_to_cancel(summary)

    def ask_for_name(self, run: Run) -> None:
        """Ask for the name under which the run's batch is saved."""
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
