"""A batch while it is built: plain data that may be incomplete, and the changes one can make to its steps.

Entries are one flat tuple in the order of the file. Neighbours with the same positive `group` run in
parallel; recovery steps follow the step that they recover. Every change returns new tuples and leaves the old
ones alone, so that undo is keeping the old one.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic import ValidationError

from core.batch.cel_types import is_selectable
from core.batch.models import ApprovalStep, Batch, Entry, Parallel, Step, calls
from core.errors import BadInput

NEW_NAME = "New batch"
DEFAULT_TARGETS = "name:this-computer"
ALONE = -1
"""The `group` of a step that its file has as a parallel group of one."""
_keys = itertools.count(1)
_NOT_IN_ID = re.compile(r"[^A-Za-z0-9_-]+")
_EXPRESSION = re.compile(r"\$\{\{.*?\}\}", re.DOTALL)
LONGEST_ID = 64
_CALL_KEYS = ("id", "tool", "with", "timeout", "enabled")


@dataclass(frozen=True, slots=True)
class DraftStep:
    """A step, a step that recovers the one above, or an approval step, which has no tool.

    `key` is its identity in this window, whatever its id becomes; `timeout` in seconds. `flow` has the other
    keys as the file has them (`when`, `expect` as a list, `retry`, `on_failure`, `note`); one that has
    `approval` is an approval step.
    """

    id: str
    tool: str
    parameters: dict[str, Any] = field(default_factory=dict)
    timeout: float | None = None
    enabled: bool = True
    group: int = 0
    recovers: bool = False
    flow: dict[str, Any] = field(default_factory=dict)
    key: int = field(default_factory=lambda: next(_keys))

    @property
    def is_approval(self) -> bool:
        """Whether it asks operators and calls no tool."""
        return "approval" in self.flow

    def as_file(self) -> dict[str, Any]:
        """The step as its file has it, complete or not, without its recovery steps; defaults are left out."""
        value: dict[str, Any] = {"id": self.id}
        if not self.is_approval:
            value["tool"] = self.tool
            if self.parameters:
                value["with"] = self.parameters
            if self.timeout is not None:
                value["timeout"] = self.timeout
            if not self.enabled:
                value["enabled"] = False
        flow = dict(self.flow)
        if isinstance(expect := flow.get("expect"), list) and len(expect) == 1:
            flow["expect"] = expect[0]
        return {**value, **flow}

    def as_entry(self, recovery: Sequence[DraftStep] = ()) -> Step | ApprovalStep:
        """The step as a batch has it, with its recovery steps.

        Raises:
            BadInput: something in it is not allowed.
        """
        value = self.as_file()
        if recovery:
            value["recover"] = [one.as_entry() for one in recovery]
        try:
            return (ApprovalStep if self.is_approval else Step).model_validate(value)
        except ValidationError as error:
            raise BadInput(f"Step {self.id or 'without an id'}: {_first_fault(error)}.") from error


def fields_of(value: dict[str, Any]) -> dict[str, Any]:
    """The fields of a `DraftStep` for a step as its file has it, without its recovery steps."""
    flow = {name: one for name, one in value.items() if name not in (*_CALL_KEYS, "recover")}
    if isinstance(flow.get("expect"), str):
        flow["expect"] = [flow["expect"]]
    return {
        "id": value["id"],
        "tool": value.get("tool", ""),
        "parameters": value.get("with", {}),
        "timeout": value.get("timeout"),
        "enabled": value.get("enabled", True),
        "flow": flow,
    }


def _first_fault(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_input=False)[0]
    where = ".".join(str(part) for part in first["loc"])
    words = str(first["msg"]).removeprefix("Value error, ")
    return f"{where}: {words}" if where else words


Steps = tuple[DraftStep, ...]


@dataclass(frozen=True, slots=True)
class BatchDocument:
    """Everything of a batch that is saved.

    `settings` has the keys of the batch as its file has them: `description`, `inputs`, `on_failure`,
    `rollout`, `notes`.
    """

    name: str = NEW_NAME
    targets: str = DEFAULT_TARGETS
    settings: dict[str, Any] = field(default_factory=dict)
    steps: Steps = ()

    def as_batch(self) -> Batch:
        """The batch as it is saved, planned and run.

        Raises:
            BadInput: there is no step, or something in it is not allowed.
        """
        if not self.steps:
            raise BadInput("A batch needs at least one step.")
        entries: list[Entry] = []
        for block in blocks_of(self.steps):
            made = [unit[0].as_entry(unit[1:]) for unit in block]
            grouped = [one for one in made if isinstance(one, Step)]
            entries += [Parallel(parallel=grouped)] if block[0][0].group else made
        name = self.name.strip() or NEW_NAME
        try:
            return Batch.model_validate(
                {**self.settings, "name": name, "targets": self.targets, "steps": entries}
            )
        except ValidationError as error:
            words = _first_fault(error).removeprefix("steps: ")
            raise BadInput(f"{words[:1].upper()}{words[1:]}.") from error

    def step(self, key: int) -> DraftStep | None:
        """The step with this key."""
        return next((one for one in self.steps if one.key == key), None)

    def place(self, key: int) -> int:
        """Where the step with this key stands; -1 when it is not here."""
        return next((place for place, one in enumerate(self.steps) if one.key == key), -1)

    def recovery_of(self, key: int) -> Steps:
        """The steps that recover the step with this key."""
        return next((unit[1:] for unit in units_of(self.steps) if unit[0].key == key), ())


def content_of(batch: Batch) -> BatchDocument:
    """A batch, ready to be changed."""
    steps: list[DraftStep] = []
    for number, entry in enumerate(batch.steps, 1):
        if isinstance(entry, ApprovalStep):
            steps.append(_draft_of(entry))
        group = 0
        if isinstance(entry, Parallel):
            group = number if len(entry.parallel) > 1 else ALONE
        for one in calls(entry):
            steps.append(_draft_of(one, group=group))
            steps += [_draft_of(inner, group=group, recovers=True) for inner in one.recover]
    kept = {"format", "name", "targets", "steps"}
    settings = batch.model_dump(mode="json", by_alias=True, exclude_defaults=True, exclude=kept)
    return BatchDocument(batch.name, batch.targets, settings, tuple(steps))


def without_secret_defaults(settings: dict[str, Any]) -> dict[str, Any]:
    """Settings as the draft keeps them: the default of a secret input is typed again after a restart."""
    secret = secret_inputs(settings)
    if not secret:
        return settings
    kept = {
        name: {key: value for key, value in one.items() if key not in ("default", "one_of")}
        if name in secret
        else one
        for name, one in settings["inputs"].items()
    }
    return {**settings, "inputs": kept}


def secret_inputs(settings: dict[str, Any]) -> list[str]:
    """The names of the inputs that are secret."""
    inputs = settings.get("inputs")
    named = inputs.items() if isinstance(inputs, dict) else ()
    return [name for name, one in named if isinstance(one, dict) and one.get("secret")]


def _draft_of(step: Step | ApprovalStep, **more: Any) -> DraftStep:
    value = step.model_dump(
        mode="json", by_alias=True, exclude_defaults=True, exclude={"recover", "parameters"}
    )
    if isinstance(step, Step):
        value["with"] = dict(step.parameters)
    return DraftStep(**fields_of({"id": step.id, **value}), **more)


def units_of(steps: Iterable[DraftStep]) -> list[Steps]:
    """Each step with the steps that recover it behind it."""
    units: list[list[DraftStep]] = []
    for one in steps:
        if one.recovers and units:
            units[-1].append(one)
        else:
            units.append([one])
    return [tuple(unit) for unit in units]


def blocks_of(steps: Iterable[DraftStep]) -> list[list[Steps]]:
    """The units by what runs together: groups whole, the others alone."""
    blocks: list[list[Steps]] = []
    for unit in units_of(steps):
        if blocks and unit[0].group > 0 and blocks[-1][0][0].group == unit[0].group:
            blocks[-1].append(unit)
        else:
            blocks.append([unit])
    return blocks


def tidy(steps: Iterable[DraftStep]) -> Steps:
    """Number the groups again, and give recovery steps the group of their step.

    A group of which one step is left is no group any more; what has no step to recover is a step like any
    other; an approval step stands alone.
    """
    tidied: list[DraftStep] = []
    for number, block in enumerate(blocks_of(_owned(steps)), 1):
        group = number if len(block) > 1 else min(block[0][0].group, 0)
        tidied += [one if one.group == group else replace(one, group=group) for unit in block for one in unit]
    return tuple(tidied)


def _owned(steps: Iterable[DraftStep]) -> Iterable[DraftStep]:
    owner: DraftStep | None = None
    for one in steps:
        owned = one
        if one.is_approval and (one.group or one.recovers):
            owned = replace(one, group=0, recovers=False)
        elif one.recovers and (owner is None or owner.is_approval):
            owned = replace(one, recovers=False)
        owner = owner if owned.recovers else owned
        yield owned


def free_id(wanted: str, steps: Sequence[DraftStep]) -> str:
    """An id made from a tool's name or another id that no step has yet."""
    base = _NOT_IN_ID.sub("_", wanted).strip("_-") or "step"
    base = (base if base[0].isalpha() or base[0] == "_" else f"s_{base}")[:LONGEST_ID]
    taken = {one.id for one in steps}
    if base not in taken:
        return base
    base = re.sub(r"_\d+$", "", base)[: LONGEST_ID - 6]
    return next(name for number in itertools.count(2) if (name := f"{base}_{number}") not in taken)


