"""Opens a journal that ends before its last known head, once an operator has signed that the rest is lost.

A copy of a home that was taken while its service ran has a database that is older than its head file. Such a
journal does not open (`head_file.check_known`). `find_loss` names what is missing, if everything that is left
verifies. `accept_loss` writes the operator's acceptance as the journal's next entry, and only then replaces
the head file: a crash in between leaves a journal that does not open, or that has the entry.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from core.audit.checkpoint import Checkpoint, read_checkpoint
from core.audit.encode import decode, encode_parts
from core.audit.entries import Entry, Kind, NewEntry
from core.audit.head_file import HEAD_FILE, make_head_file, missing_after, order, read_head_file
from core.audit.spool import SPOOL, read_records
from core.audit.spool_recovery import check_spool, log_path, read_if_there
from core.audit.store import DATABASE, Store, check_header, connect, journal_error
from core.audit.verify import readable, verify_what_is_left
from core.audit.wal import read_log
from core.errors import BadInput, JournalCorrupt
from core.files import create_new
from core.ids import now_utc


@dataclass(frozen=True, slots=True)
class Loss:
    """The loss of a journal: `left` is its head, `known` and `known_note` the last head that was signed.

    `log` says where the write-ahead log is damaged, `spool` that the spool is lost too; otherwise empty.
    """

    left: Checkpoint
    known: Checkpoint
    known_note: str
    log: str
    spool: str

    @property
    def words(self) -> str:
        """The loss as a sentence without its full stop."""
        lost = missing_after(self.known.size - self.left.size, self.left.size)
        if self.known.size <= self.left.size:
            lost = f"The last commit after entry {self.left.size:,} is missing"
        return "; ".join(filter(None, (lost, self.log, self.spool)))


def find_loss(folder: Path, key: Ed25519PublicKey) -> Loss:
    """Compute what the journal in `folder` lacks of its last known head. Blocks; changes nothing.

    Raises:
        BadInput: nothing is missing, or there is no journal.
        JournalCorrupt: what is there does not verify, so that it cannot be told what was lost.
    """
    database = folder / DATABASE
    if not database.is_file():
        raise BadInput(f"There is no journal at {database}.")
    report = verify_what_is_left(folder, key)
    if not report.ok:
        raise JournalCorrupt(
            f"{report.problem} What is left of the journal does not verify, so that a loss cannot be"
            " accepted: put an earlier copy of the home back."
        )
    left = read_checkpoint(report.checkpoint, key)
    try:
        known = read_head_file(folder / HEAD_FILE, key)
    except OSError as error:
        raise journal_error(error, folder / HEAD_FILE) from error
    at_most = known is not None and order(left) <= order(known.checkpoint)
    if known is None or not at_most or known.note == report.checkpoint:
        raise BadInput(f"Nothing is missing in the journal {database}: it has its last known head.")
    log = read_log(read_if_there(log_path(database)), check_header(database))
    damage = log.damage(log_path(database).name)
    return Loss(left, known.checkpoint, known.note, damage, _spool_damage(folder, left))


def _spool_damage(folder: Path, left: Checkpoint) -> str:
    path = folder / SPOOL
    # Only the numbers matter here: the next start checks whose records they are.
    spooled = read_records(read_if_there(path), None)
    try:
        check_spool(spooled, left.spool or 0, path)
    except JournalCorrupt:
        return "what the spool has does not follow what is there, and is set aside"
    return ""


def entries_left(folder: Path, kinds: Sequence[Kind]) -> list[Entry]:
    """The entries of these kinds in a journal that no program has open, oldest first. Changes nothing."""
    marks = ", ".join("?" * len(kinds))
    query = f"SELECT entry FROM entries WHERE kind IN ({marks}) ORDER BY seq"
    database = folder / DATABASE
    try:
        with (
            readable(database) as (path, immutable),
            contextlib.closing(connect(path, "ro", immutable)) as connection,
        ):
            return [decode(row[0]) for row in connection.execute(query, [kind.value for kind in kinds])]
    except (sqlite3.Error, OSError) as error:
        raise journal_error(error, database) from error


def accept_loss(folder: Path, key: Ed25519PrivateKey, name: str, loss: Loss, entry: NewEntry) -> int:
    """Write `entry`, the acceptance of this loss, and let the journal open again; returns its number. Blocks.

    The caller has checked the operator's signature and holds the home's lock.

    Raises:
        JournalCorrupt: the journal is another one than when the loss was found.
        JournalUnavailable: it cannot be written; it still does not open.
    """
    database, spool = folder / DATABASE, folder / SPOOL
    store = Store(database, key, name, accepts_loss=True)
    try:
        if store.head.checkpoint != loss.left:
            raise JournalCorrupt(f"The journal {database} was changed meanwhile; look again.")
        seq = store.commit([encode_parts(entry, max(store.last_time, now_utc()))], store.head.spool_done)
        make_head_file(folder / HEAD_FILE, store.head.note)
        if loss.spool:
            spool.replace(spool.with_name(f"{SPOOL}.lost-at-{seq}"))
            create_new(spool, b"")
    except OSError as error:
        raise journal_error(error, database) from error
    finally:
        store.close()
    return seq
