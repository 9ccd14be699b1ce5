"""What runs read of devices: facts for expressions, and whether a tool may be called again."""

from __future__ import annotations

from core.batch.expressions import DeviceFacts
from core.errors import QuarterdeckError
from core.fleet.fleet import Fleet
from core.fleet.models import Effect, Tool


class RunDevices:
    """The devices of a fleet, as runs see them."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet

    def facts(self, device: str) -> DeviceFacts:
        """What expressions read of a device; of a device that was forgotten, its name."""
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

    def may_repeat(self, device: str, tool: str) -> bool:
        """Whether a tool only reads, or does by two calls what it does by one, as the contract says."""
        offered = self.tool(device, tool)
        if offered is None or offered.changed:
            return False
        return offered.contract.effect.value is Effect.OBSERVE or offered.contract.idempotent.value