def _without_branches(steps: Steps, change: Callable[[Steps], Steps]) -> Steps:
    """Steps of which a change sees only those that recover nothing; recovery steps follow their step."""
    branches = {unit[0].key: unit[1:] for unit in units_of(steps)}
    changed = change(tuple(one for one in steps if not one.recovers))
    return tidy(one for step in changed for one in (step, *branches.get(step.key, ())))


def inserted(steps: Steps, new: Sequence[DraftStep], place: int) -> Steps:
    """Steps with others before `place`; in the middle of a group or a recovery they become part of it."""
    group = _group_around(steps, place)
    recovers = place < len(steps) and steps[place].recovers
    made = [replace(one, group=group, recovers=recovers or one.recovers) for one in new]
    return tidy([*steps[:place], *made, *steps[place:]])


def _group_around(steps: Steps, place: int) -> int:
    if not 0 < place < len(steps):
        return 0
    before, after = steps[place - 1].group, steps[place].group
    return before if before == after > 0 else 0


def moved(steps: Steps, keys: set[int], place: int) -> Steps:
    """Steps with those of `keys` taken out and put, in their order, before what stood at `place`.

    Recovery steps by themselves recover what they come behind. In the middle of a recovery other steps become
    part of it, unless they have one themselves: then they go behind it.
    """
    chosen = [one for one in steps if one.key in keys]
    plain = all(len(unit) == 1 for unit in units_of(steps) if unit[0].key in keys)
    into = place < len(steps) and steps[place].recovers and steps[place].key not in keys and plain
    if chosen and (into or all(one.recovers for one in chosen)):
        taken = [one if one.recovers else replace(one, recovers=True) for one in chosen]
        rest = [one for one in steps if one.key not in keys]
        at = sum(one.key not in keys for one in steps[:place])
        return tidy([*rest[:at], *taken, *rest[at:]])
    at = sum(not one.recovers for one in steps[:place])
    return _without_branches(steps, lambda heads: _moved_heads(heads, keys, at))


