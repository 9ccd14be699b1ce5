"""Analyses a call by its arguments alone: findings, summary and undo. An agent's own statements are not used.

A call of a built-in tool is summarised in a sentence about its effect; a call of any other tool by the tool's
name and the number of its arguments.
"""

from __future__ import annotations

import re
import shlex
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from core.json_walk import values_in
from core.models.tools import Effect, Risk, Source, Tool
from core.policy.analysis.arguments import (
    RawFinding,
    described_kind,
    ends_targets,
    findings_in_path,
    findings_in_value,
    is_path,
    snake,
)
from core.policy.analysis.built_in_tools import BUILT_IN_TOOLS, SHELL_ARGUMENTS, summary_function
from core.policy.analysis.masking import (
    NO_MARKS,
    Marks,
    masked_findings,
    masked_parameters,
    unquoted_findings,
)
from core.policy.analysis.shell.places import system_folder
from core.policy.analysis.shell.tool_arguments import (
    MOST_LINES,
    described_line_arguments,
    shell_lines,
)
from core.policy.analysis.shell.walk import MOST_FINDINGS, findings_in_line
from core.policy.analysis.summaries import short
from core.policy.analysis.ui_actions import findings_in_ui_action
from core.policy.constraints import Undecidable, main_name, normal_path
from core.policy.models import Finding
from core.text import hidden_characters, plural, right_to_left_letters

# Built-in tools, and names that other servers use.
_WRITES_FILES = frozenset({"create_file", "delete_file", "move_file"}) | {
    name for name, tool in BUILT_IN_TOOLS.items() if tool.writes_files
}
_VARIABLES = frozenset({"env", "environment", "env_vars", "environment_variables"})
_MOST_VARIABLES = 100
_MOST_HIDDEN = 8
_MOST_MEMBERS = 5_000

Parameters = Mapping[str, Any]
ResolvePath = Callable[[str], str]


class CallAnalysis(NamedTuple):
    """The result of an analysis. `undo` says in a sentence how the call is undone, or why it cannot be."""

    findings: tuple[Finding, ...]
    summary: str
    undoable: bool
    undo: str


def analyze_call(
    tool: Tool,
    parameters: Parameters,
    home: str = "",
    real: ResolvePath | None = None,
    marks: Marks = NO_MARKS,
) -> CallAnalysis:
    """Analyse one call by its arguments as they are sent; the result repeats no secret of `marks`.

    `home` and `real` are described at `findings_in_call`.
    """
    findings = [*findings_in_call(tool, parameters, home, real), *unquoted_findings(marks)]
    if marks.openings:
        readable = masked_parameters(parameters, marks.openings)
        findings = masked_findings(findings, parameters, readable, marks.openings)
        parameters = readable
    undoable, undo = undo_sentence(tool, parameters)
    summary = summary_of(tool, parameters)
    if tool.tool_name in SHELL_ARGUMENTS or summary_function(tool.tool_name) is None:
        # The effect first: the requesting agent chooses how a line or a list of arguments begins.
        summary = ". ".join(part for part in (headline_of(findings), summary) if part)
    return CallAnalysis(tuple(findings), summary, undoable, undo)


def summary_of(tool: Tool, parameters: Parameters) -> str:
    """The effect of a call in one sentence on one line, for the head of an approval card."""
    # Another server may give its tool the name of a built-in tool; the name then says nothing of the effect.
    describe = summary_function(tool.tool_name) if tool.contract.built_in else None
    sentence = describe(parameters) if describe else ""
    if sentence:
        return sentence
    count = len(parameters)
    amount = "no arguments" if count == 0 else "1 argument" if count == 1 else f"{count} arguments"
    return f"Calls {short(tool.tool_name)} with {amount}"


def _is_built_in_observation(tool: Tool) -> bool:
    """Whether a tool presses nothing, although its name may be like that of one that does.

    Of another server's tool, neither the name nor what it claims is enough to know that.
    """
    return tool.contract.built_in and tool.contract.effect.value is Effect.OBSERVE


