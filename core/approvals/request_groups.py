"""Requests that are alike: one card, answered by one act, in the window and on a terminal.

Alike are tool, contract, arguments, asker, risk, findings and what the asker says. What is judged differently
on two devices is therefore never answered together, and neither are production and the rest. A group is of
one run, or on one device: an agent that asks again begins a run each time.

The requests of one step of a run may also differ in short values: an expression of the step, as in
`/srv/${{ device.name }}`, has another value on each device. `differing` tells these values of each request,
which are shown before any is answered. A long value would not be read in a table: requests that differ in one
are not alike.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any

from core.approvals.models import Approval
from core.commitments import SECRET_MARK
from core.json_walk import Members, members_of, place_text, values_in, walk
from core.models.tool_names import RESTORE_FILE, UNDO
from core.models.tools import Risk
from core.text import escape_hidden
from core.token_formats import MASK

LONGEST_IN_TABLE = 120
"""Characters of a value, as it is shown, in which the requests of one step may differ."""

_EFFECT = "effect"
_INVERSES = frozenset({RESTORE_FILE, UNDO})
_NO_WORDS = re.compile(r"[\s\"'“”`;|&()<>=]+")
_AROUND = "“”\"'`.,:;()"
_LITERALS = frozenset({"true", "false", "null"})
_ENDS_IN_NUMBER = re.compile(r"(.*?)(\d+)\Z", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Group:
    """Requests that are alike, the first one of the queue's order leading; of one run, or on one device."""

    members: tuple[Approval, ...]

    @property
    def leader(self) -> Approval:
        """The one whose card is shown."""
        return self.members[0]

    @property
    def others(self) -> tuple[Approval, ...]:
        """All but the leader."""
        return self.members[1:]


@dataclass(slots=True)
class _Open:
    """A group that more may join."""

    members: list[Approval] = field(default_factory=list)
    runs: set[str | None] = field(default_factory=set)
    devices: set[str] = field(default_factory=set)
    exact: set[str] = field(default_factory=set)

    def takes(self, one: Approval, exact: str) -> bool:
        """Whether a request that is alike may join: all are of one run then, or the same on one device.

        A critical one has a card of its own on each device: a name typed once stands for one act there.
        """
        if one.decision.risk is Risk.CRITICAL and one.request.device in self.devices:
            return False
        same = self.devices == {one.request.device} and self.exact == {exact}
        return self.runs == {one.run} or same

    def add(self, one: Approval, exact: str) -> None:
        self.exact.add(exact)
        self.members.append(one)
        self.runs.add(one.run)
        self.devices.add(one.request.device)


class RequestGroups:
    """Groups requests; what makes one like another is worked out once for each."""

    def __init__(self) -> None:
        # By request: its digest, what is equal for the same elsewhere, and what is equal within its step.
        self._keys: dict[str, tuple[str, str, str]] = {}

    def groups(self, waiting: Iterable[Approval], held: Iterable[str] = ()) -> list[Group]:
        """Groups in the order of their leaders.

        `held` are the requests of the card that is being read: nothing joins them meanwhile.
        """
        kept, known = set(held), dict[str, tuple[str, str, str]]()
        open_groups: dict[tuple[str, bool, str, str | None], _Open] = {}
        found: list[_Open] = []
        for one in waiting:
            known[one.id] = self._key(one)
            _, exact, of_step = known[one.id]
            held_back = one.id in kept
            places = [
                *([(of_step, held_back, "step", one.run)] if of_step else []),
                (exact, held_back, "run", one.run),
                (exact, held_back, "device", one.request.device),
            ]
            known_groups = (open_groups[place] for place in places if place in open_groups)
            group = next((group for group in known_groups if group.takes(one, exact)), None)
            if group is None:
                group = _Open()
                found.append(group)
            group.add(one, exact)
            open_groups.update(dict.fromkeys(places, group))
        self._keys = known
        return [Group(tuple(group.members)) for group in found]

    def _key(self, one: Approval) -> tuple[str, str, str]:
        known = self._keys.get(one.id)
        exact = likeness(one) if known is None or known[0] != one.request.digest else known[1]
        if known is not None and known[:2] == (one.request.digest, exact):
            return known
        return one.request.digest, exact, likeness_in_step(one)


def group_of(one: Approval, waiting: Iterable[Approval]) -> Group:
    """The requests that one act answers together with this one, which leads; `waiting` has it or not."""
    others = [other for other in waiting if other.id != one.id]
    return RequestGroups().groups([one, *others])[0]


def likeness(one: Approval) -> str:
    """A text that is equal for requests that differ in nothing but the device and the run."""
    request, decision = one.request, one.decision
    parts: list[Any] = [
        request.tool_key,
        request.tool_name,
        request.namespace,
        request.contract,
        request.parameters,
        one.actor,
        one.said,
        one.production,
        one.approvers,
        sorted(one.approved_by),
        one.edited_from,
        decision.model_dump(mode="json", exclude={"summary", "reasons", "rules"}),
    ]
    return json.dumps(parts, sort_keys=True, separators=(",", ":"))


def likeness_in_step(one: Approval) -> str:
    """A text that is equal for requests of one step of a run that differ in short values; empty for others.

    All undos of an undo run count as one step.
    """
    if one.run is None or one.step is None or one.edited_from:
        return ""
    request, decision = one.request, one.decision
    words = set(_words_in(request.parameters))
    parts: list[Any] = [
        one.run,
        request.tool_name if request.tool_name in _INVERSES else [one.step],
        request.tool_key,
        request.namespace,
        request.contract,
        _shape(request.parameters),
        one.actor,
        one.said,
        one.production,
        one.approvers,
        sorted(one.approved_by),
        decision.model_dump(mode="json", exclude={"summary", "reasons", "rules", "findings", "undo"}),
        [
            [finding.risk, finding.argument, _without(finding.text, words), _without(finding.detail, words)]
            for finding in decision.findings
        ],
        _without(decision.undo, words),
    ]
    return json.dumps(parts, sort_keys=True, separators=(",", ":"))


