"""Checks the text of a policy that an operator is editing, before it is saved."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from pydantic import Field

from core.errors import BadInput
from core.fleet.models import FrozenModel
from core.policy.examples import ExampleResult, run_examples
from core.policy.loose_patterns import PolicyWarning, loose_patterns
from core.policy.models import Answer
from core.policy.policy_file import LARGEST_FILE, parse_policy
from core.policy.unmatched import unmatched_rules

__all__ = ["PolicyCheck", "PolicyProblem", "PolicyText", "PolicyWarning", "Trial", "TrialRow", "check_text"]

_LINE = re.compile(r"\bline (\d+)")


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


def check_text(text: str, known: Mapping[str, Collection[str]] | None = None) -> PolicyCheck:
    """Check a policy's text: its mistakes, its examples, and rules that allow more or less than they seem to.

    `known` maps each device to the names of all tools it ever had (`core.fleet.tool_pins.known_tools`).
    """
    try:
        if len(text.encode("utf-8", "surrogatepass")) > LARGEST_FILE:
            raise BadInput(f"policy.toml is larger than {LARGEST_FILE // 1024**2} MiB.")
        file = parse_policy(text)
    except BadInput as error:
        line = _LINE.search(error.message)
        problem = PolicyProblem(line=int(line[1]) if line else 0, message=error.message)
        return PolicyCheck(ok=False, problems=[problem])
    examples = run_examples(file)
    problems = [
        PolicyProblem(
            line=one.line,
            message=f"rule {one.rule}, {'match' if one.wanted else 'not_match'} {one.number}: {one.fault}",
        )
        for one in examples
        if not one.ok
    ]
    return PolicyCheck(
        ok=not problems,
        problems=problems,
        warnings=[*loose_patterns(file), *unmatched_rules(file, known or {})],
        examples=examples,
        rules=len(file.rules),
    )
