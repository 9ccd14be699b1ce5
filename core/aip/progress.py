"""Which progress frames of a device are passed on: those of pending calls, in order, and not too many."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from core.aip.extras import Progress
from core.aip.limits import Allowance, LinkLimits


@dataclass(slots=True)
class _Call:
    allowance: Allowance
    next_seq: int = 0


class ProgressGate:
    """The pending calls of one link. What it keeps is bounded by them."""

    def __init__(self, limits: LinkLimits) -> None:
        self._limits = limits
        self._calls: dict[str, _Call] = {}
        self.dropped = 0

    def __len__(self) -> int:
        return len(self._calls)

    def expect(self, call_ids: Iterable[str | None]) -> None:
        """Let progress of these calls through from now on."""
        for call_id in call_ids:
            if call_id is not None:
                allowance = Allowance(self._limits.progress_burst, self._limits.progress_per_s)
                self._calls[call_id] = _Call(allowance)

    def forget(self, call_ids: Iterable[str | None]) -> None:
        """Let nothing more of these calls through."""
        for call_id in call_ids:
            if call_id is not None:
                self._calls.pop(call_id, None)

    def admit(self, progress: Progress, size: int) -> bool:
        """Whether this one is passed on; what is not is counted in `dropped`."""
        call = self._calls.get(progress.call_id)
        if call is None or progress.seq < call.next_seq or not call.allowance.spend(size):
            self.dropped += 1
            return False
        # A device may leave some out under load, so a gap is no fault; going back is.
        call.next_seq = progress.seq + 1
        return True