def findings_in_call(
    tool: Tool, parameters: Parameters, home: str = "", real: ResolvePath | None = None
) -> list[Finding]:
    """The findings in a call's arguments, at most `MOST_FINDINGS`, the gravest. Findings only raise the risk.

    Shell lines are parsed, in built-in and other tools (`core.policy.analysis.shell.tool_arguments`). Paths,
    addresses, queries, processes, recipients and amounts are found by the names and values of arguments.
    Every text, also inside lists and objects, is searched for hidden characters.

    `home` is the home folder of the device's user, "" if unknown. `real` resolves the links in a path of this
    computer; findings in the resolved path count for the argument. The time is proportional to the size of
    the arguments: a line over the parser's limits (`core.policy.analysis.shell.parser`) is not parsed, which
    is itself a finding.
    """
    findings: list[Finding] = []
    line_name = SHELL_ARGUMENTS.get(tool.tool_name)
    if not _is_built_in_observation(tool):
        for name, raw_finding in findings_in_ui_action(tool.tool_name, parameters):
            findings.append(_finding(raw_finding, name, parameters[name], inside=False))
    for name, value in parameters.items():
        if name == line_name and isinstance(value, str):
            findings.extend(findings_in_line(value, name))
        elif name != line_name and not _names_own_server(tool, name):
            findings.extend(_value_findings(tool, name, value, home, real))
            if (other_name := described_kind(tool.input_schema, name)) is not None:
                findings.extend(_value_findings(tool, name, value, home, real, other_name))
        findings.extend(_hidden_findings(name, name, inside=True))
        for text in values_in(value, names=True):
            if isinstance(text, str):
                findings.extend(_hidden_findings(name, text, inside=text is not value))
                findings.extend(_unreadable_findings(name, text))
        if snake(name) in _VARIABLES and isinstance(value, Mapping):
            findings.extend(_variable_findings(name, value))
    # Also for another server's tool that has the name of a built-in shell tool.
    others = {name: value for name, value in parameters.items() if name != line_name}
    findings.extend(_line_findings(tool, others))
    if line_name and not isinstance(parameters.get(line_name), str):
        findings.append(Finding(text="There is no shell line to judge", risk=Risk.HIGH, argument=line_name))
    return _gravest(list(dict.fromkeys(findings)))


def _variable_findings(argument: str, variables: Mapping[Any, Any]) -> Iterator[Finding]:
    """The findings in variables for a program, such as those that say what it loads or runs."""
    for name, value in list(variables.items())[:_MOST_VARIABLES]:
        if isinstance(value, str) and str(name).isidentifier():
            for finding in findings_in_line(f"{name}={shlex.quote(value)} :", argument):
                yield finding.model_copy(update={"start": None, "end": None})
    if len(variables) > _MOST_VARIABLES:
        yield Finding(text="Holds more variables than can be judged", risk=Risk.HIGH, argument=argument)


def _names_own_server(tool: Tool, argument: str) -> bool:
    """Whether an argument names a tool server inside the device; AIP names that argument like a host."""
    built_in = tool.contract.effect.source is Source.BUILT_IN
    return built_in and (tool.tool_name, argument) == ("get_mcp_tools", "server_name")


def undo_sentence(tool: Tool, parameters: Parameters) -> tuple[bool, str]:
    """Whether a call can be undone, and a sentence that says how, or why not.

    A call whose contract is not reversible is never said to be undoable.
    """
    if tool.contract.effect.value is Effect.OBSERVE:
        return False, "It changes nothing, so there is nothing to undo."
    if not tool.contract.reversible.value:
        if tool.tool_name in SHELL_ARGUMENTS:
            return False, "Cannot be undone: what a shell line changes is not recorded."
        return False, "Cannot be undone by the console."
    built_in = BUILT_IN_TOOLS.get(tool.tool_name)
    if built_in is not None and built_in.undo is not None:
        return True, built_in.undo(parameters)
    return True, "Can be undone: the device records the inverse."


def _acts(tool: Tool) -> bool:
    """Whether a tool may change something; a device's or server's claim that it only reads is not used."""
    return tool.tool_type == "action" or tool.contract.effect.value is not Effect.OBSERVE


def _line_findings(tool: Tool, parameters: Parameters) -> Iterator[Finding]:
    """The findings in the shell lines that a tool's arguments contain."""
    described = described_line_arguments(tool.input_schema)
    for number, line in enumerate(shell_lines(tool.tool_name, parameters, described)):
        if number >= MOST_LINES:
            text = "Holds more shell lines than can be judged"
            yield Finding(text=text, risk=Risk.HIGH, argument=line.argument)
            return
        for finding in findings_in_line(line.text, line.argument):
            # Offsets refer to the argument's own text, which a list or object does not have.
            yield finding if line.whole else finding.model_copy(update={"start": None, "end": None})


