"""Data models of policy decisions: profiles, answers, reasons, findings and decisions."""

from __future__ import annotations

from enum import StrEnum
from functools import cached_property
from typing import Self

from pydantic import Field

from core.canonical_json import Encoded, encoded
from core.fleet.models import Effect, FrozenModel, Risk


class Profile(StrEnum):
    """What runs without asking: `guarded` low risk, `trusted` low and medium risk, `lockdown` nothing.

    `observe` allows reading at low risk and denies everything else.
    """

    OBSERVE = "observe"
    GUARDED = "guarded"
    TRUSTED = "trusted"
    LOCKDOWN = "lockdown"


class Answer(StrEnum):
    """The policy's answer to one command."""

    ALLOW = "allow"
    ASK = "ask"
    DENY = "deny"


class Moment(StrEnum):
    """When evidence is taken, relative to the command."""

    BEFORE = "before"
    AFTER = "after"


class RuleHit(FrozenModel):
    """A rule that applied to the call. `line` is the line at which it begins in policy.toml, 0 if unknown.

    `evidence` is when the rule requires evidence.
    """

    id: str
    decision: Answer
    reason: str = ""
    line: int = 0
    evidence: list[Moment] = Field(default_factory=list)


class Reason(FrozenModel):
    """One reason for a decision in words, and its origin (profile, contract or line of the file)."""

    text: str
    origin: str


class Finding(FrozenModel):
    """One effect of the arguments in words, and the least risk that it gives the call.

    `argument` names the parameter; `start` and `end` are character offsets into its text, or None.
    """

    text: str
    risk: Risk
    detail: str = ""
    argument: str | None = None
    start: int | None = None
    end: int | None = None


class Decision(FrozenModel):
    """The policy's decision on a call. The same object is enforced, journalled and shown.

    `rules` are the rules that applied, the deciding rule first. `grant` is the id of the grant that allowed
    the call. `approvers` is the number of distinct operators who must approve. `evidence` lists when evidence
    is taken. `expires_s` is how long the approval request waits, None for the default.
    `device_requires_signature`: the device itself requires operators' signatures on each such command, so no
    grant can allow it without asking.
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

    @cached_property
    def encoded(self) -> Encoded:
        """Its canonical JSON, made once: the commands of a thousand devices share a decision."""
        return encoded(self.model_dump(mode="json"))

    def __copy__(self) -> Self:
        """A copy, which `model_copy` then changes, so that it is encoded again."""
        copied = super().__copy__()
        copied.__dict__.pop("encoded", None)
        return copied
