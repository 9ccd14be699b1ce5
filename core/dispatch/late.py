"""A recorder for events that happened while the journal could not be written."""

from __future__ import annotations

import asyncio
from typing import Protocol

from core.audit.encode import encode_parts
from core.audit.entries import Entry, NewEntry
from core.errors import BadInput, JournalUnavailable
from core.tasks import TaskGroupOwner

TRY_AGAIN = 1.0


class Appends(Protocol):
    """The part of the journal that `PendingWrites` needs."""

    async def append_many(self, entries: list[NewEntry]) -> list[Entry]: ...


class PendingWrites:
    """Holds entries in order, in memory only, until the journal takes them."""

    def __init__(self, journal: Appends, tasks: TaskGroupOwner) -> None:
        self._journal = journal
        self._tasks = tasks
        self._waiting: list[NewEntry] = []
        self._trying = False
        self._writing = asyncio.Lock()

    def add(self, entries: list[NewEntry]) -> None:
        """Queue entries, and retry until the journal has recorded them."""
        self._waiting.extend(entries)
        if not self._trying:
            self._trying = True
            self._tasks.spawn("record what happened when the journal is back", self._keep_trying())

    async def flush(self) -> bool:
        """Try once, now; returns whether no entry is pending any more."""
        async with self._writing:
            waiting = list(self._waiting)
            if not waiting:
                return True
            try:
                await self._append(waiting)
            except JournalUnavailable:
                return False
            del self._waiting[: len(waiting)]
            return not self._waiting

    async def _append(self, entries: list[NewEntry]) -> None:
        try:
            await self._journal.append_many(entries)
        except BadInput:
            # An entry that no journal can hold must not block the others: it is replaced by a short entry.
            await self._journal.append_many([_bearable(entry) for entry in entries])

    async def _keep_trying(self) -> None:
        try:
            while self._waiting:
                await asyncio.sleep(TRY_AGAIN)
                await self.flush()
        finally:
            self._trying = False


def _bearable(entry: NewEntry) -> NewEntry:
    """The entry, or, if it cannot be encoded, the same entry with the reason as its only content."""
    try:
        encode_parts(entry, "")
    except BadInput as error:
        return entry.model_copy(update={"body": {"not_kept": error.message}, "blobs": []})
    return entry
