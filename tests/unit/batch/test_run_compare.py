"""Runs and results are compared by their contents, not by their numbers."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.aip.messages import ResultStatus
from core.batch.models import Batch, Cell, CellState, Run, RunComparison, RunState, RunSummary
from core.batch.result_groups import group_results, in_words
from core.batch.run_compare import MOST_DIFFERENCES, compare_runs, value_differences
from core.commands.results import Basis, CommandResult, Evidence, Verdict
from core.errors import ErrorCode, ErrorInfo

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text("ab.", max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("a.", max_size=2), inner, max_size=3),
    max_leaves=8,
)


def cell(device: str, value: Any, step: str = "look", **more: Any) -> Cell:
    failed = "error" in more
    result = CommandResult(
        call_id="c",
        device=device,
        tool_name="t",
        status=ResultStatus.FAILURE if failed else ResultStatus.SUCCESS,
        verdict=Verdict.UNVERIFIED if failed else Verdict.CONFIRMED,
        basis=Basis.DEVICE_REPORTED_FAILURE if failed else Basis.READ_RESPONSE,
        result=value,
        **more,
    )
    state = CellState.FAILED if failed else CellState.DONE
    return Cell(run="r", device=device, step=step, tool="t", state=state, result=result)


def run_of(number: str, *cells: Cell, tool: str = "t") -> Run:
    devices = list(dict.fromkeys(one.device for one in cells))
    steps = list(dict.fromkeys(one.step for one in cells)) or ["look"]
    batch = Batch.model_validate({"name": "b", "steps": [{"id": step, "tool": tool} for step in steps]})
    summary = RunSummary(
        id=number,
        name="b",
        kind="batch",
        actor="operator:anna",
        state=RunState.DONE,
        devices=devices,
        devices_hash="",
        steps=steps,
        tools=[tool],
        counts={CellState.DONE: len(cells)},
        started_at="",
    )
    return Run(summary=summary, batch=batch, cells=list(cells))


def compared(before: list[Cell], after: list[Cell]) -> RunComparison:
    return compare_runs(run_of("r-1", *before), run_of("r-2", *after))


def test_runs_with_equal_counts_and_other_contents_differ_at_the_place_that_is_named():
    before = [cell("a", {"disks": [{"use": 40}, {"use": 70}]}), cell("b", {"ok": True})]
    after = [cell("a", {"disks": [{"use": 40}, {"use": 71}]}), cell("b", {"ok": True})]
    told = compared(before, after)
    assert run_of("r", *before).summary.counts == run_of("r", *after).summary.counts
    assert [one.equal for one in told.cells] == [False, True]
    [difference] = told.cells[0].differences
    assert (difference.path, difference.before, difference.after) == ("$.disks[1].use", 70, 71)


def test_a_duration_is_shown_and_makes_no_difference():
    told = compared([cell("a", 1, duration_ms=5.0)], [cell("a", 1, duration_ms=900.0)])
    assert told.cells[0].equal
    assert [side.duration_ms for side in (told.cells[0].before, told.cells[0].after) if side] == [5.0, 900.0]


def test_what_tells_of_the_call_and_not_of_its_outcome_is_not_compared():
    told = compared(
        [cell("a", {"exit_code": 0, "execution_time": 0.1, "undo": "x" * 16})],
        [cell("a", {"exit_code": 0, "execution_time": 7.0, "undo": "y" * 16})],
    )
    assert told.cells[0].equal


def test_another_verdict_or_error_is_a_difference_where_the_value_is_the_same():
    error = ErrorInfo.of(ErrorCode.TOOL_FAILED, "It failed.")
    told = compared([cell("a", None)], [cell("a", None, error=error)])
    assert not told.cells[0].equal
    assert told.cells[0].differences == []


def test_other_pictures_are_another_result():
    pictures = [
        [Evidence(blob=sign * 64, media_type="image/png", size=9, what="screenshot")] for sign in "ab"
    ]
    told = compared([cell("a", {}, evidence=pictures[0])], [cell("a", {}, evidence=pictures[1])])
    assert [difference.path for difference in told.cells[0].differences] == ["evidence[0]"]


def test_a_cell_of_one_run_only_is_not_equal_and_says_which_side_it_lacks():
    told = compared([cell("a", 1)], [cell("b", 1)])
    assert [(one.device, one.before is None, one.after is None) for one in told.cells] == [
        ("a", False, True),
        ("b", True, False),
    ]
    assert not any(one.equal for one in told.cells)
    assert told.notes == ["The two runs are not on the same devices."]


def test_other_steps_are_noted():
    told = compare_runs(run_of("r-1", cell("a", 1)), run_of("r-2", cell("a", 1), tool="other"))
    assert told.notes == ["The steps of the two batches differ."]


@pytest.mark.parametrize(
    ("before", "after", "path", "kind"),
    [
        ({"a": 1}, {}, "$.a", "removed"),
        ({}, {"a b": 1}, '$["a b"]', "added"),
        ([1], [1, 2], "$[1]", "added"),
        (True, 1, "$", "changed"),
        ({"a": None}, {}, "$.a", "removed"),
    ],
)
def test_a_difference_names_its_place_and_kind(before: Any, after: Any, path: str, kind: str):
    [difference], more = value_differences(before, after)
    assert (difference.path, difference.kind, more) == (path, kind, 0)


def test_numbers_are_compared_by_value():
    assert value_differences({"a": 1}, {"a": 1.0}) == ([], 0)


def test_differences_beyond_the_bound_are_counted():
    listed, more = value_differences(list(range(200)), list(range(1, 201)))
    assert (len(listed), more) == (MOST_DIFFERENCES, 200 - MOST_DIFFERENCES)


def test_a_result_of_any_depth_is_compared():
    deep: Any = 0
    for _ in range(50_000):
        deep = [deep]
    other: Any = 1
    for _ in range(50_000):
        other = [other]
    [difference], _ = value_differences(deep, other)
    assert (difference.before, difference.after) == (0, 1)


@given(JSON, JSON)
def test_two_values_have_no_difference_exactly_when_they_are_equal(before: Any, after: Any):
    equal = repr(before) == repr(after) or _equal(before, after)
    assert (value_differences(before, after) == ([], 0)) is equal


def _equal(before: Any, after: Any) -> bool:
    if isinstance(before, dict) and isinstance(after, dict):
        return before.keys() == after.keys() and all(_equal(before[key], after[key]) for key in before)
    if isinstance(before, list) and isinstance(after, list):
        return len(before) == len(after) and all(map(_equal, before, after))
    return type(before) is type(after) and before == after


def test_equal_results_of_a_step_are_one_group_and_the_others_say_what_differs():
    alike = [cell(f"d-{number}", {"os": "12.1", "taken_at": str(number)}) for number in range(47)]
    odd = [cell("x", {"os": "12.0"}), cell("y", {"os": "12.0"}), cell("z", {"os": "11"})]
    groups = group_results([*odd, *alike])
    assert [len(group.devices) for group in groups] == [47, 2, 1]
    assert in_words(groups) == "47 alike, 3 differ"
    assert [difference.path for difference in groups[1].differences] == ["$.os"]
    assert groups[0].differences == []


def test_the_same_error_of_several_devices_is_one_group():
    errors = [ErrorInfo.of(ErrorCode.DEVICE_OFFLINE, f"{name} is offline.") for name in ("a", "b")]
    groups = group_results([cell("a", None, error=errors[0]), cell("b", None, error=errors[1])])
    assert [group.devices for group in groups] == [["a", "b"]]
    assert in_words(groups) == "2 alike"


def test_where_no_two_are_alike_it_is_said():
    groups = group_results([cell("a", 1), cell("b", 2)])
    assert in_words(groups) == "all 2 differ"
    assert in_words([]) == "0 alike"
