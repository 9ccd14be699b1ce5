"""Exit codes: what a script may rely on. Used by the command line and by the service's own process.

`NOT_APPROVED` is final: the request was denied for want of an answer and nothing was sent.
`APPROVAL_PENDING` is not: the request still waits in the service's queue, and may yet be approved and sent.
"""

from __future__ import annotations

from core.aip.messages import ResultStatus
from core.dispatch.models import CommandResult, Verdict
from core.errors import ErrorCode

DONE = 0
FAULT = 1
BAD_INPUT = 2
DENIED = 3
NOT_APPROVED = 4
DEVICE_OFFLINE = 5
TOOL_FAILED = 6
OUTCOME_UNKNOWN = 7
JOURNAL_BAD = 8
HOME_OWNED = 9
APPROVAL_PENDING = 10
INTERRUPTED = 130

_OF_CODE: dict[ErrorCode, int] = {
    ErrorCode.DENIED_BY_POLICY: DENIED,
    ErrorCode.DENIED_BY_OPERATOR: DENIED,
    ErrorCode.DENIED_BY_DEVICE: DENIED,
    ErrorCode.CONTRACT_CHANGED: DENIED,
    ErrorCode.STOPPED: DENIED,
    ErrorCode.APPROVAL_INVALID: DENIED,
    ErrorCode.SIGNATURE_REQUIRED: DENIED,
    ErrorCode.APPROVAL_EXPIRED: NOT_APPROVED,
    ErrorCode.APPROVAL_PENDING: APPROVAL_PENDING,
    ErrorCode.DEVICE_OFFLINE: DEVICE_OFFLINE,
    # Timed out before anything was sent, or stopped by the device: without an answer the verdict is unknown.
    ErrorCode.TIMEOUT: TOOL_FAILED,
    ErrorCode.OUTCOME_UNKNOWN: OUTCOME_UNKNOWN,
    ErrorCode.CANCELLED: TOOL_FAILED,
    ErrorCode.SKIPPED: TOOL_FAILED,
    ErrorCode.TOOL_FAILED: TOOL_FAILED,
    ErrorCode.PARTIAL_FAILURE: TOOL_FAILED,
    ErrorCode.BAD_RESULT: TOOL_FAILED,
    ErrorCode.PROTOCOL_ERROR: TOOL_FAILED,
    ErrorCode.STALE_OBSERVATION: TOOL_FAILED,
    ErrorCode.JOURNAL_UNAVAILABLE: JOURNAL_BAD,
    ErrorCode.JOURNAL_CORRUPT: JOURNAL_BAD,
    ErrorCode.SERVICE_UNAVAILABLE: HOME_OWNED,
    ErrorCode.HOME_BUSY: HOME_OWNED,
    ErrorCode.HOME_UNSAFE: HOME_OWNED,
    ErrorCode.INTERNAL: FAULT,
}


def exit_code_of(code: ErrorCode) -> int:
    """The exit code that an error stands for; whatever is not listed is bad input."""
    return _OF_CODE.get(code, BAD_INPUT)


def of_result(result: CommandResult) -> int:
    """The exit code that a command's result stands for."""
    # Before its error, which only says why it is not known: an answer that cannot be used, a time-out.
    if result.verdict is Verdict.UNKNOWN:
        return OUTCOME_UNKNOWN
    if result.error is not None:
        return exit_code_of(result.error.code)
    return DONE if result.status is ResultStatus.SUCCESS else TOOL_FAILED
