"""Indexes the rules of a policy, to find quickly the rules that apply to one call.

Rules for every device that name their tool, or apply to any tool, are indexed when the file is loaded.
Conditions on device, tool pattern, namespace or effect are evaluated once per device and tool, and cached.
Within an index, rules are looked up by the value that an argument must equal, the folder that it must be
below or a text that it must contain. Only the remaining rules are tried in turn.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from core.fleet.models import FrozenModel
from core.policy.constraints import (
    LONGEST_PATH,
    Undecidable,
    elements,
    folders_of,
    is_absolute,
    is_odd,
    main_name,
    normal_path,
)
from core.policy.models import Answer, RuleHit
from core.policy.rules import MatchContext, Rule, is_glob, prepare_globs, values_meant

_ANY = "*"
_SHELVES_KEPT = 4_096
_NEAR_LOOKED_AT = 10_000

Key = tuple[str, Any]
Kept = TypeVar("Kept")


class NearMiss(FrozenModel):
    """A rule that nearly applied to a call. `fault` is the condition that did not hold, in words."""

    id: str
    decision: Answer
    line: int = 0
    fault: str


@dataclass(slots=True)
class _IndexBucket:
    """An index of rules with the same decision that fit one device and tool, by an argument's condition."""

    equal: dict[str, dict[Key, list[int]]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(list))
    )
    below: dict[str, dict[str, list[int]]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(list))
    )
    # By argument: folders whose links are followed, as written in the rule; their names; the rule's number.
    followed: dict[str, list[tuple[str, set[str], int]]] = field(default_factory=lambda: defaultdict(list))
    literal: dict[str, list[tuple[str, int]]] = field(default_factory=lambda: defaultdict(list))
    needs: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    rest: list[int] = field(default_factory=list)

    def put(self, number: int, rule: Rule, *, follows: bool) -> None:
        """Index a rule by its most selective condition. `follows`: for calls whose links are followed."""
        for name, condition in rule.parameters.items():
            wanted = [condition.equals] if condition.wants_equal else condition.one_of
            if wanted is not None and all(_key(one) is not None for one in wanted):
                for one in wanted:
                    self.equal[name][_key(one) or ("", None)].append(number)
                return
        for name, condition in rule.parameters.items():
            if condition.below is not None and is_absolute(condition.below):
                names = _names_of(condition.below)
                if follows and rule.against:
                    # The folder may be a link whose target changes later, so its names are no index key.
                    self.followed[name].append((condition.below, names, number))
                else:
                    for folder in names:
                        self.below[name][folder].append(number)
                return
        for name, condition in rule.parameters.items():
            if condition.literal:
                self.literal[name].append((condition.literal, number))
                return
        for name in rule.parameters:
            # A missing argument never fulfils a condition, so the rule needs this argument to be present.
            self.needs[name].append(number)
            return
        self.rest.append(number)

    def candidates(self, question: MatchContext) -> list[int]:
        """The numbers of the rules that may apply to a call, in the order of the file."""
        found = set(self.rest)
        for name, by_key in self.equal.items():
            for value in _values(question, name):
                if (key := _key(value)) is not None:
                    found.update(by_key.get(key, ()))
        for name, by_folder in self.below.items():
            for value in _values(question, name):
                found.update(_below(value, by_folder))
        for name, rows in self.followed.items():
            for value in _values(question, name):
                found.update(_followed(value, rows, question))
        for name, wanted in self.literal.items():
            for value in _values(question, name):
                if isinstance(value, str):
                    found.update([number for text, number in wanted if text in value])
        for name, numbers in self.needs.items():
            if values_meant(question.parameters, name):
                found.update(numbers)
        return sorted(found)


Shelves = dict[Answer, _IndexBucket]


