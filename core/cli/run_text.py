"""Runs and plans as text for people: how a run ended, how two differ, what a plan or an undo would do."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from typing import Any

from core.batch.models import (
    Cell,
    CellSide,
    CellState,
    Plan,
    PlannedCell,
    Run,
    RunComparison,
    UndoFate,
    UndoPlan,
    ValueDifference,
)
from core.batch.result_groups import ResultGroup, group_results, in_words
from core.batch.waves import wave_lines
from core.cli.output import (
    Block,
    Facts,
    Prose,
    Table,
    facts,
    moment,
    one_line,
    span,
    state_cell,
    table,
    tool_cell,
)
from core.cli.run_course import Course, attempts_of
from core.cli.run_display import words_of
from core.cli.terminal import STATE_STYLES, styled
from core.policy.models import Answer
from core.text import plural, shorten_middle, some_names

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


def plan_text(name: str, plan: Plan) -> list[Block]:
    """A plan for people. Devices for which it says the same are one row."""
    counts = ", ".join(f"{LABELS[outcome]} {number}" for outcome, number in _counts(plan.cells).items())
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
    waves = [*map(one_line, wave_lines(plan.waves, plan.production)), ""] if plan.waves else []
    return [Prose(head), "", *waves, table(("STEP", "WOULD", "DEVICES", "BECAUSE"), rows)]


def _devices(names: list[str], plan: Plan) -> str:
    if len(names) == len(plan.devices) > 1:
        return f"all {len(names)}"
    shown = ", ".join(one_line(name) for name in names[:5])
    return shown if len(names) <= 5 else f"{shown} and {len(names) - 5} more"


def _counts(cells: list[PlannedCell]) -> dict[str, int]:
    counted = Counter(cell.outcome for cell in cells)
    return {outcome: counted[outcome] for outcome in LABELS if counted[outcome]}  # type: ignore[index]


# Groups of one step, and differences of one group or cell, that are printed; `--json` has all.
MOST_GROUPS = 8
MOST_DIFFERENCES = 8
_LONGEST_VALUE = 60
_MOST_NAMED = 6
_FATES = {
    UndoFate.UNDOES: "is undone",
    UndoFate.UNDONE: "was undone",
    UndoFate.CANNOT: "stays",
    UndoFate.UNKNOWN: "not known",
    UndoFate.UNAVAILABLE: "stays",
    UndoFate.NOTHING: "",
}
"""What becomes of the change of each call."""
_ANSWERS = {Answer.ALLOW: "runs", Answer.ASK: "asks", Answer.DENY: "denied", None: "refused"}


def summary_text(run: Run) -> Facts:
    """The facts of a run."""
    summary = run.summary
    return facts(
        [
            ("Run", summary.id),
            ("Name", summary.name),
            ("State", state_cell(summary.state, words_of(summary.state))),
            ("Actor", summary.actor),
            ("Started", moment(summary.started_at)),
            ("Ended", moment(summary.ended_at)),
            ("Undoes", summary.undoes),
            ("Note", summary.note),
        ]
    )


def cells_text(run: Run) -> Table:
    """A run's cells, one a line."""
    course = Course.of(run)
    rows = [
        (
            cell.device,
            cell.step,
            tool_cell(cell.tool),
            state_cell(cell.state, _state_words(cell, course)),
            cell.note or _progress_of(cell),
        )
        for cell in run.cells
    ]
    return table(("DEVICE", "STEP", "TOOL", "STATE", "NOTE"), rows)


def _state_words(cell: Cell, course: Course) -> str:
    attempts = course.attempt_words(cell) if attempts_of(cell) > 1 else ""
    return f"{words_of(cell.state)} ({attempts})" if attempts else words_of(cell.state)


def _progress_of(cell: Cell) -> str:
    return "" if cell.ended_at is not None else cell.progress


def groups_text(run: Run) -> str:
    """The results of each step over the devices: which are alike, and how the others differ."""
    course = Course.of(run)
    return "\n".join(line for step in run.summary.steps for line in _step_lines(run, step, course))


