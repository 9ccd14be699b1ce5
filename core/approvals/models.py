"""Models of a request for approval, its operators, and their fatigue measure."""

from __future__ import annotations

from enum import StrEnum

from pydantic import Field

from core.errors import ErrorInfo
from core.models.frozen import FrozenModel
from core.policy.models import Decision
from core.statements import Request, SignedStatement


class ApprovalState(StrEnum):
    """The state of a request for approval; every state except `waiting` is final."""

    WAITING = "waiting"
    APPROVED = "approved"
    DENIED = "denied"
    EXPIRED = "expired"
    EDITED = "edited"
    WITHDRAWN = "withdrawn"


class Approval(FrozenModel):
    """A snapshot of a request for approval, as the queue and the card show it.

    `asked_at` and `expires_at` are UTC, ISO 8601. `remaining_s` does not count down while a client has the
    card open (up to the queue's limit). `approvers` distinct operators must approve it; `signed` has the
    statements so far, denials included. `program` is what the program of an agent calls itself. `askers` are
    the operators who asked for or edited it, as proved with their keys; an empty name is a person whose
    identity was not proved. Each of these raises `approvers` by one if several operators must approve.
    `edited_from` is the id of the request that an operator edited into this one; `edited_to` is the id of the
    request that replaced this one.
    """

    id: str
    request: Request
    decision: Decision
    actor: str
    run: str | None = None
    step: str | None = None
    production: bool = False
    asked_at: str
    expires_at: str
    remaining_s: float
    paused: bool = False
    state: ApprovalState = ApprovalState.WAITING
    decided_by: str | None = None
    decided_at: str | None = None
    reason: str = ""
    said: str = ""
    program: str = ""
    approvers: int = 1
    askers: list[str] = Field(default_factory=list)
    approved_by: list[str] = Field(default_factory=list)
    signed: list[SignedStatement] = Field(default_factory=list)
    edited_from: str = ""
    edited_to: str = ""


class NotTaken(StrEnum):
    """Why one of many answers was not taken.

    `ended`: the request was answered elsewhere, withdrawn, or expired. `changed`: the operator signed for
    another request than the one that waits, as after an edit. `needs_other_operator`: this operator's
    approval does not count for it. `expired`: the signature has expired. `not_signed`: the signature is not
    an operator's. `being_answered`: another answer is being recorded, or the call names the request twice.
    `not_found`: no such request is known, or it ended long ago.
    """

    ENDED = "ended"
    CHANGED = "changed"
    NEEDS_OTHER_OPERATOR = "needs_other_operator"
    EXPIRED = "expired"
    NOT_SIGNED = "not_signed"
    BEING_ANSWERED = "being_answered"
    NOT_FOUND = "not_found"


class AnswerFate(FrozenModel):
    """What became of one answer of a call that answers many requests.

    `state`, `approved_by` and `approvers` are those of the request afterwards: an approval that was taken
    leaves it waiting if another operator must approve. `state` is None for a request that does not exist.
    `why` and `error` are None if the answer was taken.
    """

    approval: str
    device: str
    state: ApprovalState | None
    approved_by: list[str] = Field(default_factory=list)
    approvers: int = 1
    why: NotTaken | None = None
    error: ErrorInfo | None = None


class Fatigue(FrozenModel):
    """The measure of an operator's last `decided` answers, at most those of the last hour.

    `median_s` is the median time in seconds from the first opening of a card to the answer. `hasty` counts
    approvals in less than a second. `warning` is a sentence if the numbers suggest that the operator does not
    read the requests; otherwise "".
    """

    operator: str
    decided: int
    approved: int
    median_s: float
    hasty: int
    warning: str = ""


class Operator(FrozenModel):
    """A person who may approve requests. `public_key` is the raw Ed25519 key in 64 hexadecimal digits."""

    name: str
    public_key: str
    has_passphrase: bool
    registered_at: str = ""

    @property
    def fingerprint(self) -> str:
        """The last four digits of the public key, for display."""
        return self.public_key[-4:]
