"""Expressions while they are written: what they may read, what is wrong with them, what they give."""

from __future__ import annotations

from typing import Any

import pytest

from core.batch.batch_file import read_batch
from core.batch.expression_trial import MOST_READABLE, Known, try_expressions
from core.batch.expressions import DeviceFacts
from core.batch.models import (
    LONGEST_VALUE,
    MOST_ASKED,
    AskedExpression,
    Batch,
    Cell,
    CellState,
    ExpressionTrial,
    Place,
    Readable,
    Run,
    RunState,
    RunSummary,
)
from core.commands.results import Basis, CommandResult, Verdict
from core.errors import BadInput, ErrorCode

FILE = """
name: Clean
inputs:
  limit: {type: integer, default: 80}
  token: {type: string, secret: true, default: hunter2}
steps:
  - {id: disk, tool: look}
  - id: clean
    tool: shell
    recover:
      - {id: other, tool: shell}
  - id: ask
    approval: {question: Go on?}
  - {id: after, tool: shell}
"""
SCHEMA = {
    "type": "object",
    "properties": {
        "free": {"type": "integer"},
        "disks": {"type": "array", "items": {"type": "object", "properties": {"name": {"type": "string"}}}},
    },
}


def batch() -> Batch:
    return read_batch(FILE, "clean.yaml")


def cell(step: str, result: Any) -> Cell:
    ended = CommandResult(
        call_id="c-1",
        device="lab-1",
        tool_name="look",
        status="success",
        verdict=Verdict.CONFIRMED,
        basis=Basis.READ_RESPONSE,
        result=result,
    )
    state = CellState.DONE
    at = "2026-01-01T00:00:00Z"
    return Cell(run="r-1", device="lab-1", step=step, tool="look", state=state, ended_at=at, result=ended)


def known(*cells: Cell, **inputs: Any) -> Known:
    summary = RunSummary(
        id="r-1",
        name="Clean",
        kind="batch",
        actor="operator:anna",
        state=RunState.DONE,
        devices=["lab-1"],
        devices_hash="",
        steps=["disk", "clean"],
        tools=["look", "shell"],
        counts={},
        started_at="2026-01-01T00:00:00Z",
    )
    earlier = Run(summary=summary, batch=batch(), cells=list(cells), inputs=inputs)
    return Known({"disk": SCHEMA}, DeviceFacts("lab-1", ("lab",), "linux", "linux", "Debian 13"), earlier)


NEVER_RUN = Known({"disk": SCHEMA}, DeviceFacts("lab-1", ("lab",)))


def try_expression(batch: Batch, step: str, place: Place, text: str, known: Known) -> ExpressionTrial:
    [trial] = try_expressions(batch, step, [AskedExpression(place=place, text=text)], known).trials
    return trial


def readable_values(batch: Batch, step: str, known: Known) -> list[Readable]:
    return try_expressions(batch, step, [], known).readable


def tried(text: str, known: Known, step: str = "clean", place: Place = "when") -> ExpressionTrial:
    return try_expression(batch(), step, place, f"${{{{ {text} }}}}", known)


def test_an_expression_gives_its_value_on_the_results_of_the_latest_run() -> None:
    run = known(cell("disk", {"free": 7, "disks": []}), limit=5)
    trial = tried("steps.disk.result.free > inputs.limit", run)
    assert (trial.value, trial.type) == ("true", "true or false")
    all_of_it = try_expressions(batch(), "clean", [], run)
    assert (all_of_it.run, all_of_it.device) == ("r-1", "lab-1")
    assert tried("device.tags.exists(tag, tag == 'lab')", run).value == "true"


def test_without_a_run_only_what_needs_no_result_has_a_value() -> None:
    assert tried("inputs.limit == 80", NEVER_RUN).value == "true"
    trial = tried("steps.disk.result.free > 3", NEVER_RUN)
    assert (trial.value, trial.problem) == ("", "")
    assert "has not run yet" in trial.unknown


def test_a_step_that_has_no_result_in_the_run_is_named() -> None:
    assert tried("steps.disk.result.free > 3", known()).unknown == "r-1 has no result of disk on lab-1."


