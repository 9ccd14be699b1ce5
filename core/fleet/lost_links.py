"""Notices devices whose links are lost again and again, and says what their losses have in common.

Address translation and firewalls forget a connection over which nothing passed for a while. The next packet
of one end is then dropped or answered by a reset, for ever at the same distance: only a heartbeat that comes
more often helps.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from core.text import plural

FLAPS_FROM = 4
"""So many losses within `WITHIN_S` are told."""
WITHIN_S = 120.0
# A link that was idle for less than this was not forgotten: no known device forgets that soon.
_SHORTEST_IDLE_S = 4.0


@dataclass(slots=True)
class LostLinks:
    """The losses of each device in the last `WITHIN_S` seconds, each with how long the link was idle then."""

    _losses: dict[str, deque[tuple[float, float]]] = field(default_factory=dict)

    def lost(self, device: str, idle_s: float, clock: float) -> None:
        """Note that a link was lost by itself, `idle_s` seconds after its last byte; `clock`: the loop's."""
        kept = self._losses.setdefault(device, deque(maxlen=100))
        kept.append((clock, idle_s))
        self._drop_old(kept, clock)

    def forget(self, device: str) -> None:
        """Drop what is known of a device."""
        self._losses.pop(device, None)

    def words(self, device: str, clock: float) -> str:
        """What the losses of a device have in common; empty if they are few."""
        kept = self._losses.get(device)
        if kept is None:
            return ""
        self._drop_old(kept, clock)
        if len(kept) < FLAPS_FROM:
            return ""
        words = f"lost {plural(len(kept), 'time')} in {WITHIN_S / 60:g} minutes"
        idle = [seconds for _, seconds in kept]
        if min(idle) < _SHORTEST_IDLE_S:
            return words
        return (
            f"{words}, each time after {min(idle):.0f} s or more without a byte: something between forgets "
            "idle connections. Set heartbeat_s to less (settings.toml here, or [link] in its device.toml)"
        )

    @staticmethod
    def _drop_old(kept: deque[tuple[float, float]], clock: float) -> None:
        while kept and clock - kept[0][0] > WITHIN_S:
            kept.popleft()
