"""What is known of each step beside itself: its risk, what is wrong with it, what the plan says of it."""

from __future__ import annotations

import time
from collections.abc import Sequence

from PySide6.QtCore import QObject, Signal

from app.forms.validator import SchemaHandle, Validator
from app.screens.batch.document import DraftStep, Steps, units_of
from app.screens.batch.step_form import id_error
from app.screens.batch.steps_model import StepNote, StepRow, rows_of
from app.screens.batch.text import count_outcomes, flow_lines, summary_of
from app.screens.batch.tool_catalog import CatalogState, ToolEntry
from app.widgets.util import debounce
from core.batch.models import Plan, PlannedCell
from core.errors import BadInput
from core.models.tools import Risk
from core.schema_forms.json_values import holds_expression, value_at
from core.schema_forms.secrets import secret_paths
from core.secret_rule import KNOWN_NAMES

_AT_ONCE_S = 0.015
"""How long steps are judged at one go; the others follow."""


class StepAnnotations(QObject):
    """Makes the rows of the steps; judging a step against its schema is done once for each change of it.

    Signals:
        judged: of steps that could not be judged at once it is known now what is wrong.
    """

    judged = Signal()

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._judged: dict[int, tuple[DraftStep, str, str, StepNote]] = {}
        self._flows: dict[int, tuple[DraftStep, Steps, str, tuple[str, ...]]] = {}
        self._checks: dict[int, tuple[str, Validator]] = {}
        self._subjects: dict[str, SchemaHandle] = {}
        # What counts as the name of a secret here, beside what schemas say.
        self.secret_names = KNOWN_NAMES
        self._soon = debounce(self, 0, self.judged.emit)

    def secrets(self, step: DraftStep, offered: ToolEntry | None) -> frozenset[str]:
        """The names of a step's arguments whose values are masked, and of those that hold such a value."""
        given, names = step.parameters, self.secret_names
        if offered is None and any(value is True and names.match(name) for name, value in given.items()):
            # Which argument `secret: true` is about says only the tool, which is not here.
            return frozenset(given)
        paths = secret_paths(given, [] if offered is None else [offered.tool.input_schema], names)
        return frozenset(part for path in paths for part in path if isinstance(part, str))

    def rows(
        self, steps: Sequence[DraftStep], offer: CatalogState, plan: Plan | None, own: tuple[int, str]
    ) -> list[StepRow]:
        """Rows of all steps. `own` is the open step's key and what its form says is wrong."""
        planned: dict[str, list[PlannedCell]] = {}
        for cell in plan.cells if plan is not None else []:
            planned.setdefault(cell.step, []).append(cell)
        ids: dict[str, int] = {}
        for one in steps:
            ids[one.id] = ids.get(one.id, 0) + 1
        recovery = {unit[0].key: unit[1:] for unit in units_of(steps)}
        notes: dict[int, StepNote] = {}
        until = time.perf_counter() + _AT_ONCE_S
        for one in steps:
            note = self._note(one, offer, until)
            cells = planned.get(one.id, [])
            others = [one.id] if ids[one.id] > 1 else []
            flow_fault, lines = self._flow(one, recovery.get(one.key, ()))
            typed = own[1] if own[0] == one.key else ""
            problem = id_error(one, others) or typed or note.problem or flow_fault
            risks = [cell.risk for cell in cells if cell.risk is not None]
            worst = max([*risks, *([Risk(note.risk)] if note.risk else [])], key=_rank, default=None)
            counts = count_outcomes(cells) if one.enabled else {}
            shown = worst.value if worst else ""
            notes[one.key] = StepNote(note.summary, note.title, shown, problem, counts, lines)
        for key in self._judged.keys() - notes.keys():
            del self._judged[key]
        self._flows = {key: kept for key, kept in self._flows.items() if key in notes}
        for key in self._checks.keys() - notes.keys():
            self._forget_check(key)
        return rows_of(steps, notes)

    def _flow(self, step: DraftStep, recovery: Steps) -> tuple[str, tuple[str, ...]]:
        """What is wrong with how a step goes on, and the lines that say it; made once for each change."""
        kept = self._flows.get(step.key)
        if kept is None or kept[0] is not step or kept[1] != recovery:
            kept = (step, recovery, _flow_fault(step, recovery), flow_lines(step, recovery))
            self._flows[step.key] = kept
        return kept[2], kept[3]

    def _forget_check(self, key: int) -> None:
        _, check = self._checks.pop(key)
        check.drop()
        check.deleteLater()

    def _problem(self, step: DraftStep, offered: ToolEntry, until: float) -> str | None:
        """What is wrong with a step's arguments; None while that is not known."""
        digest = offered.tool.contract.digest
        if step.key in self._checks and self._checks[step.key][0] != digest:
            self._forget_check(step.key)
        if step.key not in self._checks:
            if digest not in self._subjects:
                self._subjects[digest] = SchemaHandle(offered.tool.input_schema)
            check = Validator(self._subjects[digest], self)
            check.known.connect(self._soon.start)
            self._checks[step.key] = (digest, check)
        found = self._checks[step.key][1].errors(step.parameters, at_once=time.perf_counter() < until)
        if found is None:
            return None
        known = (error for error in found if not holds_expression(value_at(step.parameters, error.path)))
        return next((error.message for error in known), "")

    def _note(self, step: DraftStep, offer: CatalogState, until: float) -> StepNote:
        offered = None if step.is_approval else offer.find(step.tool)
        digest = offered.tool.contract.digest if offered else ""
        known = offered is not None or offer.reading or not offer.tools or step.is_approval
        kept = self._judged.get(step.key)
        if kept is not None and kept[0] is step and kept[1:3] == (digest, str(known)):
            return kept[3]
        problem: str | None = "" if known else "no matched device has this tool"
        risk = ""
        if offered is not None:
            risk = offered.tool.contract.risk.value.value
            problem = self._problem(step, offered, until)
        summary = summary_of(step, self.secrets(step, offered))
        note = StepNote(summary, offered.title if offered else "", risk, problem or "")
        if problem is None:
            self._judged.pop(step.key, None)
        else:
            self._judged[step.key] = (step, digest, str(known), note)
        return note


def _flow_fault(step: DraftStep, recovery: Steps) -> str:
    """What is wrong with how a step goes on; empty when nothing is. The plan judges its expressions."""
    if not step.flow and not recovery:
        return ""
    try:
        step.as_entry(recovery)
    except BadInput as error:
        return error.message.removeprefix(f"Step {step.id}: ")
    return ""


def _rank(risk: Risk) -> int:
    return risk.rank
