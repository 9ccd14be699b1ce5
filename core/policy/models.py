"""Decisions, requests for approval, and the statements that answer them."""

from __future__ import annotations

from enum import StrEnum

from pydantic import Field

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


class Moment(StrEnum):
    """When evidence is taken."""

    BEFORE = "before"
    AFTER = "after"


class RuleHit(Plain):
    """A rule that spoke of this call. `line` is where it begins in policy.toml; 0 when that is not known.

    `evidence` is what it wants taken.
    """

    id: str
    decision: Answer
    reason: str = ""
    line: int = 0
    evidence: list[Moment] = Field(default_factory=list)


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
    """The policy's answer. What a screen shows is this very object, as it was enforced and journalled.

    `rules` are those that matched, the deciding one first; `grant` is the id of the grant that allowed it.
    `approvers` distinct operators must approve; `evidence` is taken before or after; `expires_s` is how long
    the request waits, None for the usual time. `device_requires_signature`: the device itself wants each such
    command signed by operators, so that no grant lets it go unasked.
    """

    answer: Answer
    risk: Risk
    effect: Effect
    profile: Profile
    summary: str
    reasons: list[Reason]
    findings: list[Finding] = Field(default_factory=list)
    reversible: bool = False
    undo: str = ""
    rules: list[RuleHit] = Field(default_factory=list)
    grant: str = ""
    approvers: int = 1
    evidence: list[Moment] = Field(default_factory=list)
    expires_s: float | None = None
    device_requires_signature: bool = False
