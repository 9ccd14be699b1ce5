"""The journal's SQLite file: header checks, schema, the single writing connection, and group commits.

A row of `entries` stores the number, the canonical bytes and the leaf hash. The columns that queries filter
by are virtual generated columns: computed from the bytes and stored only in indexes, so no stored value can
disagree with the entry. `head` holds the signed checkpoint over all entries and the tree's right edge; every
transaction replaces it. `checkpoints` permanently stores a checkpoint every 1,000 entries and at each orderly
close. `subtrees` holds the roots of complete runs of 1,024 leaves, which make proofs cheap. After each
transaction the head is also written to the head file (`head_file.py`).

The header of `journal.db` is checked before SQLite opens the file. Source: SQLite's file format, section 1.3,
https://www.sqlite.org/fileformat2.html#the_database_header.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from core.audit.checkpoint import Checkpoint, Kept, Signer, origin_of, read_checkpoint
from core.audit.encode import Parts, UnknownKind
from core.audit.entries import Kind
from core.audit.head_file import HEAD_FILE, HeadFile, check_known, make_head_file, read_head_file
from core.audit.merkle import SUBTREE_LEAVES, Frontier, leaf_hash
from core.errors import JournalCorrupt, JournalError, JournalUnavailable
from core.files import sync_folder

APPLICATION_ID = 0x514A4E4C  # "QJNL"
# How entries are stored; which kinds there are is no part of it (see `Kind`).
FORMAT = 2
_HEADER_BYTES = 100
_MAGIC = b"SQLite format 3\0"
# Offset, expected bytes and name of the header fields that are the same in every journal: WAL mode, no
# reserved bytes, SQLite's fixed payload fractions, schema format 4, default page cache, no vacuum, UTF-8, and
# zeros in the space reserved for expansion.
_FIXED: tuple[tuple[int, bytes, str], ...] = (
    (18, b"\2\2\0\x40\x20\x20", "file format"),
    (44, b"\0\0\0\4" + bytes(8), "schema format"),
    (56, b"\0\0\0\1", "text encoding"),
    (64, bytes(4), "vacuum mode"),
    (72, bytes(20), "reserved space"),
)


def check_header(path: Path) -> int:
    """Reject a file that cannot be a journal before SQLite opens it. Returns the page size in bytes.

    If the file is empty or foreign, SQLite deletes the write-ahead log next to it, or writes the log into
    that file; the log holds everything since the last WAL checkpoint. With another text encoding or journal
    mode, SQLite would interpret the same bytes differently.

    Raises:
        JournalCorrupt: the file is not a journal; the message says what it is instead.
        OSError: the file cannot be read.
    """
    with path.open("rb") as file:
        header = file.read(_HEADER_BYTES)
    if len(header) < _HEADER_BYTES or not header.startswith(_MAGIC):
        raise _damaged(path, "it is empty" if not header else "its first bytes are not those of a database")
    version, application = (_number(header, at) for at in (60, 68))
    _check_numbers(path, application, version)
    return _page_size(header, path)


def check_first_page(page: bytes, pages: int, schema_changes: int, path: Path) -> None:
    """Reject a first page that does not belong to a journal of `pages` pages with an unchanged schema.

    Raises:
        JournalCorrupt: the message says what differs.
    """
    _page_size(page, path)
    if _number(page, 28) != pages:
        raise _damaged(path, f"its header says {_number(page, 28):,} pages, and it has {pages:,}")
    if _number(page, 24) != _number(page, 92):
        raise _damaged(path, "the change counter in its header was changed")
    if _number(page, 40) != schema_changes:
        raise _damaged(path, "its header says that its tables were changed")


def _check_numbers(path: Path, application: int, version: int) -> None:
    if application != APPLICATION_ID:
        raise JournalCorrupt(f"{path} is not a Quarterdeck journal (its application id is {application:#x}).")
    if version != FORMAT:
        which = "an earlier" if version < FORMAT else "a later"
        raise JournalCorrupt(
            f"The journal {path} has format {version}, of {which} version of Quarterdeck; this version opens"
            f" format {FORMAT} only. It was not changed: open this home with the version that wrote it, or"
            " move the home away to begin a new one."
        )


def _page_size(header: bytes, path: Path) -> int:
    size = int.from_bytes(header[16:18], "big")
    for at, wanted, name in _FIXED:
        if header[at : at + len(wanted)] != wanted:
            raise _damaged(path, f"the {name} in its header is not a journal's")
    if size < 512 or size & (size - 1):
        raise _damaged(path, f"its header says that pages have {size:,} bytes")
    return size


def _number(header: bytes, at: int) -> int:
    return int.from_bytes(header[at : at + 4], "big")


def _damaged(path: Path, what: str) -> JournalCorrupt:
    return JournalCorrupt(
        f"The journal {path} is damaged ({what}). Keep a copy of it; put the last good copy back."
    )


DATABASE = "journal.db"
CHECKPOINT_EVERY = 1000
BUSY_SECONDS = 2.0
# 16 MiB of log between WAL checkpoints: fewer but longer pauses, and recovery is still quick.
_WAL_PAGES = 4096

# Few sizes, so that SQLite's cached compiled statements are reused.
_ROWS_AT_ONCE = (256, 64, 16, 4, 1)

_KINDS = frozenset(kind.value for kind in Kind)

# The members that queries filter by, each indexed, and whether every entry has the member.
COLUMNS: dict[str, bool] = {
    "kind": True,
    "actor": True,
    "run": False,
    "device": False,
    "call_id": False,
    "tool": False,
    "status": False,
    "verdict": False,
    "duration_ms": False,
}


class _Object(NamedTuple):
    """A table or an index, as a row of `sqlite_schema`."""

    type: str
    name: str
    tbl_name: str
    sql: str


def _schema() -> tuple[_Object, ...]:
    virtual = ",\n  ".join(
        f"{name} GENERATED ALWAYS AS (json_extract(CAST(entry AS TEXT), '$.{name}')) VIRTUAL"
        for name in COLUMNS
    )
    tables = {
        "entries": f"CREATE TABLE entries (\n  seq INTEGER PRIMARY KEY,\n  entry BLOB NOT NULL,\n"
        f"  leaf BLOB NOT NULL,\n  {virtual}\n)",
        "head": "CREATE TABLE head (id INTEGER PRIMARY KEY, note TEXT NOT NULL, edge BLOB NOT NULL)",
        "checkpoints": "CREATE TABLE checkpoints (size INTEGER PRIMARY KEY, note TEXT NOT NULL)",
        "subtrees": "CREATE TABLE subtrees (number INTEGER PRIMARY KEY, root BLOB NOT NULL)",
    }
    indexes = {
        f"by_{name}": f"CREATE INDEX by_{name} ON entries ({name})"
        + ("" if always else f" WHERE {name} IS NOT NULL")
        for name, always in COLUMNS.items()
    }
    return (
        *(_Object("table", name, name, sql) for name, sql in tables.items()),
        *(_Object("index", name, "entries", sql) for name, sql in indexes.items()),
    )


# In the order of creation.
SCHEMA = _schema()


class Head(NamedTuple):
    """The newest state of a journal: its signed checkpoint and the Merkle tree's frontier.

    `spool_done` is the number of the last spool record that is in the journal, `kept` the stored checkpoints.
    """

    note: str
    checkpoint: Checkpoint
    frontier: Frontier
    spool_done: int
    kept: Kept


def connect(path: Path, mode: str, immutable: bool = False) -> sqlite3.Connection:
    """Open a connection in SQLite's `mode` (`ro`, `rw`, `rwc`) that starts no transaction by itself.

    `immutable` promises that no program writes: SQLite then creates no files next to the database.
    """
    # The bytes of the name, which a locale that is not UTF-8 decodes to other letters.
    uri = f"file:{quote(os.fsencode(path.absolute()))}?mode={mode}{'&immutable=1' if immutable else ''}"
    connection = sqlite3.connect(
        uri, uri=True, isolation_level=None, check_same_thread=False, timeout=BUSY_SECONDS
    )
    try:
        connection.execute(f"PRAGMA query_only={'ON' if mode == 'ro' else 'OFF'}")
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def journal_error(error: sqlite3.Error | OSError, path: Path) -> JournalError:
    """Translate an error of SQLite or the operating system into a journal error with advice."""
    if isinstance(error, OSError):
        return JournalUnavailable(
            f"The journal {path} cannot be used: {error.strerror or error}. Check disk space and permissions."
        )
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT}:
        return JournalCorrupt(
            f"The journal {path} is damaged ({error}). Keep a copy of it; put the last good copy back."
        )
    advice = {
        sqlite3.SQLITE_INTERRUPT: "it was closed meanwhile",
        sqlite3.SQLITE_BUSY: "another program is writing to it; close that program",
        sqlite3.SQLITE_LOCKED: "another program is writing to it; close that program",
        sqlite3.SQLITE_FULL: "the disk is full; free some space",
        sqlite3.SQLITE_READONLY: "it is read-only; allow writing to it and to its folder",
        sqlite3.SQLITE_CANTOPEN: "it cannot be opened; check that it exists and its permissions",
        sqlite3.SQLITE_PERM: "it may not be opened; check its permissions",
        sqlite3.SQLITE_IOERR: "the disk reports an error or is full; check the disk and its space",
    }.get(code, "it refuses the change")
    return JournalUnavailable(f"The journal {path} cannot be used: {advice} (SQLite: {error}).")


def check_format(connection: sqlite3.Connection, path: Path) -> None:
    """Reject a database whose format or schema, every table and index, is not exactly that of a journal.

    Raises:
        JournalCorrupt: the message says what differs.
    """
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    _check_numbers(path, application, version)
    columns = _Object._fields
    texts = " AND ".join(f"typeof({column}) = 'text'" for column in columns)
    values = ", ".join(f"CAST({column} AS BLOB)" for column in columns)
    rows = connection.execute(f"SELECT rowid, {texts}, {values} FROM sqlite_schema ORDER BY rowid").fetchall()
    wanted = [(at, 1, *(text.encode() for text in made)) for at, made in enumerate(SCHEMA, 1)]
    if rows != wanted:
        raise JournalCorrupt(f"The tables or indexes of {path} are not those of a journal.")


def read_head(connection: sqlite3.Connection, key: Ed25519PublicKey, path: Path) -> Head:
    """Read the head and check its signature, its format, and the right edge against the signed root.

    Raises:
        JournalCorrupt: the message says which check failed.
    """
    rows = connection.execute(
        "SELECT id, typeof(note), CAST(note AS BLOB), typeof(edge), edge FROM head"
    ).fetchall()
    if len(rows) != 1 or rows[0][0] != 1 or bytes_as_text(rows[0][1]) != "text":
        raise JournalCorrupt(f"The journal {path} has no head: it was cut or overwritten.")
    _, _, data, kind, edge = rows[0]
    try:
        note = data.decode()
    except UnicodeDecodeError:
        raise JournalCorrupt(f"The head of the journal {path} is not text.") from None
    checkpoint = read_checkpoint(note, key)
    if checkpoint.spool is None or checkpoint.kept is None:
        raise JournalCorrupt(f"The head of the journal {path} has the signed note of another checkpoint.")
    try:
        if bytes_as_text(kind) != "blob":
            raise ValueError("not a blob")
        frontier = Frontier.from_bytes(checkpoint.size, edge)
    except ValueError as error:
        raise JournalCorrupt(f"The right edge of the tree in {path} is damaged: {error}.") from None
    if frontier.root() != checkpoint.root:
        raise JournalCorrupt(f"The right edge of the tree in {path} does not lead to the signed root.")
    return Head(note, checkpoint, frontier, checkpoint.spool, checkpoint.kept)


def check_last(connection: sqlite3.Connection, head: Head, path: Path) -> None:
    """Reject a journal whose last entry or number of checkpoints differs from its head.

    Raises:
        JournalCorrupt: the journal was truncated, or rows were added, changed or removed.
    """
    row = connection.execute("SELECT seq, entry, leaf FROM entries ORDER BY seq DESC LIMIT 1").fetchone()
    last = row[0] if row is not None else 0
    if last != head.checkpoint.size:
        raise JournalCorrupt(
            f"The journal {path} was signed at {head.checkpoint.size} entries, but its last entry is {last}."
        )
    # The last entry's time is the lower bound for the time of the next entry, so it must be genuine.
    if row is not None and leaf_hash(row[1]) != row[2]:
        raise JournalCorrupt(f"Entry {last} of the journal {path} was changed.")
    count = connection.execute("SELECT count(*) FROM checkpoints").fetchone()[0]
    if head.kept.count != count:
        raise JournalCorrupt(
            f"The journal {path} has {count} checkpoints, and its head was signed with {head.kept.count}."
        )


def check_kinds(connection: sqlite3.Connection, path: Path) -> None:
    """Reject a journal of a later version: one with an entry of a kind that `Kind` does not list.

    Raises:
        UnknownKind: names the kind.
    """
    # From kind to kind by the index, past all entries of the same kind.
    rows = connection.execute(
        "WITH RECURSIVE kinds(kind) AS (SELECT min(kind) FROM entries UNION ALL"
        " SELECT (SELECT min(kind) FROM entries WHERE kind > kinds.kind) FROM kinds WHERE kind IS NOT NULL)"
        " SELECT kind FROM kinds WHERE kind IS NOT NULL"
    )
    for (kind,) in rows:
        if kind not in _KINDS:
            raise UnknownKind(str(kind), f"The journal {path}")


def no_head_file(path: Path) -> JournalCorrupt:
    """The error for a journal whose head file is missing."""
    return JournalCorrupt(
        f"{path.with_name(HEAD_FILE)} is missing: without it nothing tells whether {path.name} has lost its"
        " newest entries. Put it back with the journal it belongs to."
    )


def bytes_as_text(value: str | bytes) -> str:
    """Return SQLite text as `str`, also from a connection whose `text_factory` returns bytes."""
    return value if isinstance(value, str) else value.decode()


class Store:
    """The writer of one `journal.db` and its head file. Used by the writer thread only."""

    def __init__(self, path: Path, key: Ed25519PrivateKey, name: str, *, accepts_loss: bool = False) -> None:
        """Open the journal; create it if it does not exist. An existing journal must have passed
        `check_recoverable` or, for an accepted loss, `find_loss`: then the head file is not opened.

        Raises:
            JournalCorrupt, JournalUnavailable: the message says what is wrong and what to do.
        """
        self.path = path
        self._key = key
        self._connection: sqlite3.Connection | None = None
        self._head_file: HeadFile | None = None
        self._attempted = ""
        if not path.exists():
            _create(path, Signer(key, origin_of(name)))
        self.reopen()
        try:
            if not accepts_loss:
                self._open_head_file()
        except (OSError, JournalError) as error:
            self.close()
            raise error if isinstance(error, JournalError) else journal_error(error, path) from error

    @property
    def size(self) -> int:
        """The number of durable entries."""
        return self.head.frontier.size

    def reopen(self) -> None:
        """Reopen the connection, check the journal and read its head.

        Raises:
            JournalCorrupt, JournalUnavailable: the message says what is wrong and what to do.
        """
        self._disconnect()
        try:
            check_header(self.path)
            connection = connect(self.path, "rw")
            self._connection = connection
            connection.execute("PRAGMA synchronous=FULL")
            connection.execute(f"PRAGMA wal_autocheckpoint={_WAL_PAGES}")
            check_format(connection, self.path)
            # Detects now, not at the first entry, that the file is read-only or another program writes to it.
            connection.execute("BEGIN IMMEDIATE")
            self.head = read_head(connection, self._key.public_key(), self.path)
            check_last(connection, self.head, self.path)
            check_kinds(connection, self.path)
            self.last_time = self._last_time(connection)
            self._last_kept = connection.execute("SELECT max(size) FROM checkpoints").fetchone()[0] or 0
            connection.execute("ROLLBACK")
        except (sqlite3.Error, OSError, JournalError) as error:
            self._disconnect()
            if isinstance(error, JournalError):
                raise
            raise journal_error(error, self.path) from error
        # The origin never changes during a tree's life, even if the computer is renamed.
        self._signer = Signer(self._key, self.head.checkpoint.origin)

    def resume(self) -> None:
        """Reopen the journal after a failed commit, which may or may not have reached the disk.

        Raises:
            JournalCorrupt: another program has written to the journal meanwhile.
            JournalUnavailable: the journal still cannot be opened for writing.
        """
        known = {self.head.note, self._attempted}
        self.reopen()
        if self.head.note not in known:
            raise self._not_ours()

    def commit(self, entries: Sequence[Parts], spool_done: int) -> int:
        """Add entries in one durable transaction; returns the number of the first.

        With no entries, the commit only rewrites the head and so tests whether the journal can be written.

        Raises:
            JournalCorrupt: another program has written to this journal.
            JournalUnavailable: nothing was added, as far as this process can know.
        """
        before = self.head
        frontier = before.frontier.copy()
        first = frontier.size + 1
        rows: list[tuple[int, bytes, bytes]] = []
        subtrees: list[tuple[int, bytes]] = []
        checkpoints: list[tuple[int, str]] = []
        kept = before.kept
        for seq, parts in enumerate(entries, first):
            data = parts.with_seq(seq)
            leaf = leaf_hash(data)
            rows.append((seq, data, leaf))
            complete = frontier.append(leaf)
            if complete is not None:
                subtrees.append((seq // SUBTREE_LEAVES - 1, complete))
            if seq % CHECKPOINT_EVERY == 0:
                checkpoints.append((seq, self._signer.sign(seq, frontier.root())))
                kept = kept.add(checkpoints[-1][1])
        done = max(spool_done, before.spool_done)
        self._transact(rows, subtrees, checkpoints, self._head_of(frontier, done, kept))
        return first

    def seal(self) -> None:
        """Store a permanent checkpoint at the present size, and move the log into the database file.

        Raises:
            JournalUnavailable: the journal could not be written.
        """
        if self.size > self._last_kept:
            note = self._signer.sign(self.size, self.head.frontier.root())
            head = self._head_of(self.head.frontier, self.head.spool_done, self.head.kept.add(note))
            self._transact([], [], [(self.size, note)], head)
        self._empty_log()

    def close(self) -> None:
        """Close the files."""
        self._disconnect()
        head_file, self._head_file = self._head_file, None
        if head_file is not None:
            head_file.close()

    @property
    def _head_path(self) -> Path:
        return self.path.with_name(HEAD_FILE)

    def _open_head_file(self) -> None:
        known = read_head_file(self._head_path, self._signer.public_key)
        if known is not None:
            check_known(known, self.head.note, self.head.checkpoint, self.path)
            self._head_file = HeadFile(self._head_path, known.record)
            # The process crashed between the commit and the write of the head file.
            if known.note != self.head.note:
                self._head_file.write(self.head.note)
        else:
            raise no_head_file(self.path)

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            # SQLite's WAL checkpoint on close fails on a full disk; the log then stays and is read at the
            # next open.
            with contextlib.suppress(sqlite3.Error):
                connection.close()

    def _empty_log(self) -> None:
        """Move SQLite's write-ahead log into the database file."""
        try:
            self._open().execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        except sqlite3.Error as error:
            raise journal_error(error, self.path) from error

    def _head_of(self, frontier: Frontier, spool_done: int, kept: Kept) -> Head:
        checkpoint = Checkpoint(self._signer.origin, frontier.size, frontier.root(), spool_done, kept)
        return Head(self._signer.sign_checkpoint(checkpoint), checkpoint, frontier, spool_done, kept)

    def _open(self) -> sqlite3.Connection:
        if self._connection is None:
            raise JournalUnavailable(f"The journal {self.path} is not open.")
        return self._connection

    def _transact(
        self,
        rows: list[tuple[int, bytes, bytes]],
        subtrees: list[tuple[int, bytes]],
        checkpoints: list[tuple[int, str]],
        head: Head,
    ) -> None:
        """Write one transaction, then the head file. `self.head` changes only when both are durable."""
        connection = self._open()
        self._attempted = head.note
        try:
            connection.execute("BEGIN IMMEDIATE")
            _insert(connection, rows)
            connection.executemany("INSERT INTO subtrees (number, root) VALUES (?, ?)", subtrees)
            connection.executemany("INSERT INTO checkpoints (size, note) VALUES (?, ?)", checkpoints)
            changed = connection.execute(
                "UPDATE head SET note = ?, edge = ? WHERE id = 1 AND note = ?",
                (head.note, head.frontier.to_bytes(), self.head.note),
            ).rowcount
            if changed != 1:
                raise self._not_ours()
            connection.execute("COMMIT")
        except (sqlite3.Error, JournalCorrupt) as error:
            with contextlib.suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
            if isinstance(error, JournalCorrupt):
                raise
            if isinstance(error, sqlite3.IntegrityError):
                raise JournalCorrupt(f"{self.path} has rows beyond its head ({error}).") from error
            raise journal_error(error, self.path) from error
        try:
            if self._head_file is not None:
                self._head_file.write(head.note)
        except OSError as error:
            raise journal_error(error, self._head_path) from error
        self.head = head
        if checkpoints:
            self._last_kept = checkpoints[-1][0]

    def _not_ours(self) -> JournalCorrupt:
        return JournalCorrupt(
            f"Another program has written to the journal {self.path}; only one may."
            " Close it, then start again."
        )

    @staticmethod
    def _last_time(connection: sqlite3.Connection) -> str:
        row = connection.execute(
            "SELECT json_extract(CAST(entry AS TEXT), '$.time') FROM entries ORDER BY seq DESC LIMIT 1"
        ).fetchone()
        return str(row[0]) if row is not None and row[0] is not None else ""