def _moved_heads(steps: Steps, keys: set[int], place: int) -> Steps:
    taken = [one for one in steps if one.key in keys]
    if not taken:
        return steps
    # A group that moves as a whole stays one.
    groups = {one.group for one in taken}
    whole = len(groups) == 1 and all(one.key in keys for one in steps if one.group in groups)
    before = [one for one in steps[:place] if one.key not in keys]
    rest = tuple(one for one in steps if one.key not in keys)
    at = len(before)
    group = _group_around(rest, at)
    if not group and groups == {ALONE}:
        group = ALONE
    elif not group and whole and taken[0].group:
        group = max(one.group for one in steps) + 1
    return tidy([*rest[:at], *(replace(one, group=group) for one in taken), *rest[at:]])


def moved_by_one(steps: Steps, keys: set[int], down: bool) -> Steps:
    """Steps with those of `keys` one place further up or down; at an end nothing changes.

    A step goes into a group and out of it before it goes past its neighbour, and past a recovery as a whole.
    """
    places = [place for place, one in enumerate(steps) if one.key in keys]
    if places and all(steps[place].recovers for place in places):
        edge = places[-1] + 1 if down else places[0] - 1
        return moved(steps, keys, edge + 1 if down else edge) if 0 <= edge < len(steps) else steps
    return _without_branches(steps, lambda heads: _heads_moved_by_one(heads, keys, down))