def _shape(value: Any) -> Any:
    """Arguments without what may differ in a table: short texts and numbers."""
    if isinstance(value, dict):
        return value if SECRET_MARK in value else {name: _shape(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_shape(inner) for inner in value]
    if isinstance(value, int | float) and not isinstance(value, bool):
        return 0
    if isinstance(value, str) and len(value) <= LONGEST_IN_TABLE >= len(_shown(value)):
        return ""
    # In a list, so that no value can be taken for what stands for another.
    return [[value]]


def _words_in(parameters: Any) -> Iterable[str]:
    for value in values_in(parameters):
        if isinstance(value, str):
            yield value
            yield from _NO_WORDS.split(value)


def _without(text: str, words: set[str]) -> str:
    """A sentence about arguments without the words that are the arguments' own."""
    return " ".join("…" if part.strip(_AROUND) in words else part for part in text.split())


@dataclass(frozen=True, slots=True)
class Differing:
    """What differs among the requests of a group: a column for each argument, a row for each request."""

    columns: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()


def differ(members: Sequence[Approval]) -> bool:
    """Whether these requests of a group differ in an argument."""
    return any(one.request.parameters != members[0].request.parameters for one in members)


def differing(members: Sequence[Approval]) -> Differing:
    """The arguments in which these requests differ, with the whole value of each; no columns for none.

    The arguments of an undo do not say what it changes; its effect is a column, too.
    """
    if not differ(members):
        return Differing()
    values = [_leaves(one.request.parameters) for one in members]
    places = list(dict.fromkeys(place for row in values for place in row))
    columns = [place for place in places if len({row.get(place) for row in values}) > 1]
    rows = [tuple(row.get(place, "") for place in columns) for row in values]
    if columns and members[0].request.tool_name in _INVERSES:
        columns.insert(0, _EFFECT)
        effects = (escape_hidden(one.decision.summary, keep_lines=False) for one in members)
        rows = [(effect, *row) for effect, row in zip(effects, rows, strict=True)]
    return Differing(tuple(columns), tuple(rows)) if columns else Differing()


def _leaves(parameters: Any) -> dict[str, str]:
    """By place, in words: the values in arguments as they are shown."""
    return {
        place_text(place): _shown(value) for value, place, _ in walk(parameters, _parts) if not _parts(value)
    }


def _parts(value: Any) -> Members | None:
    # A secret is one value, whatever stands for it. An empty list or object is a value of its own.
    return None if not value or (isinstance(value, dict) and SECRET_MARK in value) else members_of(value)


def _shown(value: Any) -> str:
    if isinstance(value, dict) and SECRET_MARK in value:
        return f"{MASK} secret"
    if isinstance(value, str) and value.strip() == value and not _is_json(value):
        escaped = escape_hidden(value, keep_lines=False)
        if escaped == value:
            return value
    # In quotes, so that what stands for a hidden character is not taken for the text itself.
    return escape_hidden(json.dumps(value, ensure_ascii=False), keep_lines=False)


def _is_json(text: str) -> bool:
    """Whether a text could be taken for a value of another kind, so that it is shown in quotes."""
    return not text or text in _LITERALS or text[0] in '-0123456789"[{'


def summary_of_all(members: Sequence[Approval]) -> str:
    """What the requests of a group would do, in one sentence; … stands for words in which they differ."""
    sentences = list(dict.fromkeys(one.decision.summary for one in members))
    if len(sentences) == 1:
        return sentences[0]
    parts = [sentence.split(" ") for sentence in sentences]
    if len({len(words) for words in parts}) > 1:
        return f"{_common_start(parts)} …".strip()
    words = (same.pop() if len(same := set(column)) == 1 else "…" for column in zip_longest(*parts))
    return re.sub(r"…( …)+", "…", " ".join(words))


def _common_start(sentences: Sequence[Sequence[str]]) -> str:
    start: list[str] = []
    for column in zip(*sentences, strict=False):
        if len(set(column)) > 1:
            break
        start.append(column[0])
    return " ".join(start)


def count_words_of(members: Sequence[Approval]) -> str:
    """How many requests on how many devices one card is about: ` on 5 devices`, ` 5 times`; empty for one."""
    count, devices = len(members), len({one.request.device for one in members})
    if count == devices:
        return f" on {count} devices" if count > 1 else ""
    return f", {count} times" + (f" on {devices} devices" if devices > 1 else "")


def device_words(names: Iterable[str]) -> str:
    """The devices of a group in a few words; a range only where it names no device that is not in it."""
    known = sorted(set(names))
    if len(known) <= 2:
        return " and ".join(known)
    parts = [_ENDS_IN_NUMBER.match(name) for name in known]
    stems = {match[1] for match in parts if match}
    widths = {len(match[2]) for match in parts if match}
    if all(parts) and len(stems) == 1 and len(widths) == 1:
        numbers = sorted(int(match[2]) for match in parts if match)
        if numbers == list(range(numbers[0], numbers[0] + len(numbers))):
            last = parts[-1]
            return f"{known[0]} … {last[2] if last else ''}"
    return f"{known[0]} and {len(known) - 1} more"
