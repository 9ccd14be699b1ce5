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

from core.policy.constraints import (
    LONGEST_PATH,
    Undecidable,
    UnknownPath,
    elements,
    folders_of,
    is_absolute,
    is_ambiguous_path,
    main_name,
    names_of,
    normal_path,
)
from core.policy.models import Answer, NearMiss, RuleHit
from core.policy.name_patterns import is_glob
from core.policy.rules import MatchContext, Rule, argument_values, prepare_globs

_ANY = "*"
_MOST_CACHED = 4_096
_MOST_NEAR_TRIED = 10_000

Key = tuple[str, Any]
Cached = TypeVar("Cached")


@dataclass(slots=True)
class _IndexBucket:
    """An index of rules with the same decision that fit the same device and tool, by a condition."""

    equal: dict[str, dict[Key, list[int]]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(list))
    )
    below: dict[str, dict[str, list[int]]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(list))
    )
    # By argument, for folders that may be links: (folder as in the rule, its names, the rule's number).
    linked: dict[str, list[tuple[str, set[str], int]]] = field(default_factory=lambda: defaultdict(list))
    literal: dict[str, list[tuple[str, int]]] = field(default_factory=lambda: defaultdict(list))
    needs: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    unindexed: list[int] = field(default_factory=list)

    def put(self, number: int, rule: Rule, *, follows: bool) -> None:
        """Index a rule by its most selective condition. `follows`: for calls whose links are followed."""
        for name, condition in rule.parameters.items():
            values = [condition.equals] if condition.wants_equal else condition.one_of
            if values is not None and all(_key(value) is not None for value in values):
                paths = condition.paths if rule.against else []
                if not all(map(is_absolute, paths)):
                    self.needs[name].append(number)
                    return
                for value in values:
                    self.equal[name][_key(value) or ("", None)].append(number)
                for path in paths:
                    self._put_folder(name, path, number, linked=follows)
                return
        for name, condition in rule.parameters.items():
            if condition.below is not None and is_absolute(condition.below):
                self._put_folder(name, condition.below, number, linked=follows and rule.against)
                return
        for name, condition in rule.parameters.items():
            if condition.literal:
                self.literal[name].append((condition.literal, number))
                return
        for name in rule.parameters:
            # A missing argument never fulfils a condition, so the rule needs this argument to be present.
            self.needs[name].append(number)
            return
        self.unindexed.append(number)

    def _put_folder(self, name: str, folder: str, number: int, *, linked: bool) -> None:
        """Index a rule by a folder, or by a file, which is found like a folder of this name."""
        names = _names_of(folder)
        if linked:
            # The folder may be a link whose target changes later, so its names are no index key.
            self.linked[name].append((folder, names, number))
        else:
            for own in names:
                self.below[name][own].append(number)

    def candidates(self, context: MatchContext) -> list[int]:
        """The numbers of the rules that may apply to a call, in the order of the file."""
        numbers = set(self.unindexed)
        for name, by_key in self.equal.items():
            for value in _values(context, name):
                if isinstance(value, UnknownPath):
                    numbers.update(number for rules in by_key.values() for number in rules)
                elif (key := _key(value)) is not None:
                    numbers.update(by_key.get(key, ()))
        for name, by_folder in self.below.items():
            for value in _values(context, name):
                numbers.update(_rules_below(value, by_folder))
        for name, rows in self.linked.items():
            for value in _values(context, name):
                numbers.update(_rules_below_links(value, rows, context))
        for name, literals in self.literal.items():
            for value in _values(context, name):
                if isinstance(value, str):
                    numbers.update(_rules_with_literal(literals, _names(value, context)))
        for name, rule_numbers in self.needs.items():
            if argument_values(context.judged, name):
                numbers.update(rule_numbers)
        return sorted(numbers)


Buckets = dict[Answer, _IndexBucket]


