"""What operators hold to be true of tools, found quickly: the first entry of policy.toml that fits."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from core.hosted_names import own_name
from core.policy.policy_file import Override
from core.policy.rules import is_glob


class Overrides:
    """The `[[contract]]` entries of one policy, in the order of the file."""

    def __init__(self, entries: Sequence[Override] = ()) -> None:
        self.entries: list[Override] = list(entries)
        self._by_tool: dict[str, list[int]] = defaultdict(list)
        self._any_tool: list[int] = []
        for number, entry in enumerate(self.entries):
            if any(map(is_glob, entry.tool)):
                self._any_tool.append(number)
            else:
                for name in entry.tool:
                    self._by_tool[name].append(number)

    def of(self, device: str, tool_name: str, namespace: str | None) -> Override | None:
        """What holds of one tool of one device, if anybody has said something."""
        numbers = {*self._by_tool.get(tool_name, ()), *self._any_tool}
        if (own := own_name(tool_name, namespace)) is not None:
            numbers.update(self._by_tool.get(own, ()))
        named = (self.entries[number] for number in sorted(numbers))
        return next((one for one in named if one.covers(device, tool_name, namespace)), None)
