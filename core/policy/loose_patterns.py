"""Finds allow rules whose pattern matches shell lines that do more than the rule intends.

A pattern is searched for anywhere in a text, but a shell runs the whole text: `git status` also matches
`git status; rm -rf ~`. The warning for a pattern has an example line that the rule was verified to allow, at
the risk of that line's own findings.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator
from itertools import chain
from typing import Any

from core.models.devices import Device, Health
from core.models.tools import Risk
from core.policy.analysis.built_in_tools import SHELL_ARGUMENTS
from core.policy.analysis.shell.tool_arguments import holds_line
from core.policy.analysis.shell.walk import findings_in_line
from core.policy.constraints import Constraint
from core.policy.examples import example_tool
from core.policy.models import Answer, PolicyWarning
from core.policy.name_patterns import is_glob
from core.policy.policy_file import PolicyFile
from core.policy.rules import MatchContext, Rule
from core.schema_forms.patterns import Sampler

MOST_RULES_TRIED = 100
_MOST_ALLOWED = 6
# Texts to append to a line or to put where a pattern has a gap, by their risk, highest risk first.
ADDED: dict[Risk, tuple[str, ...]] = {
    Risk.CRITICAL: (
        "\nrm -rf ~", "; rm -rf ~", " && rm -rf ~", " $(rm -rf ~)", " `rm -rf ~`", ";reboot", "$(reboot)",
        "`reboot`", "\nreboot",
    ),
    Risk.HIGH: (
        " | sh", "|sh", "\nrm -rf x", "; rm -rf x", "$(rm -rf x)", "`rm -rf x`", " > /etc/passwd",
        ">/etc/passwd", " & kill 7", ";kill${IFS}7",
    ),
    Risk.MEDIUM: ("; ./x", "\n./x", ";./x", "|./x", " > notes.txt", ">x", "\n> x", "$(./x)"),
    Risk.LOW: (" >> x", ">>x"),
}  # fmt: skip
BEFORE: dict[Risk, tuple[str, ...]] = {
    Risk.CRITICAL: ("rm -rf ~; ", "rm -rf ~\n", "reboot\n"),
    Risk.HIGH: ("rm -rf x; ", "rm -rf x\n"),
    Risk.MEDIUM: ("./x; ", "./x\n", "> x "),
    Risk.LOW: (">> x ",),
}


def loose_patterns(policy: PolicyFile) -> list[PolicyWarning]:
    """Warnings for allow rules whose shell line pattern allows further commands, in the order of the file.

    Tries the patterns of `MOST_RULES_TRIED` rules; a last warning then names the first rule that was not
    tried.
    """
    warnings: list[PolicyWarning] = []
    tried = 0
    for place, rule in enumerate(policy.rules):
        patterns = list(_shell_patterns(rule))
        if not patterns:
            continue
        line = policy.line_numbers[place] if place < len(policy.line_numbers) else 0
        tried += 1
        if tried > MOST_RULES_TRIED:
            text = (
                f"the patterns from this rule on were not tried: only those of {MOST_RULES_TRIED} rules are"
            )
            warnings.append(PolicyWarning(line=line, rule=rule.id, message=text))
            break
        for tool, name, condition in patterns:
            slips = _slipping_line(rule, tool, name, condition)
            if slips:
                warnings.append(_warning(line, rule, name, condition, slips))
                break
    return warnings


def _warning(line: int, rule: Rule, name: str, condition: Constraint, slips: str) -> PolicyWarning:
    pattern = condition.pattern or ""
    anchored = pattern.startswith("^") and pattern.endswith("$")
    if anchored:
        why, advice = "leaves room for more commands", "List whole lines with one_of"
    else:
        why = "is searched for anywhere in the line"
        advice = "Begin it with ^ and end it with $, or list whole lines with one_of"
    text = f"its pattern for {name} {why}, and a shell runs all of it. {advice}."
    return PolicyWarning(line=line, rule=rule.id, message=text, slips=slips)


def _shell_patterns(rule: Rule) -> Iterator[tuple[str, str, Constraint]]:
    """The patterns of an allow rule for shell lines, each as (tool, argument's name, condition)."""
    if rule.decision is not Answer.ALLOW:
        return
    for name, condition in rule.parameters.items():
        if condition.pattern is None or condition.wants_equal or condition.one_of is not None:
            continue
        shell_tools = [tool for tool, argument in SHELL_ARGUMENTS.items() if argument == name]
        for pattern in rule.tool:
            matching = [tool for tool in shell_tools if fnmatch.fnmatchcase(tool, pattern)]
            tool = matching[0] if matching else "example" if is_glob(pattern) else pattern
            if holds_line(tool, name):
                yield tool, name, condition
                break


def _slipping_line(rule: Rule, tool: str, name: str, condition: Constraint) -> str:
    """A shell line that the rule allows and that does more than intended; "" if none was found."""
    sampler = Sampler(condition.pattern or "")
    allowed = _intended_lines(rule, name, condition, sampler)
    intended = {finding.text for line in allowed for finding in findings_in_line(line, None)}
    for risk_limit in ADDED:
        if risk_limit not in rule.risks:
            continue
        for attempts in _attempts(sampler, allowed, risk_limit):
            line = next((line for line in attempts if condition.permits(line)), None)
            findings = findings_in_line(line, None) if line is not None else []
            if line is None or all(finding.text in intended for finding in findings):
                continue
            risk = max((finding.risk for finding in findings), key=lambda risk: risk.rank)
            if _matches(rule, tool, name, line, risk):
                return line
    return ""


def _intended_lines(rule: Rule, name: str, condition: Constraint, sampler: Sampler) -> list[str]:
    """Lines that the rule intends to allow: from its own examples, then texts generated from its pattern."""
    examples = [example.parameters.get(name) for example in rule.match if example.parameters]
    lines = [line for line in examples if isinstance(line, str)]
    lines += [line for text in sampler.texts() if (line := text.strip())]
    return [line for line in dict.fromkeys(lines) if condition.permits(line)][:_MOST_ALLOWED]


def _attempts(sampler: Sampler, allowed: list[str], risk: Risk) -> Iterator[Iterator[str]]:
    """For each text of `ADDED` and `BEFORE` with this risk, candidate lines that contain it.

    The caller uses the first candidate of each that the pattern permits.
    """
    for addition in ADDED[risk]:
        appended = (line + addition for line in allowed)
        in_gaps = (
            text
            for filling in (addition, f"x{addition}")
            for text in sampler.texts(filling)
            if addition in text
        )
        yield chain(appended, in_gaps)
    for prefix in BEFORE[risk]:
        yield (prefix + line for line in allowed)


def _matches(rule: Rule, tool: str, name: str, line: str, risk: Risk) -> bool:
    """Whether the rule applies to this line at this risk, if all its other conditions hold."""
    lowest = min(rule.risks, key=lambda level: level.rank)
    context = MatchContext(
        device=Device(name="example", health=Health.ONLINE, since=""),
        tool=example_tool(tool, rule),
        parameters=_nested(name, line),
        actor="operator:example",
        risk=max(risk, lowest, key=lambda level: level.rank),
    )
    alone = rule.model_copy(
        update={"actor": ["*"], "time": None, "parameters": {name: rule.parameters[name]}}
    )
    return not alone.faults(context, 1)


def _nested(name: str, value: str) -> dict[str, Any]:
    first, *rest = name.split(".")
    nested: Any = value
    for part in reversed(rest):
        nested = {part: nested}
    return {first: nested}
