"""Reads a device's answer to `recall`: what it says of each earlier call, and the late answers in it.

An answer that comes after its request's time is not lost: its results are late answers of their calls.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from pydantic import ValidationError

from core.aip.extensions import RecalledResult
from core.aip.frames import read_error_text
from core.aip.link_events import LateAnswer
from core.aip.messages import Result, ResultStatus
from core.errors import DeviceError, ErrorCode

_MOST_NAMED = 3
_LONGEST_NAMED = 80


class TooMuchAtOnce(DeviceError):
    """The results of the calls that were asked for do not fit into one answer."""

    default_code = ErrorCode.TOO_LARGE


def read_recalled(device: str, call_ids: Sequence[str], answer: Result) -> dict[str, RecalledResult]:
    """The device's answer for each of these calls.

    Raises:
        TooMuchAtOnce: it asks for fewer calls at once.
        DeviceError: it does not answer for each call (code `bad_result`).
    """
    if answer.status is not ResultStatus.SUCCESS:
        fault = read_error_text(answer.error or "no reason given")
        if fault.code is ErrorCode.TOO_LARGE and len(call_ids) > 1:
            raise TooMuchAtOnce(fault.message)
        raise DeviceError(
            f"{device} did not say what became of its calls: {fault.message}", ErrorCode.BAD_RESULT
        )
    results = answer.result if isinstance(answer.result, dict) else {}
    try:
        return {call_id: RecalledResult.model_validate(results.get(call_id)) for call_id in call_ids}
    except ValidationError:
        raise DeviceError(f"{device} sent a malformed list of its calls.", ErrorCode.BAD_RESULT) from None


def not_asked_for(call_ids: Iterable[str], answer: Result) -> str:
    """The fault of an answer that names other calls than these; empty if it names no other."""
    named = answer.result if isinstance(answer.result, dict) else {}
    others = [str(name)[:_LONGEST_NAMED] for name in named if name not in set(call_ids)]
    if not others:
        return ""
    some = ", ".join(others[:_MOST_NAMED]) + (", …" if len(others) > _MOST_NAMED else "")
    return f"it was not asked for {some}"


def late_answers(recalled: Mapping[str, RecalledResult]) -> list[LateAnswer]:
    """The late answers in what a device says of earlier calls; a running call has none yet."""
    return [late for call_id, told in recalled.items() if (late := _late_answer(call_id, told)) is not None]


def _late_answer(call_id: str, told: RecalledResult) -> LateAnswer | None:
    if told.state == "running":
        return None
    if told.state == "never_seen":
        return LateAnswer((call_id,), (), recalled=True, never_seen=told)
    try:
        result = Result.model_validate(told.result)
    except ValidationError:
        return LateAnswer((call_id,), (), "what it kept of the call is not a result", recalled=True)
    wrong = "" if result.call_id == call_id else f"it is a result for call {str(result.call_id)[:200]}"
    return LateAnswer((call_id,), (result,), wrong, recalled=True)