def _step_lines(run: Run, step: str, course: Course) -> Iterable[str]:
    cells = [cell for cell in run.cells if cell.step == step]
    groups = group_results(cells)
    yield f"{styled(one_line(step), 'bold')}: {in_words(groups)}"
    for number, group in enumerate(groups[:MOST_GROUPS]):
        yield f"  {_group_line(group)}"
        yield from _difference_lines(group.differences, group.more if number else 0)
    if len(groups) > MOST_GROUPS:
        yield f"  and {plural(len(groups) - MOST_GROUPS, 'other result')}"
    again = [f"{cell.device} ({course.attempt_words(cell)})" for cell in cells if attempts_of(cell) > 1]
    if again:
        yield f"  tried again: {one_line(some_names(again, _MOST_NAMED))}"


def _group_line(group: ResultGroup) -> str:
    state, count = _coloured(group.example.state), plural(len(group.devices), "device")
    return f"{state} on {count}: {one_line(some_names(group.devices, _MOST_NAMED))}{_why(group.example)}"


def _why(cell: Cell) -> str:
    """The end of a line about a cell: why it is not done."""
    return f" ({one_line(cell.note)})" if cell.note and cell.state is not CellState.DONE else ""


def comparison_text(comparison: RunComparison) -> str:
    """How two runs differ, cell by cell; equal cells are only counted."""
    differ = [cell for cell in comparison.cells if not cell.equal]
    head = (
        f"{comparison.before} and {comparison.after}: {comparison.equal} of "
        f"{plural(len(comparison.cells), 'cell')} are alike, {len(differ)} differ{'s' * (len(differ) == 1)}."
    )
    told = [head, *comparison.notes]
    for cell in differ:
        place = styled(f"{one_line(cell.device)} {one_line(cell.step)}", "bold")
        told.append(f"{place}: {_side(cell.before)} -> {_side(cell.after)}")
        told += _difference_lines(cell.differences, cell.more)
    return "\n".join(told)


def _coloured(state: CellState) -> str:
    return styled(words_of(state), STATE_STYLES.get(state.value, ""))


def _side(side: CellSide | None) -> str:
    if side is None:
        return "not in this run"
    words = [
        _coloured(side.state),
        side.verdict.replace("_", " ") if side.verdict else "",
        f"({side.error.value.replace('_', ' ')})" if side.error else "",
    ]
    took = "" if side.duration_ms is None else f" in {span(side.duration_ms / 1000)}"
    return " ".join(filter(None, words)) + took


def _difference_lines(differences: list[ValueDifference], more: int) -> Iterable[str]:
    for difference in differences[:MOST_DIFFERENCES]:
        yield f"    {one_line(difference.path)}: {_change(difference)}"
    left = more + max(0, len(differences) - MOST_DIFFERENCES)
    if left:
        yield f"    and {plural(left, 'difference')} more"


def _change(difference: ValueDifference) -> str:
    before, after = _value(difference.before), _value(difference.after)
    return {"added": f"+ {after}", "removed": f"- {before}"}.get(difference.kind, f"{before} -> {after}")


def _value(value: Any) -> str:
    return shorten_middle(one_line(json.dumps(value, ensure_ascii=False)), _LONGEST_VALUE)


def undo_text(plan: UndoPlan) -> list[Block]:
    """The calls of a run's undo as text."""
    told = [cell for cell in plan.cells if cell.fate is not UndoFate.NOTHING]
    rows = [
        (
            cell.device,
            cell.step,
            tool_cell(cell.tool),
            _FATES[cell.fate],
            _ANSWERS[cell.answer] if cell.fate is UndoFate.UNDOES else "",
            cell.why,
        )
        for cell in told
    ]
    said = Prose(f"Undo of {plan.run}: {plan.summary}.")
    if not rows:
        return [said]
    return [table(("DEVICE", "STEP", "TOOL", "CHANGE", "POLICY", "WHY"), rows), "", said]
