"""Recovers a journal after a crash: checks its files before SQLite changes them, then commits the spool.

`check_recoverable` refuses a journal that SQLite would restore to an older state, so that no checkpoint is
signed over missing entries. `recover` commits the spool's records that the journal lacks, in order and once,
and only those that carry the MAC of this journal.
"""

from __future__ import annotations

import contextlib
import sqlite3
from dataclasses import dataclass
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from core.audit.encode import Parts, UnknownKind, decode, encode_parts
from core.audit.events import JournalRecovered
from core.audit.head_file import HEAD_FILE, KnownHead, check_known, read_head_file
from core.audit.spool import Foreign, Record, Spool, Spooled, next_numbers, read_records
from core.audit.store import (
    Head,
    Store,
    check_format,
    check_header,
    check_last,
    connect,
    journal_error,
    no_head_file,
    read_head,
)
from core.audit.wal import WriteAheadLog, read_log
from core.audit.writer import GROUP_ENTRIES
from core.errors import JournalCorrupt, JournalUnavailable
from core.files import create_new, sync_folder
from core.ids import now_utc
from core.text import sentences


def check_recoverable(database: Path, key: Ed25519PublicKey) -> None:
    """Refuse a journal that SQLite would restore to less than its known head. Changes no file.

    Raises:
        JournalCorrupt: names the missing entries, and the damage in the write-ahead log.
        JournalUnavailable: a file cannot be read.
    """
    damage = ""
    try:
        page_size = check_header(database)
        data = read_if_there(log_path(database))
        log = read_log(data, page_size)
        damage = log.damage(log_path(database).name)
        known = read_head_file(database.with_name(HEAD_FILE), key)
        # Without a log, SQLite would create files of its own and leave them; `immutable` prevents that.
        with contextlib.closing(connect(database, "ro", immutable=not data)) as connection:
            check_format(connection, database)
            head = read_head(connection, key, database)
            check_newest(known, head, log, database)
            # The store checks it again, but only after opening files that it changes when it closes them.
            check_last(connection, head, database)
    except (sqlite3.Error, OSError, JournalCorrupt) as error:
        refused = error if isinstance(error, JournalCorrupt) else journal_error(error, database)
        if damage and isinstance(refused, JournalCorrupt) and damage not in refused.message:
            # A database restored from a part of its log may be inconsistent: name the log's damage too.
            refused = JournalCorrupt(sentences(refused.message, damage))
        raise refused from error


def check_newest(known: KnownHead | None, head: Head, log: WriteAheadLog, database: Path) -> None:
    """Refuse a database whose `head` is older than the files beside it show.

    Raises:
        JournalCorrupt: names the missing entries, or the file that was changed.
    """
    if known is None:
        raise no_head_file(database)
    check_known(known, head.note, head.checkpoint, database, log.damage(log_path(database).name))
    if log.foreign:
        raise JournalCorrupt(
            f"{log_path(database)} is not a write-ahead log: something else was put in its place. Keep a copy"
            " of it; no entry is missing without it, so it can be moved away."
        )


@dataclass(frozen=True, slots=True)
class Recovery:
    """The recovery from a spool at opening: the number of records, and sentences about the rest."""

    records: int
    notes: tuple[str, ...] = ()