class RuleIndex:
    """The indexed rules of one policy file. `lines` are the lines at which they begin."""

    def __init__(self, rules: Sequence[Rule] = (), lines: Sequence[int] = ()) -> None:
        self.rules = list(rules)
        self._number = {rule.id: number for number, rule in enumerate(self.rules)}
        self._lines = list(lines) if len(lines) == len(rules) else [0] * len(rules)
        # By the tool's name or `*`: rules that apply to every device, and rules that apply to some devices.
        self._for_every_device: dict[str, list[int]] = defaultdict(list)
        self._for_some_devices: dict[str, list[int]] = defaultdict(list)
        # Rules whose tool is a pattern, or that have a condition on namespace or effect.
        self._patterned: list[int] = []
        for number, rule in enumerate(self.rules):
            prepare_globs(rule)
            names = _tool_names(rule)
            for name in names:
                (self._for_every_device if rule.any_device else self._for_some_devices)[name].append(number)
            if not names:
                self._patterned.append(number)
        conditions = [condition for rule in self.rules for condition in rule.parameters.values()]
        folders = {condition.below for condition in conditions if condition.below is not None}
        self._folders = frozenset(folders.union(*(condition.paths for condition in conditions)))
        self._buckets_of_name: dict[tuple[str, bool], Buckets] = {}
        self._by_tool: OrderedDict[tuple[Any, ...], tuple[Buckets, list[int]]] = OrderedDict()
        self._by_device: OrderedDict[tuple[Any, ...], Buckets] = OrderedDict()
        for name in self._for_every_device:
            self._index_name(name, follows=False)

    def matching(self, context: MatchContext) -> list[Rule]:
        """The rules that apply: the first deny rule only, or else all ask rules and then all allow rules."""
        if not self.rules:
            return []
        buckets = self._buckets_for(context)
        denying = next(self._matches(buckets, Answer.DENY, context), None)
        if denying is not None:
            return [denying]
        return [
            *self._matches(buckets, Answer.ASK, context),
            *self._matches(buckets, Answer.ALLOW, context),
        ]

    @property
    def folders(self) -> frozenset[str]:
        """Every folder that a rule names with `below`, and every file that it names otherwise."""
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

    def near(self, context: MatchContext, limit: int = 5) -> list[NearMiss]:
        """Rules that nearly apply, in the order of the file. Slow: for explanations only.

        Either exactly one condition on actor, risk, time or arguments does not hold, or all of these hold
        (with at least one on an argument) and device or tool do not fit.
        """
        misses: list[NearMiss] = []
        for number, rule in enumerate(self.rules[:_MOST_NEAR_TRIED]):
            static = rule.static_fault(context.device, context.tool)
            faults = rule.faults(context, 2)
            if static is None and len(faults) == 1:
                fault = faults[0]
            elif static is not None and not faults and rule.parameters:
                fault = static
            else:
                continue
            misses.append(NearMiss(id=rule.id, decision=rule.decision, line=self._lines[number], fault=fault))
            if len(misses) >= limit:
                break
        return misses

    def _matches(self, buckets: list[Buckets], answer: Answer, context: MatchContext) -> Iterator[Rule]:
        numbers = {
            number
            for by_answer in buckets
            if (bucket := by_answer.get(answer))
            for number in bucket.candidates(context)
        }
        for number in sorted(numbers):
            rule = self.rules[number]
            if not rule.faults(context, 1):
                yield rule

    def _buckets_for(self, context: MatchContext) -> list[Buckets]:
        device, tool = context.device, context.tool
        follows = context.real is not None
        tool_key = (tool.tool_name, tool.namespace, tool.contract.effect.value, follows)
        device_key = (device.name, tuple(device.tags), device.production)
        buckets = []
        for name in (_ANY, tool.tool_name):
            if name in self._for_every_device:
                buckets.append(
                    self._buckets_of_name.get((name, follows)) or self._index_name(name, follows=follows)
                )
            if name in self._for_some_devices:
                numbers = self._for_some_devices[name]
                make = partial(self._index_for_device, numbers, context)
                buckets.append(_cached(self._by_device, (device_key, name, follows), make))
        if (own := tool.own_name) is not None and (
            own in self._for_every_device or own in self._for_some_devices
        ):
            make = partial(self._index_own_name, own, context)
            buckets.append(_cached(self._by_device, (device_key, "own", own, follows), make))
        if self._patterned:
            for_every_device, for_some_devices = _cached(
                self._by_tool, tool_key, partial(self._index_patterned, context)
            )
            make = partial(self._index_for_device, for_some_devices, context)
            buckets += [for_every_device, _cached(self._by_device, (device_key, tool_key), make)]
        return buckets

    def _index_name(self, name: str, *, follows: bool) -> Buckets:
        buckets: Buckets = {}
        for number in self._for_every_device[name]:
            self._put(buckets, number, follows=follows)
        self._buckets_of_name[name, follows] = buckets
        return buckets

    def _index_patterned(self, context: MatchContext) -> tuple[Buckets, list[int]]:
        buckets: Buckets = {}
        device_rules = []
        for number in self._patterned:
            rule = self.rules[number]
            if rule.tool_fault(context.tool) is not None:
                continue
            if rule.any_device:
                self._put(buckets, number, follows=context.real is not None)
            else:
                device_rules.append(number)
        return buckets, device_rules

    def _put(self, buckets: Buckets, number: int, *, follows: bool) -> None:
        rule = self.rules[number]
        buckets.setdefault(rule.decision, _IndexBucket()).put(number, rule, follows=follows)

    def _index_for_device(self, numbers: list[int], context: MatchContext) -> Buckets:
        buckets: Buckets = {}
        for number in numbers:
            if self.rules[number].device_fault(context.device) is None:
                self._put(buckets, number, follows=context.real is not None)
        return buckets

    def _index_own_name(self, own_name: str, context: MatchContext) -> Buckets:
        """The deny and ask rules that name a hosted server's tool by the server's own name for it."""
        numbers = [*self._for_every_device.get(own_name, ()), *self._for_some_devices.get(own_name, ())]
        return self._index_for_device([number for number in numbers if self.rules[number].against], context)