def _insert(connection: sqlite3.Connection, rows: list[tuple[int, bytes, bytes]]) -> None:
    # Each statement releases and takes the GIL again, which slows the event loop's thread: so one statement
    # inserts many rows.
    at = 0
    for size in _ROWS_AT_ONCE:
        statement = f"INSERT INTO entries (seq, entry, leaf) VALUES {', '.join(['(?, ?, ?)'] * size)}"
        while len(rows) - at >= size:
            connection.execute(statement, [value for row in rows[at : at + size] for value in row])
            at += size


def _create(path: Path, signer: Signer) -> None:
    """Create an empty journal atomically: a crash leaves either a complete journal or none."""
    fresh = path.with_name(f"{path.name}.new")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        for leftover in (fresh, Path(f"{fresh}-wal"), Path(f"{fresh}-shm")):
            leftover.unlink(missing_ok=True)
        os.close(os.open(fresh, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        connection = connect(fresh, "rw")
        try:
            connection.execute("PRAGMA journal_mode=WAL").fetchone()
            connection.execute("PRAGMA synchronous=FULL")
            connection.execute("BEGIN IMMEDIATE")
            connection.execute(f"PRAGMA application_id={APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version={FORMAT}")
            for made in SCHEMA:
                connection.execute(made.sql)
            note = signer.sign(0, Frontier().root(), 0, Kept())
            connection.execute("INSERT INTO head (id, note, edge) VALUES (1, ?, ?)", (note, b""))
            connection.execute("COMMIT")
        finally:
            connection.close()
        # Before the database is renamed into place: a journal without its head file does not open.
        make_head_file(path.with_name(HEAD_FILE), note)
        fresh.replace(path)
        sync_folder(path.parent)
    except (sqlite3.Error, OSError) as error:
        raise journal_error(error, path) from error
