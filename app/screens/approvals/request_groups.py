"""Requests that differ in nothing but the device, or in nothing at all: one card, answered by one act. No Qt.

Alike are tool, contract, arguments, asker, risk, findings and what the asker says. What is judged differently
on two devices is therefore never answered together, and neither are production and the rest. A group is of
one run, or on one device: an agent that asks again begins a run each time.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from core.approvals.models import Approval
from core.models.tools import Risk

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

    def takes(self, one: Approval) -> bool:
        """Whether a request that is alike may join: all are of one run then, or on one device.

        A critical one has a card of its own on each device: a name typed once stands for one act there.
        """
        if one.decision.risk is Risk.CRITICAL and one.request.device in self.devices:
            return False
        return self.runs == {one.run} or self.devices == {one.request.device}

    def add(self, one: Approval) -> None:
        self.members.append(one)
        self.runs.add(one.run)
        self.devices.add(one.request.device)


class RequestGroups:
    """Groups requests; what makes one like another is worked out once for each."""

    def __init__(self) -> None:
        self._keys: dict[str, tuple[str, str]] = {}

    def groups(self, waiting: Iterable[Approval], held: Iterable[str] = ()) -> list[Group]:
        """Groups in the order of their leaders.

        `held` are the requests of the card that is being read: nothing joins them meanwhile.
        """
        kept, known = set(held), dict[str, tuple[str, str]]()
        open_groups: dict[tuple[str, bool, str, str | None], _Open] = {}
        found: list[_Open] = []
        for one in waiting:
            known[one.id] = self._key(one)
            alike, held_back = known[one.id][1], one.id in kept
            of_run = (alike, held_back, "run", one.run)
            on_device = (alike, held_back, "device", one.request.device)
            group = open_groups.get(of_run)
            if group is None or not group.takes(one):
                group = open_groups.get(on_device)
            if group is None or not group.takes(one):
                group = _Open()
                found.append(group)
            group.add(one)
            open_groups[of_run] = open_groups[on_device] = group
        self._keys = known
        return [Group(tuple(group.members)) for group in found]

    def _key(self, one: Approval) -> tuple[str, str]:
        known = self._keys.get(one.id)
        if known is not None and known[0] == one.request.digest:
            return known
        return one.request.digest, likeness(one)


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
