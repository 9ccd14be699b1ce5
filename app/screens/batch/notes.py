"""What is known of each step beside itself: its risk, what is wrong with it, what the plan says of it."""

from __future__ import annotations

from collections.abc import Sequence

from app.screens.batch.content import DraftStep
from app.screens.batch.step_pane import id_error
from app.screens.batch.steps_model import StepNote, StepRow, rows_of
from app.screens.batch.tools import Offer, OfferedTool
from app.screens.batch.words import count_outcomes, secret_names, summary_of
from core.batch.models import Plan, PlannedCell
from core.fleet.models import Risk
from core.schema_forms.validate import validator_for


class Notes:
    """Makes the rows of the steps; judging a step against its schema is done once for each change of it."""

    def __init__(self) -> None:
        self._judged: dict[int, tuple[DraftStep, str, str, StepNote]] = {}
        self._secrets: dict[str, frozenset[str]] = {}

    def secrets(self, offered: OfferedTool | None) -> frozenset[str]:
        """The arguments of a tool whose values are masked."""
        if offered is None:
            return frozenset()
        digest = offered.tool.contract.digest
        if digest not in self._secrets:
            self._secrets[digest] = secret_names(offered.tool.input_schema)
        return self._secrets[digest]

    def rows(
        self, steps: Sequence[DraftStep], offer: Offer, plan: Plan | None, own: tuple[int, str]
    ) -> list[StepRow]:
        """Rows of all steps. `own` is the open step's key and what its form says is wrong."""
        planned: dict[str, list[PlannedCell]] = {}
        for cell in plan.cells if plan is not None else []:
            planned.setdefault(cell.step, []).append(cell)
        ids: dict[str, int] = {}
        for one in steps:
            ids[one.id] = ids.get(one.id, 0) + 1
        notes: dict[int, StepNote] = {}
        for one in steps:
            note = self._note(one, offer)
            cells = planned.get(one.id, [])
            others = [one.id] if ids[one.id] > 1 else []
            problem = id_error(one, others) or (own[1] if own[0] == one.key else "") or note.problem
            risks = [cell.risk for cell in cells if cell.risk is not None]
            worst = max([*risks, *([Risk(note.risk)] if note.risk else [])], key=_rank, default=None)
            counts = count_outcomes(cells) if one.enabled else {}
            notes[one.key] = StepNote(note.summary, note.title, worst.value if worst else "", problem, counts)
        for key in self._judged.keys() - notes.keys():
            del self._judged[key]
        return rows_of(steps, notes)

    def _note(self, step: DraftStep, offer: Offer) -> StepNote:
        offered = offer.find(step.tool)
        digest = offered.tool.contract.digest if offered else ""
        known = offered is not None or offer.reading or not offer.tools
        kept = self._judged.get(step.key)
        if kept is not None and kept[0] is step and kept[1:3] == (digest, str(known)):
            return kept[3]
        problem, risk = "", ""
        if offered is not None:
            risk = offered.tool.contract.risk.value.value
            found = validator_for(offered.tool.input_schema).errors(step.parameters)
            problem = found[0].message if found else ""
        elif not known:
            problem = "no matched device has this tool"
        note = StepNote(
            summary_of(step, self.secrets(offered)), offered.title if offered else "", risk, problem
        )
        self._judged[step.key] = (step, digest, str(known), note)
        return note


def _rank(risk: Risk) -> int:
    return risk.rank