def _heads_moved_by_one(steps: Steps, keys: set[int], down: bool) -> Steps:
    places = [place for place, one in enumerate(steps) if one.key in keys]
    if not places:
        return steps
    edge = places[-1] + 1 if down else places[0] - 1
    if not 0 <= edge < len(steps):
        return _out_of_group(steps, keys)
    if len(places) == 1:
        one, other = steps[places[0]], steps[edge]
        if one.group > 0 and other.group != one.group:
            return _out_of_group(steps, keys)
        if one.group > 0:
            low, high = sorted((places[0], edge))
            return (*steps[:low], steps[high], steps[low], *steps[high + 1 :])
    return _moved_heads(steps, keys, edge + 1 if down else edge)


def _out_of_group(steps: Steps, keys: set[int]) -> Steps:
    return tidy(replace(one, group=min(one.group, 0)) if one.key in keys else one for one in steps)


def doubled(steps: Steps, keys: set[int]) -> tuple[Steps, list[int]]:
    """Steps with a copy behind each of `keys`, its recovery steps included, and the keys of the copies."""
    grown: list[DraftStep] = []
    made: list[int] = []
    known = list(steps)

    def copy_of(one: DraftStep) -> DraftStep:
        copy = replace(one, id=free_id(one.id, known), key=next(_keys))
        known.append(copy)
        return copy

    for unit in units_of(steps):
        whole = unit[0].key in keys
        for one in unit:
            grown.append(one)
            if one.recovers and one.key in keys and not whole:
                grown.append(copy_of(one))
                made.append(grown[-1].key)
        if whole:
            copies = [copy_of(one) for one in unit]
            grown += copies
            made.append(copies[0].key)
    return tidy(grown), made


def removed(steps: Steps, keys: set[int]) -> Steps:
    """Steps without those of `keys`, and without the recovery steps of those."""
    left = (unit for unit in units_of(steps) if unit[0].key not in keys)
    return tidy(one for unit in left for one in unit if one.key not in keys)


def recovering(steps: Steps, keys: set[int]) -> Steps:
    """Steps with those of `keys` as recovery of the step above them, or no longer when all of them are."""
    chosen = [one for one in steps if one.key in keys]
    if not all(one.recovers for one in chosen):
        return tidy(
            replace(one, recovers=True, group=steps[place - 1].group) if place and one.key in keys else one
            for place, one in enumerate(steps)
        )
    free: list[DraftStep] = []
    for unit in units_of(steps):
        free += [one for one in unit if one.key not in keys]
        free += [replace(one, recovers=False) for one in unit if one.key in keys]
    return tidy(free)


def switched(steps: Steps, keys: set[int]) -> Steps:
    """Steps with those of `keys` switched off, or on when all of them are off; questions are always asked."""
    keys = {one.key for one in steps if one.key in keys and not one.is_approval}
    on = not any(one.enabled for one in steps if one.key in keys)
    return tuple(replace(one, enabled=on) if one.key in keys else one for one in steps)


