"""The hierarchy of all errors that Quarterdeck raises on purpose.

    QuarterdeckError                 code, message, next step
    ├── BadInput                     invalid_arguments, unknown_tool, …: nothing was sent
    ├── Refused                      by policy, operator, guard, Stop all, a state: nothing was sent
    ├── DeviceError                  offline, timed out, or the outcome is unknown
    ├── JournalError
    │   ├── JournalUnavailable       cannot be written: no action is sent
    │   └── JournalCorrupt           does not open, or does not verify
    └── ServiceError                 the home's service cannot be reached, or must not be trusted

The codes are a closed list (`core.error_codes`); `core.next_steps.ADVICE` says what follows from each.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, ValidationError

from core.error_codes import ErrorCode
from core.next_steps import ADVICE
from core.text import sentences

__all__ = [
    "BadInput",
    "DeviceError",
    "ErrorCode",
    "ErrorInfo",
    "JournalCorrupt",
    "JournalError",
    "JournalUnavailable",
    "QuarterdeckError",
    "Refused",
    "ServiceError",
    "error_from",
    "faults_of",
    "first_fault",
]


class ErrorInfo(BaseModel):
    """The serialised form of an error: in results, on the control socket, in the journal, in `--json`."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    code: ErrorCode
    message: str
    next: str = ""

    @property
    def retryable(self) -> bool:
        """Whether the same request, uncorrected, may succeed later."""
        return ADVICE[self.code].retryable

    @property
    def sentences(self) -> str:
        """The message and the next step as one text, for a window or a terminal."""
        return sentences(self.message, self.next)

    @classmethod
    def of(cls, code: ErrorCode, message: str, next_step: str = "") -> ErrorInfo:
        """Describe an error, with its next step, or that of its code."""
        return cls(code=code, message=message, next=next_step or ADVICE[code].person)


class QuarterdeckError(Exception):
    """Base of all errors that are raised on purpose; has a message, a code and a next step.

    `next_step` is for an error to which the next step of its code does not apply.
    """

    default_code = ErrorCode.INTERNAL

    def __init__(self, message: str, code: ErrorCode | None = None, next_step: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.code = code or self.default_code
        self.next_step = next_step

    @property
    def info(self) -> ErrorInfo:
        """The error in its serialised form."""
        return ErrorInfo.of(self.code, self.message, self.next_step)


class BadInput(QuarterdeckError):
    """The request is malformed or not permitted; nothing was sent."""

    default_code = ErrorCode.INVALID_ARGUMENTS


class Refused(QuarterdeckError):
    """Policy, an operator, a guard or Stop all refused the request, or it does not fit the state of a run or
    another thing; nothing was sent."""

    default_code = ErrorCode.DENIED_BY_POLICY


class DeviceError(QuarterdeckError):
    """The device could not be reached, did not answer, or sent an invalid answer."""

    default_code = ErrorCode.DEVICE_OFFLINE


class JournalError(QuarterdeckError):
    """The journal cannot carry out an operation."""

    default_code = ErrorCode.JOURNAL_UNAVAILABLE


class JournalUnavailable(JournalError):
    """The journal cannot be written; nothing may be sent until it can."""


class JournalCorrupt(JournalError):
    """The journal does not open, or an entry does not match its hash."""

    default_code = ErrorCode.JOURNAL_CORRUPT


class ServiceError(QuarterdeckError):
    """The home's service cannot be reached, must not be trusted, or has another API version."""

    default_code = ErrorCode.SERVICE_UNAVAILABLE


_CLASS_OF_CODE: dict[ErrorCode, type[QuarterdeckError]] = {
    ErrorCode.DENIED_BY_POLICY: Refused,
    ErrorCode.DENIED_BY_OPERATOR: Refused,
    ErrorCode.DENIED_BY_DEVICE: Refused,
    ErrorCode.CLOCK_DIFFERS: Refused,
    ErrorCode.APPROVAL_EXPIRED: Refused,
    ErrorCode.APPROVAL_PENDING: Refused,
    ErrorCode.APPROVAL_INVALID: Refused,
    ErrorCode.SIGNATURE_REQUIRED: Refused,
    ErrorCode.CONTRACT_CHANGED: Refused,
    ErrorCode.QUEUE_FULL: Refused,
    ErrorCode.RATE_LIMITED: Refused,
    ErrorCode.AGENT_UNKNOWN: Refused,
    ErrorCode.AGENT_PAUSED: Refused,
    ErrorCode.STOPPED: Refused,
    ErrorCode.WRONG_STATE: Refused,
    ErrorCode.CANCELLED: Refused,
    ErrorCode.SKIPPED: Refused,
    ErrorCode.DEVICE_OFFLINE: DeviceError,
    ErrorCode.TIMEOUT: DeviceError,
    ErrorCode.OUTCOME_UNKNOWN: DeviceError,
    ErrorCode.TOOL_FAILED: DeviceError,
    ErrorCode.EXPECTATION_FAILED: DeviceError,
    ErrorCode.BAD_RESULT: DeviceError,
    ErrorCode.PROTOCOL_ERROR: DeviceError,
    ErrorCode.CONTROL_COVERED: DeviceError,
    ErrorCode.CONTROL_NOT_SHOWING: DeviceError,
    ErrorCode.CONTROL_DISABLED: DeviceError,
    ErrorCode.PROGRAM_NOT_ANSWERING: DeviceError,
    ErrorCode.KEYBOARD_ELSEWHERE: DeviceError,
    ErrorCode.JOURNAL_UNAVAILABLE: JournalUnavailable,
    ErrorCode.JOURNAL_CORRUPT: JournalCorrupt,
    ErrorCode.SERVICE_UNAVAILABLE: ServiceError,
    ErrorCode.SERVICE_SILENT: ServiceError,
    ErrorCode.HOME_BUSY: ServiceError,
    ErrorCode.HOME_UNSAFE: ServiceError,
    ErrorCode.INTERNAL: QuarterdeckError,
}


def error_from(info: ErrorInfo) -> QuarterdeckError:
    """Rebuild an error that arrived over a socket, as the class of its code."""
    return _CLASS_OF_CODE.get(info.code, BadInput)(info.message, info.code, info.next)


def faults_of(error: ValidationError, whole: str = "") -> list[str]:
    """Each fault that pydantic found, as `place: message`; `whole` names the place of the value as a whole.

    Without the values, which may be secret or huge.
    """
    found = error.errors(include_url=False, include_context=False, include_input=False)
    faults = []
    for fault in found:
        place = ".".join(map(str, fault["loc"])) or whole
        message = fault["msg"].removeprefix("Value error, ")
        faults.append(f"{place}: {message}" if place else message)
    return faults


def first_fault(error: Exception, whole: str = "") -> str:
    """The first fault that pydantic found (`faults_of`), or the message of any other error."""
    if isinstance(error, ValidationError):
        return faults_of(error, whole)[0]
    return str(error) or type(error).__name__
