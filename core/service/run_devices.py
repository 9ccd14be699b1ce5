"""Tells runs about devices: facts for expressions, and whether a tool may be called again."""

from __future__ import annotations

from core.batch.expressions import DeviceFacts
from core.errors import QuarterdeckError
from core.fleet.fleet import Fleet
from core.models.tools import Effect, Tool
from core.policy.analysis.shell.tool_arguments import described_line_arguments


class RunDevices:
    """The devices of a fleet, as runs see them."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet

    def facts(self, device: str) -> DeviceFacts:
        """The facts about a device for expressions; of a forgotten device, its name."""
        try:
            present = self._fleet.get(device)
        except QuarterdeckError:
            return DeviceFacts(name=device)
        return DeviceFacts.of(present)

    def tool(self, device: str, name: str) -> Tool | None:
        """A tool that a device offers now; None if it is away or has no such tool."""
        try:
            return self._fleet.target(device).tools.get(name)
        except QuarterdeckError:
            return None

    def machine(self, device: str) -> str:
        """The identity of the machine that a device's pairing is bound to; empty if it is not known."""
        try:
            return self._fleet.machine(device)
        except QuarterdeckError:
            return ""

    def described_lines(self, device: str, tool: str) -> frozenset[str]:
        """The arguments that a tool's schema describes as shell lines; none for a tool that is not there."""
        offered = self.tool(device, tool)
        return described_line_arguments(offered.input_schema) if offered is not None else frozenset()

    def may_repeat(self, device: str, tool: str) -> bool:
        """Whether a tool only reads, or does by two calls what it does by one, as the contract says."""
        offered = self.tool(device, tool)
        if offered is None or offered.changed:
            return False
        return offered.contract.effect.value is Effect.OBSERVE or offered.contract.idempotent.value
