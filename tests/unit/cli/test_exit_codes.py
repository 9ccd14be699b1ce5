"""Exit codes of results: what is not known is never told as failed or done."""

from __future__ import annotations

import pytest

from core.aip.messages import ResultStatus
from core.batch.models import Cell, CellState, RunState
from core.commands.results import LISTED_PAIRS, Basis, CommandResult, Verdict
from core.errors import ErrorCode, ErrorInfo
from core.models.tools import Effect, Risk
from core.policy.models import Answer, Decision, Profile
from core.service import exit_codes, result_codes
from core.service.envelope import envelope_of
from tests.fakes.cells import run_of


def a_result(verdict: Verdict, basis: Basis, status: ResultStatus, code: ErrorCode | None) -> CommandResult:
    return CommandResult(
        call_id="c",
        device="d",
        tool_name="t",
        status=status,
        verdict=verdict,
        basis=basis,
        error=None if code is None else ErrorInfo.of(code, "x"),
        duration_ms=0,
    )


@pytest.mark.parametrize("code", [*ErrorCode, None])
def test_whatever_is_unknown_is_seven_whatever_its_error_says(code: ErrorCode | None):
    for verdict, basis in LISTED_PAIRS:
        if verdict is Verdict.UNKNOWN:
            for status in ResultStatus:
                result = a_result(verdict, basis, status, code)
                assert result_codes.of_result(result) == exit_codes.OUTCOME_UNKNOWN


def test_what_failed_or_was_refused_keeps_the_code_of_its_error():
    failed = a_result(
        Verdict.UNVERIFIED, Basis.DEVICE_REPORTED_FAILURE, ResultStatus.FAILURE, ErrorCode.TOOL_FAILED
    )
    assert result_codes.of_result(failed) == exit_codes.TOOL_FAILED
    refused = a_result(Verdict.REFUSED, Basis.NOTHING_SENT, ResultStatus.FAILURE, ErrorCode.DENIED_BY_POLICY)
    assert result_codes.of_result(refused) == exit_codes.DENIED
    done = a_result(Verdict.CONFIRMED, Basis.READ_RESPONSE, ResultStatus.SUCCESS, None)
    assert result_codes.of_result(done) == exit_codes.DONE


@pytest.mark.parametrize("code", [*ErrorCode])
def test_what_may_have_begun_and_is_not_known_to_read_is_never_called_retryable(code: ErrorCode):
    begun = [pair for pair in LISTED_PAIRS if pair[1] not in (Basis.NOTHING_SENT, Basis.DEVICE_REFUSED)]
    for verdict, basis in begun:
        told = envelope_of(a_result(verdict, basis, ResultStatus.FAILURE, code))
        assert told.error.retryable is False


def test_what_was_not_begun_is_retryable_as_its_code_says():
    for code, retryable in ((ErrorCode.DEVICE_OFFLINE, True), (ErrorCode.INVALID_ARGUMENTS, False)):
        told = envelope_of(a_result(Verdict.REFUSED, Basis.NOTHING_SENT, ResultStatus.FAILURE, code))
        assert told.error.retryable is retryable


@pytest.mark.parametrize("effect", [*Effect])
def test_only_a_read_that_got_no_answer_may_be_asked_again(effect: Effect):
    lost = a_result(Verdict.UNKNOWN, Basis.NO_ANSWER, ResultStatus.FAILURE, ErrorCode.TIMEOUT)
    decision = Decision(
        answer=Answer.ALLOW, risk=Risk.LOW, effect=effect, profile=Profile.GUARDED, summary="", reasons=[]
    )
    told = envelope_of(lost.model_copy(update={"decision": decision}))
    assert told.error.retryable is (effect is Effect.OBSERVE)


LACKS = (Verdict.REFUSED, Basis.NOTHING_SENT, ResultStatus.FAILURE, ErrorCode.UNKNOWN_TOOL)
READ = (Verdict.CONFIRMED, Basis.READ_RESPONSE, ResultStatus.SUCCESS, None)
DENIED = (Verdict.REFUSED, Basis.NOTHING_SENT, ResultStatus.FAILURE, ErrorCode.DENIED_BY_POLICY)


@pytest.mark.parametrize(
    ("cells", "code"),
    [
        ([LACKS, LACKS], exit_codes.BAD_INPUT),
        ([LACKS, READ], exit_codes.TOOL_FAILED),
        ([LACKS, DENIED], exit_codes.BAD_INPUT),
        ([DENIED, READ], exit_codes.DENIED),
        ([READ, READ], exit_codes.DONE),
    ],
)
def test_a_run_that_sent_something_is_no_bad_input_where_some_devices_lack_a_tool(cells, code: int):
    made = [
        Cell(
            run="r",
            device=f"d-{number}",
            step="s",
            tool="t",
            state=CellState.DONE if one is READ else CellState.NO_SUCH_TOOL,
            result=a_result(*one),
        )
        for number, one in enumerate(cells)
    ]
    good = all(cell.state is CellState.DONE for cell in made)
    assert result_codes.of_run(run_of(made, RunState.DONE if good else RunState.FAILED)) == code


@pytest.mark.parametrize(
    ("code", "number"),
    [
        (ErrorCode.WRONG_STATE, exit_codes.WRONG_STATE),
        (ErrorCode.CHANGED_SINCE, exit_codes.TOOL_FAILED),
        (ErrorCode.SERVICE_SILENT, exit_codes.HOME_OWNED),
    ],
)
def test_what_does_not_fit_a_state_is_no_refusal_by_the_policy(code: ErrorCode, number: int):
    assert exit_codes.exit_code_of(code) == number
    assert not {"policy", "argument"} & set(ErrorInfo.of(code, "x").next.split())
