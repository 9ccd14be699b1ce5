"""Verification of a journal: recomputes everything from the bytes on disk to the signed root; writes nothing.

The checks, in order:
- the format and schema of the database, and the head;
- every entry in one pass: numbers without gaps, times that never decrease, the leaf hash of the stored bytes,
  the stored subtree roots, root and signature at each checkpoint, and every blob that an entry names;
- the head is the newest that the head file knows of, and would survive a crash through the write-ahead log;
- the spool, and that its records are this journal's own;
- the blobs that no entry names.
Meanwhile SQLite's integrity check, on another thread, compares every index with the entries.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import sqlite3
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from core.audit.blob_store import Blobs
from core.audit.checkpoint import Checkpoint, Kept, read_checkpoint
from core.audit.head_file import HEAD_FILE, KnownHead, missing_after, order, read_head_file
from core.audit.merkle import SUBTREE_LEAVES, Frontier
from core.audit.models import VerifyReport
from core.audit.spool import SPOOL, SpoolKey, read_records
from core.audit.spool_recovery import check_newest, check_spool, log_path, read_if_there, refused_words
from core.audit.store import (
    CHECKPOINT_EVERY,
    DATABASE,
    SCHEMA,
    Head,
    check_first_page,
    check_format,
    check_header,
    connect,
    journal_error,
    read_head,
)
from core.audit.wal import WriteAheadLog, read_log
from core.audit.writer import Writer
from core.errors import JournalCorrupt, JournalError

Progress = Callable[[int, int], None]
BLOBS = "blobs"
_AGAINST = "the checkpoint that was kept elsewhere"
_PROGRESS_EVERY = 10_000
_ROW = re.compile(r"row (\d+)")
_BLOB_NAMES = re.compile(rb'"([0-9a-f]{64})"')

# At once: pydantic reads files of its own when it builds a model, and a journal is verified as well where a
# process can read the home alone.
VerifyReport.model_rebuild()


class _Bad(Exception):
    """The first problem found; `seq` is the entry where the problem can be traced to an entry."""

    def __init__(self, problem: str, seq: int | None = None) -> None:
        super().__init__(problem)
        self.problem = problem
        self.seq = seq


class _Text(bytes):
    """The bytes of a TEXT value: distinguishable from a BLOB, and read without decoding, which could fail."""


@dataclass(frozen=True, slots=True)
class _Files:
    """The contents of a journal's files at one moment.

    `length` is the size of the database file in bytes. `first_page` and `head_page` are its page 1 and the
    page with the head (number and bytes), as stored in that file and not in the log.
    """

    page_size: int
    length: int
    first_page: bytes
    head_page: tuple[int, bytes]
    log: bytes
    spool: bytes | None


def verify_folder(
    folder: Path,
    public_key: Ed25519PublicKey,
    progress: Progress | None = None,
    stop: threading.Event | None = None,
    indexes: bool = True,
    against: Checkpoint | None = None,
    spool_key: SpoolKey | None = None,
) -> VerifyReport:
    """Verify the journal of a home folder that no program has open. Changes nothing there. Blocks.

    Without `indexes`, the database indexes are not checked against the entries, which is the larger part of
    the time. `against` is a checkpoint of this journal that the operator stored elsewhere: its entries must
    still exist. Without `spool_key`, which needs the journal's private key, nothing tells whether records in
    the spool, which are no entries yet, are the journal's own.
    """
    return verify_home(folder, public_key, None, spool_key, progress, stop, indexes, against)


def verify_what_is_left(folder: Path, public_key: Ed25519PublicKey) -> VerifyReport:
    """Verify a journal without its head file and spool: whether it is sound up to the head that it has.

    For a journal that no program has open. Changes nothing there. Blocks.
    """
    return verify_home(folder, public_key, None, None, what_is_left=True)


def verify_home(
    folder: Path,
    public_key: Ed25519PublicKey,
    writer: Writer | None,
    spool_key: SpoolKey | None,
    progress: Progress | None = None,
    stop: threading.Event | None = None,
    indexes: bool = True,
    against: Checkpoint | None = None,
    what_is_left: bool = False,
) -> VerifyReport:
    """Verify a journal. `writer` is this process's writer, or None if no program has the journal open.

    `what_is_left` leaves out the head file and the spool.

    Blocks. Problems of the journal are reported in the result, never raised.
    """
    started = time.monotonic()
    check = _Check(folder, public_key, spool_key, progress, stop, against)
    problem: str | None = None
    first_bad: int | None = None
    try:
        check.run(writer, indexes, what_is_left)
    except _Bad as bad:
        problem, first_bad = bad.problem, bad.seq
    except JournalError as error:
        problem = error.message
    except (sqlite3.Error, OSError) as error:
        problem = journal_error(error, folder / DATABASE).message
    if problem is not None and check.damage and check.damage not in problem:
        # SQLite reads only a part of a damaged log, so the problem may be a consequence of the damage.
        problem = f"{problem} ({check.damage})"
    return VerifyReport(
        ok=problem is None,
        entries=check.frontier.size,
        blobs=len(check.blobs),
        checkpoints=check.checkpoints,
        first_bad=first_bad,
        problem=problem or "",
        took_s=round(time.monotonic() - started, 3),
        root=check.frontier.root().hex(),
        checkpoint=check.head.note if problem is None and check.head is not None else "",
        checked_at=datetime.now(UTC).isoformat(timespec="microseconds")[:26] + "Z",
    )


class _Check:
    """One verification and its progress."""

    def __init__(
        self,
        folder: Path,
        key: Ed25519PublicKey,
        spool_key: SpoolKey | None,
        progress: Progress | None,
        stop: threading.Event | None,
        against: Checkpoint | None,
    ) -> None:
        self._folder = folder
        self._path = folder / DATABASE
        self._key = key
        self._spool_key = spool_key
        self._progress = progress or (lambda done, total: None)
        self._stop = stop or threading.Event()
        self._store = Blobs(folder / BLOBS)
        self._against = against
        self.frontier = Frontier()
        self.blobs: set[str] = set()
        self.checkpoints = 0
        self.head: Head | None = None
        self._log = WriteAheadLog()
        # The entries up to this number are covered by a checked signature.
        self._signed = 0
        self._subtrees: list[bytes] = []

    def run(self, writer: Writer | None, with_indexes: bool, what_is_left: bool) -> None:
        """Check everything; raises `_Bad`, or the error of reading, for the first problem."""
        with contextlib.ExitStack() as stack:
            if not self._path.is_file():
                raise _Bad(f"There is no journal at {self._path}.")
            # The pause makes the files and both connections show the same moment of a journal in use.
            with writer.paused() if writer is not None else contextlib.nullcontext():
                page_size = check_header(self._path)
                log_data = read_if_there(log_path(self._path))
                if writer is None:
                    self._log = read_log(log_data, page_size)
                known = None if what_is_left else self._known()
                connection, second = self._connections(stack, writer is not None)
                files = self._read_files(connection, writer, page_size, log_data)
            if writer is not None:
                self._log = read_log(log_data, page_size)
            check_format(connection, self._path)
            connection.text_factory = _Text
            threads = stack.enter_context(ThreadPoolExecutor(1, thread_name_prefix="journal-check"))
            # An early exit must not wait for the whole integrity check.
            stack.callback(second.interrupt)
            indexes = threads.submit(_integrity, second) if with_indexes else None
            head = self._entries(connection, known if isinstance(known, KnownHead) else None)
            if not what_is_left:
                self._newest(head, known)
            self._kept_elsewhere(head)
            if writer is not None:
                self._in_log(head, files)
            if not what_is_left:
                self._spool(files, head)
            self._unnamed_blobs()
            while indexes is not None and not indexes.done():
                self._check_stop()
                with contextlib.suppress(TimeoutError):
                    indexes.result(timeout=0.1)
            if indexes is not None and (bad := indexes.result()) is not None:
                raise bad
            self._first_page(files)

    def _check_stop(self) -> None:
        if self._stop.is_set():
            raise _Bad(f"Stopped before the end, after {self.frontier.size:,} entries without a fault.")

    @property
    def damage(self) -> str:
        """Possible damage of the write-ahead log, as text to add to a resulting problem; may be empty."""
        return self._log.damage(log_path(self._path).name)

    def _connections(self, stack: contextlib.ExitStack, live: bool) -> list[sqlite3.Connection]:
        """Two connections with a snapshot of the journal as it is now, unaffected by later writes."""
        path, immutable = (self._path, False) if live else stack.enter_context(readable(self._path))
        connections = []
        for _ in range(2):
            connection = stack.enter_context(contextlib.closing(connect(path, "ro", immutable)))
            connection.execute("BEGIN")
            # SQLite fixes a transaction's snapshot at its first read.
            connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
            connections.append(connection)
        return connections

    def _read_files(
        self, connection: sqlite3.Connection, writer: Writer | None, page_size: int, log: bytes
    ) -> _Files:
        row = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'head'").fetchone()
        # `check_format` reports a manipulated schema later.
        number = row[0] if row is not None and type(row[0]) is int and row[0] > 0 else 1
        with self._path.open("rb") as file:
            first_page = file.read(page_size)
            file.seek((number - 1) * page_size)
            head_page = file.read(page_size)
            length = file.seek(0, os.SEEK_END)
        spool: bytes | None = None
        if writer is not None:
            spool = writer.spooled()
        elif (self._folder / SPOOL).exists():
            spool = (self._folder / SPOOL).read_bytes()
        return _Files(page_size, length, first_page, (number, head_page), log, spool)

    def _newest_page(self, files: _Files, number: int, in_file: bytes) -> bytes:
        """The page as recovery would restore it; `in_file` is the page in the database file."""
        at = self._log.pages.get(number)
        return files.log[at : at + files.page_size] if at is not None else in_file

    def _known(self) -> KnownHead | JournalCorrupt | None:
        """Read the head file. Its error is returned, not raised: it counts only if no entry is bad."""
        try:
            return read_head_file(self._folder / HEAD_FILE, self._key)
        except JournalCorrupt as error:
            return error

    def _newest(self, head: Head, known: KnownHead | JournalCorrupt | None) -> None:
        """Check that the head is the newest that was signed."""
        if isinstance(known, JournalCorrupt):
            raise _Bad(known.message)
        try:
            check_newest(known, head, self._log, self._path)
        except JournalCorrupt as error:
            older = known is not None and order(head.checkpoint) < order(known.checkpoint)
            raise _Bad(error.message, head.checkpoint.size + 1 if older else None) from None

    def _kept_elsewhere(self, head: Head) -> None:
        """Check that no entry is missing that the checkpoint stored elsewhere was signed over."""
        against, size = self._against, head.checkpoint.size
        if against is None:
            return
        if against.origin != head.checkpoint.origin:
            ours = head.checkpoint.origin
            raise _Bad(f"{_AGAINST.capitalize()} belongs to {against.origin!r}; this journal is {ours!r}.")
        if against.size > size:
            missing = missing_after(against.size - size, size)
            raise _Bad(f"{missing}: {_AGAINST} was signed at {against.size:,}.", size + 1)

    def _in_log(self, head: Head, files: _Files) -> None:
        """Check that this head would survive a crash now: recovery of the log must restore its page."""
        if head.note.encode() not in self._newest_page(files, *files.head_page):
            raise _Bad(f"After a crash now, commits would be missing: {self.damage or 'the log ends early'}.")

    def _spool(self, files: _Files, head: Head) -> None:
        if files.spool is None and head.checkpoint.size:
            raise _Bad(f"{self._folder / SPOOL} is missing, with any entries on their way into the journal.")
        spooled = read_records(files.spool or b"", self._spool_key)
        check_spool(spooled, head.spool_done, self._folder / SPOOL)
        if spooled.foreign:
            then = "They are not part of the journal; the next start does not take them, and sets them aside."
            raise _Bad(refused_words(spooled.foreign, then))

    def _first_page(self, files: _Files) -> None:
        """Check what SQLite does not check: the header, and bytes after the last page."""
        pages = self._log.size or files.length // files.page_size
        first_page = self._newest_page(files, 1, files.first_page)
        check_first_page(first_page, pages, len(SCHEMA), self._path)
        expected = pages * files.page_size
        if files.length > expected or (files.length < expected and not self._log.size):
            raise _Bad(f"{self._path} has {files.length:,} bytes, and its pages take {expected:,}.")

    def _entries(self, connection: sqlite3.Connection, known: KnownHead | None) -> Head:
        """Check all rows in one pass. A bad head is raised only if no entry is bad."""
        bad_head: JournalCorrupt | None = None
        try:
            self.head = read_head(connection, self._key, self._path)
        except JournalCorrupt as error:
            bad_head = error
        total = self.head.checkpoint.size if self.head is not None else 0
        notes = _numbered(connection, "SELECT size, note FROM checkpoints", _Text)
        kept = Kept()
        roots = self._other_roots(known)
        self._compare_others(connection, 0, roots.get(0, []))
        latest = b""
        cursor = connection.execute("SELECT seq, entry, leaf FROM entries ORDER BY seq")
        while rows := self._fetch(cursor):
            for seq, entry, leaf in rows:
                latest = self._entry(seq, entry, leaf, latest)
                if seq in notes:
                    kept = kept.add(notes[seq].decode("utf-8", "replace"))
                    self._checkpoint(connection, seq, notes.pop(seq))
                elif seq % CHECKPOINT_EVERY == 0:
                    raise _Bad(f"The checkpoint at {seq} entries is missing.")
                if seq in roots:
                    self._compare_others(connection, seq, roots[seq])
            self._progress(self.frontier.size, total)
            self._check_stop()
        if bad_head is not None:
            raise _Bad(bad_head.message)
        assert self.head is not None
        self._end(connection, self.head, notes, kept)
        return self.head

    def _other_roots(self, known: KnownHead | None) -> dict[int, list[tuple[bytes, bool]]]:
        """The signed roots from outside the database, by size, and whether each was stored elsewhere."""
        roots: dict[int, list[tuple[bytes, bool]]] = {}
        heads = (known.older, known.checkpoint) if known is not None else ()
        for checkpoint in (*heads, self._against):
            if checkpoint is not None:
                roots.setdefault(checkpoint.size, []).append((checkpoint.root, checkpoint is self._against))
        return roots

    def _compare_others(
        self, connection: sqlite3.Connection, seq: int, roots: list[tuple[bytes, bool]]
    ) -> None:
        for root, elsewhere in roots:
            if not elsewhere:
                self._compare(connection, root, seq)
            elif self.frontier.root() != root:
                raise _Bad(f"The first {seq:,} entries are not those that {_AGAINST} was signed over.")
        self._signed = seq

    def _fetch(self, cursor: sqlite3.Cursor) -> list[Any]:
        try:
            return cursor.fetchmany(_PROGRESS_EVERY)
        except sqlite3.Error as error:
            seq = self._first_unread(cursor.connection)
            raise _Bad(f"Entry {seq} cannot be read from the database: {error}.", seq) from error

    def _first_unread(self, connection: sqlite3.Connection) -> int:
        """The first unchecked entry that cannot be read by its number, or has a wrong leaf hash."""
        for seq in range(self.frontier.size + 1, self.frontier.size + _PROGRESS_EVERY + 1):
            try:
                row = connection.execute("SELECT entry, leaf FROM entries WHERE seq = ?", (seq,)).fetchone()
            except sqlite3.Error:
                return seq
            if row is None or sha256(b"\x00" + row[0]).digest() != row[1]:
                return seq
        return self.frontier.size + 1

    def _entry(self, seq: Any, entry: Any, leaf: Any, latest: bytes) -> bytes:
        """Check one row and add it to the tree; returns the entry's time."""
        expected = self.frontier.size + 1
        if seq != expected:
            raise _Bad(f"Entry {expected} is missing; the next one there is {seq}.", expected)
        if type(entry) is not bytes or sha256(b"\x00" + entry).digest() != leaf or type(leaf) is not bytes:
            raise _Bad(f"Entry {seq} was changed: its bytes do not have its leaf hash.", seq)
        # Canonical form escapes quotes within a text, so these patterns match only the members themselves.
        number = entry.rfind(b',"seq":')
        if not entry.startswith(b"%d," % seq, number + 7):
            raise _Bad(f"Entry {seq} carries another number in its bytes.", seq)
        stamp = entry.find(b',"time":"', number) + 9
        moment = entry[stamp : stamp + 27]
        if moment < latest:
            raise _Bad(f"Entry {seq} is older than the entry before it.", seq)
        names = entry.find(b',"blobs":[') + 10
        if entry[names] != 0x5D:
            self._named_blobs(seq, entry[names : entry.index(b"]", names)])
        complete = self.frontier.append(leaf)
        if complete is not None:
            self._subtrees.append(complete)
        return moment

    def _named_blobs(self, seq: int, names: bytes) -> None:
        for name in _BLOB_NAMES.findall(names):
            sha = name.decode()
            if sha not in self.blobs:
                if (problem := self._store.problem_with(sha)) is not None:
                    raise _Bad(f"Entry {seq} names a blob that is not as it was: {problem}", seq)
                self.blobs.add(sha)

    def _checkpoint(self, connection: sqlite3.Connection, seq: int, note: bytes) -> None:
        """Check the stored checkpoint at `seq` entries: its signature, its size and its root."""
        origin = self.head.checkpoint.origin if self.head is not None else None
        try:
            signed = read_checkpoint(note.decode(), self._key, origin)
        except (JournalCorrupt, UnicodeDecodeError) as error:
            raise _Bad(f"The checkpoint at {seq} entries is damaged: {error}") from error
        if signed.size != seq:
            raise _Bad(f"The checkpoint at {seq} entries was signed for {signed.size}.")
        self._compare(connection, signed.root, seq)
        self.checkpoints += 1
        self._signed = seq

    def _end(self, connection: sqlite3.Connection, head: Head, left: dict[int, bytes], kept: Kept) -> None:
        """After the last row, check the head, leftover checkpoints, and the stored subtree roots."""
        size = head.checkpoint.size
        if self.frontier.size < size:
            missing = self.frontier.size + 1
            raise _Bad(f"Entry {missing} is missing: {size} were signed.", missing)
        if self.frontier.size > size:
            raise _Bad(f"Entry {size + 1} was never signed: the head ends at {size}.", size + 1)
        self._compare(connection, head.checkpoint.root, size)
        self.checkpoints += 1
        if left:
            raise _Bad(f"There is a checkpoint at {min(left)} entries, which the journal does not have.")
        if (signed := head.kept) != kept:
            which = "is missing or was added" if signed.count != kept.count else "was exchanged"
            raise _Bad(
                f"A kept checkpoint {which}: the journal has {kept.count}, and its head was signed with"
                f" {signed.count}. The entries are sound."
            )
        stored = _numbered(connection, "SELECT number, root FROM subtrees", bytes)
        if stored != dict(enumerate(self._subtrees)):
            number = min(dict(set(stored.items()) ^ set(enumerate(self._subtrees))))
            raise _Bad(
                f"The stored subtree {number} (entries {number * SUBTREE_LEAVES + 1} to"
                f" {(number + 1) * SUBTREE_LEAVES}) is not what these entries lead to; the entries are sound."
            )

    def _unnamed_blobs(self) -> None:
        for sha in self._store.names():
            if sha not in self.blobs:
                self._check_stop()
                if (problem := self._store.problem_with(sha)) is not None:
                    raise _Bad(f"A blob that no entry names is not as it was: {problem}")
                self.blobs.add(sha)

    def _compare(self, connection: sqlite3.Connection, root: bytes, seq: int) -> None:
        if self.frontier.root() != root:
            first, last = self._exchanged(connection, seq)
            what = f"Entries {first} to {last} do" if first < last else f"Entry {first} does"
            raise _Bad(
                f"{what} not lead to the signed root: {'at least one' if first < last else 'it'} was"
                " exchanged together with its hash.",
                first,
            )

    def _exchanged(self, connection: sqlite3.Connection, seq: int) -> tuple[int, int]:
        """The shortest range of entries up to `seq` that must contain the first exchanged entry."""
        first, last = self._signed + 1, seq
        for start, end, root in self._signed_nodes(connection):
            if end >= first and _root_over(connection, start, end) != root:
                return max(first, start + 1), min(last, end)
        return first, last

    def _signed_nodes(self, connection: sqlite3.Connection) -> Iterator[tuple[int, int, bytes]]:
        """The tree nodes that the head's root depends on: first leaf, end (exclusive) and hash of each.

        They are the nodes of the head's right edge. A node is replaced by the stored subtrees below it if
        these hash to it.
        """
        if self.head is None:
            return
        start = 0
        for leaves, root in self.head.frontier.nodes():
            below = Frontier()
            rows = connection.execute(
                "SELECT root FROM subtrees WHERE number >= ? AND number < ? ORDER BY number",
                (start // SUBTREE_LEAVES, (start + leaves) // SUBTREE_LEAVES),
            ).fetchall()
            for (node,) in rows:
                below.append(node)
            if leaves > SUBTREE_LEAVES and below.root() == root:
                for number, (node,) in enumerate(rows):
                    at = start + number * SUBTREE_LEAVES
                    yield at, at + SUBTREE_LEAVES, node
            else:
                yield start, start + leaves, root
            start += leaves


def _root_over(connection: sqlite3.Connection, start: int, end: int) -> bytes:
    """The root over the stored leaves `start` (inclusive, counted from 0) to `end` (exclusive)."""
    frontier = Frontier()
    rows = connection.execute(
        "SELECT leaf FROM entries WHERE seq > ? AND seq <= ? ORDER BY seq", (start, end)
    )
    for (leaf,) in rows:
        frontier.append(leaf)
    return frontier.root()


def _numbered(connection: sqlite3.Connection, sql: str, kind: type[bytes]) -> dict[int, bytes]:
    """Read rows of a number and a value, and check that the value has exactly the type it is written with."""
    rows = connection.execute(sql).fetchall()
    for number, value in rows:
        if type(number) is not int or type(value) is not kind:
            raise _Bad(f"A row of checkpoints or subtrees was changed (number {number!r}).")
    return {number: bytes(value) for number, value in rows}


def _integrity(connection: sqlite3.Connection) -> _Bad | None:
    """Run SQLite's integrity check, which also recomputes every index entry."""
    try:
        rows = connection.execute("PRAGMA integrity_check(1)").fetchall()
    except sqlite3.Error as error:
        return _Bad(f"The database is damaged: {error}.")
    if rows == [("ok",)]:
        return None
    message = str(rows[0][0]) if rows else "no answer"
    match = _ROW.search(message)
    return _Bad(f"The database is damaged: {message}.", int(match[1]) if match else None)


@contextlib.contextmanager
def readable(path: Path) -> Iterator[tuple[Path, bool]]:
    """A path to read a closed journal from without creating or changing a file next to it; True: immutable.

    SQLite reads a log left by a crash only with an index file next to it, so database and log are then copied
    to a temporary folder.
    """
    log = Path(f"{path}-wal")
    if not log.exists() or log.stat().st_size == 0:
        yield path, True
        return
    with tempfile.TemporaryDirectory(prefix="quarterdeck-verify-") as folder:
        for source in (path, log):
            shutil.copyfile(source, Path(folder) / source.name)
        yield Path(folder) / path.name, False