def recover(store: Store, spool: Spool, missing: bool = False) -> Recovery:
    """Commit the spool's own records that the journal lacks, and use up their numbers.

    A torn last record was never acknowledged, and is dropped. Foreign records are not taken: a copy of the
    spool is set aside. If there were any of either, or the spool was `missing`, a `journal_recovered` entry
    is written in the same transaction as the last recovered records. It also states how many records are
    missing between them.

    Raises:
        JournalCorrupt: the spool is damaged, or a whole record is not an entry; the spool stays unchanged.
        JournalUnavailable: the journal or the copy cannot be written; the spool stays unchanged.
    """
    data = spool.path.read_bytes()
    spooled = read_records(data, spool.key)
    done = store.head.spool_done
    check_spool(spooled, done, spool.path)
    fresh = spooled.fresh(done)
    refused = spooled.foreign
    # Before any commit: an attempt that ends early leaves the records for the next one.
    aside = _set_aside(data, spool.path) if refused else None
    recovered = JournalRecovered(
        entries=len(fresh),
        torn_bytes=spooled.torn_bytes,
        lost=spooled.lost(done),
        spool="missing" if missing else "",
        refused=len(refused),
        set_aside=aside.name if aside is not None else "",
    )
    latest = store.last_time
    chunks = [fresh[start : start + GROUP_ENTRIES] for start in range(0, len(fresh), GROUP_ENTRIES)] or [[]]
    used = next_numbers(max([done, *(record.number for record in spooled.records)]))
    for number, chunk in enumerate(chunks, 1):
        parts: list[Parts] = []
        for record in chunk:
            part, latest = _checked(record, latest, spool)
            parts.append(part)
        if number < len(chunks):
            store.commit(parts, chunk[-1].number)
            continue
        if fresh or missing or refused:
            latest = max(latest, now_utc())
            parts.append(encode_parts(recovered.entry("service"), latest))
        store.commit(parts, used)
    store.last_time = latest
    spool.start_after(used)
    spool.empty(always=True)
    notes = (refused_words(refused, f"They were not taken, and are kept in {aside.name}."),) if aside else ()
    return Recovery(len(fresh), notes)


def refused_words(refused: list[Foreign], then: str) -> str:
    """Sentences about foreign records, for people; `then` says what becomes of them."""
    kinds = ", ".join(dict.fromkeys(_kind_of(one.record) for one in refused))
    count = f"1 record ({kinds})" if len(refused) == 1 else f"{len(refused):,} records ({kinds})"
    return (
        f"journal.spool has {count} that this journal's service did not write:"
        f" another program put them there. {then}"
    )


def _kind_of(record: Record) -> str:
    """The kind of a record's entry, from the closed list: other words of a foreign record are not shown."""
    try:
        return decode(record.parts.with_seq(0)).kind.value
    except JournalCorrupt:
        return "no entry"


def _set_aside(data: bytes, path: Path) -> Path:
    """Keep a copy of the spool beside it, and return where.

    Raises:
        JournalUnavailable: the copy cannot be written.
    """
    stamp = now_utc().replace("-", "").replace(":", "").replace(".", "-")
    aside = path.with_name(f"{path.name}.refused-{stamp}")
    try:
        create_new(aside, data)
        sync_folder(aside.parent)
    except OSError as error:
        raise JournalUnavailable(
            f"The spool {path} has records of another program, and cannot be kept as {aside}:"
            f" {error.strerror}."
        ) from error
    return aside


def check_spool(spooled: Spooled, done: int, path: Path) -> None:
    """Refuse a spool with damage that no crash explains; the journal has its records up to `done`.

    Raises:
        JournalCorrupt: the spool is damaged; the message says where.
    """
    if damage := spooled.damage(done):
        raise JournalCorrupt(
            f"The spool {path} is damaged: {damage}. Keep a copy of the file, then move it away to open the"
            " journal without it."
        )


def log_path(database: Path) -> Path:
    """The path of a database's write-ahead log."""
    return Path(f"{database}-wal")


def read_if_there(path: Path) -> bytes:
    """A file's bytes; empty if there is no file.

    Raises:
        OSError: the file exists but cannot be read.
    """
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""


def _checked(record: Record, latest: str, spool: Spool) -> tuple[Parts, str]:
    """A record's parts and time, with the time raised to `latest` if it is earlier."""
    try:
        entry = decode(record.parts.with_seq(0), str(spool.path))
    except UnknownKind:
        raise
    except JournalCorrupt as error:
        raise JournalCorrupt(
            f"Record {record.number} of the spool {spool.path} is not an entry. Keep a copy of the file, then"
            " move it away to open the journal without it."
        ) from error
    if entry.time >= latest:
        return record.parts, entry.time
    return encode_parts(entry, latest), latest
