"""Verification: everything is computed again, from the bytes on disk to the signed root. Nothing is written.

Checked are the format and schema of the database, the head, then every entry in one pass (number without gap,
time that never goes back, leaf hash of the stored bytes, stored subtree roots, the root and the signature at
each checkpoint, every blob it names), then the blobs that no entry names. Meanwhile SQLite's own integrity
check, on another thread, compares every index with what the entries say.
"""

from __future__ import annotations

import contextlib
import re
import shutil
import sqlite3
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from core.audit.blobs import Blobs
from core.audit.checkpoint import read_checkpoint
from core.audit.header import check_header
from core.audit.merkle import SUBTREE_LEAVES, Frontier
from core.audit.models import VerifyReport
from core.audit.store import CHECKPOINT_EVERY, DATABASE, Head, check_format, connect, journal_error, read_head
from core.errors import JournalCorrupt, JournalError

Progress = Callable[[int, int], None]
BLOBS = "blobs"
_PROGRESS_EVERY = 10_000
_ROW = re.compile(r"row (\d+)")
_BLOB_NAMES = re.compile(rb'"([0-9a-f]{64})"')


class _Bad(Exception):
    """The first thing that is wrong; `seq` where it can be pinned to an entry."""

    def __init__(self, problem: str, seq: int | None = None) -> None:
        super().__init__(problem)
        self.problem = problem
        self.seq = seq


class _Text(bytes):
    """A TEXT value's bytes: they may not pass for a BLOB, nor fail to decode."""


def verify_folder(
    folder: Path,
    public_key: Ed25519PublicKey,
    progress: Progress | None = None,
    stop: threading.Event | None = None,
    indexes: bool = True,
) -> VerifyReport:
    """Verify the journal of a home that no program has open; changes nothing there. Blocks.

    Without `indexes`, that queries find every entry is not checked, which takes the larger part of the time.
    """
    return verify_home(folder, public_key, live=False, progress=progress, stop=stop, indexes=indexes)


def verify_home(
    folder: Path,
    public_key: Ed25519PublicKey,
    *,
    live: bool,
    progress: Progress | None = None,
    stop: threading.Event | None = None,
    indexes: bool = True,
) -> VerifyReport:
    """Verify a journal; `live` says that this process has it open. Blocks; never raises for what it finds."""
    started = time.monotonic()
    check = _Check(folder, public_key, progress, stop)
    problem: str | None = None
    first_bad: int | None = None
    try:
        check.run(live, indexes)
    except _Bad as bad:
        problem, first_bad = bad.problem, bad.seq
    except JournalError as error:
        problem = error.message
    except (sqlite3.Error, OSError) as error:
        problem = journal_error(error, folder / DATABASE).message
    return VerifyReport(
        ok=problem is None,
        entries=check.frontier.size,
        blobs=len(check.blobs),
        checkpoints=check.checkpoints,
        first_bad=first_bad,
        problem=problem,
        took_s=round(time.monotonic() - started, 3),
        root=check.frontier.root().hex(),
        checked_at=datetime.now(UTC).isoformat(timespec="microseconds")[:26] + "Z",
    )


