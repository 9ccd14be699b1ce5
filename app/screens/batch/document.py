"""A batch while it is built: plain data that may be incomplete, and the changes one can make to its steps.

Steps are one flat tuple; neighbours with the same `group` other than 0 run in parallel. Every change returns
new tuples and leaves the old ones alone, so that undo is keeping the old one.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic import BaseModel, ValidationError

from core.batch.models import ApprovalStep, Batch, Parallel, Rollout, Step, calls, flatten
from core.errors import BadInput

NEW_NAME = "New batch"
DEFAULT_TARGETS = "name:this-computer"
_keys = itertools.count(1)
_NOT_IN_ID = re.compile(r"[^A-Za-z0-9_-]+")
LONGEST_ID = 64


@dataclass(frozen=True, slots=True)
class DraftStep:
    """One step. `key` is its identity in this window, whatever its id becomes; `timeout` in seconds."""

    id: str
    tool: str
    parameters: dict[str, Any] = field(default_factory=dict)
    timeout: float | None = None
    enabled: bool = True
    group: int = 0
    key: int = field(default_factory=lambda: next(_keys))

    def as_step(self) -> Step:
        """The step as a batch has it.

        Raises:
            BadInput: its id or its timeout is not allowed.
        """
        try:
            return Step.model_validate(
                {
                    "id": self.id,
                    "tool": self.tool,
                    "with": self.parameters,
                    "timeout": self.timeout,
                    "enabled": self.enabled,
                }
            )
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            where = ".".join(str(part) for part in first["loc"])
            raise BadInput(f"Step {self.id or 'without an id'}: {where}: {first['msg']}.") from error


Steps = tuple[DraftStep, ...]


@dataclass(frozen=True, slots=True)
class BatchDocument:
    """Everything of a batch that is saved."""

    name: str = NEW_NAME
    description: str = ""
    targets: str = DEFAULT_TARGETS
    on_failure: str = "stop"
    parallel: int = Rollout().parallel
    steps: Steps = ()

    def as_batch(self) -> Batch:
        """The batch as it is saved, planned and run.

        Raises:
            BadInput: there is no step, or an id is wrong or stands twice.
        """
        if not self.steps:
            raise BadInput("A batch needs at least one step.")
        blocks = [
            Parallel(parallel=[one.as_step() for one in block]) if len(block) > 1 else block[0].as_step()
            for block in blocks_of(self.steps)
        ]
        try:
            return Batch.model_validate(
                {
                    "name": self.name.strip() or NEW_NAME,
                    "description": self.description,
                    "targets": self.targets,
                    "on_failure": self.on_failure,
                    "rollout": Rollout(parallel=self.parallel),
                    "steps": blocks,
                }
            )
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            words = str(first["msg"]).removeprefix("Value error, ")
            raise BadInput(f"{words[:1].upper()}{words[1:]}.") from error

    def step(self, key: int) -> DraftStep | None:
        """The step with this key."""
        return next((one for one in self.steps if one.key == key), None)

    def place(self, key: int) -> int:
        """Where the step with this key stands; -1 when it is not here."""
        return next((place for place, one in enumerate(self.steps) if one.key == key), -1)


def content_of(batch: Batch) -> BatchDocument:
    """A batch, ready to be changed.

    Raises:
        BadInput: the batch has parts that the builder would lose; they are named.
    """
    if lost := _lost_keys(batch):
        raise BadInput(f"The builder cannot show {', '.join(lost)} of this batch; edit its file instead.")
    steps: list[DraftStep] = []
    for number, block in enumerate(batch.steps, 1):
        inner = calls(block)
        group = number if len(inner) > 1 else 0
        steps += [
            DraftStep(one.id, one.tool, dict(one.parameters), one.timeout, one.enabled, group)
            for one in inner
        ]
    return BatchDocument(
        batch.name,
        batch.description,
        batch.targets,
        batch.on_failure,
        batch.rollout.parallel,
        tuple(steps),
    )


def can_show(batch: Batch) -> bool:
    """Whether the builder has a place for all of a batch."""
    return not _lost_keys(batch)


def _lost_keys(batch: Batch) -> list[str]:
    """The keys of a batch file that a `BatchDocument` has no place for, sorted."""
    parts: list[tuple[BaseModel, set[str]]] = [
        (batch, {"format", "name", "description", "targets", "on_failure", "rollout", "steps"}),
        (batch.rollout, {"parallel"}),
    ]
    parts += [(step, {"id", "tool", "parameters", "timeout", "enabled"}) for step in flatten(batch.steps)]
    parts += [(entry, {"id"}) for entry in batch.steps if isinstance(entry, ApprovalStep)]
    return sorted(
        {key for part, shown in parts for key in part.model_dump(exclude_defaults=True, exclude=shown)}
    )


def blocks_of(steps: Steps) -> list[Steps]:
    """Steps by what runs together: groups whole, the others alone."""
    blocks: list[list[DraftStep]] = []
    for one in steps:
        if blocks and one.group and blocks[-1][0].group == one.group:
            blocks[-1].append(one)
        else:
            blocks.append([one])
    return [tuple(block) for block in blocks]


def tidy(steps: Iterable[DraftStep]) -> Steps:
    """Number the groups anew; a group of one is a step like any other."""
    tidied: list[DraftStep] = []
    for number, block in enumerate(blocks_of(tuple(steps)), 1):
        group = number if len(block) > 1 else 0
        tidied += [one if one.group == group else replace(one, group=group) for one in block]
    return tuple(tidied)


def free_id(wanted: str, steps: Sequence[DraftStep]) -> str:
    """An id made from a tool's name or another id that no step has yet."""
    base = _NOT_IN_ID.sub("_", wanted).strip("_-") or "step"
    base = (base if base[0].isalpha() or base[0] == "_" else f"s_{base}")[:LONGEST_ID]
    taken = {one.id for one in steps}
    if base not in taken:
        return base
    base = re.sub(r"_\d+$", "", base)[: LONGEST_ID - 6]
    return next(name for number in itertools.count(2) if (name := f"{base}_{number}") not in taken)


