"""Requests that differ in nothing but the device: shown as one card, answered by one act. No Qt.

Alike are tool, contract, arguments, asker, run, risk, findings and what the asker says. What is judged
differently on two devices is therefore never answered together, and neither are production and the rest.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from core.policy.models import Approval

_ENDS_IN_NUMBER = re.compile(r"(.*?)(\d+)\Z", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Group:
    """Requests that are alike, the first one of the queue's order leading. Each is on another device."""

    members: tuple[Approval, ...]

    @property
    def leader(self) -> Approval:
        """The one whose card is shown."""
        return self.members[0]

    @property
    def others(self) -> tuple[Approval, ...]:
        """All but the leader."""
        return self.members[1:]


class Likeness:
    """Groups requests; what makes one like another is worked out once for each."""

    def __init__(self) -> None:
        self._keys: dict[str, tuple[str, str]] = {}

    def groups(self, waiting: Iterable[Approval], held: Iterable[str] = ()) -> list[Group]:
        """Groups in the order of their leaders.

        `held` are the requests of the card that is being read: nothing joins them meanwhile.
        """
        kept, known = set(held), dict[str, tuple[str, str]]()
        open_groups: dict[tuple[str, bool], list[list[Approval]]] = {}
        found: list[list[Approval]] = []
        for one in waiting:
            known[one.id] = self._key(one)
            alike = open_groups.setdefault((known[one.id][1], one.id in kept), [])
            device = one.request.device
            for group in alike:
                if all(member.request.device != device for member in group):
                    group.append(one)
                    break
            else:
                alike.append([one])
                found.append(alike[-1])
        self._keys = known
        return [Group(tuple(group)) for group in found]

    def _key(self, one: Approval) -> tuple[str, str]:
        known = self._keys.get(one.id)
        if known is not None and known[0] == one.request.digest:
            return known
        return one.request.digest, likeness(one)


def likeness(one: Approval) -> str:
    """A text that is equal for requests that differ in nothing but the device."""
    request, decision = one.request, one.decision
    parts: list[Any] = [
        request.tool_key,
        request.tool_name,
        request.namespace,
        request.contract,
        request.parameters,
        one.actor,
        one.run,
        one.said,
        one.production,
        one.approvers,
        sorted(one.approved_by),
        one.edited_from,
        decision.model_dump(mode="json", exclude={"summary", "reasons", "rules"}),
    ]
    return json.dumps(parts, sort_keys=True, separators=(",", ":"))


def device_words(names: Iterable[str]) -> str:
    """The devices of a group in a few words; a range only where it names no device that is not in it."""
    known = sorted(names)
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
