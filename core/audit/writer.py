"""The only thread that writes the journal; it commits queued entries in groups.

An awaited entry starts a commit at once, and entries queued meanwhile share the next commit. Noted entries
alone wait up to 20 ms for others, and up to 100 ms when very many arrive. After a failure, waiting callers
get the error, noted entries stay queued (they are in the spool), and the thread retries once a second, so
freeing disk space heals the journal without a restart. If the journal is damaged, or another program wrote to
it, the thread does not retry.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from core.audit.encode import Parts, encode_parts
from core.audit.entries import NewEntry
from core.audit.spool import Spool
from core.audit.store import Store
from core.errors import JournalCorrupt, JournalError, JournalUnavailable
from core.ids import now_utc
from core.log import Logger

log = Logger(__name__)

NOTE_DELAY = 0.02
# When this many entries arrive within `NOTE_DELAY`, the commit waits longer: each costs two fsyncs and a
# signature.
MANY_ENTRIES, DELAY_OF_MANY = 64, 0.1
RETRY_SECONDS = 1.0
GROUP_ENTRIES = 2000


@dataclass(slots=True, eq=False)
class Group:
    """Entries that become durable together. `spool` is the last one's spool number, 0 for awaited entries."""

    entries: list[NewEntry]
    parts: list[Parts]
    times: list[str]
    spool: int = 0
    first_seq: int = 0
    error: JournalError | None = None
    done: Callable[[Group], None] | None = None


@dataclass(slots=True)
class _Queue:
    groups: deque[Group] = field(default_factory=deque)
    awaited: int = 0
    noted: int = 0

    def put(self, group: Group) -> None:
        self.groups.append(group)
        self._count(group, 1)

    def take(self) -> list[Group]:
        """The oldest groups, up to one transaction's worth."""
        taken: list[Group] = []
        entries = 0
        while self.groups and entries < GROUP_ENTRIES:
            group = self.groups.popleft()
            self._count(group, -1)
            entries += len(group.parts)
            taken.append(group)
        return taken

    def put_back(self, groups: Sequence[Group]) -> None:
        for group in reversed(groups):
            self.groups.appendleft(group)
            self._count(group, 1)

    def _count(self, group: Group, change: int) -> None:
        if group.spool:
            self.noted += change
        else:
            self.awaited += change