class RuleIndex:
    """The indexed rules of one policy file. `lines` are the lines at which they begin."""

    def __init__(self, rules: Sequence[Rule] = (), lines: Sequence[int] = ()) -> None:
        self.rules = list(rules)
        self._number = {rule.id: number for number, rule in enumerate(self.rules)}
        self._lines = list(lines) if len(lines) == len(rules) else [0] * len(rules)
        # By the tool's name or `*`: rules that apply to every device, and rules that apply to some devices.
        self._anywhere: dict[str, list[int]] = defaultdict(list)
        self._somewhere: dict[str, list[int]] = defaultdict(list)
        # Rules whose tool is a pattern, or that have a condition on namespace or effect.
        self._odd: list[int] = []
        for number, rule in enumerate(self.rules):
            prepare_globs(rule)
            names = _tool_names(rule)
            for name in names:
                (self._anywhere if rule.any_device else self._somewhere)[name].append(number)
            if not names:
                self._odd.append(number)
        conditions = (one for rule in self.rules for one in rule.parameters.values())
        self._folders = frozenset(one.below for one in conditions if one.below is not None)
        self._ready: dict[tuple[str, bool], Shelves] = {}
        self._of_tool: OrderedDict[tuple[Any, ...], tuple[Shelves, list[int]]] = OrderedDict()
        self._of_device: OrderedDict[tuple[Any, ...], Shelves] = OrderedDict()
        for name in self._anywhere:
            self._shelve_name(name, follows=False)

    def matching(self, question: MatchContext) -> list[Rule]:
        """The rules that apply: the first deny rule only, or else all ask rules and then all allow rules."""
        if not self.rules:
            return []
        shelves = self._shelves_for(question)
        denying = next(self._matches(shelves, Answer.DENY, question), None)
        if denying is not None:
            return [denying]
        return [
            *self._matches(shelves, Answer.ASK, question),
            *self._matches(shelves, Answer.ALLOW, question),
        ]

    @property
    def folders(self) -> frozenset[str]:
        """Every folder that a rule names with `below`."""
        return self._folders

    def hit(self, rule: Rule) -> RuleHit:
        """The record of a rule that decisions contain."""
        return RuleHit(
            id=rule.id,
            decision=rule.decision,
            reason=rule.reason,
            line=self.line_of(rule),
            evidence=rule.evidence,
        )

    def line_of(self, rule: Rule) -> int:
        """The line at which a rule begins in its file; 0 if unknown."""
        return self._lines[self._number[rule.id]]

    def near(self, question: MatchContext, most: int = 5) -> list[NearMiss]:
        """Rules that nearly apply, in the order of the file. Slow: for explanations only.

        Either exactly one condition on actor, risk, time or arguments does not hold, or all of these hold
        (with at least one on an argument) and device or tool do not fit.
        """
        found: list[NearMiss] = []
        for number, rule in enumerate(self.rules[:_NEAR_LOOKED_AT]):
            static = rule.static_fault(question.device, question.tool)
            faults = rule.faults(question, 2)
            if static is None and len(faults) == 1:
                fault = faults[0]
            elif static is not None and not faults and rule.parameters:
                fault = static
            else:
                continue
            found.append(NearMiss(id=rule.id, decision=rule.decision, line=self._lines[number], fault=fault))
            if len(found) >= most:
                break
        return found

    def _matches(self, shelves: list[Shelves], answer: Answer, question: MatchContext) -> Iterator[Rule]:
        found = {
            number for one in shelves if (shelf := one.get(answer)) for number in shelf.candidates(question)
        }
        for number in sorted(found):
            rule = self.rules[number]
            if not rule.faults(question, 1):
                yield rule

    def _shelves_for(self, question: MatchContext) -> list[Shelves]:
        device, tool = question.device, question.tool
        ours = question.real is not None
        kind = (tool.tool_name, tool.namespace, tool.contract.effect.value, ours)
        who = (device.name, tuple(device.tags), device.production)
        found = []
        for name in (_ANY, tool.tool_name):
            if name in self._anywhere:
                found.append(self._ready.get((name, ours)) or self._shelve_name(name, follows=ours))
            if name in self._somewhere:
                numbers = self._somewhere[name]
                make = partial(self._shelve_device, numbers, question)
                found.append(_kept(self._of_device, (who, name, ours), make))
        if (own := tool.own_name) is not None and (own in self._anywhere or own in self._somewhere):
            make = partial(self._shelve_own, own, question)
            found.append(_kept(self._of_device, (who, "own", own, ours), make))
        if self._odd:
            anywhere, some = _kept(self._of_tool, kind, partial(self._shelve_odd, question))
            make = partial(self._shelve_device, some, question)
            found += [anywhere, _kept(self._of_device, (who, kind), make)]
        return found

    def _shelve_name(self, name: str, *, follows: bool) -> Shelves:
        shelves: Shelves = {}
        for number in self._anywhere[name]:
            self._put(shelves, number, follows=follows)
        self._ready[name, follows] = shelves
        return shelves

    def _shelve_odd(self, question: MatchContext) -> tuple[Shelves, list[int]]:
        shelves: Shelves = {}
        some = []
        for number in self._odd:
            rule = self.rules[number]
            if rule.tool_fault(question.tool) is not None:
                continue
            if rule.any_device:
                self._put(shelves, number, follows=question.real is not None)
            else:
                some.append(number)
        return shelves, some

    def _put(self, shelves: Shelves, number: int, *, follows: bool) -> None:
        rule = self.rules[number]
        shelves.setdefault(rule.decision, _IndexBucket()).put(number, rule, follows=follows)

    def _shelve_device(self, numbers: list[int], question: MatchContext) -> Shelves:
        shelves: Shelves = {}
        for number in numbers:
            if self.rules[number].device_fault(question.device) is None:
                self._put(shelves, number, follows=question.real is not None)
        return shelves

    def _shelve_own(self, own: str, question: MatchContext) -> Shelves:
        """The deny and ask rules that name a hosted server's tool by the server's own name for it."""
        numbers = [*self._anywhere.get(own, ()), *self._somewhere.get(own, ())]
        return self._shelve_device([number for number in numbers if self.rules[number].against], question)


