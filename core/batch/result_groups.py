"""Groups the results of one step by their contents, and tells how the groups differ. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import Field

from core.batch.models import Cell, ValueDifference, result_of
from core.batch.run_compare import comparable, result_differences
from core.canonical_json import digest_of
from core.models.frozen import FrozenModel


class ResultGroup(FrozenModel):
    """Devices on which a step has the same state, verdict, error and value, in the order of the run.

    `example` is the cell of the first of them. `differences` are those of its result from that of the
    largest group, and `more` the number of those that are not listed.
    """

    devices: list[str]
    example: Cell
    differences: list[ValueDifference] = Field(default_factory=list)
    more: int = 0


def group_results(cells: Sequence[Cell]) -> list[ResultGroup]:
    """Group the cells of one step; the largest group first, groups of one size in the order of the run."""
    groups: dict[str, list[Cell]] = {}
    for cell in cells:
        groups.setdefault(digest_of(_content(cell)), []).append(cell)
    ordered = sorted(groups.values(), key=len, reverse=True)
    return [_group(alike, ordered[0][0]) for alike in ordered]


def in_words(groups: Sequence[ResultGroup]) -> str:
    """Such as "47 alike, 3 differ"; "50 alike" where all have the same result."""
    alike = len(groups[0].devices) if groups else 0
    others = sum(len(group.devices) for group in groups[1:])
    if alike == 1 and others:
        return f"all {others + 1} differ"
    return f"{alike} alike, {others} differ{'s' if others == 1 else ''}" if others else f"{alike} alike"


def _group(alike: list[Cell], typical: Cell) -> ResultGroup:
    differences, more = result_differences(typical.result, alike[0].result)
    return ResultGroup(
        devices=[cell.device for cell in alike], example=alike[0], differences=differences, more=more
    )


def _content(cell: Cell) -> list[Any]:
    """The content by which two cells of a step are alike."""
    result = result_of(cell)
    if result is None:
        return [cell.state.value]
    error = result.error
    # An error often names its device, which is no difference.
    message = error.message.replace(cell.device, "DEVICE") if error else ""
    return [
        cell.state.value,
        result.verdict.value,
        error.code.value if error else "",
        message,
        *comparable(result),
    ]