def grouped(steps: Steps, keys: set[int]) -> Steps:
    """Steps with those of `keys` in parallel, or no longer when they are one group already.

    One step alone takes the next one with it, the last one the one before it.
    """
    return _without_branches(steps, lambda heads: _grouped_heads(heads, keys))


def _grouped_heads(steps: Steps, keys: set[int]) -> Steps:
    places = [place for place, one in enumerate(steps) if one.key in keys]
    if not places:
        return steps
    first, last = places[0], places[-1]
    chosen = steps[first : last + 1]
    is_group = chosen[0].group > 0 or (len(chosen) == 1 and chosen[0].group == ALONE)
    if is_group and all(one.group == chosen[0].group for one in chosen):
        gone = chosen[0].group if len(chosen) == 1 and chosen[0].group > 0 else None
        keep = {one.key for one in chosen}
        return tidy(replace(one, group=0) if one.key in keep or one.group == gone else one for one in steps)
    if len(steps) < 2:
        return steps
    if len(chosen) == 1:
        first, last = (first, last + 1) if last + 1 < len(steps) else (first - 1, last)
    joined = {one.group for one in steps[first : last + 1] if one.group > 0}
    number = max(0, *(one.group for one in steps)) + 1
    return tidy(
        replace(one, group=number) if first <= place <= last or one.group in joined else one
        for place, one in enumerate(steps)
    )


def why_not_grouped(steps: Steps, keys: set[int]) -> str:
    """Why `grouped` would change nothing; empty where it does."""
    chosen = [one for one in steps if one.key in keys]
    if not chosen:
        return _NONE_CHOSEN
    if all(one.recovers for one in chosen):
        return "A recovery step runs after the step that failed, and not in parallel with others."
    if all(one.is_approval for one in chosen):
        return "An approval step is asked by itself, and not in parallel with others."
    if grouped(steps, keys) != steps:
        return ""
    return "There is no other step beside it that could run in parallel with it."


def why_not_recovering(steps: Steps, keys: set[int]) -> str:
    """Why `recovering` would change nothing; empty where it does."""
    chosen = [one for one in steps if one.key in keys]
    if not chosen:
        return _NONE_CHOSEN
    if recovering(steps, keys) != steps:
        return ""
    if all(one.is_approval for one in chosen):
        return "An approval step asks operators, and recovers nothing."
    if chosen[0] is steps[0]:
        return "There is no step above it that it could recover."
    return "The step above it asks operators: what is denied there is not recovered."


def why_not_switched(steps: Steps, keys: set[int]) -> str:
    """Why `switched` would change nothing; empty where it does."""
    chosen = [one for one in steps if one.key in keys]
    if chosen and all(one.is_approval for one in chosen):
        return "An approval step is always asked; delete it to ask no more."
    return "" if chosen else _NONE_CHOSEN


_NONE_CHOSEN = "No step is chosen."


def changed_step(steps: Steps, key: int, **changes: Any) -> Steps:
    """Steps with one of them changed."""
    return tuple(replace(one, **changes) if one.key == key else one for one in steps)


def with_references(steps: Steps, before: str, now: str) -> Steps:
    """Steps whose expressions read the step `now` where they read the step `before`."""
    name = re.escape(before)
    reads = re.compile(rf"(?<![\w.])steps(?:\.{name}(?![\w-])|\[\s*(?:\"{name}\"|'{name}')\s*\])")
    wanted = f"steps.{now}" if is_selectable(now) else f'steps["{now}"]'

    def changed(value: Any) -> Any:
        if isinstance(value, str):
            return _EXPRESSION.sub(lambda match: reads.sub(wanted, match[0]), value)
        if isinstance(value, dict):
            return {key: changed(inner) for key, inner in value.items()}
        return [changed(inner) for inner in value] if isinstance(value, list) else value

    return tuple(replace(one, flow=changed(one.flow), parameters=changed(one.parameters)) for one in steps)