def _value_findings(
    tool: Tool, name: str, value: object, home: str, real: ResolvePath | None, other_name: str = ""
) -> Iterator[Finding]:
    """The findings in one argument and in the members of objects and lists in it.

    `other_name` replaces the argument's name: it is the kind that the input schema gives the argument.
    """
    acts, ends = _acts(tool), ends_targets(tool.tool_name)
    for count, (member_name, member) in enumerate(_members(other_name or name, value)):
        if count >= _MOST_MEMBERS:
            text = "Holds more than can be judged member by member"
            yield Finding(text=text, risk=Risk.MEDIUM, argument=name)
            return
        inside = member is not value
        if isinstance(member, str) and is_path(snake(member_name), member):
            if acts and (folder := system_folder(member)):
                yield _finding((_system_folder_text(tool, folder), Risk.HIGH, None), name, member, inside)
            if (link_target := _link_target(member, home, real)) is not None:
                yield from (
                    _finding(raw_finding, name, member, inside)
                    for raw_finding in _findings_at_link_target(tool, link_target, home)
                )
        for raw_finding in findings_in_value(member_name, member, acts=acts, ends=ends, home=home):
            yield _finding(raw_finding, name, member, inside)


def _system_folder_text(tool: Tool, folder: str) -> str:
    return f"{'Writes' if tool.tool_name in _WRITES_FILES else 'Works'} under {folder}"


def _link_target(path: str, home: str, real: ResolvePath | None) -> str | None:
    """The target of a path that leads through a link; None if no link is on the way, or it is unknown."""
    if real is None:
        return None
    try:
        link_target = real(path)
    except Undecidable:
        return None
    expanded = f"{home}{path[1:]}" if path == "~" or path.startswith("~/") else path
    return None if main_name(link_target) == main_name(normal_path(expanded)) else link_target


def _findings_at_link_target(tool: Tool, link_target: str, home: str) -> Iterator[RawFinding]:
    """The findings in the target of a link."""
    acting = _acts(tool)
    suffix = f", through a link to {short(link_target)}"
    if acting and (folder := system_folder(link_target)):
        yield _system_folder_text(tool, folder) + suffix, Risk.HIGH, None
    for text, risk, _ in findings_in_path(link_target, acts=acting, home=home):
        yield text + suffix, risk, None
    yield f"Leads through a link to {short(link_target)}", Risk.LOW, None


def _members(name: str, value: object) -> Iterator[tuple[str, object]]:
    """An argument and everything inside it as (name, value): elements of a list have the list's name."""
    pending: deque[tuple[str, object]] = deque([(name, value)])
    while pending:
        own_name, item = pending.popleft()
        yield own_name, item
        if isinstance(item, dict):
            pending.extend((str(key), member) for key, member in item.items())
        elif isinstance(item, list | tuple):
            pending.extend(
                (own_name, member) for member in item if isinstance(member, str | dict | list | tuple)
            )


def _finding(raw: RawFinding, name: str, value: object, inside: bool) -> Finding:
    text, risk, span = raw
    if inside or not isinstance(value, str):
        # Offsets refer to the argument's own text, which a list or object does not have.
        return Finding(text=text, risk=risk, detail=short(value), argument=name)
    start, end = span if span is not None else (0, len(value))
    return Finding(text=text, risk=risk, detail=short(value[start:end]), argument=name, start=start, end=end)


def _gravest(findings: list[Finding]) -> list[Finding]:
    if len(findings) <= MOST_FINDINGS:
        return findings
    dropped = len(findings) - MOST_FINDINGS + 1
    kept_indices = set(
        sorted(range(len(findings)), key=lambda index: (-findings[index].risk.rank, index))[
            : MOST_FINDINGS - 1
        ]
    )
    worst = max(
        (finding.risk for index, finding in enumerate(findings) if index not in kept_indices),
        key=lambda risk: risk.rank,
    )
    gravest = [finding for index, finding in enumerate(findings) if index in kept_indices]
    return [*gravest, Finding(text=f"And {dropped} more", risk=worst)]


def _hidden_findings(name: str, text: str, inside: bool) -> Iterator[Finding]:
    characters = hidden_characters(text)
    for offset, description in characters[:_MOST_HIDDEN]:
        # Offsets refer to the argument's own text, which a list or object does not have.
        start, end = (None, None) if inside else (offset, offset + 1)
        is_lookalike = description.endswith("(in a Latin word)")
        message = (
            f"Contains a lookalike letter: {description}"
            if is_lookalike
            else f"Contains a hidden character: {description}"
        )
        yield Finding(text=message, risk=Risk.HIGH, argument=name, start=start, end=end)
    if len(characters) > _MOST_HIDDEN:
        remaining = len(characters) - _MOST_HIDDEN
        yield Finding(text=f"Contains {remaining:,} more hidden characters", risk=Risk.HIGH, argument=name)
    if letters := right_to_left_letters(text):
        # Not a deceit in itself, as a look-alike is: languages are written with them. The order in which the
        # card shows them is not the one in which they are read, and that must be told.
        start, end = (None, None) if inside else (letters[0], letters[-1] + 1)
        message = f"Contains {plural(len(letters), 'right-to-left letter')}; shown in the order of the bytes"
        yield Finding(text=message, risk=Risk.MEDIUM, argument=name, start=start, end=end)


