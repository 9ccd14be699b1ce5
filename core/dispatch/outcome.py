"""Stage 9's judgement: from what came back to status, verdict and error. A claim is never a fact."""

from __future__ import annotations

from typing import Any

from core.aip.error_text import read_error_text
from core.aip.messages import Result, ResultStatus
from core.dispatch.models import LISTED_PAIRS, Basis, CommandResult, Evidence, Verdict
from core.errors import ErrorCode, ErrorInfo, QuarterdeckError
from core.policy.models import Decision, Request

# With these a device's guard says that it did not even begin.
GUARD_CODES = frozenset(
    {
        ErrorCode.INVALID_ARGUMENTS,
        ErrorCode.UNKNOWN_TOOL,
        ErrorCode.PATH_NOT_ALLOWED,
        ErrorCode.TOO_LARGE,
        ErrorCode.DENIED_BY_DEVICE,
    }
)


def make_result(
    request: Request,
    decision: Decision | None,
    *,
    status: ResultStatus,
    verdict: Verdict,
    basis: Basis,
    duration_ms: float,
    error: ErrorInfo | None = None,
    result: Any = None,
    evidence: list[Evidence] | None = None,
    namespace: str | None = None,
) -> CommandResult:
    """A result whose verdict and basis are one of the listed pairs; anything else is our own fault."""
    if (verdict, basis) not in LISTED_PAIRS:
        raise AssertionError(f"no such pair: {verdict} from {basis}")
    return CommandResult(
        call_id=request.call_id,
        device=request.device,
        tool_name=request.tool_name,
        status=status,
        verdict=verdict,
        basis=basis,
        error=error,
        result=result,
        namespace=namespace or request.namespace,
        duration_ms=round(duration_ms, 3),
        evidence=evidence or [],
        decision=decision,
    )


def conclude(
    request: Request,
    decision: Decision,
    answer: Result,
    clean: Any,
    evidence: list[Evidence],
    duration_ms: float,
) -> CommandResult:
    """Judge a device's answer. A read that answers is confirmed; an action is what the device claims.

    `success` with a non-zero exit code, `success: false` or an error inside the payload is a failure.
    """
    reads = request.tool_type == "data_collection"
    problem = _problem(answer, clean)
    error: ErrorInfo | None = None
    if problem is None:
        verdict, basis = (
            (Verdict.CONFIRMED, Basis.READ_RESPONSE) if reads else (Verdict.UNVERIFIED, Basis.DEVICE_CLAIM)
        )
        status = ResultStatus.SUCCESS
    else:
        error = _reported(problem)
        status = ResultStatus.SKIPPED if answer.status is ResultStatus.SKIPPED else ResultStatus.FAILURE
        if error.code is ErrorCode.CANCELLED:
            verdict, basis = Verdict.CANCELLED, Basis.DEVICE_CONFIRMED_CANCEL
        elif error.code in GUARD_CODES:
            verdict, basis = Verdict.REFUSED, Basis.DEVICE_REFUSED
        else:
            verdict, basis = Verdict.UNVERIFIED, Basis.DEVICE_REPORTED_FAILURE
    return make_result(
        request,
        decision,
        status=status,
        verdict=verdict,
        basis=basis,
        duration_ms=duration_ms,
        error=error,
        result=clean,
        evidence=evidence,
        namespace=answer.namespace,
    )


def not_sent(
    request: Request, decision: Decision | None, error: QuarterdeckError, duration_ms: float = 0.0
) -> CommandResult:
    """The result of a command that certainly never left."""
    cancelled = error.code is ErrorCode.CANCELLED
    return make_result(
        request,
        decision,
        status=ResultStatus.FAILURE,
        verdict=Verdict.CANCELLED if cancelled else Verdict.REFUSED,
        basis=Basis.NOTHING_SENT,
        duration_ms=duration_ms,
        error=error.info,
    )


def not_answered(
    request: Request, decision: Decision, error: QuarterdeckError, duration_ms: float
) -> CommandResult:
    """The result of a command that may have arrived. A change is then unknown: neither failed nor done."""
    reads = request.tool_type == "data_collection"
    info = error.info
    if not reads and info.code is not ErrorCode.OUTCOME_UNKNOWN:
        info = ErrorInfo.of(ErrorCode.OUTCOME_UNKNOWN, error.message)
    if reads and info.code is ErrorCode.OUTCOME_UNKNOWN:
        info = ErrorInfo.of(ErrorCode.TIMEOUT, error.message)
    return make_result(
        request,
        decision,
        status=ResultStatus.FAILURE if reads else ResultStatus.NONE,
        verdict=Verdict.UNKNOWN,
        basis=Basis.NO_ANSWER,
        duration_ms=duration_ms,
        error=info,
    )


def unusable(
    request: Request,
    decision: Decision,
    error: QuarterdeckError,
    evidence: list[Evidence],
    duration_ms: float,
) -> CommandResult:
    """The result of a command whose answer came but cannot be what it says."""
    reads = request.tool_type == "data_collection"
    return make_result(
        request,
        decision,
        status=ResultStatus.FAILURE if reads else ResultStatus.NONE,
        verdict=Verdict.UNKNOWN,
        basis=Basis.UNUSABLE_ANSWER,
        duration_ms=duration_ms,
        error=ErrorInfo.of(ErrorCode.BAD_RESULT, error.message),
        evidence=evidence,
    )


def _problem(answer: Result, clean: Any) -> str | None:
    if answer.status is not ResultStatus.SUCCESS:
        return answer.error or f"The device says {answer.status.value} and gives no reason."
    if not isinstance(clean, dict):
        return None
    exit_code = clean.get("exit_code")
    if isinstance(exit_code, int) and not isinstance(exit_code, bool) and exit_code != 0:
        return f"Exit code {exit_code}{_first_line(clean.get('stderr'))}"
    if clean.get("success") is False:
        return f"The tool says it did not succeed{_first_line(clean.get('error'))}"
    if isinstance(clean.get("error"), str) and clean["error"] and "exit_code" not in clean:
        return str(clean["error"])
    return None


def _reported(problem: str) -> ErrorInfo:
    """What a device says went wrong; only codes that a device can know of count."""
    error = read_error_text(problem)
    known = error.code in GUARD_CODES or error.code in (ErrorCode.CANCELLED, ErrorCode.TIMEOUT)
    return error if known else ErrorInfo.of(ErrorCode.TOOL_FAILED, error.message)


def _first_line(text: Any) -> str:
    line = text.strip().splitlines()[0][:300] if isinstance(text, str) and text.strip() else ""
    return f": {line}" if line else "."
