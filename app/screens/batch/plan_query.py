"""Keeps the plan and the judgement of the open step up to date; both only ask, nothing is ever sent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from PySide6.QtCore import QObject, Signal

from app.query import Query
from app.screens.batch.document import BatchDocument, DraftStep
from app.screens.batch.tool_catalog import ToolEntry
from app.service_client import ConsoleLink
from app.widgets.util import debounce
from core.batch.models import Plan
from core.errors import BadInput, QuarterdeckError
from core.models.devices import Device, Health
from core.policy.models import Decision
from core.schema_forms.json_values import holds_expressions

PLAN_PAUSE_MS = 400
PLANNING = "planning…"
EXPLAIN_PAUSE_MS = 300
PLANNED_BY_ITSELF = 50
"""Matched devices up to which a plan follows every change by itself; beyond, F5 makes one."""


class PlanQuery(QObject):
    """Makes plans of the batch as it stands.

    Signals:
        planned(plan): a plan of the batch as it stands, a `Plan`.
        stale(words): the plan on show is of an earlier batch, or there can be none; `words` say why.
        failed(words): a plan could not be made.
    """

    planned = Signal(object)
    stale = Signal(str)
    failed = Signal(str)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._link: ConsoleLink | None = None
        self._plan: Query[Plan] | None = None
        self._content = BatchDocument()
        self._problem = ""
        self._pause = debounce(self, PLAN_PAUSE_MS, self.plan_now)
        self.keys: list[int] = []

    def bind(self, link: ConsoleLink) -> None:
        """Where to ask."""
        self._link = link
        self._plan = Query(self, link, self.planned.emit, self._fail, "plan the batch")

    @property
    def busy(self) -> bool:
        """Whether a plan is waited for, or will be made after the pause."""
        return self._pause.isActive() or (self._plan is not None and self._plan.loading)

    def show_batch(self, content: BatchDocument, matched: int, problem: str) -> None:
        """The batch or its devices are others now; plans soon where that is cheap."""
        self._content, self._problem = content, problem
        self.stop()
        if problem:
            self.stale.emit(problem)
        elif matched > PLANNED_BY_ITSELF:
            self.stale.emit(f"{matched} devices: press F5 for a plan")
        else:
            self.stale.emit(PLANNING)
            self._pause.start()

    def stop(self) -> None:
        """No plan is wanted: the screen went to the back, or the batch is another one."""
        self._pause.stop()
        if self._plan is not None:
            self._plan.cancel()

    def plan_now(self) -> None:
        """Plan at once, however many devices there are."""
        self.stop()
        if self._link is None or self._plan is None:
            return
        if self._problem:
            self.failed.emit(self._problem)
            return
        if not self._link.connected:
            self.stale.emit("no plan while the service is not connected")
            return
        try:
            batch = self._content.as_batch()
        except BadInput as error:
            self.failed.emit(error.message)
            return
        self.keys = [step.key for step in self._content.steps]
        self.stale.emit(PLANNING)
        self._plan.load(lambda console: console.runs.plan(batch))

    def _fail(self, error: QuarterdeckError) -> None:
        self.failed.emit(error.message)


class ExplainQuery(QObject):
    """Asks what the policy would say of the open step.

    Signals:
        explained(decision, where): of the step as it stands; `where` says of which device.
        quiet(words): nothing is judged; `words` say why.
    """

    explained = Signal(object, str)
    quiet = Signal(str)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._link: ConsoleLink | None = None
        self._decision: Query[Decision] | None = None
        self._what: tuple[str, str, dict[str, Any], str] | None = None
        self._pause = debounce(self, EXPLAIN_PAUSE_MS, self._ask)

    def bind(self, link: ConsoleLink) -> None:
        """Where to ask."""
        self._link = link
        self._decision = Query(self, link, self._take, self._fail, "judge the step")

    def show_step(
        self, step: DraftStep | None, offered: ToolEntry | None, matched: Sequence[Device], problem: str
    ) -> None:
        """The open step or its arguments are others now."""
        self.stop()
        if step is None or offered is None:
            self.quiet.emit("")
            return
        if holds_expressions(step.parameters):
            self.quiet.emit(
                "Not judged here: its arguments have expressions. The plan fills in what is known."
            )
            return
        if problem:
            self.quiet.emit(f"Not judged yet: {problem[:1].lower()}{problem[1:]}")
            return
        device = _example(offered, matched)
        if device is None:
            self.quiet.emit("Not judged: no matched device that has this tool is online.")
            return
        more = len(matched) - 1
        where = f"As judged for {device.name}" + (f"; the plan has the other {more}." if more else ".")
        self._what = (device.name, step.tool, step.parameters, where)
        self._pause.start()

    def stop(self) -> None:
        """What was asked is of no interest any more."""
        self._pause.stop()
        self._what = None
        if self._decision is not None:
            self._decision.cancel()

    def _ask(self) -> None:
        if self._what is None or self._link is None or self._decision is None:
            return
        device, tool, parameters, _where = self._what
        if not self._link.connected:
            self.quiet.emit("Not judged while the service is not connected.")
            return
        self._decision.load(lambda console: console.policy.explain(device, tool, parameters))

    def _take(self, decision: Decision) -> None:
        if self._what is not None:
            self.explained.emit(decision, self._what[3])

    def _fail(self, error: QuarterdeckError) -> None:
        self.quiet.emit(f"Not judged: {error.message}")


def _example(offered: ToolEntry, matched: Sequence[Device]) -> Device | None:
    """The device a step is judged for: production first, because there most is at stake."""
    having = [
        one
        for one in matched
        if one.name in offered.devices and one.health not in (Health.OFFLINE, Health.RECONNECTING)
    ]
    return next((one for one in having if one.production), having[0] if having else None)
