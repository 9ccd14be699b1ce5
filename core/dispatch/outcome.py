"""Judges a device's answer: makes the status, verdict and error of a command. A claim is never a fact.

Whether a command only reads is decided by its contract, that is by an operator or because the tool is built
in. A device's or a hosted server's claim that a tool is read-only does not count.

This is also the only module that finds failures in the payload of an answer with status `success`. A device
client reports `success` whenever the MCP call itself worked; only the payload says that the command ended
with exit code 2 or was blocked. Treated as failures: a non-zero exit code, `success: false`, MCP's
`isError: true`, and an `error` that holds text. They are searched for at the top level and in the wrappers
around the tool's own answer, whichever client sent it:

| place | sent by |
|---|---|
| `structured` | our own hosting of MCP servers (`core.device.mcp.results`) |
| `structuredContent` | stock clients that pass MCP's answer on unchanged |
| `result` | stock tools, and MCP's SDK, which wraps values that are not objects |
| the only text block in `content` that is a JSON object | either, if there is no structured part |
| a string that is a JSON object, in place of an object | tools that write their JSON themselves |

Not treated as failures: a text that begins with "Error" (so may a log file), a `status` word (it may describe
the inspected object), `ok: false` (it may answer a question), and members of a list (inspected objects).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from pydantic_core import from_json

from core.aip.frames import read_error_text
from core.aip.messages import Result, ResultStatus
from core.commands.results import LISTED_PAIRS, Basis, CommandResult, CommandStage, Evidence, Verdict
from core.errors import ErrorCode, ErrorInfo, QuarterdeckError
from core.models.tools import Effect
from core.next_steps import DEVICE_DOES_NOT_KNOW, NO_ANSWER, UNUSABLE_ANSWER
from core.policy.models import Decision
from core.statements import Request
from core.text import sentences, shorten_middle

# Gaps named in a note, and the characters of each.
_MOST_GAPS = 5
_LONGEST_GAP = 300

BROKEN_TEXT = (
    "Some of its text is not valid Unicode: U+FFFD (\N{REPLACEMENT CHARACTER}) stands for what is broken."
)
NO_VALUE = "No value came back."
STOCK_NULLS = (
    "This device's client sends the same for an empty text, 0, false and an empty list, and for plain texts "
    "and pictures, which it loses."
)

# Codes with which a device's guard reports that it did not start the command.
GUARD_CODES = frozenset(
    {
        ErrorCode.INVALID_ARGUMENTS,
        ErrorCode.UNKNOWN_TOOL,
        ErrorCode.PATH_NOT_ALLOWED,
        ErrorCode.TOO_LARGE,
        ErrorCode.DENIED_BY_DEVICE,
        ErrorCode.CLOCK_DIFFERS,
        ErrorCode.CONTRACT_CHANGED,
    }
)
# Codes with which a device reports that it looked at its screen or a file and did nothing, because the target
# of the command was not there, could not be reached, or is another one now.
TARGET_CODES = frozenset(
    {
        ErrorCode.STALE_OBSERVATION,
        ErrorCode.CHANGED_SINCE,
        ErrorCode.CONTROL_NOT_FOUND,
        ErrorCode.CONTROL_AMBIGUOUS,
        ErrorCode.CONTROL_COVERED,
        ErrorCode.CONTROL_NOT_SHOWING,
        ErrorCode.CONTROL_DISABLED,
        ErrorCode.PROGRAM_NOT_ANSWERING,
        ErrorCode.KEYBOARD_ELSEWHERE,
    }
)
_NOTHING_DONE = GUARD_CODES | TARGET_CODES
# Further codes that a device may report for a command that it has started.
_DEVICE_CODES = frozenset({ErrorCode.CANCELLED, ErrorCode.TIMEOUT})
# Codes for a command that ran, or may have, and whose outcome the device does not know.
_UNKNOWN_OUTCOME = {
    ErrorCode.OUTCOME_UNKNOWN: Basis.DEVICE_DOES_NOT_KNOW,
    ErrorCode.BAD_RESULT: Basis.UNUSABLE_ANSWER,
}
_KNOWN_CODES = _NOTHING_DONE | _DEVICE_CODES | _UNKNOWN_OUTCOME.keys()


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
    note: str = "",
    stage: CommandStage | None = None,
) -> CommandResult:
    """Make a result; verdict and basis must be a pair of `LISTED_PAIRS`, otherwise an `AssertionError`."""
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
        note=note,
        stage=stage,
    )


def conclude(
    request: Request,
    decision: Decision,
    answer: Result,
    clean: Any,
    evidence: list[Evidence],
    duration_ms: float,
    *,
    failure: str | None = None,
    stock: bool = False,
) -> CommandResult:
    """Judge a device's answer. An answered read is confirmed; an action is only a device's claim.

    `failure` is the failure that `failure_in` found in the payload; it turns `success` into a failure. The
    verdict on a change is `unknown` if the device reports that it may have happened, or that it ran and its
    result could not be sent. `stock`: the device has no Quarterdeck extensions, so a falsy value may have
    become null in transit. This also applies to actions, as stock agents list most of their tools as actions.
    """
    if answer.status is ResultStatus.NONE:
        reason = f": {answer.error}" if answer.error else "."
        no_status = QuarterdeckError(sentences(f"The device answered, but not whether it did it{reason}"))
        return unusable(request, decision, no_status, evidence, duration_ms)
    reads = decision.effect is Effect.OBSERVE
    error = _reported_error(answer, failure, reads)
    if error is not None and error.code in _DEVICE_CODES and not reads and request.tool_type != "action":
        # The device treated it as a read, which is safe to interrupt; whether it was a read is unknown.
        error = ErrorInfo.of(ErrorCode.OUTCOME_UNKNOWN, error.message)
    partial = _gaps_in(clean)
    if error is not None:
        status, verdict, basis = _verdict_on_error(answer, error, reads)
    else:
        status = ResultStatus.SUCCESS
        is_complete = reads and not partial
        verdict, basis = (
            (Verdict.CONFIRMED, Basis.READ_RESPONSE)
            if is_complete
            else (Verdict.UNVERIFIED, Basis.DEVICE_CLAIM)
        )
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
        note=partial or (_note(stock) if (reads or stock) and clean is None and error is None else ""),
        stage=CommandStage.OBSERVE if error is not None else None,
    )


def not_sent(
    request: Request,
    decision: Decision | None,
    error: QuarterdeckError,
    duration_ms: float = 0.0,
    stage: CommandStage = CommandStage.SEND,
) -> CommandResult:
    """The result of a command that was certainly not sent; `stage` is where it ended."""
    cancelled = error.code is ErrorCode.CANCELLED
    return make_result(
        request,
        decision,
        status=ResultStatus.FAILURE,
        verdict=Verdict.CANCELLED if cancelled else Verdict.REFUSED,
        basis=Basis.NOTHING_SENT,
        duration_ms=duration_ms,
        error=error.info,
        stage=stage,
    )


def not_answered(
    request: Request, decision: Decision, error: QuarterdeckError, duration_ms: float
) -> CommandResult:
    """The result of a command that may have arrived. For a change, whether it happened is then unknown."""
    reads = decision.effect is Effect.OBSERVE
    if reads and error.code is not ErrorCode.OUTCOME_UNKNOWN:
        return _unknown(request, decision, Basis.NO_ANSWER, error.info, duration_ms)
    return not_known(request, decision, Basis.NO_ANSWER, error.message, duration_ms)


def unusable(
    request: Request,
    decision: Decision,
    error: QuarterdeckError,
    evidence: list[Evidence],
    duration_ms: float,
) -> CommandResult:
    """The result of a command whose answer came but cannot be used."""
    return not_known(request, decision, Basis.UNUSABLE_ANSWER, error.message, duration_ms, evidence)


def not_known(
    request: Request,
    decision: Decision,
    basis: Basis,
    message: str,
    duration_ms: float,
    evidence: list[Evidence] | None = None,
) -> CommandResult:
    """The result of a command that was sent, and of which the outcome is unknown, as `basis` says."""
    error = unknown_error(basis, message, reads=decision.effect is Effect.OBSERVE)
    return _unknown(request, decision, basis, error, duration_ms, evidence)


def unknown_error(basis: Basis, message: str, *, reads: bool) -> ErrorInfo:
    """The error of a command whose outcome is unknown.

    Its next step fits the basis. A command that `reads` changes nothing, so the operator need not check the
    device.
    """
    if basis is Basis.UNUSABLE_ANSWER:
        return ErrorInfo.of(ErrorCode.BAD_RESULT, message, "" if reads else UNUSABLE_ANSWER.person)
    if reads:
        return ErrorInfo.of(ErrorCode.TIMEOUT, message)
    step = NO_ANSWER if basis is Basis.NO_ANSWER else DEVICE_DOES_NOT_KNOW
    return ErrorInfo.of(ErrorCode.OUTCOME_UNKNOWN, message, step.person)


def _unknown(
    request: Request,
    decision: Decision,
    basis: Basis,
    error: ErrorInfo,
    duration_ms: float,
    evidence: list[Evidence] | None = None,
) -> CommandResult:
    reads = decision.effect is Effect.OBSERVE
    return make_result(
        request,
        decision,
        status=ResultStatus.FAILURE if reads else ResultStatus.NONE,
        verdict=Verdict.UNKNOWN,
        basis=basis,
        duration_ms=duration_ms,
        error=error,
        evidence=evidence,
        stage=CommandStage.OBSERVE,
    )


def _verdict_on_error(answer: Result, error: ErrorInfo, reads: bool) -> tuple[ResultStatus, Verdict, Basis]:
    """Status, verdict and basis of an answer that reports an error."""
    if error.code in _UNKNOWN_OUTCOME:
        status = ResultStatus.FAILURE if reads else ResultStatus.NONE
        return status, Verdict.UNKNOWN, _UNKNOWN_OUTCOME[error.code]
    status = ResultStatus.SKIPPED if answer.status is ResultStatus.SKIPPED else ResultStatus.FAILURE
    if error.code is ErrorCode.CANCELLED:
        return status, Verdict.CANCELLED, Basis.DEVICE_CONFIRMED_CANCEL
    if error.code in _NOTHING_DONE:
        return status, Verdict.REFUSED, Basis.DEVICE_REFUSED
    return status, Verdict.UNVERIFIED, Basis.DEVICE_REPORTED_FAILURE


def _reported_error(answer: Result, failure: str | None, reads: bool) -> ErrorInfo | None:
    """The error that a device reports; None if it reports success."""
    if answer.status is ResultStatus.SUCCESS:
        # An error code at the start of a tool's own text is ignored: only the device's guard uses our codes.
        return ErrorInfo.of(ErrorCode.TOOL_FAILED, failure) if failure is not None else None
    error = read_error_text(answer.error or f"The device says {answer.status.value} and gives no reason.")
    if (basis := _UNKNOWN_OUTCOME.get(error.code)) is not None:
        return unknown_error(basis, error.message, reads=reads)
    return error if error.code in _KNOWN_CODES else ErrorInfo.of(ErrorCode.TOOL_FAILED, error.message)


def _note(stock: bool) -> str:
    return f"{NO_VALUE} {STOCK_NULLS}" if stock else NO_VALUE


EXIT_CODES = ("exit_code", "exitCode", "returncode", "return_code", "returnCode", "exit_status", "exitStatus")
STRUCTURED = ("structured", "structuredContent")
WRAPPERS = (*STRUCTURED, "result")
# Fields that can report a failure; most answers have none of them.
_SIGNS = frozenset({"success", "isError", "error", *EXIT_CODES})
# Fields in which tools put their error text, the most specific first.
_ERROR_FIELDS = ("error", "message", "reason", "stderr")
_LONGEST_ERROR = 300
# Parsing this much blocks the loop for some milliseconds; reports of failures are shorter.
_MOST_TEXT = 1024 * 1024
_MOST_BLOCKS = 100
# {"structured": {"result": {"error": …}}} is two levels deep; no known client nests deeper than three.
_DEEPEST = 4
# Avoids parsing texts that cannot report a failure, which most are.
_MAY_FAIL = re.compile(rf'"(?:{"|".join(sorted(_SIGNS))})"')


def failure_in(payload: Any) -> str | None:
    """The failure that the payload reports, in one line; None if it reports none.

    `payload` is the raw value from the device: redaction and storage as blobs could remove the failure. The
    line may hold secrets.
    """
    return next(
        (failure for part in _answers(payload, 0) if (failure := _failure_of(part)) is not None), None
    )


def _answers(value: Any, depth: int) -> Iterator[dict[str, Any]]:
    """The objects that may be the tool's own answer: the value, then the values that it wraps."""
    if isinstance(value, str):
        value = _object_in(value)
    if not isinstance(value, dict) or depth > _DEEPEST:
        return
    yield value
    for name in WRAPPERS:
        yield from _answers(value.get(name), depth + 1)
    if not any(value.get(name) for name in STRUCTURED):
        objects = [text for text in _texts(value.get("content")) if _looks_like_object(text)]
        # Several objects are a list of inspected things.
        if len(objects) == 1:
            yield from _answers(objects[0], depth + 1)