_LONGEST_BLANKS, _LONGEST_LINE = 1_000, 100_000
# Possessive, so that each text is read once.
_BLANKS = re.compile(r"[^\S\n]{2,}+")
_MARKS = re.compile("[\u0300-\u036f\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]{10}")


def _unreadable_findings(name: str, text: str) -> Iterator[Finding]:
    """The findings in a text that no person reads to its end as it is shown."""
    if not text.isascii() and _MARKS.search(text):
        words = "Contains marks stacked upon a letter, which cover other text"
        yield Finding(text=words, risk=Risk.HIGH, argument=name)
    if len(text) < _LONGEST_BLANKS:
        return
    if any(len(run[0]) >= _LONGEST_BLANKS for run in _BLANKS.finditer(text)):
        words = "Contains a long run of blanks, behind which text is out of sight"
        yield Finding(text=words, risk=Risk.HIGH, argument=name)
    if len(text) > _LONGEST_LINE and any(len(line) > _LONGEST_LINE for line in text.split("\n")):
        words = f"Contains a line of more than {_LONGEST_LINE:,} characters"
        yield Finding(text=words, risk=Risk.MEDIUM, argument=name)


MOST_EFFECTS = 3
MOST_OBJECTS = 3
LONGEST_OBJECT = 60
AS_ROOT = "Runs as root"
_DELETES_FOLDERS = "Deletes folders with everything in them"
_DELETES = "Deletes files"
_SERVICES = "Starts, stops or restarts services"
_SERVICE_VERBS = {
    "start": "starts", "stop": "stops", "restart": "restarts", "reload": "reloads", "enable": "enables",
    "disable": "disables", "mask": "masks", "unmask": "unmasks", "kill": "kills",
}  # fmt: skip


def headline_of(findings: Iterable[Finding]) -> str:
    """One sentence about the gravest findings, without a full stop; empty if none is above low risk.

    For example `Deletes /srv/artifacts and everything in it; restarts nginx; as root`. It has the findings of
    high and critical risk, or those of medium risk if none is higher, the gravest first. Effects beyond
    `MOST_EFFECTS` are only counted.
    """
    grave = [finding for finding in findings if finding.risk.rank >= Risk.MEDIUM.rank]
    if not grave:
        return ""
    highest = max(finding.risk.rank for finding in grave)
    least = min(highest, Risk.HIGH.rank)
    objects: dict[str, list[str]] = {}
    for finding in sorted(grave, key=lambda finding: -finding.risk.rank):
        if finding.risk.rank < least:
            continue
        details = objects.setdefault(finding.text, [])
        detail = short(finding.detail, LONGEST_OBJECT)
        if detail and detail not in details and detail not in finding.text:
            details.append(detail)
    as_root = objects.pop(AS_ROOT, None) is not None
    effects = [_effect(text, details) for text, details in objects.items()]
    parts = effects[:MOST_EFFECTS]
    if len(effects) > MOST_EFFECTS:
        parts.append(
            f"{len(effects) - MOST_EFFECTS} more effects"
            if len(effects) > MOST_EFFECTS + 1
            else "1 more effect"
        )
    if as_root:
        parts.append("as root" if parts else "runs a command as root")
    sentence = "; ".join(parts)
    return sentence[:1].upper() + sentence[1:]


def _effect(text: str, objects: Sequence[str]) -> str:
    """One effect with its objects: `deletes /srv/a and everything in it`."""
    effect = text[:1].lower() + text[1:]
    if not objects:
        return effect
    if text == _DELETES_FOLDERS:
        return f"deletes {_listed(objects)} and everything in {'it' if _is_one(objects) else 'them'}"
    if text == _DELETES:
        return f"deletes {_listed(objects)}"
    if text == _SERVICES and (sentence := _services(objects)):
        return sentence
    return f"{effect}: {_listed(objects)}"


def _services(objects: Sequence[str]) -> str:
    """`restarts nginx` for the object `restart nginx`; empty if one of the objects has another form."""
    parts = [text.split(maxsplit=1) for text in objects]
    if all(len(part) == 2 and part[0] in _SERVICE_VERBS for part in parts):
        return _listed([f"{_SERVICE_VERBS[part[0]]} {part[1]}" for part in parts])
    return ""


def _is_one(objects: Sequence[str]) -> bool:
    return len(objects) == 1 and not any(sign in objects[0] for sign in " *?[")


def _listed(objects: Sequence[str]) -> str:
    names = list(objects[:MOST_OBJECTS])
    if len(objects) > MOST_OBJECTS:
        names.append(f"{len(objects) - MOST_OBJECTS} more")
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
