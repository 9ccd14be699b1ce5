"""Exit codes of the command line and of the service process; scripts may rely on them.

`NOT_APPROVED` is final: the request expired without an answer and nothing was sent.
`APPROVAL_PENDING` is not final: the request waits in the service's queue, and may still be approved and sent.
`PLAN_INVALID`: a plan shows a step that is invalid on some device; nothing was sent.
`WRONG_STATE`: what was asked for does not fit the state of a run: it has not ended, nothing of it is left,
another run continues it. Nothing was sent.
"""

from __future__ import annotations

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
PLAN_INVALID = 11
WRONG_STATE = 12
INTERRUPTED = 130

_OF_CODE: dict[ErrorCode, int] = {
    ErrorCode.DENIED_BY_POLICY: DENIED,
    ErrorCode.DENIED_BY_OPERATOR: DENIED,
    ErrorCode.DENIED_BY_DEVICE: DENIED,
    ErrorCode.CLOCK_DIFFERS: DENIED,
    ErrorCode.CONTRACT_CHANGED: DENIED,
    ErrorCode.STOPPED: DENIED,
    ErrorCode.AGENT_UNKNOWN: DENIED,
    ErrorCode.AGENT_PAUSED: DENIED,
    ErrorCode.APPROVAL_INVALID: DENIED,
    ErrorCode.SIGNATURE_REQUIRED: DENIED,
    ErrorCode.WRONG_STATE: WRONG_STATE,
    ErrorCode.APPROVAL_EXPIRED: NOT_APPROVED,
    ErrorCode.APPROVAL_PENDING: APPROVAL_PENDING,
    ErrorCode.DEVICE_OFFLINE: DEVICE_OFFLINE,
    # The call timed out before it was sent, or the device ended it. After sending, a call without an answer
    # has the verdict unknown instead.
    ErrorCode.TIMEOUT: TOOL_FAILED,
    ErrorCode.OUTCOME_UNKNOWN: OUTCOME_UNKNOWN,
    ErrorCode.CANCELLED: TOOL_FAILED,
    ErrorCode.SKIPPED: TOOL_FAILED,
    ErrorCode.TOOL_FAILED: TOOL_FAILED,
    ErrorCode.PARTIAL_FAILURE: TOOL_FAILED,
    ErrorCode.EXPECTATION_FAILED: TOOL_FAILED,
    ErrorCode.BAD_RESULT: TOOL_FAILED,
    ErrorCode.PROTOCOL_ERROR: TOOL_FAILED,
    ErrorCode.STALE_OBSERVATION: TOOL_FAILED,
    ErrorCode.CHANGED_SINCE: TOOL_FAILED,
    ErrorCode.CONTROL_NOT_FOUND: TOOL_FAILED,
    ErrorCode.CONTROL_AMBIGUOUS: TOOL_FAILED,
    ErrorCode.CONTROL_COVERED: TOOL_FAILED,
    ErrorCode.CONTROL_NOT_SHOWING: TOOL_FAILED,
    ErrorCode.CONTROL_DISABLED: TOOL_FAILED,
    ErrorCode.PROGRAM_NOT_ANSWERING: TOOL_FAILED,
    ErrorCode.KEYBOARD_ELSEWHERE: TOOL_FAILED,
    ErrorCode.JOURNAL_UNAVAILABLE: JOURNAL_BAD,
    ErrorCode.JOURNAL_CORRUPT: JOURNAL_BAD,
    ErrorCode.SERVICE_UNAVAILABLE: HOME_OWNED,
    ErrorCode.SERVICE_SILENT: HOME_OWNED,
    ErrorCode.HOME_BUSY: HOME_OWNED,
    ErrorCode.HOME_UNSAFE: HOME_OWNED,
    ErrorCode.INTERNAL: FAULT,
}


def exit_code_of(code: ErrorCode) -> int:
    """The exit code of an error code; every code that is not in the table is bad input."""
    return _OF_CODE.get(code, BAD_INPUT)
