"""The course of a run as its batch lays it down: the waves of its devices, and how often a step is tried."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from core.batch.models import Cell, Run, flatten
from core.batch.waves import in_waves
from core.text import some_names

# Devices of a wave that are named.
_MOST_NAMED = 5


@dataclass(frozen=True, slots=True)
class Course:
    """`waves` are the devices of each wave, in order; with `has_canary` the first of them is the canary.

    `tries` has the most attempts of each step that is retried.
    """

    waves: tuple[tuple[str, ...], ...] = ()
    has_canary: bool = False
    tries: Mapping[str, int] = field(default_factory=dict)
    _wave_of: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, run: Run) -> Course:
        """The course of this run."""
        rollout = run.batch.rollout
        devices = run.summary.devices
        waves = in_waves(devices, run.summary.waves or [len(devices)])
        retried = {step.id: step.retry for step in flatten(run.batch.steps)}
        return cls(
            waves,
            rollout.canary is not None,
            {step: retry.times + 1 for step, retry in retried.items() if retry is not None},
            {device: number for number, wave in enumerate(waves, 1) for device in wave},
        )

    def wave_of(self, device: str) -> int:
        """The number of a device's wave; the first is 1."""
        return self._wave_of.get(device, 1)

    def wave_words(self, number: int) -> str:
        """Such as "wave 1 of 3: canary lab-1"; the names are as devices have them."""
        devices = self.waves[number - 1]
        canary = "canary " * (self.has_canary and number == 1)
        count = f"{len(devices)} devices, " * (len(devices) > _MOST_NAMED)
        return f"wave {number} of {len(self.waves)}: {canary}{count}{some_names(devices, _MOST_NAMED)}"

    def attempt_words(self, cell: Cell) -> str:
        """Such as "attempt 2 of 4"; empty for a step that is tried once, and before its first attempt."""
        number = attempts_of(cell)
        tries = self.tries.get(cell.step, 1)
        if number > tries:
            # What was approved and changed before its turn is asked again, which no `retry` counts.
            return f"attempt {number}"
        return f"attempt {number} of {tries}" if tries > 1 and number else ""


def attempts_of(cell: Cell) -> int:
    """How many commands a cell has had; a single one is left out of its count."""
    return max(cell.attempts, 1) if cell.call_id else 0
