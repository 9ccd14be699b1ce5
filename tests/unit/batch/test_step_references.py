"""What expressions read of a step in each state is what the README's table says."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.aip.messages import ResultStatus
from core.batch.expressions import (
    Context,
    Declarations,
    DeviceFacts,
    ExpressionError,
    Scope,
    compile_expression,
)
from core.batch.live_run import ALLOWED, failed_without_command, recovered, step_facts, unexpected
from core.batch.models import Cell, CellState
from core.commands.results import Basis, CommandResult, Verdict
from core.errors import ErrorCode, ErrorInfo

README = Path(__file__).parents[3] / "README.md"
FIELDS = ("state", "status", "verdict", "error", "result")


def result(
    status: ResultStatus, verdict: Verdict, basis: Basis, error: ErrorCode | None, value: object
) -> CommandResult:
    info = ErrorInfo.of(error, "Said so.") if error else None
    return CommandResult(
        call_id="c",
        device="d",
        tool_name="t",
        status=status,
        verdict=verdict,
        basis=basis,
        error=info,
        result=value,
    )


def cell(state: CellState, of: CommandResult | None = None) -> Cell:
    return Cell(run="r", device="d", step="s", tool="t", state=state, result=of)


GOOD = result(ResultStatus.SUCCESS, Verdict.CONFIRMED, Basis.READ_RESPONSE, None, {"x": 1})
BAD = result(
    ResultStatus.FAILURE, Verdict.UNVERIFIED, Basis.DEVICE_REPORTED_FAILURE, ErrorCode.TOOL_FAILED, {"x": 1}
)
LOST = result(ResultStatus.NONE, Verdict.UNKNOWN, Basis.NO_ANSWER, ErrorCode.OUTCOME_UNKNOWN, None)


def after_recovery(by: list[str], why: str = "") -> Cell:
    failed = cell(CellState.FAILED, BAD)
    return failed.model_copy(update=recovered(failed, by, why))


DENIED = failed_without_command(
    cell(CellState.REFUSED), ErrorInfo.of(ErrorCode.DENIED_BY_POLICY, "A rule denies it.")
)
UNMET = ErrorInfo.of(ErrorCode.EXPECTATION_FAILED, "Expected more.")
CELLS = {
    "succeeded": cell(CellState.DONE, GOOD),
    "failed": cell(CellState.FAILED, BAD),
    "failed an expectation": cell(CellState.FAILED, unexpected(GOOD, UNMET)),
    "failed and was recovered": after_recovery(["other"]),
    "failed as `expect` wants, or with `allow_failure: true`": after_recovery([], ALLOWED),
    "was refused or denied": cell(CellState.REFUSED, DENIED),
    "is unknown": cell(CellState.UNKNOWN, LOST),
    "was skipped (`when` is false, or it is off)": cell(CellState.SKIPPED),
    "was not reached": cell(CellState.NOT_STARTED),
    "has not ended": None,
}


def rows() -> dict[str, dict[str, str]]:
    lines = README.read_text(encoding="utf-8").splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("| the step |"))
    table: dict[str, dict[str, str]] = {}
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        words = [word.strip() for word in line.strip("|").split(" | ")]
        table[words[0]] = dict(zip(FIELDS, words[1:], strict=True))
    return table


def test_the_table_has_a_row_for_each_state_that_is_tested() -> None:
    assert set(rows()) == set(CELLS)


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("row", CELLS)
def test_a_reference_is_what_the_table_says(row: str, field: str) -> None:
    scope = Scope(Declarations({}, {"s": {}}), ("s",))
    expression = compile_expression(f"steps.s.{field}", scope)
    of = CELLS[row]
    context = Context({}, {} if of is None else {"s": step_facts(of, None)}, DeviceFacts())
    words = rows()[row][field]
    if words == "an error":
        with pytest.raises(ExpressionError):
            expression.evaluate(context)
        return
    value = expression.evaluate(context)
    match words:
        case "as journalled":
            assert of is not None
            assert of.result is not None
            assert value == getattr(of.result, field).value
        case "its code":
            assert of is not None
            assert of.result is not None
            assert of.result.error is not None
            assert value == of.result.error.code.value
        case "empty":
            assert value == ""
        case "the value" | "what the tool gave, or `null`":
            assert value == {"x": 1}
        case "`null`":
            assert value is None
        case _:
            assert f"`{value}`" == words
