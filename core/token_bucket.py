"""A token bucket: how often something may happen, with bursts."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(slots=True)
class TokenBucket:
    """`burst` tokens at once, `per_s` more each second; `clock` returns monotonic seconds."""

    burst: float
    per_s: float
    clock: Callable[[], float] = time.monotonic
    _left: float = field(init=False)
    _at: float = field(init=False)

    def __post_init__(self) -> None:
        self._left, self._at = self.burst, self.clock()

    @property
    def left(self) -> float:
        """The tokens that can be spent now."""
        now = self.clock()
        self._left = min(self.burst, self._left + (now - self._at) * self.per_s)
        self._at = now
        return self._left

    def spend(self, tokens: float = 1) -> bool:
        """Spend so many tokens; False, and none is spent, if fewer are left."""
        if tokens > self.left:
            return False
        self._left -= tokens
        return True

    def changed(self, burst: float, per_s: float) -> TokenBucket:
        """A bucket with other limits that holds no more than this one does now."""
        changed = TokenBucket(burst, per_s, self.clock)
        changed._left = min(burst, self.left)
        return changed
