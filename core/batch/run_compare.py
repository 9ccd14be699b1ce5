"""Compares results by their contents: two runs cell by cell, and two values member by member. Pure."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from itertools import zip_longest
from typing import Any

from core.batch.models import Cell, CellComparison, CellSide, Run, RunComparison, ValueDifference
from core.commands.results import CommandResult

# Members at the top of a result that tell of the call, not of its outcome: no two calls have them in common.
OF_THE_CALL = frozenset({"execution_time", "timestamp", "taken_at", "undo", "observation"})
# Of one cell. The others are counted.
MOST_DIFFERENCES = 50
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ABSENT = object()


def compare_runs(before: Run, after: Run, devices: Collection[str] | None = None) -> RunComparison:
    """Compare two runs, or of both the cells of these devices."""
    first, second = (
        {(cell.device, cell.step): cell for cell in run.cells if devices is None or cell.device in devices}
        for run in (before, after)
    )
    keys = list(dict.fromkeys([*first, *second]))
    return RunComparison(
        before=before.summary.id,
        after=after.summary.id,
        cells=[_compare_cells(*key, first.get(key), second.get(key)) for key in keys],
        notes=_notes(before, after),
    )


def joined(parts: Sequence[RunComparison]) -> RunComparison:
    """The comparison of two runs whose devices were compared in parts; there is at least one."""
    return parts[0].model_copy(update={"cells": [cell for part in parts for cell in part.cells]})


def value_differences(before: Any, after: Any, root: str = "$") -> tuple[list[ValueDifference], int]:
    """The places at which two JSON values differ, at most `MOST_DIFFERENCES`, and the number of the others.

    Numbers are compared by value, so that 1 equals 1.0; true does not equal 1.
    """
    listed: list[ValueDifference] = []
    others = 0
    for path, old, new in _differing(root, before, after):
        if len(listed) >= MOST_DIFFERENCES:
            others += 1
        elif old is _ABSENT:
            listed.append(ValueDifference(path=path, kind="added", after=new))
        elif new is _ABSENT:
            listed.append(ValueDifference(path=path, kind="removed", before=old))
        else:
            listed.append(ValueDifference(path=path, before=old, after=new))
    return listed, others


def result_differences(
    before: CommandResult | None, after: CommandResult | None
) -> tuple[list[ValueDifference], int]:
    """The places at which the values and pictures of two results differ; see `value_differences`.

    The path of a picture is `evidence[0]`, and so on. A long text is stored as a blob named by its digest, so
    that its content is compared as well.
    """
    (old, old_pictures), (new, new_pictures) = comparable(before), comparable(after)
    values, more_values = value_differences(old, new)
    pictures, more_pictures = value_differences(old_pictures, new_pictures, "evidence")
    return values + pictures, more_values + more_pictures


def comparable(result: CommandResult | None) -> tuple[Any, list[str]]:
    """The value of a result without the members that tell of the call, and its pictures' digests."""
    if result is None:
        return None, []
    value = result.result
    if isinstance(value, dict):
        value = {name: member for name, member in value.items() if name not in OF_THE_CALL}
    return value, [f"{one.what} {one.blob}".strip() for one in result.evidence]


def _differing(path: str, before: Any, after: Any) -> Iterator[tuple[str, Any, Any]]:
    # A stack and not recursion: a device chooses how deep its result is.
    waiting = [(path, before, after)]
    while waiting:
        path, old, new = waiting.pop()
        if isinstance(old, dict) and isinstance(new, dict):
            names = list(dict.fromkeys([*old, *new]))
            members = [
                (path + _member(name), old.get(name, _ABSENT), new.get(name, _ABSENT)) for name in names
            ]
            waiting += reversed(members)
        elif isinstance(old, list) and isinstance(new, list):
            pairs = enumerate(zip_longest(old, new, fillvalue=_ABSENT))
            waiting += reversed([(f"{path}[{place}]", *pair) for place, pair in pairs])
        elif not _same(old, new):
            yield path, old, new


def _member(name: str) -> str:
    return f".{name}" if _NAME.fullmatch(name) else f"[{json.dumps(name)}]"


def _same(old: Any, new: Any) -> bool:
    return bool(old == new) and isinstance(old, bool) is isinstance(new, bool)


def _compare_cells(device: str, step: str, before: Cell | None, after: Cell | None) -> CellComparison:
    old = None if before is None else _side(before)
    new = None if after is None else _side(after)
    differences: list[ValueDifference] = []
    more = 0
    if before is not None and after is not None:
        differences, more = result_differences(before.result, after.result)
    equal = not differences and _without_duration(old) == _without_duration(new)
    return CellComparison(
        device=device, step=step, equal=equal, before=old, after=new, differences=differences, more=more
    )


def _side(cell: Cell) -> CellSide:
    result = cell.result
    if result is None:
        return CellSide(state=cell.state)
    return CellSide(
        state=cell.state,
        status=result.status.value,
        verdict=result.verdict.value,
        error=result.error.code if result.error else None,
        duration_ms=result.duration_ms,
    )


def _without_duration(side: CellSide | None) -> CellSide | None:
    return None if side is None else side.model_copy(update={"duration_ms": None})


def _notes(before: Run, after: Run) -> list[str]:
    notes = []
    if before.batch.steps != after.batch.steps:
        notes.append("The steps of the two batches differ.")
    devices = Counter(before.summary.devices)
    if devices != Counter(after.summary.devices):
        notes.append("The two runs are not on the same devices.")
    notes += [
        f"{run.summary.id} has not ended: its results are those until now."
        for run in (before, after)
        if not run.summary.state.ended
    ]
    return notes
