"""Closing the window: with work running it asks; the service and its work go on unless told otherwise."""

from __future__ import annotations

from PySide6.QtCore import QObject, Signal
from PySide6.QtWidgets import QWidget

from app.qt_loop import ended
from app.service_client import ConsoleLink
from app.state import AppState
from app.text import plural
from app.widgets.dialog import Dialog
from core.batch.models import RunState
from core.errors import QuarterdeckError
from core.service.console import Console

LEAVE, CANCEL, STAY = "leave", "cancel", "stay"


class CloseGuard(QObject):
    """Answers `MainWindow.close_asked`.

    Signals:
        agreed: the window may go now.
    """

    agreed = Signal()

    def __init__(self, window: QWidget, state: AppState, link: ConsoleLink) -> None:
        super().__init__(window)
        self._window, self._state, self._link = window, state, link
        self._sheet: Dialog | None = None

    def start(self) -> None:
        """Agree at once when nothing runs; else ask. A second request brings the question back."""
        if not self._link.connected or not self._state.open_runs():
            self.agreed.emit()
        elif self._sheet is None:
            self._link.spawn("leave", self._ask())

    async def _ask(self) -> None:
        runs = self._state.open_runs()
        waiting = sum(1 for run in runs if run.state is RunState.WAITING)
        words = f"{plural(len(runs), 'run')} not ended"
        words += f", {waiting} of them waiting for you." if waiting else "."
        sheet = self._sheet = Dialog(
            self._window,
            "Work is running. Leave it running?",
            f"{words} The service goes on without this window and ends itself when nothing is left to do. "
            "Requests that wait expire if no operator answers them.",
            width=520,
        )
        sheet.add_answer(STAY, "Stay")
        sheet.add_answer(CANCEL, "Cancel it", "danger")
        sheet.add_answer(LEAVE, "Leave it running", "primary")
        sheet.open()
        answer = await ended(sheet.finished)
        self._sheet = None
        if answer == LEAVE:
            self.agreed.emit()
        elif answer == CANCEL:
            self._link.ask(self._cancel_all, lambda _none: self.agreed.emit(), what="cancel what is running")

    async def _cancel_all(self, console: Console) -> None:
        failed: QuarterdeckError | None = None
        for run in self._state.open_runs():
            try:
                await console.runs.stop(run.id)
            except QuarterdeckError as error:
                failed = error
        if failed is not None:
            raise failed
