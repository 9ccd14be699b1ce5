"""Stage 9's judgement: from what came back to status, verdict and error. A claim is never a fact.

Whether a command only reads is what its contract says, by an operator's word or because the tool is our own;
that a device or a hosted server calls it read-only counts for nothing.

Failures inside a payload that came with `success`: the one place that knows what failure looks like.

A device client reports `success` whenever the MCP call itself went through; that the command ended with exit
code 2 or was blocked stands only in the payload. Read as failures: a non-zero exit code, `success: false`,
MCP's `isError: true`, and an `error` that holds words. They are looked for at the top and in what only wraps
the tool's own answer, whichever client sent it:

| place | sent by |
|---|---|
| `structured` | our own hosting of MCP servers (`core.device.mcp.results`) |
| `structuredContent` | stock clients that pass MCP's answer on as it is |
| `result` | stock tools, and MCP's SDK, which wraps in it what is no object |
| the one text block in `content` that is a JSON object | either, where there is no structured part |
| a text that is a JSON object, in place of the others | tools that write their JSON themselves |

Not read as failures: a text that begins with "Error" (a log file does too), a `status` word (of whatever was
looked at), `ok: false` (may answer a question), and members of a list (things that were looked at).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from pydantic_core import from_json

from core.aip.frames import read_error_text
from core.aip.messages import Result, ResultStatus
from core.dispatch.models import LISTED_PAIRS, Basis, CommandResult, CommandStage, Evidence, Verdict
from core.dispatch.partly_seen import partly_seen
from core.errors import ErrorCode, ErrorInfo, QuarterdeckError
from core.fleet.models import Effect
from core.policy.models import Decision
from core.quick import made
from core.statements import Request

NO_VALUE = "No value came back."
STOCK_NULLS = (
    "This device's client sends the same for an empty text, 0, false and an empty list, and for plain texts "
    "and pictures, which it loses."
)

# With these a device's guard says that it did not even begin.
GUARD_CODES = frozenset(
    {
        ErrorCode.INVALID_ARGUMENTS,
        ErrorCode.UNKNOWN_TOOL,
        ErrorCode.PATH_NOT_ALLOWED,
        ErrorCode.TOO_LARGE,
        ErrorCode.DENIED_BY_DEVICE,
        ErrorCode.CONTRACT_CHANGED,
    }
)
# What else a device may say of a command that it has begun.
_DEVICES_OWN = frozenset({ErrorCode.CANCELLED, ErrorCode.TIMEOUT})
# It ran, or may have, and the device cannot say what came of it.
_UNSURE = {
    ErrorCode.OUTCOME_UNKNOWN: Basis.DEVICE_DOES_NOT_KNOW,
    ErrorCode.BAD_RESULT: Basis.UNUSABLE_ANSWER,
}


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
    """A result whose verdict and basis are one of the listed pairs; anything else is our own fault."""
    if (verdict, basis) not in LISTED_PAIRS:
        raise AssertionError(f"no such pair: {verdict} from {basis}")
    fields = {
        "call_id": request.call_id,
        "device": request.device,
        "tool_name": request.tool_name,
        "status": status,
        "verdict": verdict,
        "basis": basis,
        "error": error,
        "result": result,
        "namespace": namespace or request.namespace,
        "duration_ms": round(duration_ms, 3),
        "evidence": evidence or [],
        "decision": decision,
        "note": note,
        "stage": stage,
    }
    return made(CommandResult, fields)


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
    """Judge a device's answer. A read that answers is confirmed; an action is what the device claims.

    `failure` is what `core.dispatch.outcome` reads in the payload; with it, `success` is a failure. A change
    of which the device itself says that it may have happened is unknown, and so is one that ran and whose
    result the device could not send. `stock`: the device has none of our extensions, so what is falsy may
    have become null on its way, and of an action too: stock agents list most of what they can do as actions.
    """
    if answer.status is ResultStatus.NONE:
        said = f": {answer.error}" if answer.error else "."
        nothing = QuarterdeckError(f"The device answered, but not whether it did it{said}")
        return unusable(request, decision, nothing, evidence, duration_ms)
    reads = decision.effect is Effect.OBSERVE
    error = _reported(answer, failure, reads)
    if error is not None and error.code in _DEVICES_OWN and not reads and request.tool_type != "action":
        # The device took it for a look, which can be broken off at no harm; whether it was one is not known.
        error = ErrorInfo.of(ErrorCode.OUTCOME_UNKNOWN, error.message)
    partial = partly_seen(clean)
    if error is not None:
        status, verdict, basis = _failed(answer, error, reads)
    else:
        status = ResultStatus.SUCCESS
        whole = reads and not partial
        verdict, basis = (
            (Verdict.CONFIRMED, Basis.READ_RESPONSE) if whole else (Verdict.UNVERIFIED, Basis.DEVICE_CLAIM)
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
    """The result of a command that certainly never left, and the stage that it ended in."""
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
    """The result of a command that may have arrived. A change is then unknown: neither failed nor done."""
    reads = decision.effect is Effect.OBSERVE
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
        stage=CommandStage.OBSERVE,
    )


def unusable(
    request: Request,
    decision: Decision,
    error: QuarterdeckError,
    evidence: list[Evidence],
    duration_ms: float,
) -> CommandResult:
    """The result of a command whose answer came but cannot be what it says."""
    reads = decision.effect is Effect.OBSERVE
    return make_result(
        request,
        decision,
        status=ResultStatus.FAILURE if reads else ResultStatus.NONE,
        verdict=Verdict.UNKNOWN,
        basis=Basis.UNUSABLE_ANSWER,
        duration_ms=duration_ms,
        error=ErrorInfo.of(ErrorCode.BAD_RESULT, error.message),
        evidence=evidence,
        stage=CommandStage.OBSERVE,
    )


def _failed(answer: Result, error: ErrorInfo, reads: bool) -> tuple[ResultStatus, Verdict, Basis]:
    """What is concluded from an answer that says what went wrong."""
    if error.code in _UNSURE:
        status = ResultStatus.FAILURE if reads else ResultStatus.NONE
        return status, Verdict.UNKNOWN, _UNSURE[error.code]
    status = ResultStatus.SKIPPED if answer.status is ResultStatus.SKIPPED else ResultStatus.FAILURE
    if error.code is ErrorCode.CANCELLED:
        return status, Verdict.CANCELLED, Basis.DEVICE_CONFIRMED_CANCEL
    if error.code in GUARD_CODES:
        return status, Verdict.REFUSED, Basis.DEVICE_REFUSED
    return status, Verdict.UNVERIFIED, Basis.DEVICE_REPORTED_FAILURE


def _reported(answer: Result, failure: str | None, reads: bool) -> ErrorInfo | None:
    """What a device says went wrong; None when it says that all went well."""
    if answer.status is ResultStatus.SUCCESS:
        # A code at the beginning of a tool's own words means nothing: only the device's guard knows ours.
        return ErrorInfo.of(ErrorCode.TOOL_FAILED, failure) if failure is not None else None
    error = read_error_text(answer.error or f"The device says {answer.status.value} and gives no reason.")
    if reads and error.code is ErrorCode.OUTCOME_UNKNOWN:
        # It has changed nothing, so there is nothing to look for.
        return ErrorInfo.of(ErrorCode.TIMEOUT, error.message)
    known = error.code in GUARD_CODES or error.code in _UNSURE or error.code in _DEVICES_OWN
    return error if known else ErrorInfo.of(ErrorCode.TOOL_FAILED, error.message)


def _note(stock: bool) -> str:
    return f"{NO_VALUE} {STOCK_NULLS}" if stock else NO_VALUE


EXIT_CODES = ("exit_code", "exitCode", "returncode", "return_code", "returnCode", "exit_status", "exitStatus")
STRUCTURED = ("structured", "structuredContent")
WRAPPERS = (*STRUCTURED, "result")
# Where tools put their words, the most telling first.
_WORDS = ("error", "message", "reason", "stderr")
_MOST_WORDS = 300
# Parsing this much takes some milliseconds on the loop; a tool that says that it failed is shorter.
_MOST_TEXT = 1024 * 1024
_MOST_BLOCKS = 100
# {"structured": {"result": {"error": …}}} is two levels down; nothing real is deeper than three.
_DEEPEST = 4
# Most texts are no report of a failure, and are not parsed to learn that.
_MAY_FAIL = re.compile(rf'"(?:success|isError|error|{"|".join(EXIT_CODES)})"')


def failure_in(payload: Any) -> str | None:
    """What the payload says went wrong, in one line; None where it says nothing of the kind.

    `payload` is the value as the device sent it: a failure must not be lost because something in it was
    redacted or stored apart. The line may hold secrets.
    """
    return next(
        (failure for part in _answers(payload, 0) if (failure := _failure_of(part)) is not None), None
    )


def _answers(value: Any, depth: int) -> Iterator[dict[str, Any]]:
    """The objects that may be the tool's own answer: the value, then what it wraps."""
    if isinstance(value, str):
        value = _object_in(value)
    if not isinstance(value, dict) or depth > _DEEPEST:
        return
    yield value
    for name in WRAPPERS:
        yield from _answers(value.get(name), depth + 1)
    if not any(value.get(name) for name in STRUCTURED):
        objects = [text for text in _texts(value.get("content")) if _looks_like_object(text)]
        # Several are a list of things that were looked at.
        if len(objects) == 1:
            yield from _answers(objects[0], depth + 1)


