"""A plan on the terminal: what a run of a batch would do on each device, as text or JSON."""

from __future__ import annotations

from collections import Counter
from typing import Any

from core.batch.models import Plan, PlannedCell
from core.cli.output import one_line, table
from core.text import plural

LABELS = {
    "runs": "runs",
    "asks": "asks",
    "denied": "denied",
    "invalid": "invalid",
    "no_such_tool": "no such tool",
    "offline": "offline",
    "off": "switched off",
    "not_known": "not known yet",
    "skipped": "skipped",
    "question": "asks operators",
    "recovers": "if it fails",
}
"""The words for the outcomes, in the order in which they are counted."""


def plan_json(name: str, plan: Plan) -> dict[str, Any]:
    """A plan for programs. Nothing was sent."""
    return {"batch": name, "plan": plan.model_dump(mode="json"), "counts": _counts(plan.cells)}


def plan_text(name: str, plan: Plan) -> str:
    """A plan for people. Devices for which it says the same are one row."""
    counts = ", ".join(f"{number} {LABELS[outcome]}" for outcome, number in _counts(plan.cells).items())
    head = f"Plan of {one_line(name)} on {plural(len(plan.devices), 'device')}: {counts}. Nothing was sent."
    rows: list[tuple[object, ...]] = []
    for step in plan.steps:
        groups: dict[tuple[str, str], list[str]] = {}
        for cell in plan.cells:
            if cell.step == step:
                groups.setdefault((cell.outcome, one_line(cell.why)), []).append(cell.device)
        rows += [
            (step, LABELS[outcome], _devices(names, plan), why) for (outcome, why), names in groups.items()
        ]
    return f"{head}\n\n{table(('STEP', 'WOULD', 'DEVICES', 'BECAUSE'), rows)}"


def _devices(names: list[str], plan: Plan) -> str:
    if len(names) == len(plan.devices) > 1:
        return f"all {len(names)}"
    shown = ", ".join(one_line(name) for name in names[:5])
    return shown if len(names) <= 5 else f"{shown} and {len(names) - 5} more"


def _counts(cells: list[PlannedCell]) -> dict[str, int]:
    counted = Counter(cell.outcome for cell in cells)
    return {outcome: counted[outcome] for outcome in LABELS if counted[outcome]}  # type: ignore[index]
