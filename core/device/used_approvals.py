"""The record of used approvals in the device's store: each is good for one run, also after a restart."""

from __future__ import annotations

import contextlib
import hashlib
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial

from core.device.device_store import DeviceStore, doubted_since
from core.errors import BadInput, DeviceError, ErrorCode, Refused
from core.statements import MOST_STATEMENT_SECONDS

# A statement's longest validity: setting the clock back by no more than this revives no expired approval.
MOST_BACK = timedelta(seconds=MOST_STATEMENT_SECONDS)
KEPT = 200
_NEVER = datetime.fromtimestamp(0, UTC)

Clock = Callable[[], datetime]


def utc() -> datetime:
    """The time of day."""
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class VerifiedApproval:
    """A checked approval. `until` is when the last of its signatures expires."""

    call_id: str
    code: str
    approvers: tuple[str, ...]
    until: datetime


class UsedApprovals:
    """The used approvals of all devices with one state folder: a row for each, which one client can add once.

    A clock that is set back does not make a used approval valid again: the newest `KEPT` rows stay whatever
    the time is, and older rows until their approvals have expired. Nor does it make an approval valid that
    expired unused, as long as the clock is at most `MOST_BACK` behind the last use. A clock that is farther
    behind is assumed to have been wrong before and to be right now: it is believed at once.
    """

    def __init__(self, store: DeviceStore, device: str) -> None:
        self._store = store
        self._device = device
        self._uses: list[datetime] | None = None
        # Where this fails, no approval counts until it succeeds.
        with contextlib.suppress(Refused):
            self._load()

    def now(self, clock: Clock = utc) -> datetime:
        """The clock's time, or the last use if that is later by at most `MOST_BACK`.

        Raises:
            Refused: the record of used approvals cannot be read.
        """
        uses = self._load() if self._uses is None else self._uses
        now = clock()
        return max([now, *(used for used in uses if used - now <= MOST_BACK)])

    def use(self, verified: VerifiedApproval, clock: Clock = utc) -> None:
        """Record an approval as used; the record is on the disk before this returns.

        Raises:
            Refused: the approval was used before, it may have been used in a record that was damaged since,
                or its use cannot be recorded.
        """
        now = self.now(clock)
        try:
            self._uses = self._store.do(partial(self._use, verified=verified, now=now), durable=True)
        except (BadInput, DeviceError) as error:
            raise _unkept(error) from error

    def _use(
        self, connection: sqlite3.Connection, verified: VerifiedApproval, now: datetime
    ) -> list[datetime]:
        until = datetime.fromtimestamp(doubted_since(connection, "used_approvals"), UTC) + MOST_BACK
        if verified.until <= until:
            raise _refused(
                "This device's record of used approvals was damaged, so this approval may have been used. "
                f"Approvals count that expire after {until:%Y-%m-%d %H:%M:%S} UTC."
            )
        approval = hashlib.sha256(f"{self._device}\0{verified.call_id}".encode()).hexdigest()
        try:
            connection.execute(
                "INSERT INTO used_approvals VALUES (?, ?, ?)",
                (approval, now.isoformat(), verified.until.isoformat()),
            )
        except sqlite3.IntegrityError:
            raise _refused("This approval was used before; each one is good for one run.") from None
        return _forget(connection, now)

    def _load(self) -> list[datetime]:
        """Read the times of the recorded uses.

        Raises:
            Refused: they cannot be read.
        """
        try:
            self._uses = self._store.do(_uses)
        except (BadInput, DeviceError) as error:
            raise _unkept(error) from error
        return self._uses


def _uses(connection: sqlite3.Connection) -> list[datetime]:
    rows = connection.execute("SELECT used, until FROM used_approvals").fetchall()
    return [_times(row)[0] for row in rows]


def _forget(connection: sqlite3.Connection, now: datetime) -> list[datetime]:
    """Drop rows that are no longer needed; returns the times of the uses that are left."""
    rows = connection.execute("SELECT used, until, approval FROM used_approvals").fetchall()
    needed = []
    for number, (used, until, approval) in enumerate(
        sorted(((*_times((used, until)), approval) for used, until, approval in rows), reverse=True)
    ):
        if number < KEPT or until >= now:
            needed.append(used)
        else:
            connection.execute("DELETE FROM used_approvals WHERE approval = ?", (approval,))
    return needed


def _times(row: tuple[str, str]) -> tuple[datetime, datetime]:
    """When an approval was used and when it expires; of an unreadable row, that it may not expire."""
    try:
        used, until = (datetime.fromisoformat(text) for text in row)
        # A time that was cut off has no zone, and cannot be compared with a time that has.
        if used.tzinfo is not None and until.tzinfo is not None:
            return used, until
    except (ValueError, TypeError):
        pass
    return _NEVER, datetime.max.replace(tzinfo=UTC)


def _unkept(error: BadInput | DeviceError) -> Refused:
    return _refused(error.message)


def _refused(words: str) -> Refused:
    return Refused(words, ErrorCode.DENIED_BY_DEVICE)
