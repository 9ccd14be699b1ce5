"""Waits between attempts that fail: longer after each failure in a row, and never quite the same."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field

# Keeps `factor ** failures` a small number, however long the attempts go on to fail.
_MOST_GROWTH = 16


@dataclass(slots=True)
class Backoff:
    """The wait before the next attempt. All times are in seconds.

    `delay` is `base` after the first failure and `factor` times longer after each further failure, at most
    `cap`. `wait` is that delay times a random number within `jitter`: after a failure of the network, a
    hundred devices must not try again at the same instant. An attempt that lasted `healthy_after` was
    `healthy`; the caller decides what else must hold before it calls `reset`.
    """

    base: float
    cap: float
    factor: float = 2.0
    jitter: tuple[float, float] = (0.5, 1.0)
    healthy_after: float = 0.0
    clock: Callable[[], float] = time.monotonic
    uniform: Callable[[float, float], float] = random.uniform
    failures: int = field(default=0, init=False)
    _began: float = field(default=0.0, init=False)

    def begin(self) -> None:
        """Note that an attempt begins now."""
        self._began = self.clock()

    @property
    def healthy(self) -> bool:
        """Whether the present attempt has lasted `healthy_after`."""
        return self.clock() - self._began >= self.healthy_after

    def fail(self) -> None:
        """Count one more failure in a row."""
        self.failures += 1

    def reset(self) -> None:
        """Forget the failures: the next wait is the shortest."""
        self.failures = 0

    @property
    def delay(self) -> float:
        """The wait after the failures so far, without jitter."""
        growth = min(max(self.failures - 1, 0), _MOST_GROWTH)
        return float(min(self.cap, self.base * self.factor**growth))

    def wait(self) -> float:
        """The wait before the next attempt, with jitter."""
        return self.spread(self.delay)

    def spread(self, seconds: float) -> float:
        """`seconds` times a random number within `jitter`."""
        return seconds * self.uniform(*self.jitter)
