"""What comes back from the dispatcher: AIP's status, and beside it the console's own conclusion."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from pydantic import Field

from core.aip.messages import ResultStatus
from core.errors import ErrorInfo
from core.fleet.models import Plain
from core.policy.models import Decision


class Verdict(StrEnum):
    """What may be concluded, as opposed to what a device claims."""

    CONFIRMED = "confirmed"
    UNVERIFIED = "unverified"
    NO_EFFECT = "no_effect"
    REFUSED = "refused"
    UNKNOWN = "unknown"
    CANCELLED = "cancelled"


class Basis(StrEnum):
    """What a verdict rests on."""

    READ_RESPONSE = "read_response"
    POSTCONDITION = "postcondition"
    DEVICE_CLAIM = "device_claim"
    DEVICE_REPORTED_FAILURE = "device_reported_failure"
    DEVICE_REFUSED = "device_refused"
    NOTHING_SENT = "nothing_sent"
    NO_ANSWER = "no_answer"
    UNUSABLE_ANSWER = "unusable_answer"
    DEVICE_DOES_NOT_KNOW = "device_does_not_know"
    DEVICE_CONFIRMED_CANCEL = "device_confirmed_cancel"


# A dispatch receipt is never `confirmed`; a pair that is not listed here cannot be made.
LISTED_PAIRS: frozenset[tuple[Verdict, Basis]] = frozenset(
    {
        (Verdict.CONFIRMED, Basis.READ_RESPONSE),
        (Verdict.CONFIRMED, Basis.POSTCONDITION),
        (Verdict.UNVERIFIED, Basis.DEVICE_CLAIM),
        (Verdict.UNVERIFIED, Basis.DEVICE_REPORTED_FAILURE),
        (Verdict.NO_EFFECT, Basis.POSTCONDITION),
        (Verdict.REFUSED, Basis.NOTHING_SENT),
        (Verdict.REFUSED, Basis.DEVICE_REFUSED),
        (Verdict.CANCELLED, Basis.NOTHING_SENT),
        (Verdict.CANCELLED, Basis.DEVICE_CONFIRMED_CANCEL),
        (Verdict.UNKNOWN, Basis.NO_ANSWER),
        (Verdict.UNKNOWN, Basis.UNUSABLE_ANSWER),
        (Verdict.UNKNOWN, Basis.DEVICE_DOES_NOT_KNOW),
    }
)


class CommandStage(StrEnum):
    """The stages of a command's way, in order: where a command ended that did not go well.

    `prepare` binds it to a device and a contract, `validate` checks its arguments (schema, sizes,
    characters), `harden` where its paths lead and that it does not aim at this window, `decide` asks the
    policy, `approve` an operator, `record_intent` checks once more what may have changed meanwhile and
    writes the intent, `send` hands it to the device's link, `observe` waits for and judges the answer. Up
    to `send` nothing has reached the device.
    """

    PREPARE = "prepare"
    VALIDATE = "validate"
    HARDEN = "harden"
    DECIDE = "decide"
    APPROVE = "approve"
    RECORD_INTENT = "record_intent"
    SEND = "send"
    OBSERVE = "observe"


# Fields of a result that its journal entry leaves out: the decision has an entry of its own, and the stage
# follows from which entries there are.
NOT_WRITTEN = frozenset({"decision", "stage"})


class Evidence(Plain):
    """A picture or a large output, stored as a blob by its SHA-256 digest. `size` is in bytes."""

    blob: str
    media_type: str
    size: int
    what: str = ""
    width: int | None = None
    height: int | None = None


class CommandResult(Plain):
    """The outcome of one command: what `--json` prints and every screen shows.

    `note` is said beside the result where it needs a word: a successful read that brought no value.
    `stage` is where a command ended that has an error; None where that is not known, as of one that is read
    from the journal, and where there is no error.
    """

    call_id: str
    device: str
    tool_name: str
    status: ResultStatus
    verdict: Verdict
    basis: Basis
    error: ErrorInfo | None = None
    result: Any = None
    namespace: str | None = None
    duration_ms: float = 0.0
    evidence: list[Evidence] = Field(default_factory=list)
    decision: Decision | None = None
    note: str = ""
    stage: CommandStage | None = None