@pytest.mark.parametrize(
    ("text", "words", "column"),
    [
        ("1 +", "mismatched input", 6),
        ("steps.dsk.result.free > 1", 'no step "dsk" stands before this one', 7),
        ("steps.disk.result.fre > 1", 'there is no field "fre"; there are free, disks', 19),
        ("steps.disk.result.free", "true or false", 1),
    ],
)
def test_a_mistake_has_its_words_and_its_place(text: str, words: str, column: int) -> None:
    trial = tried(text, NEVER_RUN)
    assert words in trial.problem
    assert (trial.line, trial.column, trial.value) == (1, column, "")


@pytest.mark.parametrize(
    "text", ["inputs.token", "'x' + inputs.token", "size(inputs.token)", "[inputs.token][0]"]
)
def test_what_reads_a_secret_has_no_value_and_no_reason_that_quotes_it(text: str) -> None:
    """An attack: the default of a secret input, and the value of a run, through every answer there is."""
    run = known(cell("disk", {"free": 7}), token="hunter2", limit=3)
    trial = try_expression(batch(), "clean", "with", f"${{{{ {text} }}}}", run)
    assert "hunter2" not in trial.model_dump_json()
    assert "secret" in trial.unknown
    # A condition may not read it at all.
    assert "secret" in tried("inputs.token == 'x'", run).problem
    # A way round the compiler: a broken expression is never evaluated.
    broken = try_expression(batch(), "clean", "with", "${{ inputs.token.nope() }}", run)
    assert "hunter2" not in broken.model_dump_json()
    assert "hunter2" not in try_expressions(batch(), "clean", [], run).model_dump_json()


def test_a_loop_without_end_and_a_large_value_are_bounded() -> None:
    numbers = f"[{', '.join(map(str, range(200)))}]"
    loop = f"{numbers}.all(a, {numbers}.all(b, {numbers}.all(c, a + b + c >= 0)))"
    trial = tried(loop, NEVER_RUN)
    assert trial.value == ""
    assert trial.problem or trial.unknown
    run = known(cell("disk", {"disks": [{"name": "x" * 9000}]}))
    long = try_expression(batch(), "clean", "with", "${{ steps.disk.result.disks }}", run)
    assert len(long.value) == LONGEST_VALUE


def test_an_expectation_reads_its_own_result_and_an_argument_is_filled_in() -> None:
    run = known(cell("disk", {"free": 7}), cell("clean", {"exit_code": 0}))
    assert tried("result.exit_code == 0", run, place="expect").value == "true"
    text = try_expression(batch(), "clean", "with", "free: ${{ steps.disk.result.free }}", run)
    assert (text.value, text.type) == ('"free: 7"', "whole number")


def test_a_step_reads_what_stands_before_it_with_real_values() -> None:
    run = known(cell("disk", {"free": 7, "disks": [{"name": "sda", "odd": True}]}), limit=5)
    values = {one.path: (one.type, one.value) for one in readable_values(batch(), "clean", run)}
    assert values["inputs.limit"] == ("whole number", "5")
    assert values["steps.disk.result.free"] == ("whole number", "7")
    assert values["steps.disk.result.disks[0].name"] == ("text", '"sda"')
    assert values["steps.disk.result.disks[0].odd"] == ("true or false", "true")
    assert values["steps.disk.status"] == ("text", '"success"')
    assert "inputs.token" not in values
    assert not any(path.startswith(("steps.clean", "steps.after", "steps.other")) for path in values)
    recovery = [one.path for one in readable_values(batch(), "other", run)]
    assert "steps.clean.error" in recovery
    asked = [one.path for one in readable_values(batch(), "ask", run)]
    assert asked == ["inputs.limit"], "a question is asked once for all devices"


def test_names_that_are_no_identifiers_are_written_in_brackets_and_all_is_bounded() -> None:
    run = known(cell("disk", {"a b": 1, **{f"n{number}": number for number in range(2 * MOST_READABLE)}}))
    readable = readable_values(batch(), "clean", run)
    assert len(readable) == MOST_READABLE
    assert 'steps.disk.result["a b"]' in [one.path for one in readable]


def test_an_unknown_step_is_refused() -> None:
    with pytest.raises(BadInput) as refused:
        readable_values(batch(), "none", NEVER_RUN)
    assert refused.value.code is ErrorCode.NOT_FOUND
    many = [AskedExpression(place="when", text="${{ true }}")] * (MOST_ASKED + 1)
    with pytest.raises(BadInput) as refused:
        try_expressions(batch(), "clean", many, NEVER_RUN)
    assert refused.value.code is ErrorCode.TOO_LARGE
