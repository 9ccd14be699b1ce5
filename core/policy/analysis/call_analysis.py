"""Words for people, made from a call's arguments alone: never from what an agent says about them.

The words know the built-in tools of our own device client; any other tool, whatever it is called, is
described by its name and how many arguments it gets.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from core.fleet.models import Effect, Risk, Source, Tool
from core.json_walk import values_in
from core.policy.analysis.arguments import (
    Said,
    ends_things,
    is_path,
    judge_path,
    judge_value,
    meant_as,
    snake,
)
from core.policy.analysis.built_in_tools import BUILT_IN_TOOLS, SHELL_ARGUMENTS, summary_function
from core.policy.analysis.shell.findings import MOST_FINDINGS, judge_line
from core.policy.analysis.shell.tables import system_folder
from core.policy.analysis.shell.tool_arguments import (
    MOST_LINES,
    described_lines,
    shell_lines,
)
from core.policy.analysis.summaries import short
from core.policy.analysis.ui_actions import judge_hand
from core.policy.constraints import Undecidable, main_name, normal_path
from core.policy.models import Finding
from core.text import hidden_characters

# Ours, and names that other servers use.
_WRITES_FILES = frozenset({"create_file", "delete_file", "move_file"}) | {
    name for name, tool in BUILT_IN_TOOLS.items() if tool.writes_files
}
_MOST_HIDDEN = 8
_MOST_MEMBERS = 5_000

Parameters = Mapping[str, Any]
Real = Callable[[str], str]


class CallAnalysis(NamedTuple):
    """What the arguments of one call come to, in words: the same whichever device it is for."""

    findings: tuple[Finding, ...]
    summary: str
    undoable: bool
    undo: str


def analyze_call(
    tool: Tool, parameters: Parameters, home: str = "", real: Real | None = None
) -> CallAnalysis:
    """Findings, summary and undo of one call. `home`, `real`: see `findings_of`."""
    undoable, undo = undo_words(tool, parameters)
    findings = tuple(findings_of(tool, parameters, home, real))
    summary = summary_of(tool, parameters)
    if tool.tool_name in SHELL_ARGUMENTS or summary_function(tool.tool_name) is None:
        # The effect first: how a line or a list of arguments begins is the asker's choice.
        summary = ". ".join(part for part in (headline_of(findings), summary) if part)
    return CallAnalysis(findings, summary, undoable, undo)


def summary_of(tool: Tool, parameters: Parameters) -> str:
    """The effect of a call in one sentence of one line, for the head of a card."""
    # Which name a stranger gave to its tool says nothing of what that does.
    words = summary_function(tool.tool_name) if tool.contract.built_in else None
    said = words(parameters) if words else ""
    if said:
        return said
    count = len(parameters)
    amount = "no arguments" if count == 0 else "1 argument" if count == 1 else f"{count} arguments"
    return f"Calls {short(tool.tool_name)} with {amount}"


def findings_of(
    tool: Tool, parameters: Parameters, home: str = "", real: Real | None = None
) -> list[Finding]:
    """What the arguments would do that raises the risk; never anything that lowers it.

    Shell lines are parsed, also those that other tools are given
    (`core.policy.analysis.shell.tool_arguments`); paths, addresses, queries, processes, recipients and
    amounts are found by the names and values of arguments, whichever server offers the tool, and every text
    is searched for characters that are not seen, also inside lists and objects. `home` is the home folder of
    the device's user, where known, and `real` says where a path of this computer leads: what is said of that
    place is said of the path. The time is proportional to the
    arguments: a line over the parser's limits (`core.policy.analysis.shell.parser`) is a finding instead of
    being parsed. At most `MOST_FINDINGS`, the gravest.
    """
    found: list[Finding] = []
    line_name = SHELL_ARGUMENTS.get(tool.tool_name)
    for name, said in judge_hand(tool.tool_name, parameters):
        found.append(_said(said, name, parameters[name], inside=False))
    for name, value in parameters.items():
        if name == line_name and isinstance(value, str):
            found.extend(judge_line(value, name))
        elif name != line_name and not _names_own_server(tool, name):
            found.extend(_value_findings(tool, name, value, home, real))
            if (meant := meant_as(tool.input_schema, name)) is not None:
                found.extend(_value_findings(tool, name, value, home, real, meant))
        for text in values_in(value, names=True):
            if isinstance(text, str):
                found.extend(_hidden_findings(name, text, inside=text is not value))
    # Also of a stranger's tool that is called like one of ours.
    others = {name: value for name, value in parameters.items() if name != line_name}
    found.extend(_line_findings(tool, others))
    if line_name and not isinstance(parameters.get(line_name), str):
        found.append(Finding(text="There is no shell line to judge", risk=Risk.HIGH, argument=line_name))
    return _gravest(list(dict.fromkeys(found)))


def _names_own_server(tool: Tool, argument: str) -> bool:
    """Whether an argument names a tool server inside the device, which AIP calls as one calls a host."""
    built_in = tool.contract.effect.source is Source.BUILT_IN
    return built_in and (tool.tool_name, argument) == ("get_mcp_tools", "server_name")


def undo_words(tool: Tool, parameters: Parameters) -> tuple[bool, str]:
    """Whether a call can be undone, and one sentence how or why not.

    A contract that is not reversible is never promised to be; the built-in tools are described in full.
    """
    if tool.contract.effect.value is Effect.OBSERVE:
        return False, "It changes nothing, so there is nothing to undo."
    if not tool.contract.reversible.value:
        if tool.tool_name in SHELL_ARGUMENTS:
            return False, "Cannot be undone: what a shell line changes is not recorded."
        return False, "Cannot be undone by the console."
    known = BUILT_IN_TOOLS.get(tool.tool_name)
    if known is not None and known.undo is not None:
        return True, known.undo(parameters)
    return True, "Can be undone: the device records the inverse."


def _acts(tool: Tool) -> bool:
    """Whether a tool may change something. That a device or server calls it a look counts for nothing."""
    return tool.tool_type == "action" or tool.contract.effect.value is not Effect.OBSERVE


def _line_findings(tool: Tool, parameters: Parameters) -> Iterator[Finding]:
    """What shell lines in the arguments of a tool would do."""
    described = described_lines(tool.input_schema)
    for number, line in enumerate(shell_lines(tool.tool_name, parameters, described)):
        if number >= MOST_LINES:
            text = "Holds more shell lines than can be judged"
            yield Finding(text=text, risk=Risk.HIGH, argument=line.argument)
            return
        for finding in judge_line(line.text, line.argument):
            # Offsets mean the argument's own text; inside a list or object there is no such text.
            yield finding if line.whole else finding.model_copy(update={"start": None, "end": None})


def _value_findings(
    tool: Tool, name: str, value: object, home: str, real: Real | None, meant: str = ""
) -> Iterator[Finding]:
    """What one argument says, and what the members of an object in it say by their own names.

    `meant` is another name that the argument could have as well, as its schema describes it.
    """
    acts, ends = _acts(tool), ends_things(tool.tool_name)
    for looked, (inner, one) in enumerate(_members(meant or name, value)):
        if looked >= _MOST_MEMBERS:
            said = "Holds more than can be judged member by member"
            yield Finding(text=said, risk=Risk.MEDIUM, argument=name)
            return
        inside = one is not value
        if isinstance(one, str) and is_path(snake(inner), one):
            if acts and (folder := system_folder(one)):
                yield _said((_under(tool, folder), Risk.HIGH, None), name, one, inside)
            if (place := _elsewhere(one, home, real)) is not None:
                yield from (_said(said, name, one, inside) for said in _place_says(tool, place, home))
        for said_of_it in judge_value(inner, one, acts=acts, ends=ends, home=home):
            yield _said(said_of_it, name, one, inside)


def _under(tool: Tool, folder: str) -> str:
    return f"{'Writes' if tool.tool_name in _WRITES_FILES else 'Works'} under {folder}"


def _elsewhere(path: str, home: str, real: Real | None) -> str | None:
    """Where a path leads, if a link on its way leads it there."""
    if real is None:
        return None
    try:
        place = real(path)
    except Undecidable:
        return None
    plain = f"{home}{path[1:]}" if path == "~" or path.startswith("~/") else path
    return None if main_name(place) == main_name(normal_path(plain)) else place


def _place_says(tool: Tool, place: str, home: str) -> Iterator[Said]:
    """What the place says that a link leads to."""
    acts = _acts(tool)
    through = f", through a link to {short(place)}"
    if acts and (folder := system_folder(place)):
        yield _under(tool, folder) + through, Risk.HIGH, None
    for text, risk, _ in judge_path(place, acts=acts, home=home):
        yield text + through, risk, None
    yield f"Leads through a link to {short(place)}", Risk.LOW, None


def _members(name: str, value: object) -> Iterator[tuple[str, object]]:
    """An argument by its name, then what is inside: members by theirs, elements by their list's."""
    waiting: deque[tuple[str, object]] = deque([(name, value)])
    while waiting:
        called, one = waiting.popleft()
        yield called, one
        if isinstance(one, dict):
            waiting.extend((str(key), inner) for key, inner in one.items())
        elif isinstance(one, list | tuple):
            waiting.extend((called, inner) for inner in one if isinstance(inner, str | dict | list | tuple))


