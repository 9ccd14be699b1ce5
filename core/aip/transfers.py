"""Tracks the transfers of a link: how many bytes of a large frame passed, how fast, and for which call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from core.aip.extensions import Progress


@dataclass(frozen=True, slots=True)
class TransferState:
    """A large frame that is under way. `done` of `total` bytes; `rate` in bytes a second, 0 if unknown."""

    outgoing: bool
    done: int
    total: int
    rate: float

    @property
    def words(self) -> str:
        """The state for people, after "it" or the device's name."""
        way = "is sent" if self.outgoing else "sends"
        return f"{way} {kilobytes(self.done)} of {kilobytes(self.total)} kB{_at(self.rate)}"


def kilobytes(count: int) -> str:
    """A number of bytes in kB (1,000 bytes)."""
    return f"{max(count, 0) / 1000:,.0f}"


def _at(rate: float) -> str:
    return f" at {rate / 1000:,.1f} kB/s" if rate > 0 else ""


class TransferReports:
    """Reports transfers as progress of the calls that they belong to, at most once in `pause_s`."""

    def __init__(self, report: Callable[[Progress], None], pause_s: float) -> None:
        self._report = report
        self._pause_s = pause_s
        self._last: dict[str, float] = {}

    def note(
        self,
        call_ids: Sequence[str | None],
        state: TransferState,
        began_at: float,
        now: float,
        next_seq: Callable[[str], int],
    ) -> None:
        """Note that bytes passed. What takes less than the pause is not reported."""
        for call_id in call_ids:
            if call_id is None or now - self._last.get(call_id, began_at) < self._pause_s:
                continue
            self._last[call_id] = now
            way = "sent" if state.outgoing else "of the answer received"
            # A device sends nothing of an answer before the command has ended.
            ran = "" if state.outgoing else "; it ran"
            progress = Progress(
                call_id=call_id,
                seq=next_seq(call_id),
                # Whole kB: people read these numbers.
                done=round(state.done / 1000),
                total=round(state.total / 1000),
                unit=f"kB {way}{_at(state.rate)}{ran}",
            )
            self._report(progress)

    def forget(self, call_ids: Sequence[str | None]) -> None:
        """Forget calls that have ended."""
        for call_id in call_ids:
            if call_id is not None:
                self._last.pop(call_id, None)
