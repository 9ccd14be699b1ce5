"""The hierarchy of all errors that Quarterdeck raises on purpose.

    QuarterdeckError                 code, message, next step
    ├── BadInput                     invalid_arguments, unknown_tool, …: nothing was sent
    ├── Refused                      refused by policy, operator, guard or Stop all: nothing was sent
    ├── DeviceError                  offline, timed out, or the outcome is unknown
    ├── JournalError
    │   ├── JournalUnavailable       cannot be written: no action is sent
    │   └── JournalCorrupt           does not open, or does not verify
    └── ServiceError                 the home's service cannot be reached, or must not be trusted

The codes are a closed list. `ADVICE` states for each code whether a retry can help, and a person's next step,
so that the window, the terminal and agents give the same advice.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from pydantic import BaseModel, ConfigDict, ValidationError

from core.text import sentences


class ErrorCode(StrEnum):
    """The kind of an error, as a stable word that programs may depend on."""

    INVALID_ARGUMENTS = "invalid_arguments"
    UNKNOWN_TOOL = "unknown_tool"
    UNKNOWN_DEVICE = "unknown_device"
    NOT_FOUND = "not_found"
    PATH_NOT_ALLOWED = "path_not_allowed"
    TOO_LARGE = "too_large"
    CONTRACT_CHANGED = "contract_changed"
    DENIED_BY_POLICY = "denied_by_policy"
    DENIED_BY_OPERATOR = "denied_by_operator"
    DENIED_BY_DEVICE = "denied_by_device"
    CLOCK_DIFFERS = "clock_differs"
    APPROVAL_EXPIRED = "approval_expired"
    APPROVAL_PENDING = "approval_pending"
    APPROVAL_INVALID = "approval_invalid"
    SIGNATURE_REQUIRED = "signature_required"
    QUEUE_FULL = "queue_full"
    RATE_LIMITED = "rate_limited"
    AGENT_UNKNOWN = "agent_unknown"
    AGENT_PAUSED = "agent_paused"
    STOPPED = "stopped"
    CANCELLED = "cancelled"
    SKIPPED = "skipped"
    DEVICE_OFFLINE = "device_offline"
    TIMEOUT = "timeout"
    OUTCOME_UNKNOWN = "outcome_unknown"
    TOOL_FAILED = "tool_failed"
    PARTIAL_FAILURE = "partial_failure"
    EXPECTATION_FAILED = "expectation_failed"
    BAD_RESULT = "bad_result"
    STALE_OBSERVATION = "stale_observation"
    CONTROL_NOT_FOUND = "control_not_found"
    CONTROL_AMBIGUOUS = "control_ambiguous"
    CONTROL_COVERED = "control_covered"
    CONTROL_NOT_SHOWING = "control_not_showing"
    CONTROL_DISABLED = "control_disabled"
    PROGRAM_NOT_ANSWERING = "program_not_answering"
    KEYBOARD_ELSEWHERE = "keyboard_elsewhere"
    PROTOCOL_ERROR = "protocol_error"
    JOURNAL_UNAVAILABLE = "journal_unavailable"
    JOURNAL_CORRUPT = "journal_corrupt"
    SERVICE_UNAVAILABLE = "service_unavailable"
    HOME_BUSY = "home_busy"
    HOME_UNSAFE = "home_unsafe"
    INTERNAL = "internal"


@dataclass(frozen=True, slots=True)
class Advice:
    """Whether the same request may succeed later, and the next step for a person."""

    retryable: bool
    next_step: str


ADVICE: dict[ErrorCode, Advice] = {
    ErrorCode.INVALID_ARGUMENTS: Advice(False, "Correct the argument that is named, then run again."),
    ErrorCode.UNKNOWN_TOOL: Advice(False, "List the device's tools and choose one of them."),
    ErrorCode.UNKNOWN_DEVICE: Advice(False, "List the devices and choose one of them."),
    ErrorCode.NOT_FOUND: Advice(False, "Check the id; list what there is."),
    ErrorCode.PATH_NOT_ALLOWED: Advice(
        False, "Choose a path below an allowed root, or add a root in the device's own device.toml."
    ),
    ErrorCode.TOO_LARGE: Advice(False, "Make the argument smaller, or write it in parts."),
    ErrorCode.CONTRACT_CHANGED: Advice(
        False, "Review what changed of the tool (quarterdeck contracts review DEVICE TOOL); it stays blocked."
    ),
    # Not every refusal is by a rule: `core.policy.refusal` names the rule's.
    ErrorCode.DENIED_BY_POLICY: Advice(False, "Read why it is refused, and put that right first."),
    ErrorCode.DENIED_BY_OPERATOR: Advice(False, "Read the operator's reason before asking again."),
    ErrorCode.DENIED_BY_DEVICE: Advice(False, "The device's own limits forbid it; see its device.toml."),
    ErrorCode.CLOCK_DIFFERS: Advice(True, "Set the device's clock (NTP), then ask again."),
    ErrorCode.APPROVAL_EXPIRED: Advice(True, "Ask again when an operator is there."),
    ErrorCode.APPROVAL_PENDING: Advice(
        False, "Do not ask again: approve or deny the request that waits; the run goes on from there."
    ),
    ErrorCode.APPROVAL_INVALID: Advice(
        True, "Sign the request that is shown, with a key this service knows."
    ),
    ErrorCode.SIGNATURE_REQUIRED: Advice(
        True, "Look at what would change, and sign it with an operator's key."
    ),
    ErrorCode.QUEUE_FULL: Advice(True, "Wait until requests have been answered, then ask again."),
    ErrorCode.RATE_LIMITED: Advice(True, "Wait a minute, or ask for fewer commands at a time."),
    ErrorCode.AGENT_UNKNOWN: Advice(
        False, "Ask an operator for a token (quarterdeck agents add NAME), and start again with it."
    ),
    ErrorCode.AGENT_PAUSED: Advice(True, "Wait until an operator lets the agent go on, then ask again."),
    ErrorCode.STOPPED: Advice(True, "Resume in the console, then run again."),
    ErrorCode.CANCELLED: Advice(True, "Run again if it is still wanted."),
    ErrorCode.SKIPPED: Advice(True, "Look at the step that did not succeed, then run what is left."),
    ErrorCode.DEVICE_OFFLINE: Advice(True, "Bring the device back online, then run again."),
    ErrorCode.TIMEOUT: Advice(True, "Look whether the device is busy; allow more time."),
    ErrorCode.OUTCOME_UNKNOWN: Advice(
        False, "Look at the device before you run this again: it may have happened."
    ),
    ErrorCode.TOOL_FAILED: Advice(False, "Read what the tool said."),
    ErrorCode.PARTIAL_FAILURE: Advice(False, "See which parts failed; run only those again."),
    ErrorCode.EXPECTATION_FAILED: Advice(
        False, "Compare the result with what the batch expects of it; correct one of them."
    ),
    ErrorCode.BAD_RESULT: Advice(False, "The device's answer could not be used; look at its log."),
    ErrorCode.STALE_OBSERVATION: Advice(
        True, "Take a new picture, or read the controls again, then ask with what it shows."
    ),
    ErrorCode.CONTROL_NOT_FOUND: Advice(
        True, "Choose one of those that are listed, or wait until it is there, then ask again."
    ),
    ErrorCode.CONTROL_AMBIGUOUS: Advice(
        False, "Give the control_id of the one that is meant, or the window_id of its window."
    ),
    ErrorCode.CONTROL_COVERED: Advice(
        True, "Bring its window forward (activate_window), or close what covers it, then ask again."
    ),
    ErrorCode.CONTROL_NOT_SHOWING: Advice(
        True, "Open the menu, tab or page that has it, or scroll to it, then ask again."
    ),
    ErrorCode.CONTROL_DISABLED: Advice(
        True, "Do first what its program wants before it, such as a choice or a field, then ask again."
    ),
    ErrorCode.PROGRAM_NOT_ANSWERING: Advice(
        True, "Look at a picture: close the dialog that it waits for, or let it finish; then ask again."
    ),
    ErrorCode.KEYBOARD_ELSEWHERE: Advice(
        True,
        "Give the control_id of the field, or put the keyboard there: click it, or close the menu (press_key "
        "Escape); then ask again.",
    ),
    ErrorCode.PROTOCOL_ERROR: Advice(False, "The device speaks a protocol this console does not know."),
    ErrorCode.JOURNAL_UNAVAILABLE: Advice(
        True, "Make the journal writable (disk space, permissions); nothing is sent until then."
    ),
    ErrorCode.JOURNAL_CORRUPT: Advice(
        False, "Keep a copy of the home, then look at the entry that is named."
    ),
    ErrorCode.SERVICE_UNAVAILABLE: Advice(True, "Start the service: quarterdeck service start."),
    ErrorCode.HOME_BUSY: Advice(
        True, "Another program owns this home and cannot be reached; stop it, or choose another --home."
    ),
    ErrorCode.HOME_UNSAFE: Advice(
        False, "Make the folder that is named yours alone (its owner you, its mode 0700), or choose another."
    ),
    ErrorCode.INTERNAL: Advice(False, "This is a fault in Quarterdeck; the log has the details."),
}


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
        return cls(code=code, message=message, next=next_step or ADVICE[code].next_step)


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
    """Policy, an operator, a guard or Stop all refused the request; nothing was sent."""

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