def _said(said: Said, name: str, value: object, inside: bool) -> Finding:
    text, risk, span = said
    if inside or not isinstance(value, str):
        # Offsets mean the argument's own text; inside a list or object there is no such text.
        return Finding(text=text, risk=risk, detail=short(value), argument=name)
    start, end = span if span is not None else (0, len(value))
    return Finding(text=text, risk=risk, detail=short(value[start:end]), argument=name, start=start, end=end)


def _gravest(found: list[Finding]) -> list[Finding]:
    if len(found) <= MOST_FINDINGS:
        return found
    rest = len(found) - MOST_FINDINGS + 1
    kept = set(sorted(range(len(found)), key=lambda at: (-found[at].risk.rank, at))[: MOST_FINDINGS - 1])
    worst = max((one.risk for at, one in enumerate(found) if at not in kept), key=lambda risk: risk.rank)
    left = [one for at, one in enumerate(found) if at in kept]
    return [*left, Finding(text=f"And {rest} more", risk=worst)]


def _hidden_findings(name: str, text: str, inside: bool) -> Iterator[Finding]:
    found = hidden_characters(text)
    for offset, called in found[:_MOST_HIDDEN]:
        # Offsets mean the argument's own text; inside a list or object there is no such text.
        start, end = (None, None) if inside else (offset, offset + 1)
        alike = called.endswith("(in a Latin word)")
        said = f"Contains a lookalike letter: {called}" if alike else f"Contains a hidden character: {called}"
        yield Finding(text=said, risk=Risk.HIGH, argument=name, start=start, end=end)
    if len(found) > _MOST_HIDDEN:
        rest = len(found) - _MOST_HIDDEN
        yield Finding(text=f"Contains {rest:,} more hidden characters", risk=Risk.HIGH, argument=name)


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
    """One sentence of the highest findings, without a full stop; empty where none is above low risk.

    `Deletes /srv/artifacts and everything in it; restarts nginx; as root`. All of high risk and above are in
    it, or all of medium where none is higher, the gravest first; beyond `MOST_EFFECTS` they are counted.
    """
    found = [one for one in findings if one.risk.rank >= Risk.MEDIUM.rank]
    if not found:
        return ""
    highest = max(one.risk.rank for one in found)
    least = min(highest, Risk.HIGH.rank)
    objects: dict[str, list[str]] = {}
    for one in sorted(found, key=lambda one: -one.risk.rank):
        if one.risk.rank < least:
            continue
        named = objects.setdefault(one.text, [])
        detail = short(one.detail, LONGEST_OBJECT)
        if detail and detail not in named and detail not in one.text:
            named.append(detail)
    as_root = objects.pop(AS_ROOT, None) is not None
    effects = [_effect(text, named) for text, named in objects.items()]
    shown = effects[:MOST_EFFECTS]
    if len(effects) > MOST_EFFECTS:
        shown.append(
            f"{len(effects) - MOST_EFFECTS} more effects"
            if len(effects) > MOST_EFFECTS + 1
            else "1 more effect"
        )
    if as_root:
        shown.append("as root" if shown else "runs a command as root")
    sentence = "; ".join(shown)
    return sentence[:1].upper() + sentence[1:]


