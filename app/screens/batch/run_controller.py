"""From Run to the run: its inputs, a fresh plan, the question where there is one, and the start."""

from __future__ import annotations

from typing import Any

from PySide6.QtCore import QObject, Signal
from PySide6.QtWidgets import QWidget

from app.qt_loop import ended
from app.query import Declined, Mutation
from app.screens.batch.inputs_dialog import GIVEN, InputsDialog
from app.screens.batch.run_dialog import RUN, make_run_sheet, needs_question
from app.service_client import ConsoleLink
from core.batch.models import Batch, Run
from core.errors import QuarterdeckError


class RunController(QObject):
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
        self._start: Mutation[Run] | None = None
        # By the name of a batch: what was given last, without secrets.
        self._given: dict[str, dict[str, Any]] = {}

    def bind(self, link: ConsoleLink) -> None:
        """Where to ask."""
        self._link = link
        self._start = Mutation(
            self, link, self._started, self._fail, "start the run", declined=self.busy_changed.emit
        )

    @property
    def busy(self) -> bool:
        """Whether a run is planned, asked about or being started."""
        return self._start is not None and self._start.running

    def start(self, batch: Batch) -> None:
        """Ask for its inputs, plan this batch, ask where that is needed, and run it."""
        if self._start is not None and self._start.carry(lambda: self._plan_and_start(batch)):
            self.busy_changed.emit()

    async def _plan_and_start(self, batch: Batch) -> Run:
        """Start the run on the devices of a fresh plan.

        Raises:
            Declined: the operator did not go on, or no device matches.
            QuarterdeckError: what the service answers.
        """
        assert self._link is not None
        inputs = await self._ask_inputs(batch) if batch.inputs else {}
        plan = await self._link.perform(lambda console: console.runs.plan(batch, inputs))
        self.planned.emit(plan)
        if not plan.devices:
            fact = f"No device matches “{batch.targets}”, so nothing was started."
            self.failed.emit(fact, "Change the filter.")
            raise Declined(fact)
        if needs_question(plan):
            sheet = make_run_sheet(self._screen.window(), batch, plan)
            sheet.open(focus=sheet.answer(RUN))
            if await ended(sheet.finished) != RUN:
                raise Declined("The run was not started.")
        # The devices that were shown, and no others: the core refuses when the filter means others by now.
        expected = list(plan.devices)
        return await self._link.perform(lambda console: console.runs.start(batch, expected, inputs))

    async def _ask_inputs(self, batch: Batch) -> dict[str, Any]:
        """The values of a batch's inputs.

        Raises:
            Declined: the operator did not go on.
        """
        shown = {name for name, one in batch.inputs.items() if not one.secret}
        earlier = self._given.get(batch.name, {})
        sheet = InputsDialog(
            self._screen.window(), batch, {name: earlier[name] for name in earlier if name in shown}
        )
        sheet.ask()
        if await ended(sheet.finished) != GIVEN:
            raise Declined("The run was not started.")
        self._given[batch.name] = {name: value for name, value in sheet.values.items() if name in shown}
        return sheet.values

    def _started(self, run: Run) -> None:
        self.busy_changed.emit()
        self.started.emit(run.summary.id)

    def _fail(self, error: QuarterdeckError) -> None:
        self.busy_changed.emit()
        self.failed.emit(error.message, error.info.next)
