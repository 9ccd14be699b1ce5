"""Checks the text of a policy that an operator is editing, before it is saved."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping

from core.errors import BadInput
from core.policy.analysis.arguments import PATH_NAME, snake
from core.policy.analysis.built_in_tools import SHELL_ARGUMENTS
from core.policy.analysis.shell.tool_arguments import holds_line
from core.policy.examples import run_examples
from core.policy.loose_patterns import loose_patterns
from core.policy.models import PolicyCheck, PolicyProblem, PolicyWarning
from core.policy.name_patterns import fits, is_glob
from core.policy.policy_file import LARGEST_FILE, Override, PolicyFile, parse_policy
from core.policy.rules import Rule

_LINE = re.compile(r"\bline (\d+)")


def check_text(
    text: str, known_tools: Mapping[str, Collection[str]] | None = None, operators: int | None = None
) -> PolicyCheck:
    """Check a policy's text: its mistakes, its examples, and rules that allow more or less than they seem to.

    `known_tools` maps each device to the names of all tools it ever had (`core.fleet.tool_pins.known_tools`).
    `operators` is the number of operators of the home, if that is known.
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
            line=example.line,
            message=f"rule {example.rule}, {'match' if example.wanted else 'not_match'} {example.number}: "
            f"{example.fault}",
        )
        for example in examples
        if not example.ok
    ]
    return PolicyCheck(
        ok=not problems,
        problems=problems,
        warnings=[
            *loose_patterns(file),
            *evaded_patterns(file),
            *unmatched_rules(file, known_tools or {}),
            *_too_few_operators(file, operators),
        ],
        examples=examples,
        rules=len(file.rules),
    )


_BY_SPELLING = (
    "its pattern for {name} is tried on the text of a path, which has other spellings on other devices; "
    "below takes a folder or a file"
)
_BY_TEXT = (
    "its pattern for {name} is tried on the text of a shell line, which can name a program in other ways, "
    "such as X=1 aws … and true; aws …: program names what the line runs"
)


def evaded_patterns(policy: PolicyFile) -> Iterator[PolicyWarning]:
    """Warnings for deny and ask rules whose pattern does not see each spelling of what it means."""
    for place, rule in enumerate(policy.rules):
        line = policy.line_numbers[place] if place < len(policy.line_numbers) else 0
        for name, condition in rule.parameters.items() if rule.against else ():
            if condition.pattern is None:
                continue
            last = name.rpartition(".")[2]
            if any(holds_line(tool, last) for tool in (*rule.tool, *SHELL_ARGUMENTS)):
                message = _BY_TEXT.format(name=name)
                yield PolicyWarning(line=line, rule=rule.id, message=message)
            elif PATH_NAME.search(snake(last)):
                yield PolicyWarning(line=line, rule=rule.id, message=_BY_SPELLING.format(name=name))


def _too_few_operators(file: PolicyFile, operators: int | None) -> Iterator[PolicyWarning]:
    """Warnings about rules that want more approvals than the home's operators can give."""
    for line, name, entry in _entries(file):
        approvers = entry.approvers if isinstance(entry, Rule) else 1
        if operators is not None and (problem := approvals_out_of_reach(approvers, operators)):
            yield PolicyWarning(line=line, rule=name, message=problem)


def approvals_out_of_reach(approvers: int, operators: int) -> str:
    """Why so many approvals cannot be reached with so many operators; empty if they can.

    Where several must approve, the asker does not count, and most who ask are operators.
    """
    if approvers < 2 or approvers < operators:
        return ""
    return f"wants {approvers} operators other than the one who asks; this home has {operators} in all"


# Limit of names to match patterns against, for all entries together; takes about a second.
MOST_TRIED = 500_000
_NO_TOOL = "matches no tool: no known device has a tool of this name"
_ONLY_OWN_NAME = (
    "matches no tool by the name that a device lists, only names inside MCP servers ({name}); a rule that"
    " lets more run must use the listed name, or name the server, too (namespace)"
)


def unmatched_rules(
    policy: PolicyFile, known_tools: Mapping[str, Collection[str]]
) -> Iterator[PolicyWarning]:
    """Warnings for rules, then contracts, whose tool no device has, in the order of the file.

    `known_tools` maps each device to the names of all tools it ever had; without names there are no warnings.
    Only conditions on the names of device and tool are considered. After `MOST_TRIED` names, a last warning
    says from which entry on nothing was compared.
    """
    listed: dict[tuple[str, ...], dict[str, str]] = {}
    names_left = MOST_TRIED
    if not any(known_tools.values()):
        return
    for line, name, entry in _entries(policy):
        if "*" in entry.tool:
            continue
        devices = tuple(device for device in known_tools if fits(device, entry.device))
        if devices not in listed:
            listed[devices] = _names({tool for device in devices for tool in known_tools[device]})
        names = listed[devices]
        names_left -= len(names) if any(map(is_glob, entry.tool)) else 0
        if names_left < 0:
            text = "what follows from here on was not compared with the tools of devices: there are too many"
            yield PolicyWarning(line=line, rule=name, message=text)
            return
        if (message := _no_match_message(entry, names)) is not None:
            yield PolicyWarning(line=line, rule=name, message=message)


def _entries(policy: PolicyFile) -> Iterator[tuple[int, str, Rule | Override]]:
    """Each rule and contract as (line or 0 if unknown, name in warnings, entry)."""
    for place, rule in enumerate(policy.rules):
        yield policy.line_numbers[place] if place < len(policy.line_numbers) else 0, rule.id, rule
    for number, contract in enumerate(policy.contracts, 1):
        yield 0, f"[[contract]] {number}", contract


def _no_match_message(entry: Rule | Override, names: Mapping[str, str]) -> str | None:
    if any(map(is_glob, entry.tool)):
        named = [name for name in names if fits(name, entry.tool)]
    else:
        named = [name for name in entry.tool if name in names]
    listed_names = [names[name] for name in named if names[name]]
    holds_back = entry.against if isinstance(entry, Rule) else entry.only_raises
    if len(listed_names) < len(named) or (listed_names and (holds_back or entry.namespace is not None)):
        return None
    return _ONLY_OWN_NAME.format(name=min(listed_names)) if listed_names else _NO_TOOL


def _names(listed: set[str]) -> dict[str, str]:
    """Every name by which an entry may name a tool, mapped to "" if listed, else to the listed name.

    A listed name does not show where the server's own name for the tool begins, so every suffix after `_` or
    `.` counts as such a name.
    """
    names: dict[str, str] = {}
    for name in sorted(listed):
        for place, sign in enumerate(name):
            if sign in "_." and 0 < place < len(name) - 1:
                names.setdefault(name[place + 1 :], name)
    return {**names, **dict.fromkeys(listed, "")}
