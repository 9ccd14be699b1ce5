"""A journal that is only read, from a file system that cannot be written, such as evidence on a medium.

SQLite reads a write-ahead log only with an index file beside it. Where a crash left a log, database and log
are therefore copied to a temporary folder. A journal that would not be opened for writing is not read either.
Entries that are still in the spool are counted, not read: only a service takes them into the journal.
"""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
import threading
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from core.audit.blob_store import Blobs
from core.audit.checkpoint import Checkpoint
from core.audit.connection_pool import Readers
from core.audit.entries import Entry, NewEntry
from core.audit.head_file import HEAD_FILE
from core.audit.journal import BLOBS, Journal, in_thread
from core.audit.models import JournalState, VerifyReport
from core.audit.spool import SPOOL, read_records
from core.audit.spool_recovery import check_recoverable, read_if_there
from core.audit.store import DATABASE, connect, journal_error, read_head
from core.audit.verify import readable, verify_folder
from core.errors import BadInput, ErrorCode, JournalUnavailable


class ReadOnlyJournal(Journal):
    """The reading half of a `Journal`; made by `open_read_only`."""

    def __init__(
        self,
        folder: Path,
        key: Ed25519PublicKey,
        database: Path,
        entries: int,
        spooled: int,
        *,
        immutable: bool,
    ) -> None:
        """`spooled` is the number of entries in the spool that the journal lacks."""
        self.folder = folder
        self.spooled = spooled
        self._public_key = key
        self._entries = entries
        self._blobs = Blobs(folder / BLOBS)
        self._readers = Readers(database, immutable=immutable)

    @property
    def state(self) -> JournalState:
        return JournalState(
            writable=False, error=self._error().message, entries=self._entries, queued=0, recovered=0
        )

    async def append_many(self, entries: list[NewEntry]) -> list[Entry]:
        raise self._error()

    def note_all(self, entries: list[NewEntry]) -> None:
        raise self._error()

    def note_late(self, entries: list[NewEntry]) -> None:
        raise self._error()

    async def put_blob(self, data: bytes) -> str:
        raise self._error()

    async def settle(self) -> None:
        return

    async def verify(
        self,
        progress: Callable[[int, int], None] | None = None,
        stop: threading.Event | None = None,
        indexes: bool = True,
        against: Checkpoint | None = None,
    ) -> VerifyReport:
        check = partial(verify_folder, self.folder, self._public_key, progress, stop, indexes, against)
        return await self._readers.run(check)

    async def close(self) -> None:
        await in_thread(self._readers.close)

    def _error(self) -> JournalUnavailable:
        return JournalUnavailable(f"The journal in {self.folder} is only read: nothing can be written there.")


@contextlib.asynccontextmanager
async def open_read_only(folder: Path, key: Ed25519PublicKey) -> AsyncIterator[ReadOnlyJournal]:
    """The journal in a folder that no program writes to. Changes nothing there.

    Raises:
        BadInput: there is no journal.
        JournalError: the journal is damaged, or lacks its newest entries.
    """
    with contextlib.ExitStack() as stack:
        journal = await in_thread(lambda: _open(stack, folder, key))
        try:
            yield journal
        finally:
            await journal.close()


def _open(stack: contextlib.ExitStack, folder: Path, key: Ed25519PublicKey) -> ReadOnlyJournal:
    database = folder / DATABASE
    if not database.is_file():
        raise BadInput(f"There is no journal in {folder}.", ErrorCode.NOT_FOUND)
    try:
        path, immutable = stack.enter_context(readable(database))
        if not immutable and (folder / HEAD_FILE).exists():
            shutil.copyfile(folder / HEAD_FILE, path.with_name(HEAD_FILE))
        check_recoverable(path, key)
        with contextlib.closing(connect(path, "ro", immutable)) as connection:
            head = read_head(connection, key, database)
        spool = read_records(read_if_there(folder / SPOOL), None)
    except (sqlite3.Error, OSError) as error:
        raise journal_error(error, database) from error
    spooled = len(spool.fresh(head.spool_done))
    return ReadOnlyJournal(folder, key, path, head.checkpoint.size, spooled, immutable=immutable)
