"""How long a device may be silent, by a clock that somebody may set.

When a link was heard last is a time of day, and the system's clock can be set while it stands: forward, and
every device seems silent; back, and none ever is. The loop's clock cannot be set, and tells when it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta

from core.aip.device_link import DeviceLink
from core.aip.limits import LinkLimits
from core.fleet.introduce import is_stock

# A device that is well beats every `heartbeat_s`; a stock client every two minutes, whatever it is told.
STOCK_HEARTBEAT_S = 120.0
STALE_AFTER_BEATS = 2.5
# Clocks that are kept right by a time server drift and are pulled back by less than this from look to look.
_JUMP = timedelta(seconds=1)


def stale_since(limits: LinkLimits, now: datetime) -> Callable[[DeviceLink], datetime]:
    """For a look at many links at the moment `now`: who was not heard since then is stale."""
    stock = now - timedelta(seconds=STOCK_HEARTBEAT_S * STALE_AFTER_BEATS)
    ours = now - timedelta(seconds=limits.heartbeat_s * STALE_AFTER_BEATS)
    return lambda link: stock if is_stock(link) else ours


class SetClocks:
    """Notices that the system's clock was set, and takes the times that were read off it before along."""

    def __init__(self, now: datetime, clock: float) -> None:
        """`now` by the system's clock, `clock` by the loop's, in seconds."""
        self._now, self._clock = now, clock

    def look(self, links: Iterable[DeviceLink], now: datetime, clock: float) -> None:
        """Look at both clocks again, and correct when these links were heard last."""
        passed = timedelta(seconds=clock - self._clock)
        moved = now - self._now - passed
        self._now, self._clock = now, clock
        if abs(moved) < _JUMP:
            return
        for link in links:
            # Unless it was heard since: then it is of the clock as it stands now.
            if not now - passed - _JUMP <= link.last_heard <= now:
                link.last_heard = min(link.last_heard + moved, now)