def _tool_names(rule: Rule) -> list[str]:
    """The tool names to index a rule by, `*` for any tool; none if the rule needs more than an exact name."""
    if rule.namespace is not None or rule.effect is not None:
        return []
    if _ANY in rule.tool:
        return [_ANY]
    return [] if any(map(is_glob, rule.tool)) else list(dict.fromkeys(rule.tool))


def _names_of(folder: str) -> set[str]:
    """The names to index a rule's folder by. The rule itself then decides about each candidate."""
    normal = normal_path(folder)
    names = {normal, main_name(normal)}
    if normal[1:2] == ":" and normal[2:]:
        # Paths without a drive match the folder too.
        names.add(normal[2:])
    return names


def _cached(
    cache: OrderedDict[tuple[Any, ...], Cached], key: tuple[Any, ...], make: Callable[[], Cached]
) -> Cached:
    value = cache.get(key)
    if value is None:
        value = cache[key] = make()
        if len(cache) > _MOST_CACHED:
            cache.popitem(last=False)
    else:
        cache.move_to_end(key)
    return value


def _key(value: Any) -> Key | None:
    """A dictionary key for a value; keys are equal if the JSON values are. None for lists and objects."""
    if isinstance(value, bool):
        return ("truth", value)
    if isinstance(value, (int, float)):
        return ("number", value)
    if isinstance(value, str):
        return ("text", value)
    return ("null", None) if value is None else None


def _values(context: MatchContext, name: str) -> Iterable[Any]:
    """All values that a rule may test under a name, including those nested in lists and objects."""
    pending = argument_values(context.judged, name)
    while pending:
        value = pending.pop()
        yield value
        pending.extend(elements(value))


def _names(value: str, context: MatchContext) -> list[str]:
    """The texts that a pattern is tried on, for a value."""
    if isinstance(value, UnknownPath):
        return []
    try:
        return list(names_of(value, context.real))
    except Undecidable:
        return []


def _rules_with_literal(literals: list[tuple[str, int]], names: list[str]) -> list[int]:
    if not names:
        # The value cannot be decided; each rule decides whether it applies.
        return [number for _, number in literals]
    value, *others = names
    if not others:
        return [number for text, number in literals if text in value]
    return [number for text, number in literals if any(text in name for name in names)]


def _rules_below(value: Any, by_folder: dict[str, list[int]]) -> Iterator[int]:
    if not isinstance(value, str):
        return
    if _is_undecided(value):
        # Every rule is a candidate; each decides whether an undecided path applies.
        for numbers in by_folder.values():
            yield from numbers
        return
    for folder in _folders_by_name(value):
        yield from by_folder.get(folder, ())


def _rules_below_links(
    value: Any, rows: list[tuple[str, set[str], int]], context: MatchContext
) -> Iterator[int]:
    if not isinstance(value, str):
        return
    real = context.real
    try:
        real_folders = set() if real is None or _is_undecided(value) else set(folders_of(real(value)))
    except Undecidable:
        real_folders = set()
    names_above = _folders_by_name(value) if real_folders else set()
    for folder, names, number in rows:
        if (
            not real_folders
            or real is None
            or not names.isdisjoint(names_above)
            or _leads_into(folder, real_folders, real)
        ):
            yield number


def _leads_into(folder: str, folders: set[str], real: Callable[[str], str]) -> bool:
    try:
        return real(folder) in folders
    except Undecidable:
        return True


def _is_undecided(path: str) -> bool:
    return (
        isinstance(path, UnknownPath)
        or len(path) > LONGEST_PATH
        or not is_absolute(path)
        or is_ambiguous_path(path)
    )


def _folders_by_name(path: str) -> set[str]:
    """A path and the folders above it, by every name that a rule may use for them."""
    normal = normal_path(path)
    return {*folders_of(normal), *folders_of(normal.lower()), *folders_of(main_name(normal))}