def _tool_names(rule: Rule) -> list[str]:
    """The tool names to index a rule by, `*` for any tool; none if the rule needs more than an exact name."""
    if rule.namespace is not None or rule.effect is not None:
        return []
    if _ANY in rule.tool:
        return [_ANY]
    return [] if any(map(is_glob, rule.tool)) else list(dict.fromkeys(rule.tool))


def _names_of(folder: str) -> set[str]:
    """The names to index a rule's folder by. The rule itself then decides about each candidate."""
    plain = normal_path(folder)
    names = {plain, main_name(plain)}
    if plain[1:2] == ":" and plain[2:]:
        # Paths without a drive match the folder too.
        names.add(plain[2:])
    return names


def _kept(
    shelved: OrderedDict[tuple[Any, ...], Kept], key: tuple[Any, ...], make: Callable[[], Kept]
) -> Kept:
    found = shelved.get(key)
    if found is None:
        found = shelved[key] = make()
        if len(shelved) > _SHELVES_KEPT:
            shelved.popitem(last=False)
    else:
        shelved.move_to_end(key)
    return found


def _key(value: Any) -> Key | None:
    """A dictionary key for a value; keys are equal if the JSON values are. None for lists and objects."""
    if isinstance(value, bool):
        return ("truth", value)
    if isinstance(value, (int, float)):
        return ("number", value)
    if isinstance(value, str):
        return ("text", value)
    return ("null", None) if value is None else None


def _values(question: MatchContext, name: str) -> Iterable[Any]:
    """All values that a rule may test under a name, including those nested in lists and objects."""
    waiting = values_meant(question.parameters, name)
    while waiting:
        one = waiting.pop()
        yield one
        waiting.extend(elements(one))


def _below(value: Any, by_folder: dict[str, list[int]]) -> Iterator[int]:
    if not isinstance(value, str):
        return
    if _is_undecided(value):
        # Every rule is a candidate; each decides whether an undecided path applies.
        for numbers in by_folder.values():
            yield from numbers
        return
    for folder in _folders_by_name(value):
        yield from by_folder.get(folder, ())


def _followed(value: Any, rows: list[tuple[str, set[str], int]], question: MatchContext) -> Iterator[int]:
    if not isinstance(value, str):
        return
    real = question.real
    try:
        there = set() if real is None or _is_undecided(value) else set(folders_of(real(value)))
    except Undecidable:
        there = set()
    here = _folders_by_name(value) if there else set()
    for folder, names, number in rows:
        if not there or real is None or not names.isdisjoint(here) or _leads_into(folder, there, real):
            yield number


def _leads_into(folder: str, there: set[str], real: Callable[[str], str]) -> bool:
    try:
        return real(folder) in there
    except Undecidable:
        return True


def _is_undecided(path: str) -> bool:
    return len(path) > LONGEST_PATH or not is_absolute(path) or is_odd(path)


def _folders_by_name(path: str) -> set[str]:
    """A path and the folders above it, by every name that a rule may use for them."""
    here = normal_path(path)
    return {*folders_of(here), *folders_of(here.lower()), *folders_of(main_name(here))}
