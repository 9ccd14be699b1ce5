"""Models of a command's result: AIP's status, and the console's own verdict beside it."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from pydantic import Field

from core.aip.messages import ResultStatus
from core.errors import ErrorInfo
from core.models.frozen import FrozenModel
from core.policy.models import Decision


class Verdict(StrEnum):
    """The console's conclusion about a command, as opposed to the device's claim."""

    CONFIRMED = "confirmed"
    UNVERIFIED = "unverified"
    NO_EFFECT = "no_effect"
    REFUSED = "refused"
    UNKNOWN = "unknown"
    CANCELLED = "cancelled"


class Basis(StrEnum):
    """The evidence on which a verdict is based."""

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


# The allowed pairs. A mere receipt of a command is never `confirmed`; `make_result` raises for other pairs.
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
    """The dispatcher's stages in order; in a result, the stage at which a command failed.

    `prepare` binds the command to a device and a contract. `validate` checks its arguments (schema, sizes,
    characters). `harden` checks where its paths lead and that it does not act on the console's own screen.
    `decide` asks the policy, `approve` an operator. `record_intent` checks again what may have changed
    meanwhile, and writes the intent. `send` hands the command to the device's link. `observe` waits for the
    answer and judges it. A command that ends at or before `send` has not reached the device.
    """

    PREPARE = "prepare"
    VALIDATE = "validate"
    HARDEN = "harden"
    DECIDE = "decide"
    APPROVE = "approve"
    RECORD_INTENT = "record_intent"
    SEND = "send"
    OBSERVE = "observe"


# Fields of a result that its journal entry omits: the decision has an entry of its own, and the stage follows
# from which entries exist.
NOT_WRITTEN = frozenset({"decision", "stage"})


class Evidence(FrozenModel):
    """A picture, a file or a large text, stored as a blob named by its SHA-256. `size` is in bytes."""

    blob: str
    media_type: str
    size: int
    what: str = ""
    width: int | None = None
    height: int | None = None


class CommandResult(FrozenModel):
    """The outcome of one command, as `--json` prints it and every screen shows it.

    `note` is an explanation shown beside the result, for example that a successful read returned no value.
    `stage` is the stage at which a command failed; None without an error, and if unknown (a result that was
    read from the journal).
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

    def seen_after(self, picture: Evidence) -> CommandResult:
        """The result with a picture that was taken after the command."""
        return self.model_copy(update={"evidence": [*self.evidence, picture]})

    def not_seen_after(self, why: str) -> CommandResult:
        """The result with a note that no picture could be taken after the command."""
        return self.model_copy(
            update={"note": f"{self.note} No picture could be taken after it: {why}".strip()}
        )
