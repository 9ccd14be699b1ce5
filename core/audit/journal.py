"""The journal of one home: an append-only, tamper-evident log, the only record of all actions.

An entry has one of three durabilities. `append` returns when it is on the disk: an intent, an answer of an
operator. `note` returns when the operating system has it, so that killing this process does not lose it: what
is known before a command is sent. `note_late` never refuses, and keeps it in memory while the journal cannot
be written: what has happened already. `noted` and `noted_late` are the same in one write for all entries of a
turn of the event loop (`core.audit.turn`). All keep the order of the calls. Reading never waits for writing.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sqlite3
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TypeVar

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from core.audit.blob_store import Blobs
from core.audit.checkpoint import Checkpoint
from core.audit.connection_pool import Readers
from core.audit.encode import Parts, decode
from core.audit.entries import Entry, NewEntry
from core.audit.head_file import HEAD_FILE, read_head_file
from core.audit.models import (
    Bucket,
    ExportCursor,
    ExportPage,
    Facet,
    InclusionProof,
    JournalState,
    NumberPage,
    Page,
    VerifyReport,
)
from core.audit.pending_writes import PendingWrites
from core.audit.prove import prove
from core.audit.query import Query, parse_query
from core.audit.run_search import FoundRuns, search_runs
from core.audit.search import entries_of_run, export_page, facets_of, histogram_of, search, search_numbers
from core.audit.spool import SPOOL, Spool, SpoolKey
from core.audit.spool_recovery import Recovery, check_recoverable, log_path, recover
from core.audit.store import DATABASE, Store, journal_error
from core.audit.turn import Turn
from core.audit.verify import verify_home
from core.audit.writer import Group, Writer
from core.canonical_json import read_back
from core.errors import BadInput, ErrorCode, JournalCorrupt, JournalUnavailable
from core.json_walk import mapped

BLOBS = "blobs"
MAX_PAGE = 5000
# Entries that are read at once where all are wanted: a few may be very large.
PAGE = 500

Answer = TypeVar("Answer")


class Journal:
    """An open journal. Make one with `Journal.open`; use it on the event loop it was opened on."""

    def __init__(
        self, folder: Path, key: Ed25519PrivateKey, store: Store, spool: Spool, recovery: Recovery
    ) -> None:
        """Called by `open`, which has done the blocking work."""
        self.folder = folder
        self._public_key = key.public_key()
        self._store = store
        self._spool_key = spool.key
        self._recovery = recovery
        self._loop = asyncio.get_running_loop()
        self._watchers: list[Callable[[], None]] = []
        self._noted = self._delivered = 0
        self._stops: set[threading.Event] = set()
        self._blobs = Blobs(folder / BLOBS)
        self._readers = Readers(folder / DATABASE)
        self._pending = PendingWrites(self)
        self._writer = Writer(store, spool, self._committed)
        self._turn = Turn(self._write_notes, self._pending.keep)
        self._writer.start()

    @classmethod
    async def open(cls, folder: Path, key: Ed25519PrivateKey, name: str) -> Journal:
        """Open the journal in `folder`, or create it with the name `name`, and recover after a crash.

        Raises:
            JournalCorrupt: the journal is damaged, truncated, or signed with another key.
            JournalUnavailable: it cannot be written, or another program has it open.
        """
        opened: list[tuple[Store, Spool, Recovery]] = []
        try:
            await in_thread(lambda: opened.append(_open(folder, key, name)))
        except asyncio.CancelledError:
            for store, spool, _ in opened:
                store.close()
                spool.close()
            raise
        return cls(folder, key, *opened[0])

    @property
    def public_key(self) -> Ed25519PublicKey:
        """The public key that verifies this journal's checkpoints."""
        return self._public_key

    @property
    def state(self) -> JournalState:
        """Whether the journal can be written at present, and how many entries it has."""
        failure = self._writer.failure
        return JournalState(
            writable=failure is None and not self._writer.closing,
            error=failure.message if failure is not None else None,
            entries=self._store.size,
            queued=self._writer.queued,
            recovered=self._recovery.records,
        )

    @property
    def notes(self) -> list[str]:
        """Sentences about what the journal's files had when it was opened, and what was not taken."""
        return list(self._recovery.notes)

    async def append(self, entry: NewEntry) -> Entry:
        """Write one entry; returns when it is durable.

        Raises:
            BadInput: the entry has no canonical form.
            JournalUnavailable: the entry may not have been written; actions that depend on it must not start.
        """
        return (await self.append_many([entry]))[0]

    async def append_many(self, entries: list[NewEntry]) -> list[Entry]:
        """Write all entries or none; returns when they are durable.

        Raises:
            BadInput: an entry has no canonical form.
            JournalUnavailable: the entries may not have been written.
        """
        return await self._submit(entries) if entries else []

    async def _submit(self, entries: list[NewEntry]) -> list[Entry]:
        answer: asyncio.Future[Group] = self._loop.create_future()

        def done(group: Group) -> None:
            if answer.done():
                return
            if group.error is not None:
                answer.set_exception(group.error)
            else:
                answer.set_result(group)

        self._turn.write()
        self._writer.submit(list(entries), done)
        return written(await answer)

    def note(self, entry: NewEntry) -> None:
        """Write one entry without waiting for the commit; killing this process afterwards does not lose it.

        Raises:
            BadInput: the entry has no canonical form.
            JournalUnavailable: the entry was not written.
        """
        self.note_all([entry])

    def note_all(self, entries: list[NewEntry]) -> None:
        """Write all entries or none, without waiting for the commit; killing this process does not lose them.

        Raises:
            BadInput: an entry has no canonical form.
            JournalUnavailable: no entry was written.
        """
        self._turn.write()
        self._write_notes(self._writer.encode(entries))

    async def noted(self, entries: list[NewEntry]) -> None:
        """Write all entries or none, with all others of this turn of the loop; returns when that is done.

        Killing this process then does not lose them.

        Raises:
            BadInput: an entry has no canonical form; none was written.
            JournalUnavailable: no entry of this turn was written.
        """
        await self._turn.written(self._writer.encode(entries))

    async def noted_late(self, entries: list[NewEntry]) -> None:
        """Write entries like `note_late`, with all others of this turn; returns when that is done.

        Cancelling the caller does not lose them.

        Raises:
            BadInput: an entry has no canonical form; none was written.
        """
        if self._pending.waiting:
            self._pending.note(entries)
            return
        try:
            parts = self._writer.encode(entries)
        except JournalUnavailable:
            self._pending.keep(entries)
        else:
            await self._turn.written(parts, entries)

    def note_late(self, entries: list[NewEntry]) -> None:
        """Write entries about events that have happened already, as soon as the journal can be written.

        Raises:
            BadInput: an entry has no canonical form; none was written.
        """
        self._pending.note(entries)

    def _write_notes(self, parts: list[Parts]) -> None:
        self._writer.note(parts)
        self._noted += 1

    @property
    def has_late(self) -> bool:
        """Whether entries of `note_late` are in memory only, because the journal cannot be written."""
        return self._pending.waiting

    async def flush_late(self) -> bool:
        """Try to write the entries that `note_late` keeps durably, now; returns whether none is left."""
        return await self._pending.flush()

    async def settle(self) -> None:
        """Wait until all entries noted so far can be read; costs one commit when some are still queued.

        Returns at once when the journal cannot be written: no further entries become readable then.
        """
        self._turn.write()
        if self._noted > self._delivered:
            with contextlib.suppress(JournalUnavailable):
                await self._submit([])

    def watch(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call `callback` on the event loop after each commit, and when writing fails or works again.

        Returns a function that ends this. The callback receives no entries, because there may be thousands a
        second; the caller can query them.
        """
        self._watchers.append(callback)

        def unwatch() -> None:
            if callback in self._watchers:
                self._watchers.remove(callback)

        return unwatch

    async def put_blob(self, data: bytes) -> str:
        """Store bytes durably; returns their SHA-256 in hexadecimal.

        Raises:
            JournalUnavailable: they could not be written.
        """
        return await self._readers.run(partial(self._blobs.put, data))

    async def get_blob(self, sha: str) -> bytes:
        """Read a blob and check its hash.

        Raises:
            BadInput: there is no blob of that name (code `not_found`).
            JournalCorrupt: the blob was changed.
        """
        return await self._readers.run(partial(self._blobs.get, sha))

    async def query(
        self, query: str | Query, before: int | None = None, after: int | None = None, limit: int = 200
    ) -> Page:
        """One page of the matching entries, newest first; with only `after`, oldest first from there.

        Raises:
            BadInput: the query or `limit` is invalid; for a query, names the column and the allowed terms.
        """
        if not 1 <= limit <= MAX_PAGE:
            raise BadInput(f"A page has 1 to {MAX_PAGE} entries, not {limit}.")
        parsed = parse_query(query) if isinstance(query, str) else query
        return await self._readers.read(lambda db: search(db, parsed, before, after, limit))

    async def entries(self, query: str | Query, after: int = 0) -> AsyncIterator[Entry]:
        """Every matching entry after the number `after`, oldest first, read a page at a time.

        Raises:
            BadInput: the query is invalid.
        """
        following: int | None = after
        while following is not None:
            page = await self.query(query, after=following, limit=PAGE)
            for entry in page.entries:
                yield entry
            following = page.next_after

    async def newest(self, query: str | Query, most: int | None = None) -> AsyncIterator[Entry]:
        """The matching entries, newest first, read a page at a time; at most `most` of them.

        Raises:
            BadInput: the query is invalid.
        """
        before: int | None = None
        left = sys.maxsize if most is None else most
        while left > 0:
            page = await self.query(query, before=before, limit=min(PAGE, left))
            for entry in page.entries:
                yield entry
            left -= len(page.entries)
            before = page.next_before
            if before is None:
                return

    async def entry(self, seq: int) -> Entry:
        """The entry with the number `seq`.

        Raises:
            BadInput: there is no such entry (code `not_found`).
        """
        return await self._readers.read(lambda db: _entry(db, seq))

    async def entries_of_run(self, run: str, devices: Sequence[str] | None = None) -> list[Entry]:
        """All entries of a run, oldest first; with `devices`, those of these devices and of no device."""
        return await self.fold_run(run, list, devices)

    async def fold_run(
        self, run: str, fold: Callable[[Iterator[Entry]], Answer], devices: Sequence[str] | None = None
    ) -> Answer:
        """Pass the entries of a run (`entries_of_run`) to `fold` one by one, and return its value.

        `fold` is called in a reader's thread: a run may have a hundred thousand entries.
        """

        def read(db: sqlite3.Connection) -> Answer:
            with contextlib.closing(entries_of_run(db, run, devices)) as entries:
                return fold(entries)

        return await self._readers.read(read)

    async def numbers(self, query: str, before: int | None = None, limit: int = 10_000) -> NumberPage:
        """The numbers of the matching entries, highest first; see `search.search_numbers`.

        Raises:
            BadInput: the query is invalid; names the column and the allowed terms.
        """
        parsed = parse_query(query)
        return await self._readers.read(lambda db: search_numbers(db, parsed, before, limit))

    async def export(self, query: str, cursor: ExportCursor | None = None) -> ExportPage:
        """The next entries of an export; see `search.export_page`.

        Raises:
            BadInput: the query is invalid; names the column and the allowed terms.
        """
        return await self._readers.read(lambda db: export_page(db, query, cursor))

    async def search_runs(
        self, words: str, live: Mapping[str, str], before: int | None = None, limit: int = 50
    ) -> FoundRuns:
        """The newest runs that match all of these words; see `run_search.search_runs`.

        Raises:
            BadInput: the words are too many or too long, or not valid Unicode.
        """
        return await self._readers.read(lambda db: search_runs(db, words, live, before, limit))

    async def facets(self, field: str, prefix: str = "", limit: int = 50) -> list[Facet]:
        """The values of a query field that begin with `prefix`, in order.

        Raises:
            BadInput: there is no such field.
        """
        return await self._readers.read(lambda db: facets_of(db, field, prefix, limit))

    async def histogram(self, query: str | Query, buckets: int = 60) -> list[Bucket]:
        """The numbers of matching entries in `buckets` equal spans of the time that the query covers.

        Raises:
            BadInput: the query or `buckets` is invalid.
        """
        parsed = parse_query(query) if isinstance(query, str) else query
        return await self._readers.read(lambda db: histogram_of(db, parsed, buckets))

    async def prove(self, seq: int) -> InclusionProof:
        """Prove that an entry is in the tree that the newest checkpoint signs; `verify_inclusion` checks it.

        Raises:
            BadInput: there is no such entry (code `not_found`).
        """
        return await self._readers.read(lambda db: prove(db, seq))

    async def verify(
        self,
        progress: Callable[[int, int], None] | None = None,
        stop: threading.Event | None = None,
        indexes: bool = True,
        against: Checkpoint | None = None,
    ) -> VerifyReport:
        """Recompute all hashes and signatures of the journal and report the result.

        `progress` is called in a thread with the number of entries done and in total. `indexes` also checks
        that queries find every entry, which takes most of the time. `against` is a checkpoint of this journal
        that was stored elsewhere.
        """
        stop = stop or threading.Event()
        self._stops.add(stop)
        check = partial(
            verify_home,
            self.folder,
            self._public_key,
            self._writer,
            self._spool_key,
            progress=progress,
            stop=stop,
            indexes=indexes,
            against=against,
        )
        try:
            return await self._readers.run(check)
        finally:
            self._stops.discard(stop)

    async def close(self) -> None:
        """Commit queued entries, sign a last checkpoint, end all threads and close all files.

        Raises:
            JournalError: entries could not be written; noted entries are still in the spool.
        """
        self._turn.write()
        self._pending.close()
        for stop in self._stops:
            stop.set()
        # Readers first: SQLite removes its log only when the last connection to close is the writer's.
        await in_thread(self._readers.close)
        failure = await in_thread(self._writer.close)
        # Lets the event loop deliver the writer's last report before `close` returns.
        await asyncio.sleep(0)
        if failure is not None:
            raise failure

    def _committed(self, groups: list[Group]) -> None:
        """Called on the writer's thread: pass a commit to the event loop, in one call."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._deliver, groups)

    def _deliver(self, groups: list[Group]) -> None:
        for group in groups:
            if group.done is not None:
                group.done(group)
        self._delivered += sum(1 for group in groups if group.spool and group.error is None)
        for watcher in list(self._watchers):
            watcher()


def written(group: Group) -> list[Entry]:
    """The entries of a committed group as they are in the journal.

    Without validation, which could fail only here, where the entries are durable already.
    """
    return [
        Entry.model_construct(**{**new.values(), "body": mapped(new.body, read_back)}, seq=seq, time=time)
        for seq, (new, time) in enumerate(zip(group.entries, group.times, strict=True), group.first_seq)
    ]


async def in_thread(work: Callable[[], Answer]) -> Answer:
    """Run blocking work in a temporary thread."""
    with ThreadPoolExecutor(1, thread_name_prefix="journal-control") as threads:
        return await asyncio.get_running_loop().run_in_executor(threads, work)


def _entry(connection: sqlite3.Connection, seq: int) -> Entry:
    row = connection.execute("SELECT entry FROM entries WHERE seq = ?", (seq,)).fetchone()
    if row is None:
        raise BadInput(f"There is no journal entry {seq}.", ErrorCode.NOT_FOUND)
    return decode(row[0])


def _open(folder: Path, key: Ed25519PrivateKey, name: str) -> tuple[Store, Spool, Recovery]:
    database, spool_path = folder / DATABASE, folder / SPOOL
    missing = not spool_path.exists()
    with contextlib.ExitStack() as opened:
        if database.exists():
            _check_writable(database)
            # The spool's lock comes first, so that no other program changes the files while they are checked.
            spool = Spool(spool_path, SpoolKey(key))
            opened.callback(_close_spool, spool, missing)
            check_recoverable(database, key.public_key())
            store = Store(database, key, name)
            opened.callback(store.close)
        else:
            _check_new(database, spool_path, key)
            # The database comes first: a spool alone, left by a crash, would count as a removed journal.
            store = Store(database, key, name)
            opened.callback(store.close)
            spool = Spool(spool_path, SpoolKey(key))
            opened.callback(_close_spool, spool, False)
        recovery = recover(store, spool, missing and store.size > 0)
        opened.pop_all()
    return store, spool, recovery


def _close_spool(spool: Spool, made: bool) -> None:
    """Close the spool of a journal that cannot be opened, and remove the spool if this attempt made it."""
    spool.close()
    if made:
        spool.path.unlink(missing_ok=True)


def _check_writable(database: Path) -> None:
    """Check the database first, so that the error names it rather than another file of the journal."""
    try:
        os.close(os.open(database, os.O_RDWR))
    except OSError as error:
        raise journal_error(error, database) from error


def _check_new(database: Path, spool: Path, key: Ed25519PrivateKey) -> None:
    """Refuse to create a journal where files of an earlier journal remain."""
    try:
        known = read_head_file(database.with_name(HEAD_FILE), key.public_key())
    except OSError as error:
        raise journal_error(error, database) from error
    leftovers = [path.name for path in (spool, log_path(database)) if path.exists()]
    # A crash while a journal is created leaves the head file of an empty journal, which is harmless.
    if known is not None and known.checkpoint.size:
        leftovers.insert(0, f"{HEAD_FILE} (which says that it had {known.checkpoint.size:,} entries)")
    if leftovers:
        raise JournalCorrupt(
            f"{database} is missing, but {leftovers[0]} is there: the journal was removed or moved."
            " Put it back; or move the rest away too, to begin a new journal."
        )
