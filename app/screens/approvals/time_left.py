"""How long a request still waits. The service decides; this is what the screen may show meanwhile."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from core.approvals.models import Approval

MOST_PAUSE_S = 300.0
"""Reading pauses a request's expiry for so long at most, all readings together."""


class TimeLeft:
    """Seconds left of each request, also while its clock is paused and after the longest pause."""

    def __init__(self) -> None:
        self._paused_since: dict[str, float] = {}
        self._paused_before: dict[str, float] = {}

    def note(self, approvals: Iterable[Approval]) -> None:
        """Learn from the newest state of every request that waits; the others are forgotten."""
        seen = set()
        for one in approvals:
            seen.add(one.id)
            published = _published(one)
            if one.paused:
                self._paused_since.setdefault(one.id, published)
            elif (since := self._paused_since.pop(one.id, None)) is not None:
                before = self._paused_before.get(one.id, 0.0)
                self._paused_before[one.id] = before + max(0.0, published - since)
        for known in (self._paused_since, self._paused_before):
            for gone in known.keys() - seen:
                del known[gone]

    def seconds(self, approval: Approval, now: float) -> float:
        """Seconds left at `now` (a UNIX time); 0 when it has run out."""
        if not approval.paused:
            return max(0.0, _moment(approval.expires_at) - now)
        since = self._paused_since.get(approval.id, _published(approval))
        allowed = MOST_PAUSE_S - self._paused_before.get(approval.id, 0.0)
        ran_on = max(0.0, (now - since) - max(0.0, allowed))
        return max(0.0, approval.remaining_s - ran_on)


def _moment(stamp: str) -> float:
    return datetime.fromisoformat(stamp).timestamp()


def _published(approval: Approval) -> float:
    """When the service said this: the two times in it lie `remaining_s` apart at that moment."""
    return _moment(approval.expires_at) - approval.remaining_s


def clock_words(seconds: float) -> str:
    """`4:31`, `1:02:09`."""
    whole = int(seconds)
    hours, rest = divmod(whole, 3600)
    minutes, left = divmod(rest, 60)
    return f"{hours}:{minutes:02}:{left:02}" if hours else f"{minutes}:{left:02}"


def local_time(stamp: str | None) -> str:
    """A UTC stamp as the local clock with seconds; empty for none."""
    return datetime.fromisoformat(stamp).astimezone().strftime("%H:%M:%S") if stamp else ""
