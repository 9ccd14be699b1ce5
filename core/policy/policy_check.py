"""What an operator is told of a policy that is being edited, before it is saved."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from pydantic import Field

from core.errors import BadInput
from core.fleet.models import Plain
from core.policy.examples import ExampleResult, run_examples
from core.policy.loose_patterns import PolicyWarning, loose_patterns
from core.policy.models import Answer
from core.policy.policy_file import LARGEST_FILE, parse_policy
from core.policy.unmatched import unmatched_rules

__all__ = ["PolicyCheck", "PolicyProblem", "PolicyText", "PolicyWarning", "Trial", "TrialRow", "check_text"]

_LINE = re.compile(r"\bline (\d+)")


class PolicyText(Plain):
    """policy.toml as it stands. `digest` is the SHA-256 of the text; saving names the one it began from.

    `accepted` is the text that was accepted last, with which `text` is compared before it is signed.
    """

    text: str
    path: str
    digest: str
    problem: str = ""
    accepted: str = ""


class PolicyProblem(Plain):
    """One thing that is wrong with a text; `line` counts from 1, 0 when that is not known."""

    line: int
    message: str


class PolicyCheck(Plain):
    """What was found in a text: it may be saved when there is no problem and every example holds.

    `warnings` are rules that let more through than they seem to, and rules that mean no tool of any known
    device; the text may be saved all the same.
    """

    ok: bool
    problems: list[PolicyProblem] = Field(default_factory=list)
    warnings: list[PolicyWarning] = Field(default_factory=list)
    examples: list[ExampleResult] = Field(default_factory=list)
    rules: int = 0


class TrialRow(Plain):
    """One command of the journal under the edited policy. `human` is what a person answered then, or ""."""

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


class Trial(Plain):
    """What a policy would have said of the journal's commands.

    `changed` counts the commands that would be answered otherwise; `rows` are those, newest first, at most
    as many as were asked for. `allowed_but_denied_by_human` would run, although a person said no then.
    `looked_at` commands were judged, of `commands` in the journal; those whose judgement needs more than the
    journal has are `skipped`.

    Pictures of a live wall are told apart: nobody gave these as commands. `glimpses` is how many the journal
    has, none of them among the `commands`. `glimpses_refused` of those would be refused: denied, or to be
    asked about, as nobody is asked about such a picture.
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
    """What is wrong with a policy's text, what came of its examples, and which rules mean more or less than
    they seem to.

    `known` has the names of the tools that each device ever had (`core.fleet.tool_pins.known_tools`).
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