class Writer:
    """Owns the store and the spool from `start` to `close`."""

    def __init__(self, store: Store, spool: Spool, report: Callable[[list[Group]], None]) -> None:
        """`report` is called on the writer's thread with the groups of each commit and with failed groups."""
        self._store = store
        self._spool = spool
        self._report = report
        self._queue = _Queue()
        # Taken directly where no wait is needed: locking through the condition is slower (Python code).
        self._lock = threading.RLock()
        # Held while files change. Lock order: `_changing` before `_lock`.
        self._changing = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._failure: JournalError | None = None
        self._tried_at = 0.0
        self._retry_now = False
        self._closing = False
        self._last_try = False
        self._closed = False
        self._last_time = store.last_time
        self._thread = threading.Thread(target=self._run, name="journal-writer", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    @property
    def failure(self) -> JournalError | None:
        """Why the journal cannot be written at present; None if it can."""
        return self._failure

    @property
    def closing(self) -> bool:
        """Whether `close` was called."""
        return self._closing

    @property
    def queued(self) -> int:
        """The number of groups that wait to be committed."""
        return len(self._queue.groups)

    def submit(self, entries: list[NewEntry], done: Callable[[Group], None]) -> None:
        """Queue entries; the receiver of `report` calls `done` with their group, with or without an error.

        Raises:
            BadInput: an entry has no canonical form; none was queued.
            JournalUnavailable: the journal cannot be written.
        """
        with self._lock:
            self._check_open()
            if self._failure is not None and not self._retry_is_due():
                raise JournalUnavailable(self._failure.message)
            now = self._stamp()
            parts = [encode_parts(entry, now) for entry in entries]
            self._queue.put(Group(entries, parts, [now] * len(entries), done=done))
            self._retry_now = self._failure is not None
            self._changed.notify()

    def note(self, entries: list[NewEntry]) -> None:
        """Write entries to the spool in one piece and queue them.

        Raises:
            BadInput: an entry has no canonical form; none was written.
            JournalUnavailable: the entries are neither in the spool nor queued.
        """
        with self._lock:
            self._check_open()
            if self._failure is not None:
                raise JournalUnavailable(self._failure.message)
            now = self._stamp()
            parts = [encode_parts(entry, now) for entry in entries]
            number = self._spool.write(*parts)
            self._queue.put(Group(entries, parts, [now] * len(entries), spool=number))
            # Waking the thread costs more than the note itself; with a non-empty queue it is already awake.
            if len(self._queue.groups) == 1:
                self._changed.notify()

    def close(self) -> JournalError | None:
        """Commit queued entries, seal the journal and end the thread; returns the failure, if any."""
        with self._changed:
            if self._closed:
                return None
            self._closing = True
            self._changed.notify()
        self._thread.join()
        return self._failure

    def _check_open(self) -> None:
        if self._closing:
            raise JournalUnavailable("The journal is closed; open the home again to write to it.")

    def _retry_is_due(self) -> bool:
        if isinstance(self._failure, JournalCorrupt):
            return False
        return time.monotonic() - self._tried_at >= RETRY_SECONDS

    def _stamp(self) -> str:
        """The present time, but never before the previous entry's time, even if the clock is set back."""
        self._last_time = max(self._last_time, now_utc())
        return self._last_time

    def _run(self) -> None:
        try:
            while (groups := self._next_groups()) is not None:
                self._commit(groups)
            self._finish()
        finally:
            self._closed = True
            self._store.close()
            self._spool.close()

    def _next_groups(self) -> list[Group] | None:
        """Wait for work. An empty list means: retry after a failure. None means: end the thread."""
        with self._changed:
            if self._failure is not None:
                wait = RETRY_SECONDS - (time.monotonic() - self._tried_at)
                final = isinstance(self._failure, JournalCorrupt)
                self._changed.wait_for(
                    lambda: self._closing or self._retry_now, timeout=None if final else max(wait, 0.0)
                )
                if final:
                    return None
                self._retry_now = False
                # While closing there is one last try; if it fails too, the noted entries remain in the spool.
                return None if self._closing and self._tried_while_closing() else self._queue.take()
            self._changed.wait_for(lambda: self._closing or self._queue.groups)
            if not self._is_due():
                self._changed.wait_for(self._is_due, timeout=NOTE_DELAY)
            if self._queue.noted >= MANY_ENTRIES and not self._is_due():
                self._changed.wait_for(self._is_due, timeout=DELAY_OF_MANY - NOTE_DELAY)
            return self._queue.take() or None

    def _is_due(self) -> bool:
        """Whether the queue has to be committed now, without waiting for more entries."""
        return bool(self._closing or self._queue.awaited or self._queue.noted >= GROUP_ENTRIES)

    def _tried_while_closing(self) -> bool:
        tried, self._last_try = self._last_try, True
        return tried

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Suspend commits, so that the database's files match each other. Notes are still accepted."""
        with self._changing:
            yield

    def spooled(self) -> bytes:
        """The spool's bytes, read under the lock, so that no record is incomplete."""
        with self._lock:
            return self._spool.path.read_bytes()

    def _commit(self, groups: list[Group]) -> None:
        with self._changing:
            committed = self._write(groups)
        if committed is not None:
            self._report(committed)

    def _write(self, groups: list[Group]) -> list[Group] | None:
        """Commit groups; returns the committed groups, or None when writing failed (already reported)."""
        try:
            if self._failure is not None:
                self._store.resume()
                # A commit that reported failure may have reached the disk after all; do not repeat its notes.
                done = self._store.head.spool_done
                groups = [group for group in groups if not group.spool or group.spool > done]
            parts = [part for group in groups for part in group.parts]
            first = self._store.commit(parts, max((group.spool for group in groups), default=0))
        except JournalError as error:
            self._fail(groups, error)
            return None
        except Exception as error:  # a dead thread would let callers wait for ever
            log.exception("the journal's writer met an unexpected error")
            self._fail(groups, JournalUnavailable(f"The journal's writer failed: {error!r}."))
            return None
        for group in groups:
            group.first_seq = first
            first += len(group.parts)
        with self._changed:
            self._failure = None
            if not self._queue.noted:
                self._spool.empty()
        return groups

    def _fail(self, groups: list[Group], error: JournalError) -> None:
        """Report the error to all waiting callers; keep the spooled groups queued for the next try."""
        with self._changed:
            if self._failure is None:
                log.error("the journal cannot be written", error=error.message)
            self._failure = error
            self._tried_at = time.monotonic()
            everything = [*groups, *self._queue.groups]
            self._queue = _Queue()
            self._queue.put_back([group for group in everything if group.spool])
        waiting = [group for group in everything if not group.spool]
        for group in waiting:
            group.error = JournalUnavailable(error.message)
        self._report(waiting)

    def _finish(self) -> None:
        if self._failure is not None:
            return
        try:
            with self._changing:
                self._store.seal()
        except JournalError as error:
            self._failure = error
            return
        self._spool.empty(always=True)
