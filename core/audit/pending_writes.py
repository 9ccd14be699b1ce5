"""Entries about events that have already happened, kept until the journal can be written again."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from core.audit.encode import encode_parts
from core.audit.entries import Entry, NewEntry
from core.errors import BadInput, JournalUnavailable

# Seconds.
TRY_AGAIN = 1.0


class Appends(Protocol):
    """The part of the journal that `PendingWrites` needs."""

    async def append_many(self, entries: list[NewEntry]) -> list[Entry]: ...
    def note_all(self, entries: list[NewEntry]) -> None: ...


class PendingWrites:
    """Holds entries in order, in memory only, and writes them as soon as the journal takes them."""

    def __init__(self, journal: Appends) -> None:
        self._journal = journal
        self._entries: list[NewEntry] = []
        self._timer: asyncio.TimerHandle | None = None
        self._flushing = asyncio.Lock()

    def note(self, entries: list[NewEntry]) -> None:
        """Write entries, or keep them if the journal cannot be written now.

        Raises:
            BadInput: an entry has no canonical form; none was written or kept.
        """
        if not self._entries:
            try:
                self._journal.note_all(entries)
            except JournalUnavailable:
                pass
            else:
                return
        self.keep(entries)

    def keep(self, entries: Sequence[NewEntry]) -> None:
        """Keep entries that the journal did not take, after those that are kept already."""
        self._entries.extend(entries)
        self._arm()

    @property
    def waiting(self) -> bool:
        """Whether entries are kept in memory."""
        return bool(self._entries)

    async def flush(self) -> bool:
        """Try to write the entries durably, now; returns whether none is left."""
        async with self._flushing:
            entries = list(self._entries)
            if not entries:
                return True
            try:
                await self._append(entries)
            except JournalUnavailable:
                return False
            del self._entries[: len(entries)]
            return not self._entries

    def close(self) -> None:
        """Stop trying."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    async def _append(self, entries: list[NewEntry]) -> None:
        try:
            await self._journal.append_many(entries)
        except BadInput:
            # An entry that no journal can hold must not block the others: it is replaced by a short entry.
            await self._journal.append_many([_writable(entry) for entry in entries])

    def _arm(self) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(TRY_AGAIN, self._try_again)

    def _try_again(self) -> None:
        self._timer = None
        # While `flush` waits for the disk, the entries are in the journal's hands.
        if self._entries and not self._flushing.locked():
            entries = [_writable(entry) for entry in self._entries]
            try:
                self._journal.note_all(entries)
            except JournalUnavailable:
                pass
            else:
                self._entries.clear()
        if self._entries:
            self._arm()


def _writable(entry: NewEntry) -> NewEntry:
    """The entry, or, if it cannot be encoded, the same entry with the reason as its only content."""
    try:
        encode_parts(entry, "")
    except BadInput as error:
        return replace(entry, body={"not_kept": error.message}, blobs=[])
    return entry