def _looks_like_object(text: str) -> bool:
    return text.lstrip().startswith("{")


def _object_in(text: str) -> dict[str, Any] | None:
    """The JSON object that a text is, where it may say that something failed."""
    if len(text) > _MOST_TEXT or not _looks_like_object(text) or not _MAY_FAIL.search(text):
        return None
    try:
        value = from_json(text)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _failure_of(payload: dict[str, Any]) -> str | None:
    for name in EXIT_CODES:
        code = payload.get(name)
        if isinstance(code, (int, float)) and not isinstance(code, bool) and code != 0:
            number = int(code) if isinstance(code, float) and code.is_integer() else code
            return f"Exit code {number}{_because(payload)}"
    if payload.get("success") is False:
        return f"The tool says it did not succeed{_because(payload)}"
    if payload.get("isError") is True:
        return f"The tool reports an error{_because(payload)}"
    # A tool that says it succeeded, or how it exited, means something else by `error`: warnings, a count.
    if payload.get("success") is True or any(name in payload for name in EXIT_CODES):
        return None
    return _words_of(payload.get("error")) or None


def _because(payload: dict[str, Any]) -> str:
    words = next((words for name in _WORDS if (words := _words_of(payload.get(name)))), "")
    words = words or _words_of(next(_texts(payload.get("content")), None))
    return f": {words}" if words else "."


def _words_of(value: Any) -> str:
    """The first line of a text, or of the `message` of an error object."""
    if isinstance(value, dict):
        value = value.get("message")
    return value.strip().splitlines()[0][:_MOST_WORDS] if isinstance(value, str) and value.strip() else ""


def _texts(content: Any) -> Iterator[str]:
    """The texts among the blocks of an MCP result."""
    for block in content[:_MOST_BLOCKS] if isinstance(content, list) else ():
        if isinstance(block, dict) and isinstance(block.get("text"), str):
            yield block["text"]
