"""How a call that was started in a tab goes: its state in words, links to its run and approval, cancel."""

from __future__ import annotations

from PySide6.QtCore import QObject, Signal
from PySide6.QtWidgets import QWidget

from app.query import Mutation
from app.screens.screen import Navigator
from app.screens.targets import OpenApproval, OpenRun
from app.service_client import ConsoleLink
from app.state import AppState
from app.widgets.labels import Label, Link
from core.batch.models import RunState, RunSummary
from core.errors import QuarterdeckError

_WELL = (RunState.WAITING, RunState.RUNNING, RunState.DONE)


class CallOutcome(QObject):
    """Follows one run at a time. `words` and `links` are laid out by the tab.

    Signals:
        ended(summary): the run that is followed has ended.
    """

    ended = Signal(object)

    def __init__(self, state: AppState, link: ConsoleLink, nav: Navigator, owner: QWidget) -> None:
        super().__init__(owner)
        self._state, self._nav = state, nav
        self._run = ""
        self._has_ended = False
        self.words = Label("", tone="text2", wrap=True)
        self.open_run = Link("Open the run")
        self.open_approval = Link("Open the approval")
        self.cancel = Link("Cancel")
        self.cancel.setAccessibleName("Cancel the call")
        self.open_run.clicked.connect(lambda: nav.open("runs", OpenRun(self._run)))
        self.open_approval.clicked.connect(self._open_approval)
        self.cancel.clicked.connect(self._cancel)
        self._cancelling: Mutation[RunSummary] = Mutation(owner, link, None, self._not_cancelled)
        state.runs_changed.connect(self._run_changed)
        state.approvals_changed.connect(lambda: self._run_changed(self._run))
        self.clear()

    @property
    def links(self) -> tuple[Link, ...]:
        """What can be followed while there is a run."""
        return self.open_run, self.open_approval, self.cancel

    @property
    def run(self) -> str:
        """The id of the run that is followed; empty for none."""
        return self._run

    @property
    def is_open(self) -> bool:
        """Whether the run that is followed goes on."""
        return bool(self._run) and not self._has_ended

    def text(self) -> str:
        """What is said."""
        return self.words.text()

    def clear(self, words: str = "", tone: str = "text2") -> None:
        """Follow no run any more."""
        self._run = ""
        self.say(words, tone)

    def say(self, words: str, tone: str = "text2") -> None:
        """Say something of the call, in place of its state."""
        self.words.setText(words)
        self.words.set_tone(tone)
        self.words.setVisible(bool(words))
        self.open_run.setVisible(bool(self._run))
        self.open_approval.setVisible(self._approval() is not None)
        self.cancel.setVisible(self.is_open)

    def follow(self, summary: RunSummary) -> None:
        """Say how this run is, until it has ended."""
        self._run, self._has_ended = summary.id, False
        # Events may have told more of it than the answer to the call.
        self._show(self._state.runs.get(summary.id) or summary)

    def _run_changed(self, run: str) -> None:
        known = self._state.runs.get(self._run)
        if known is not None and run in ("", self._run) and not self._has_ended:
            self._show(known)

    def _show(self, summary: RunSummary) -> None:
        run, state = summary.id, summary.state
        words = {
            RunState.WAITING: f"{run} waits for your approval; nothing was sent yet.",
            RunState.RUNNING: f"{run} is running.",
            RunState.DONE: f"{run} is done.",
        }.get(state, f"{run}: {state.value.replace('_', ' ')}.")
        self._has_ended = state.ended
        self.say(words, "text2" if state in _WELL else "fail")
        if self._has_ended:
            self.ended.emit(summary)

    def _approval(self) -> str | None:
        waiting = self._state.approvals.values()
        return next((one.id for one in waiting if self._run and one.run == self._run), None)

    def _open_approval(self) -> None:
        if (approval := self._approval()) is not None:
            self._nav.open("approvals", OpenApproval(approval))

    def _cancel(self) -> None:
        run = self._run
        self._cancelling.run(lambda console: console.runs.stop(run), f"cancel {run}")

    def _not_cancelled(self, error: QuarterdeckError) -> None:
        self.say(f"{self._run} could not be cancelled. {error.info.sentences}", "fail")
