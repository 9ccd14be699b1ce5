"""Data models of the policy: profiles, decisions and what nearly decided, checks and trials of its text."""

from __future__ import annotations

from enum import StrEnum
from functools import cached_property
from typing import Self

from pydantic import Field

from core.canonical_json import Encoded, encoded
from core.models.frozen import FrozenModel
from core.models.tools import Effect, Risk


class Profile(StrEnum):
    """The risk up to which commands run unasked: `guarded` low, `trusted` medium, `lockdown` nothing.

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


class NearMiss(FrozenModel):
    """A rule that nearly applied to a call. `fault` is the condition that did not hold, in words."""

    id: str
    decision: Answer
    line: int = 0
    fault: str


class GrantMiss(FrozenModel):
    """A grant that does not cover a call for a single reason, `fault`."""

    id: str
    fault: str


class Explanation(FrozenModel):
    """A decision, and the rules and grants that nearly applied."""

    decision: Decision
    near: list[NearMiss]
    near_grants: list[GrantMiss]


class ExampleResult(FrozenModel):
    """The result of one example. `line` is the line at which its rule begins, 0 if unknown.

    `wanted` is True for `match` and False for `not_match`; `number` counts from 1 among these of the rule.
    `fault` is the mistake in words, empty if `ok`.
    """

    rule: str
    line: int
    wanted: bool
    number: int
    ok: bool
    fault: str = ""


class PolicyWarning(FrozenModel):
    """A warning about a rule that allows more than it seems to, or a rule or contract that fits no tool.

    `line` is the line at which the entry begins, 0 if unknown. `rule` is the rule's id, or `[[contract]]` and
    the contract's number in the file. `slips` is a shell line that the rule allows beyond its intention.
    """

    line: int
    rule: str
    message: str
    slips: str = ""

    @property
    def about(self) -> str:
        """The name of the entry, to begin a sentence with."""
        return self.rule if self.rule.startswith("[[") else f"rule {self.rule}"


class PolicyText(FrozenModel):
    """The present policy.toml. `digest` is the SHA-256 of the text; a save request names the digest of the
    text that was edited.

    `accepted` is the last accepted text; `text` is compared with it before an operator signs.
    """

    text: str
    path: str
    digest: str
    problem: str = ""
    accepted: str = ""


class PolicyProblem(FrozenModel):
    """One mistake in a text. `line` counts from 1; 0 if unknown."""

    line: int
    message: str


class PolicyCheck(FrozenModel):
    """The result of checking a text. The text may be saved if it has no problem and every example holds.

    `warnings` name rules that allow more than they seem to, and rules and contracts that fit no tool of any
    known device. They do not prevent saving.
    """

    ok: bool
    problems: list[PolicyProblem] = Field(default_factory=list)
    warnings: list[PolicyWarning] = Field(default_factory=list)
    examples: list[ExampleResult] = Field(default_factory=list)
    rules: int = 0


class TrialRow(FrozenModel):
    """One command of the journal under the edited policy. `human` is the operator's answer then, or ""."""

    seq: int
    time: str
    call_id: str
    device: str
    tool: str
    actor: str
    summary: str
    was: Answer
    now: Answer
    human: str = ""
    rule: str = ""


class Trial(FrozenModel):
    """The decisions that a policy would have made on the commands in the journal.

    `changed` counts the commands with a different answer; `rows` are these commands, newest first, up to the
    requested number. `allowed_but_denied_by_human` counts the commands that would run although an operator
    denied them then. `looked_at` of the `commands` in the journal were decided; `skipped` counts those that
    cannot be decided from the journal alone.

    Screenshots for a live wall are counted separately, because no actor requested them as commands:
    `glimpses` is their number in the journal, not included in `commands`. `glimpses_refused` of them would be
    refused, by deny or by ask: no operator is asked about such a screenshot.
    """

    looked_at: int
    commands: int
    skipped: int = 0
    allowed: int
    asked: int
    denied: int
    changed: int
    allowed_but_denied_by_human: int
    rows: list[TrialRow] = Field(default_factory=list)
    took_s: float = 0.0
    glimpses: int = 0
    glimpses_refused: int = 0
