"""Arguments that were found in order: a run sends the same ones to a thousand devices.

Whether arguments are of a bearable size, fit the schema, and are free of secrets and of what no honest call
holds, depends on nothing but themselves and the tool's definition, where no disk is shared: it is asked once.
What was refused is never remembered, nor what holds a secret.
"""

from __future__ import annotations

from typing import Any

from core.canonical import flat_key
from core.dispatch.harden import PATH_NAMES
from core.dispatch.order import InOrder, Order, Target
from core.fleet.models import Tool
from core.policy.links import paths_in

_MOST = 512


class Orderly:
    """Remembers which arguments passed the first three stages."""

    def __init__(self) -> None:
        self._known: set[InOrder] = set()

    def key(self, order: Order, target: Target) -> InOrder | None:
        """What a call's arguments are remembered by; None where they are looked at each time."""
        tool = target.tools.get(order.tool)
        if tool is None or type(order.parameters) is not dict:
            return None
        if target.shares_disk and _may_have_paths(tool, order.parameters):
            # Paths on a shared disk are followed each time: links are turned.
            return None
        data = flat_key(order.parameters)
        return None if data is None else InOrder(tool.contract.digest, tool.tool_name, tool.tool_type, data)

    def knows(self, key: InOrder | None) -> bool:
        """Whether exactly these passed before."""
        return key in self._known

    def remember(self, key: InOrder) -> None:
        """They passed all of it, and nothing in them is secret."""
        if len(self._known) >= _MOST:
            self._known.clear()
        self._known.add(key)


def _may_have_paths(tool: Tool, parameters: dict[str, Any]) -> bool:
    named = not PATH_NAMES.isdisjoint(tool.input_schema.get("properties", ()))
    return named or next(paths_in(parameters), None) is not None
