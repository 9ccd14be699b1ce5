"""From Run to the run: a fresh plan, the question where there is one, and the start."""

from __future__ import annotations

from PySide6.QtCore import QObject, Signal
from PySide6.QtWidgets import QWidget

from app.qt_loop import ended
from app.screens.batch.run_dialog import RUN, make_run_sheet, needs_question
from app.service_client import ConsoleLink
from core.batch.models import Batch, Plan, Run
from core.errors import QuarterdeckError


class Runner(QObject):
    """Starts runs, one wish at a time.

    Signals:
        busy_changed: whether a start is under way is another thing now.
        planned(plan): what was asked about, or started, was planned just now.
        started(run): the id of the run that started.
        failed(what, what to do): the run did not start.
    """

    busy_changed = Signal()
    planned = Signal(object)
    started = Signal(str)
    failed = Signal(str, str)

    def __init__(self, screen: QWidget) -> None:
        super().__init__(screen)
        self._screen = screen
        self._link: ConsoleLink | None = None
        self.busy = False

    def bind(self, link: ConsoleLink) -> None:
        """Where to ask."""
        self._link = link

    def start(self, batch: Batch) -> None:
        """Plan this batch, ask where that is needed, and run it."""
        if self.busy or self._link is None:
            return
        self._set_busy(True)
        self._link.ask(
            lambda console: console.runs.plan(batch),
            lambda plan: self._go_on(batch, plan),
            self._fail,
            what="plan the batch",
        )

    def _set_busy(self, busy: bool) -> None:
        self.busy = busy
        self.busy_changed.emit()

    def _go_on(self, batch: Batch, plan: Plan) -> None:
        self.planned.emit(plan)
        if not plan.devices:
            self._set_busy(False)
            self.failed.emit(
                f"No device matches “{batch.targets}”, so nothing was started.", "Change the filter."
            )
        elif needs_question(plan):
            assert self._link is not None
            self._link.spawn("ask before a run", self._ask(batch, plan))
        else:
            self._start(batch, plan)

    async def _ask(self, batch: Batch, plan: Plan) -> None:
        sheet = make_run_sheet(self._screen.window(), batch, plan)
        sheet.open(focus=sheet.answer(RUN))
        answer = await ended(sheet.finished)
        if answer == RUN:
            self._start(batch, plan)
        else:
            self._set_busy(False)

    def _start(self, batch: Batch, plan: Plan) -> None:
        assert self._link is not None
        # The devices that were shown, and no others: the core refuses when the filter means others by now.
        expected = list(plan.devices)
        self._link.ask(
            lambda console: console.runs.start(batch, expected),
            self._started,
            self._fail,
            what="start the run",
        )

    def _started(self, run: Run) -> None:
        self._set_busy(False)
        self.started.emit(run.summary.id)

    def _fail(self, error: QuarterdeckError) -> None:
        self._set_busy(False)
        self.failed.emit(error.message, error.info.next)