class _Check:
    """One verification and how far it came."""

    def __init__(
        self, folder: Path, key: Ed25519PublicKey, progress: Progress | None, stop: threading.Event | None
    ) -> None:
        self._folder = folder
        self._key = key
        self._progress = progress or (lambda done, total: None)
        self._stop = stop or threading.Event()
        self._store = Blobs(folder / BLOBS)
        self.frontier = Frontier()
        self.blobs: set[str] = set()
        self.checkpoints = 0
        # Everything up to this entry is covered by a signature that was checked.
        self._signed = 0
        self._subtrees: list[bytes] = []

    def run(self, live: bool, with_indexes: bool) -> None:
        """Check everything; raises `_Bad` for the first thing that is wrong."""
        with contextlib.ExitStack() as stack:
            path, immutable = self._folder / DATABASE, False
            if not path.is_file():
                raise _Bad(f"There is no journal at {path}.")
            if not live:
                check_header(path)
                path, immutable = stack.enter_context(_readable(path))
            connection = stack.enter_context(contextlib.closing(connect(path, "ro", immutable)))
            second = stack.enter_context(contextlib.closing(connect(path, "ro", immutable)))
            connection.text_factory = _Text
            connection.execute("BEGIN")
            check_format(connection, path)
            threads = stack.enter_context(ThreadPoolExecutor(1, thread_name_prefix="journal-check"))
            # Leaving early must not wait for the whole integrity check.
            stack.callback(second.interrupt)
            indexes = threads.submit(_integrity, second) if with_indexes else None
            self._entries(connection)
            self._unnamed_blobs()
            while indexes is not None and not indexes.done():
                self._check_stop()
                with contextlib.suppress(TimeoutError):
                    indexes.result(timeout=0.1)
            if indexes is not None and (bad := indexes.result()) is not None:
                raise bad

    def _check_stop(self) -> None:
        if self._stop.is_set():
            raise _Bad(f"Stopped before the end, after {self.frontier.size:,} entries without a fault.")

    def _entries(self, connection: sqlite3.Connection) -> None:
        """One pass over all rows; a bad head is told only when no entry is found to be bad."""
        head: Head | None = None
        bad_head: JournalCorrupt | None = None
        try:
            head = read_head(connection, self._key, self._folder / DATABASE)
        except JournalCorrupt as error:
            bad_head = error
        origin = head.checkpoint.origin if head is not None else None
        total = head.checkpoint.size if head is not None else 0
        notes = _numbered(connection, "SELECT size, note FROM checkpoints", _Text)
        latest = b""
        cursor = connection.execute("SELECT seq, entry, leaf FROM entries ORDER BY seq")
        while rows := self._fetch(cursor):
            for seq, entry, leaf in rows:
                latest = self._entry(seq, entry, leaf, latest)
                if seq in notes:
                    self._checkpoint(seq, notes.pop(seq), origin)
                elif seq % CHECKPOINT_EVERY == 0:
                    raise _Bad(f"The checkpoint at {seq} entries is missing.")
            self._progress(self.frontier.size, total)
            self._check_stop()
        if bad_head is not None:
            raise _Bad(bad_head.message)
        assert head is not None
        self._end(connection, head, notes)

    def _fetch(self, cursor: sqlite3.Cursor) -> list[Any]:
        try:
            return cursor.fetchmany(_PROGRESS_EVERY)
        except sqlite3.Error as error:
            seq = self._first_unread(cursor.connection)
            raise _Bad(f"Entry {seq} cannot be read from the database: {error}.", seq) from error

    def _first_unread(self, connection: sqlite3.Connection) -> int:
        """The first entry after those checked that cannot be read by its number alone."""
        for seq in range(self.frontier.size + 1, self.frontier.size + _PROGRESS_EVERY + 1):
            try:
                row = connection.execute("SELECT entry, leaf FROM entries WHERE seq = ?", (seq,)).fetchone()
            except sqlite3.Error:
                return seq
            if row is None or sha256(b"\x00" + row[0]).digest() != row[1]:
                return seq
        return self.frontier.size + 1

    def _entry(self, seq: Any, entry: Any, leaf: Any, latest: bytes) -> bytes:
        """Check one row and add it to the tree; gives its time."""
        expected = self.frontier.size + 1
        if seq != expected:
            raise _Bad(f"Entry {expected} is missing; the next one there is {seq}.", expected)
        if type(entry) is not bytes or sha256(b"\x00" + entry).digest() != leaf or type(leaf) is not bytes:
            raise _Bad(f"Entry {seq} was changed: its bytes do not have its leaf hash.", seq)
        # In canonical form the quotes of a text are escaped, so these can only be the members themselves.
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

    def _checkpoint(self, seq: int, note: bytes, origin: str | None) -> None:
        """Compare with what was signed when the journal had `seq` entries."""
        try:
            signed = read_checkpoint(note.decode(), self._key, origin)
        except (JournalCorrupt, UnicodeDecodeError) as error:
            raise _Bad(f"The checkpoint at {seq} entries is damaged: {error}") from error
        if signed.size != seq:
            raise _Bad(f"The checkpoint at {seq} entries was signed for {signed.size}.")
        self._compare(signed.root, seq)
        self.checkpoints += 1
        self._signed = seq

    def _end(self, connection: sqlite3.Connection, head: Head, left: dict[int, bytes]) -> None:
        """After the last row: the head, and what no entry accounts for."""
        size = head.checkpoint.size
        if self.frontier.size < size:
            missing = self.frontier.size + 1
            raise _Bad(f"Entry {missing} is missing: {size} were signed.", missing)
        if self.frontier.size > size:
            raise _Bad(f"Entry {size + 1} was never signed: the head ends at {size}.", size + 1)
        self._compare(head.checkpoint.root, size)
        self.checkpoints += 1
        if left:
            raise _Bad(f"There is a checkpoint at {min(left)} entries, which the journal does not have.")
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

    def _compare(self, root: bytes, seq: int) -> None:
        if self.frontier.root() != root:
            raise _Bad(
                f"Entries {self._signed + 1} to {seq} do not lead to the signed root:"
                " at least one was exchanged together with its hash.",
                self._signed + 1,
            )


def _numbered(connection: sqlite3.Connection, sql: str, kind: type[bytes]) -> dict[int, bytes]:
    """Rows of a number and bytes of exactly the type that they are written as."""
    rows = connection.execute(sql).fetchall()
    for number, value in rows:
        if type(number) is not int or type(value) is not kind:
            raise _Bad(f"A row of checkpoints or subtrees was changed (number {number!r}).")
    return {number: bytes(value) for number, value in rows}


def _integrity(connection: sqlite3.Connection) -> _Bad | None:
    """SQLite's own check, which also computes every index entry again."""
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
def _readable(path: Path) -> Iterator[tuple[Path, bool]]:
    """A path under which a closed journal can be read without making or changing a file beside it.

    A log that a crash left behind must be read too, which SQLite does only with an index file next to it: so
    database and log are copied to a temporary folder.
    """
    log = Path(f"{path}-wal")
    if not log.exists() or log.stat().st_size == 0:
        yield path, True
        return
    with tempfile.TemporaryDirectory(prefix="quarterdeck-verify-") as folder:
        for source in (path, log):
            shutil.copyfile(source, Path(folder) / source.name)
        yield Path(folder) / path.name, False