def _looks_like_object(text: str) -> bool:
    return text.lstrip().startswith("{")


def _object_in(text: str) -> dict[str, Any] | None:
    """Parse a text as a JSON object; None if it is none or cannot report a failure."""
    if len(text) > _MOST_TEXT or not _looks_like_object(text) or not _MAY_FAIL.search(text):
        return None
    try:
        value = from_json(text)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _failure_of(payload: dict[str, Any]) -> str | None:
    if _SIGNS.isdisjoint(payload):
        return None
    for name in EXIT_CODES:
        code = payload.get(name)
        if isinstance(code, (int, float)) and not isinstance(code, bool) and code != 0:
            number = int(code) if isinstance(code, float) and code.is_integer() else code
            return f"Exit code {number}{_failure_reason(payload)}"
    if payload.get("success") is False:
        return f"The tool says it did not succeed{_failure_reason(payload)}"
    if payload.get("isError") is True:
        return f"The tool reports an error{_failure_reason(payload)}"
    # If the tool reports success or an exit code, its `error` means something else: warnings, a count.
    if payload.get("success") is True or any(name in payload for name in EXIT_CODES):
        return None
    return _first_line(payload.get("error")) or None


def _failure_reason(payload: dict[str, Any]) -> str:
    text = next((text for name in _ERROR_FIELDS if (text := _first_line(payload.get(name)))), "")
    text = text or _first_line(next(_texts(payload.get("content")), None))
    return f": {text}" if text else "."


