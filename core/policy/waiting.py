"""One request while it waits: how long it still may, who reads it, and how it is shown meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from core.policy.models import Approval
from core.quick import changed


@dataclass(frozen=True, slots=True)
class Answered:
    """How a request ended; `edited` are the arguments that an operator put in place of those asked for.

    `edited_by` is that operator, as their key has proved; empty where none has.
    """

    approval: Approval
    edited: dict[str, Any] | None = None
    edited_by: str = ""


@dataclass(slots=True)
class Waiting:
    """A request and its time. Times are the monotonic `clock`'s seconds: no change of date moves them."""

    approval: Approval
    clock: Callable[[], float]
    ends_at: float
    pause_left: float
    asked_at: float
    readers: set[str] = field(default_factory=set)
    first_read_at: float | None = None
    paused_at: float | None = None
    edited: dict[str, Any] | None = None
    edited_by: str = ""
    # What would be sent, secrets and all: only here, so that an edit can leave them as they are.
    sent: dict[str, Any] | None = None
    # An answer is being recorded.
    deciding: bool = False
    # Why it was taken back while an answer was being recorded.
    taken_back: str = ""
    timer: asyncio.TimerHandle | None = None
    # How it ended; None while it waits.
    ended: Answered | None = None
    # Set when it ended, and when a new grant may cover it.
    stirred: asyncio.Event = field(default_factory=asyncio.Event)

    def end(self, answered: Answered) -> None:
        """Let it end, once."""
        if self.ended is None:
            self.ended = answered
        self.stirred.set()

    def read(self, reader: str, reading: bool) -> None:
        """Somebody opens or leaves the card; while it is read its time stands still, for so long in all."""
        (self.readers.add if reading else self.readers.discard)(reader)
        now = self.clock()
        if reading and self.first_read_at is None:
            self.first_read_at = now
        if self.readers and self.paused_at is None and self.pause_left > 0:
            self.paused_at = now
        elif not self.readers and self.paused_at is not None:
            paused = self._stood_still(now)
            self.pause_left -= paused
            self.ends_at += paused
            self.paused_at = None

    def left(self) -> float:
        """Seconds until it expires, counting only while nobody reads it."""
        now = self.clock()
        return max(0.0, self.ends_at + self._stood_still(now) - now)

    def due_in(self) -> float:
        """Seconds until it expires even if nobody stops reading."""
        ends = self.ends_at + (self.pause_left if self.paused_at is not None else 0.0)
        return max(0.0, ends - self.clock())

    def took_s(self) -> float:
        """Seconds since somebody first saw it; since it was asked, where nobody said so."""
        seen = self.first_read_at if self.first_read_at is not None else self.asked_at
        return self.clock() - seen

    def shown(self) -> Approval:
        """The request as it stands now."""
        left = self.left()
        # A reader who stays for ever does not hold it for ever.
        paused = self.paused_at is not None and self._stood_still(self.clock()) < self.pause_left
        expires = (datetime.now(UTC) + timedelta(seconds=left)).isoformat()
        return changed(self.approval, remaining_s=left, expires_at=expires, paused=paused)

    def _stood_still(self, now: float) -> float:
        return min(now - self.paused_at, self.pause_left) if self.paused_at is not None else 0.0
