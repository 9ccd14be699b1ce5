"""A request that waits for operators, what they answered, and who they are."""

from __future__ import annotations

from enum import StrEnum

from pydantic import Field

from core.fleet.models import Plain
from core.policy.models import Decision
from core.statements import Request, SignedStatement


class ApprovalState(StrEnum):
    """Where a request for approval stands; all but `waiting` are final."""

    WAITING = "waiting"
    APPROVED = "approved"
    DENIED = "denied"
    EXPIRED = "expired"
    EDITED = "edited"
    WITHDRAWN = "withdrawn"


class Approval(Plain):
    """A request for approval, as the queue and the card show it.

    `asked_at` and `expires_at` are UTC, ISO 8601. `remaining_s` counts only while nobody reads the card.
    `approvers` distinct operators must approve it; `signed` are the statements so far, denials included.
    `askers` are the operators who asked for it or edited it, as their keys have proved; an empty name is a
    person of whom that is not known, for whom one operator more must approve where several must.
    `edited_from` is the request that an operator changed into this one, `edited_to` the other way round.
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
    approvers: int = 1
    askers: list[str] = Field(default_factory=list)
    approved_by: list[str] = Field(default_factory=list)
    signed: list[SignedStatement] = Field(default_factory=list)
    edited_from: str = ""
    edited_to: str = ""


class Fatigue(Plain):
    """How an operator has been deciding of late: the last `decided` answers, at most the last hour's.

    `median_s` is the time from first seeing a card to the answer; `hasty` counts approvals given in under a
    second. `warning` is a sentence when the numbers say that nobody is reading; else "".
    """

    operator: str
    decided: int
    approved: int
    median_s: float
    hasty: int
    warning: str = ""


class Operator(Plain):
    """A person who may approve. `public_key` is the raw Ed25519 key, 64 hexadecimal digits."""

    name: str
    public_key: str
    has_passphrase: bool
    registered_at: str = ""

    @property
    def fingerprint(self) -> str:
        """The last four digits of the key, as the screen shows them."""
        return self.public_key[-4:]