def inserted(steps: Steps, new: Sequence[DraftStep], place: int) -> Steps:
    """Steps with others before `place`; in the middle of a group they become part of it."""
    group = _group_around(steps, place)
    return tidy([*steps[:place], *(replace(one, group=group) for one in new), *steps[place:]])


def _group_around(steps: Steps, place: int) -> int:
    if not 0 < place < len(steps):
        return 0
    before, after = steps[place - 1].group, steps[place].group
    return before if before == after else 0


def moved(steps: Steps, keys: set[int], place: int) -> Steps:
    """Steps with those of `keys` taken out and put, in their order, before what stood at `place`."""
    taken = [one for one in steps if one.key in keys]
    # A group that moves as a whole stays one.
    groups = {one.group for one in taken}
    whole = len(groups) == 1 and all(one.key in keys for one in steps if one.group in groups)
    before = [one for one in steps[:place] if one.key not in keys]
    rest = tuple(one for one in steps if one.key not in keys)
    at = len(before)
    group = _group_around(rest, at)
    if whole and not group and taken[0].group:
        group = max((one.group for one in steps), default=0) + 1
    return tidy([*rest[:at], *(replace(one, group=group) for one in taken), *rest[at:]])


def moved_by_one(steps: Steps, keys: set[int], down: bool) -> Steps:
    """Steps with those of `keys` one place further up or down; at an end nothing changes.

    A step goes into a group and out of it before it goes past its neighbour.
    """
    places = [place for place, one in enumerate(steps) if one.key in keys]
    if not places:
        return steps
    edge = places[-1] + 1 if down else places[0] - 1
    if not 0 <= edge < len(steps):
        return _out_of_group(steps, keys)
    if len(places) == 1:
        one, other = steps[places[0]], steps[edge]
        if one.group and other.group != one.group:
            return _out_of_group(steps, keys)
        if one.group:
            low, high = sorted((places[0], edge))
            return (*steps[:low], steps[high], steps[low], *steps[high + 1 :])
    return moved(steps, keys, edge + 1 if down else edge)


def _out_of_group(steps: Steps, keys: set[int]) -> Steps:
    return tidy(replace(one, group=0) if one.key in keys else one for one in steps)


def doubled(steps: Steps, keys: set[int]) -> tuple[Steps, list[int]]:
    """Steps with a copy behind each of `keys`, and the keys of the copies."""
    grown: list[DraftStep] = []
    made: list[int] = []
    known = list(steps)
    for one in steps:
        grown.append(one)
        if one.key in keys:
            copy = replace(one, id=free_id(one.id, known), key=next(_keys))
            known.append(copy)
            grown.append(copy)
            made.append(copy.key)
    return tidy(grown), made


def removed(steps: Steps, keys: set[int]) -> Steps:
    """Steps without those of `keys`."""
    return tidy(one for one in steps if one.key not in keys)


def switched(steps: Steps, keys: set[int]) -> Steps:
    """Steps with those of `keys` switched off, or on when all of them are off."""
    on = not any(one.enabled for one in steps if one.key in keys)
    return tuple(replace(one, enabled=on) if one.key in keys else one for one in steps)


def grouped(steps: Steps, keys: set[int]) -> Steps:
    """Steps with those of `keys` in parallel, or no longer when they are one group already.

    One step alone takes the next one with it, the last one the one before it.
    """
    places = [place for place, one in enumerate(steps) if one.key in keys]
    if not places or len(steps) < 2:
        return steps
    first, last = places[0], places[-1]
    chosen = steps[first : last + 1]
    if chosen[0].group and all(one.group == chosen[0].group for one in chosen):
        gone = chosen[0].group if len(chosen) == 1 else None
        keep = {one.key for one in chosen}
        return tidy(replace(one, group=0) if one.key in keep or one.group == gone else one for one in steps)
    if len(chosen) == 1:
        first, last = (first, last + 1) if last + 1 < len(steps) else (first - 1, last)
    joined = {one.group for one in steps[first : last + 1] if one.group}
    number = max((one.group for one in steps), default=0) + 1
    return tidy(
        replace(one, group=number) if first <= place <= last or one.group in joined else one
        for place, one in enumerate(steps)
    )


def changed_step(steps: Steps, key: int, **changes: Any) -> Steps:
    """Steps with one of them changed."""
    return tuple(replace(one, **changes) if one.key == key else one for one in steps)