def _first_line(value: Any) -> str:
    """The first line of a text, or of the `message` of an error object."""
    if isinstance(value, dict):
        value = value.get("message")
    return value.strip().splitlines()[0][:_LONGEST_ERROR] if isinstance(value, str) and value.strip() else ""


def _texts(content: Any) -> Iterator[str]:
    """The text blocks of an MCP result."""
    for block in content[:_MOST_BLOCKS] if isinstance(content, list) else ():
        if isinstance(block, dict) and isinstance(block.get("text"), str):
            yield block["text"]


def _gaps_in(result: Any) -> str:
    """The gaps that a result reports, in words for an operator; empty if it reports none.

    A device's own report may lower a verdict but never raise it, so it counts for any tool of any device.

    The fields are `not_seen`, a list of `{what, why, instead}`, and `blocked`, a list of lines (the read-only
    shell has both); values of another form are ignored.
    """
    if not isinstance(result, dict):
        return ""
    gaps = []
    rows = result.get("not_seen")
    for row in rows if isinstance(rows, list) else []:
        if isinstance(row, dict) and isinstance(row.get("why"), str):
            instead = row.get("instead")
            advice = f" Ask {instead}." if isinstance(instead, str) and instead else ""
            gaps.append(shorten_middle(f"{row['why']}{advice}", _LONGEST_GAP))
    blocked = result.get("blocked")
    if isinstance(blocked, list) and blocked and isinstance(blocked[0], str):
        gaps.append(shorten_middle(f"The sandbox refused: {blocked[0]}", _LONGEST_GAP))
    return f"Not the whole truth. {' '.join(gaps[:_MOST_GAPS])}" if gaps else ""
