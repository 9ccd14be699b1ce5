"""A copy of a journal: taken while the journal is in use, and continued later as a journal of its own.

A copy has the database as one transaction sees it, so that its signed head covers exactly the entries in it,
and a head file of that head. Its spool is empty: what is noted and not committed is not in the copy. The
blobs are not part of it; they never change, and are written before the entries that name them.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from core.audit.checkpoint import Checkpoint
from core.audit.encode import encode_parts
from core.audit.entries import NewEntry
from core.audit.head_file import HEAD_FILE, make_head_file
from core.audit.spool import SPOOL, numbers_for_a_copy
from core.audit.store import DATABASE, SCHEMA, Store, check_last, connect, journal_error, read_head
from core.errors import JournalUnavailable
from core.files import create_new
from core.ids import now_utc

FILES = (DATABASE, HEAD_FILE, SPOOL)
# Some 4 MB between two reports of progress.
_PAGES_AT_ONCE = 1024
# Where the header of a database counts the changes of its schema.
_SCHEMA_CHANGES_AT = 40


@dataclass(frozen=True, slots=True)
class CopiedHead:
    """The head of a copy: its signed note, and what the note says."""

    note: str
    checkpoint: Checkpoint


def copy_journal(
    database: Path, key: Ed25519PublicKey, folder: Path, step: Callable[[int], None]
) -> CopiedHead:
    """Copy the journal at `database` into `folder`, and do not delay the thread that writes to it. Blocks.

    `step` is called with numbers of copied bytes; an error that it raises ends the copying.

    Raises:
        JournalCorrupt: the journal's head is not sound.
        JournalUnavailable: the journal cannot be read.
        OSError: the copy cannot be written.
    """
    copy = folder / DATABASE
    create_new(copy, b"")
    try:
        with contextlib.closing(connect(database, "ro")) as source:
            # SQLite fixes a transaction's snapshot at its first read.
            source.execute("BEGIN")
            head = read_head(source, key, database)
            check_last(source, head, database)
            page_size = int(source.execute("PRAGMA page_size").fetchone()[0])
            _copy_pages(source, copy, page_size, step)
    except sqlite3.Error as error:
        raise journal_error(error, database) from error
    with copy.open("r+b") as file:
        # SQLite counts the copying as one change of the schema of a new database.
        file.seek(_SCHEMA_CHANGES_AT)
        file.write(len(SCHEMA).to_bytes(4, "big"))
        file.flush()
        os.fsync(file.fileno())
    make_head_file(folder / HEAD_FILE, head.note)
    create_new(folder / SPOOL, b"")
    return CopiedHead(head.note, head.checkpoint)


def _copy_pages(source: sqlite3.Connection, copy: Path, page_size: int, step: Callable[[int], None]) -> None:
    left: int | None = None

    def told(status: int, remaining: int, total: int) -> None:
        nonlocal left
        before, left = total if left is None else left, remaining
        step((before - remaining) * page_size)

    target = connect(copy, "rw")
    try:
        target.execute("PRAGMA synchronous=OFF")
        # The transaction of `source` goes on between the steps, so that no commit makes SQLite begin again.
        source.backup(target, pages=_PAGES_AT_ONCE, progress=told)
    except sqlite3.Error as error:
        if error.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR):
            raise OSError(None, "the disk is full or reports an error", str(copy)) from error
        raise
    finally:
        target.close()


def continue_copy(folder: Path, key: Ed25519PrivateKey, name: str, entry: NewEntry) -> int:
    """Write the first entry of a verified copy's own; returns the entry's number. Blocks.

    The copy uses other numbers of spool records from then on, so that no record of the original's spool is
    taken for one of its own: both have the same key.

    Raises:
        JournalError: the copy cannot be written.
    """
    store = Store(folder / DATABASE, key, name)
    try:
        parts = [encode_parts(entry, max(store.last_time, now_utc()))]
        seq = store.commit(parts, numbers_for_a_copy(store.head.spool_done))
        store.seal()
    except OSError as error:
        raise JournalUnavailable(f"The journal in {folder} cannot be written: {error.strerror}.") from error
    finally:
        store.close()
    return seq
