"""Which devices the batch's filter means now."""

from __future__ import annotations

from collections.abc import Iterable

from core.errors import BadInput
from core.models.device_filter import parse_filter
from core.models.devices import Device


class TargetMatcher:
    """The matched devices, or what is wrong with the filter."""

    def __init__(self) -> None:
        self.devices: list[Device] = []
        self.error = ""
        self._signature: object = None

    @property
    def production(self) -> int:
        """How many of the matched devices are production."""
        return sum(device.production for device in self.devices)

    @property
    def asks(self) -> bool:
        """Whether a run on these devices is asked about whatever its steps do."""
        return len(self.devices) != 1 or self.devices[0].production

    def look(self, targets: str, devices: Iterable[Device], connected: bool) -> bool:
        """Match again; True when a plan of before may not hold any more."""
        try:
            wanted = parse_filter(targets)
        except BadInput as error:
            self.error, self.devices = error.message, []
        else:
            self.error = ""
            self.devices = [one for one in devices if wanted.matches(one)]
        known = [
            (one.name, one.health, one.profile, one.production, *one.changed_tools) for one in self.devices
        ]
        before, self._signature = self._signature, (connected, self.error, known)
        return before != self._signature

    def forget(self) -> None:
        """Whatever is matched next is another thing."""
        self._signature = None

    def why_off(self, has_steps: bool) -> str:
        """Why nothing can be planned or run; empty when it can."""
        if not has_steps:
            return "Add a step first."
        if self.error:
            return "Correct the filter of the devices first."
        return "" if self.devices else "No device matches the filter."