def _effect(text: str, objects: Sequence[str]) -> str:
    """One effect with what it touches: `deletes /srv/a and everything in it`."""
    plain = text[:1].lower() + text[1:]
    if not objects:
        return plain
    if text == _DELETES_FOLDERS:
        return f"deletes {_listed(objects)} and everything in {'it' if _is_one(objects) else 'them'}"
    if text == _DELETES:
        return f"deletes {_listed(objects)}"
    if text == _SERVICES and (said := _services(objects)):
        return said
    return f"{plain}: {_listed(objects)}"


def _services(objects: Sequence[str]) -> str:
    """`restarts nginx`, from `restart nginx`; empty where one of them is said in another way."""
    parts = [one.split(maxsplit=1) for one in objects]
    if all(len(part) == 2 and part[0] in _SERVICE_VERBS for part in parts):
        return _listed([f"{_SERVICE_VERBS[part[0]]} {part[1]}" for part in parts])
    return ""


def _is_one(objects: Sequence[str]) -> bool:
    return len(objects) == 1 and not any(sign in objects[0] for sign in " *?[")


def _listed(objects: Sequence[str]) -> str:
    shown = list(objects[:MOST_OBJECTS])
    if len(objects) > MOST_OBJECTS:
        shown.append(f"{len(objects) - MOST_OBJECTS} more")
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"
