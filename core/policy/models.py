"""Decisions, requests for approval, and the statements that answer them."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Literal

from pydantic import Field

from core.aip.messages import ToolType
from core.fleet.models import Effect, Plain, Risk


class Profile(StrEnum):
    """How much runs without asking: `observe` reads only, `guarded` low, `trusted` low and medium."""

    OBSERVE = "observe"
    GUARDED = "guarded"
    TRUSTED = "trusted"
    LOCKDOWN = "lockdown"


class Answer(StrEnum):
    """What the policy says of one command."""

    ALLOW = "allow"
    ASK = "ask"
    DENY = "deny"


class Reason(Plain):
    """One reason behind a decision: in words, and where it comes from (profile, contract, file line)."""

    text: str
    origin: str


class Finding(Plain):
    """One thing that the arguments would do, in words, with the risk it raises to.

    `argument` names the parameter; `start` and `end` are character offsets into its text, or None.
    """

    text: str
    risk: Risk
    detail: str = ""
    argument: str | None = None
    start: int | None = None
    end: int | None = None


class Decision(Plain):
    """The policy's answer. What a screen shows is this very object, as it was enforced and journalled."""

    answer: Answer
    risk: Risk
    effect: Effect
    profile: Profile
    summary: str
    reasons: list[Reason]
    findings: list[Finding] = Field(default_factory=list)
    reversible: bool = False
    undo: str = ""


class Request(Plain):
    """One command bound to one device and one contract. `digest` is SHA-256 over its canonical bytes.

    The canonical bytes are RFC 8785 JSON of every field but `digest`, plus `"format": REQUEST_FORMAT`.
    """

    device: str
    contract: str
    tool_key: str
    tool_name: str
    tool_type: ToolType
    namespace: str | None = None
    parameters: dict[str, Any]
    call_id: str
    digest: str


REQUEST_FORMAT = "quarterdeck.request/1"


class ApprovalState(StrEnum):
    """Where a request for approval stands; all but `waiting` are final."""

    WAITING = "waiting"
    APPROVED = "approved"
    DENIED = "denied"
    EXPIRED = "expired"
    WITHDRAWN = "withdrawn"


class Approval(Plain):
    """A request for approval, as the queue and the card show it.

    `asked_at` and `expires_at` are UTC, ISO 8601. `remaining_s` counts only while nobody reads the card.
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


class Statement(Plain):
    """What an operator signs: Ed25519 over the canonical bytes of this model (RFC 8785 JSON).

    `expires` is UTC, ISO 8601: the signature is worth nothing afterwards.
    """

    format: Literal["quarterdeck.approval/1"] = "quarterdeck.approval/1"
    verdict: Literal["approve", "deny"]
    approval: str
    request_digest: str
    contract: str
    device: str
    call_id: str
    approver: str
    expires: str
    reason: str = ""


class SignedStatement(Plain):
    """A statement with its signature: 128 hexadecimal digits."""

    statement: Statement
    signature: str


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
