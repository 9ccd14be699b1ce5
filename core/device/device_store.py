"""The device's store: one SQLite file in the state folder with its calls, undo entries and used approvals.

Several clients may use one state folder. Each holds a lock on a file of its own, `clients/ID.lock`, until it
ends, so that the others know whether the client that wrote a row still runs. SQLite makes each transaction
atomic between them. A durable transaction is on the disk before it returns (`synchronous=FULL`); any other
one outlives a killed process, but a power failure may take it back.

A damaged file is set aside as `device.db.damaged`, and its readable rows are copied into a new one. Since
some may be missing, the new one says so for as long as they could matter (`doubtful_until`).
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import functools
import os
import secrets
import shutil
import sqlite3
import stat
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal, TypeVar, get_args

from core.aip.extensions import RESULTS_KEPT_S
from core.device.worker_threads import WorkerThreads
from core.errors import BadInput, DeviceError, ErrorCode
from core.files import sync_folder, try_lock
from core.log import Logger
from core.machine_id import machine_mark
from core.text import sentences

log = Logger(__name__)

DATABASE = "device.db"
SET_ASIDE = "device.db.damaged"
# The end of the name of the database that replaces a damaged one.
_WHOLE = ".whole"
# A call's deadline is at most a day, and a statement's validity 10 minutes: no older row can matter.
EXPIRY_S = RESULTS_KEPT_S
_APPLICATION_ID = 0x51444456  # "QDDV"
_FORMAT = 2
# Where versions before this file kept calls and used approvals.
_EARLIER_FOLDERS = ("calls", "approvals")
# How long another client may hold SQLite's lock, and how long a call waits for its turn in this client.
_BUSY_S = 5.0
_TURN_S = 10.0
_OPENING_S = 10.0
_PAGES_BETWEEN_CHECKPOINTS = 256
_LARGEST_LOG = 4 * 1024 * 1024
# Errors that may pass without a change to the state folder.
_PASSING = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EIO})
_PASSING_IN_SQLITE = frozenset(
    {sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_NOMEM}
)
_DAMAGE = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
_LITTLE_ROOM = 64 * 1024
_NO_LINK: int = getattr(os, "O_NOFOLLOW", 0)
# SQLite opens no file with a longer path, in bytes with the ends of `_BESIDE` (its MAX_PATHNAME).
_LONGEST_PATH = 500
# What SQLite keeps beside a database.
_BESIDE = ("-wal", "-shm", "-journal")
_SCHEMA = f"""
CREATE TABLE calls (
    seq INTEGER PRIMARY KEY,
    call_id BLOB NOT NULL UNIQUE,
    state TEXT NOT NULL CHECK (state IN ('started', 'done', 'gone')),
    what BLOB NOT NULL,
    at REAL NOT NULL,
    client TEXT NOT NULL
);
CREATE INDEX calls_by_client ON calls (client);
CREATE TABLE results (
    seq INTEGER PRIMARY KEY,
    result TEXT NOT NULL
);
CREATE TABLE undo_entries (
    seq INTEGER PRIMARY KEY,
    undo_id TEXT NOT NULL UNIQUE,
    state TEXT NOT NULL CHECK (state IN ('writing', 'kept', 'claimed')),
    client TEXT NOT NULL,
    made_at REAL NOT NULL,
    size INTEGER NOT NULL,
    entry TEXT NOT NULL
);
CREATE TABLE used_approvals (
    approval TEXT PRIMARY KEY,
    used TEXT NOT NULL,
    until TEXT NOT NULL
);
CREATE TABLE doubts (
    about TEXT PRIMARY KEY,
    since REAL NOT NULL,
    until REAL NOT NULL
);
PRAGMA application_id = {_APPLICATION_ID};
PRAGMA user_version = {_FORMAT};
"""
Table = Literal["calls", "results", "undo_entries", "used_approvals"]
_TABLES: tuple[Table, ...] = get_args(Table)
# The row of `doubts` that says when the database was made; it doubts nothing.
_MADE = "made"

Answer = TypeVar("Answer")
Work = Callable[[sqlite3.Connection], Answer]


class DeviceStore:
    """One client's use of the state folder's database, from `open` until `close`.

    A piece of work is a function of the connection; it is one transaction, which its error takes back.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.client = secrets.token_hex(8)
        self._turn = threading.Lock()
        self._threads = WorkerThreads(1, "device store")
        self._connection: sqlite3.Connection | None = None
        self._own_lock: int | None = None
        self._synchronous = ""
        self._relaxed = "FULL"
        self._closed = False

    def open(self) -> None:
        """Open the database, or make it.

        Raises:
            BadInput: the folder cannot be used.
            DeviceError: it cannot be used now, but perhaps later, as when its disk is full.
        """
        self.do(lambda _: None)

    async def run(self, work: Work[Answer], *, durable: bool = False) -> Answer:
        """Do a piece of work in a thread, after the work that was given before.

        Raises:
            DeviceError: it was not done (code `denied_by_device`). If the disk does not answer, it may still
                be done.
            BadInput: the folder cannot be used.
        """
        do = functools.partial(self.do, work, durable=durable)
        try:
            async with asyncio.timeout(_BUSY_S + _TURN_S + _OPENING_S):
                return await asyncio.get_running_loop().run_in_executor(self._threads, do)
        except TimeoutError:
            raise _refused("its disk does not answer") from None
        except RuntimeError:
            raise _is_closed() from None

    def do(self, work: Work[Answer], *, durable: bool = False) -> Answer:
        """Do a piece of work in this thread, which waits for the disk.

        Raises:
            DeviceError: it was not done (code `denied_by_device`).
            BadInput: the folder cannot be used.
        """
        if not self._turn.acquire(timeout=_TURN_S):
            raise _refused("its disk does not answer")
        try:
            connection = self._connection or self._open()
            try:
                return self._transact(connection, work, durable)
            except sqlite3.Error as error:
                raise self._fault(error) from error
            except UnicodeDecodeError as error:
                raise self._fault(_Damaged("its text is not UTF-8")) from error
        finally:
            self._turn.release()

    def is_alive(self, client: str) -> bool:
        """Whether the client with this id, which may be this one, has not ended."""
        if client == self.client:
            return True
        try:
            end = os.open(self._lock_path(client), os.O_RDWR | _NO_LINK)
        except OSError as error:
            # Without a free file number it is unknown, and a live client's calls must not be taken over.
            return error.errno in _PASSING
        try:
            return not try_lock(end, shared=True)
        except OSError:
            # Where locks do not work, this client could not have opened the store.
            return True
        finally:
            os.close(end)

    def others_run(self) -> bool:
        """Whether another client of this state folder runs now; opens and changes nothing."""
        return any(self.is_alive(path.stem) for path in (self.folder / "clients").glob("*.lock"))

    def close(self) -> None:
        """Stop using the database; its rows stay."""
        self._threads.shutdown(wait=True)
        if not self._turn.acquire(timeout=_TURN_S):
            return
        try:
            self._closed = True
            self._let_go()
        finally:
            self._turn.release()

    def __del__(self) -> None:
        self._closed = True
        self._let_go()

    @property
    def _path(self) -> Path:
        return self.folder / DATABASE

    def _lock_path(self, client: str) -> Path:
        return self.folder / "clients" / f"{client}.lock"

    def _transact(self, connection: sqlite3.Connection, work: Work[Answer], durable: bool) -> Answer:
        synchronous = "FULL" if durable else self._relaxed
        if synchronous != self._synchronous:
            connection.execute(f"PRAGMA synchronous = {synchronous}")
            self._synchronous = synchronous
        connection.execute("BEGIN IMMEDIATE")
        try:
            answer = work(connection)
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                with contextlib.suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")
            raise
        return answer

    def _open(self) -> sqlite3.Connection:
        if self._closed:
            raise _is_closed()
        if len(os.fsencode(self._path.absolute())) > _LONGEST_PATH:
            words = "its path is longer than SQLite opens; choose a shorter one"
            raise BadInput(sentences(f"The state folder {self.folder} cannot be used: {words}"))
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            (self.folder / "clients").mkdir(mode=0o700, exist_ok=True)
            _check_own(self.folder / "clients")
            _check_no_earlier_records(self.folder)
            with _opening(self.folder):
                self._own_lock = self._own_lock or self._lock_own_file()
                self._connection = self._connect(self._others())
        except (OSError, sqlite3.Error, DeviceError, BadInput) as error:
            self._let_go()
            if isinstance(error, OSError | sqlite3.Error):
                raise self._cannot_open(error) from error
            raise
        return self._connection

    def _lock_own_file(self) -> int:
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | _NO_LINK
        end = os.open(self._lock_path(self.client), flags, 0o600)
        try:
            os.write(end, machine_mark().encode("ascii"))
            if not try_lock(end):
                raise OSError(errno.EAGAIN, "a new file is locked already")
        except BaseException:
            os.close(end)
            raise
        return end

    def _others(self) -> list[str]:
        """The other clients that run now; the lock files of those that have ended are removed.

        Raises:
            BadInput: one of them runs on another machine, with which SQLite shares no memory.
        """
        others = []
        for path in (self.folder / "clients").glob("*.lock"):
            client = path.stem
            if client == self.client:
                continue
            if not self.is_alive(client):
                with contextlib.suppress(OSError):
                    path.unlink(missing_ok=True)
                continue
            others.append(client)
            if path.read_bytes() not in (machine_mark().encode("ascii"), b""):
                raise BadInput(f"A client on another machine uses the state folder {self.folder}.")
        return others

    def _connect(self, others: list[str]) -> sqlite3.Connection:
        if not os.path.lexists(self._path):
            if _beside(self._path, _WHOLE).exists():
                _use_whole(self._path)
            else:
                _make(self._path)
        _check_own(self._path)
        try:
            return self._checked()
        except sqlite3.DatabaseError as error:
            if _code(error) not in _DAMAGE:
                raise
            if others:
                raise DeviceError(
                    f"{self._path} is damaged, and another client uses it; end that one first.",
                    ErrorCode.DENIED_BY_DEVICE,
                ) from error
            _set_aside(self._path, str(error))
            return self._checked()

    def _checked(self) -> sqlite3.Connection:
        """A connection to a sound database.

        Raises:
            BadInput: it is another program's, or has another version's format.
            sqlite3.DatabaseError: it is damaged, or cannot be opened now.
        """
        if self._path.stat().st_size == 0:
            # SQLite would take it for a new database, and delete the log with its last transactions.
            raise _Damaged(f"{self._path.name} is empty")
        for end in _BESIDE:
            if _beside(self._path, end).is_symlink():
                raise BadInput(f"{_beside(self._path, end)} is a link.")
        connection = _connection(self._path)
        try:
            [application], [version] = (
                connection.execute(f"PRAGMA {name}").fetchone() for name in ("application_id", "user_version")
            )
            if application != _APPLICATION_ID:
                raise _Damaged("its header is not that of a device's record")
            if version != _FORMAT:
                what = f"has format {version}, and this version opens format {_FORMAT} only"
                raise _of_another_version(self._path, what)
            [said] = connection.execute("PRAGMA quick_check(1)").fetchone()
            if said != "ok":
                raise _Damaged(str(said))
            if _tables(connection) != _expected_tables():
                raise _Damaged("its tables are not those of a device's record")
            # What is deleted is overwritten, so that no path, name or id outlives its row.
            connection.execute("PRAGMA secure_delete = ON")
            # On a file system that cannot share memory, SQLite keeps its rollback journal.
            [mode] = connection.execute("PRAGMA journal_mode = WAL").fetchone()
            # Without the log, a transaction that is not synchronised could damage the file in a power cut.
            self._relaxed, self._synchronous = ("NORMAL" if mode == "wal" else "FULL"), ""
            connection.execute(f"PRAGMA wal_autocheckpoint = {_PAGES_BETWEEN_CHECKPOINTS}")
            connection.execute(f"PRAGMA journal_size_limit = {_LARGEST_LOG}")
        except BaseException as error:
            connection.close()
            if isinstance(error, UnicodeDecodeError):
                # Python's module cannot decode SQLite's message about the damage.
                raise _Damaged("its text is not UTF-8") from error
            raise
        return connection

    def _let_go(self) -> None:
        if self._connection is not None:
            with contextlib.suppress(sqlite3.Error):
                self._connection.close()
            self._connection = None
        if self._own_lock is not None:
            os.close(self._own_lock)
            self._own_lock = None
            with contextlib.suppress(OSError):
                self._lock_path(self.client).unlink(missing_ok=True)

    def _fault(self, error: sqlite3.Error) -> DeviceError:
        """The error of a piece of work that was not done."""
        if _code(error) in _DAMAGE:
            log.error("the device's record is damaged", file=str(self._path), reason=str(error))
            return _refused("it is damaged; start the device client again")
        return _refused(self._reason(error))

    def _cannot_open(self, error: OSError | sqlite3.Error) -> BadInput | DeviceError:
        words = f"{self.folder} cannot keep the record of actions: {self._reason(error)}"
        if isinstance(error, OSError):
            passing = error.errno in _PASSING
        else:
            passing = _code(error) in _PASSING_IN_SQLITE or self._is_full()
        return DeviceError(words) if passing else BadInput(words)

    def _reason(self, error: OSError | sqlite3.Error) -> str:
        if isinstance(error, OSError):
            return str(error)
        if _code(error) == sqlite3.SQLITE_BUSY:
            return f"another client has kept it locked for {_BUSY_S:g} s"
        # SQLite says "disk I/O error" where its log does not fit.
        return os.strerror(errno.ENOSPC) if self._is_full() else str(error)

    def _is_full(self) -> bool:
        try:
            disk = shutil.disk_usage(self.folder)
        except OSError:
            return False
        return disk.total > 0 and disk.free < _LITTLE_ROOM


def doubtful_until(connection: sqlite3.Connection, about: Table) -> float:
    """Until when a missing row of a table may be a lost one, in seconds since 1970; 0.0 if none was lost."""
    row = connection.execute("SELECT until FROM doubts WHERE about = ?", (about,)).fetchone()
    return 0.0 if row is None else float(row[0])


def doubted_since(connection: sqlite3.Connection, about: Table) -> float:
    """When rows of a table were lost, in seconds since 1970; 0.0 if none was."""
    row = connection.execute("SELECT since FROM doubts WHERE about = ?", (about,)).fetchone()
    return 0.0 if row is None else float(row[0])


def doubt(connection: sqlite3.Connection, about: Table, since: float) -> None:
    """Note that rows of a table written before `since` may be missing; they matter for `EXPIRY_S`."""
    connection.execute("INSERT OR REPLACE INTO doubts VALUES (?, ?, ?)", (about, since, since + EXPIRY_S))


def made_at(connection: sqlite3.Connection) -> float:
    """When the database was made, in seconds since 1970; 0.0 if it does not say.

    Of what was before, it may know nothing: its folder may have been deleted.
    """
    row = connection.execute("SELECT since FROM doubts WHERE about = ?", (_MADE,)).fetchone()
    return 0.0 if row is None else float(row[0])


class _Damaged(sqlite3.DatabaseError):
    sqlite_errorcode = sqlite3.SQLITE_CORRUPT


def _code(error: sqlite3.Error) -> int:
    """SQLite's primary result code; 0 for an error of Python's module."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def _refused(reason: str) -> DeviceError:
    return DeviceError(
        sentences(f"This device cannot keep its record of actions: {reason}"), ErrorCode.DENIED_BY_DEVICE
    )


def _is_closed() -> DeviceError:
    return DeviceError("This device's record of actions is closed.", ErrorCode.CANCELLED)


def _connection(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=_BUSY_S, isolation_level=None, check_same_thread=False)
    # Damaged text must not raise an error of its own, also within SQLite's report about the damage.
    connection.text_factory = lambda data: data.decode("utf-8", "replace")
    return connection


def _tables(connection: sqlite3.Connection) -> list[tuple[str, str]]:
    return connection.execute("SELECT name, sql FROM sqlite_schema ORDER BY name").fetchall()


@functools.lru_cache(maxsize=1)
def _expected_tables() -> list[tuple[str, str]]:
    with contextlib.closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(_SCHEMA)
        return _tables(connection)


def _check_no_earlier_records(folder: Path) -> None:
    """Refuse a state folder of a version whose records are not read: a call could run twice.

    Raises:
        BadInput: there are such records.
    """
    for name in _EARLIER_FOLDERS:
        if (folder / name).is_dir():
            raise _of_another_version(folder / name, "has records that this version does not read")


def _of_another_version(path: Path, what: str) -> BadInput:
    return BadInput(
        f"{path} {what}: another version of quarterdeck-device wrote it. Start that version, or move the"
        " state folder away to begin as a new device."
    )


def _make(path: Path) -> None:
    """Make an empty database under another name, and rename it when it is on the disk.

    So a database without tables is always a damaged one.
    """
    fresh = _beside(path, ".new")
    for end in ("", *_BESIDE):
        _beside(fresh, end).unlink(missing_ok=True)
    os.close(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_LINK, 0o600))
    with contextlib.closing(_connection(fresh)) as connection:
        now = time.time()
        made = f"INSERT INTO doubts VALUES ('{_MADE}', {now}, {now});"
        connection.executescript(f"BEGIN; {_SCHEMA} {made} COMMIT;")
    os.replace(fresh, path)
    sync_folder(path.parent)


def _check_own(path: Path) -> None:
    """Refuse a path that another user made in a folder such as /tmp, and take others' rights away.

    Raises:
        BadInput: it is a link, neither a regular file nor a folder, or another user's.
    """
    facts = path.lstat()
    if not (stat.S_ISREG(facts.st_mode) or stat.S_ISDIR(facts.st_mode)):
        raise BadInput(f"{path} is not a regular file.")
    # Windows' modes say nothing of other users.
    if sys.platform != "win32":
        if facts.st_uid not in (os.geteuid(), path.parent.stat().st_uid):
            raise BadInput(f"{path} belongs to another user (number {facts.st_uid}).")
        if facts.st_mode & 0o077:
            path.chmod(stat.S_IMODE(facts.st_mode) & 0o700)


def _set_aside(path: Path, reason: str) -> None:
    """Rename a damaged database, and copy the rows that can be read into a new one.

    The new one knows of the doubt before the damaged one loses its name, so that no interruption leaves a
    database without it.
    """
    aside, whole = path.with_name(SET_ASIDE), _beside(path, _WHOLE)
    log.error("the device's record is damaged and was set aside", reason=reason, kept=str(aside))
    for end in ("", *_BESIDE):
        _beside(aside, end).unlink(missing_ok=True)
    whole.unlink(missing_ok=True)
    _make(whole)
    with contextlib.closing(_connection(whole)) as connection:
        connection.execute("BEGIN")
        for table in _TABLES:
            doubt(connection, table, time.time())
        connection.execute("COMMIT")
        os.replace(path, aside)
        _move_log(path, aside)
        connection.execute("BEGIN")
        for table in _TABLES:
            _copy_readable(aside, table, connection)
        connection.execute("COMMIT")
    _use_whole(path)


def _use_whole(path: Path) -> None:
    """Give the new database the name of the damaged one, without the damaged one's log."""
    _move_log(path, path.with_name(SET_ASIDE))
    os.replace(_beside(path, _WHOLE), path)
    sync_folder(path.parent)


def _move_log(path: Path, aside: Path) -> None:
    for end in _BESIDE:
        with contextlib.suppress(FileNotFoundError):
            os.replace(_beside(path, end), _beside(aside, end))


def _beside(path: Path, end: str) -> Path:
    return path.with_name(path.name + end)


def _copy_readable(aside: Path, table: str, connection: sqlite3.Connection) -> None:
    """Copy a table's rows from both ends until one cannot be read."""
    for order in ("ASC", "DESC"):
        unreadable = contextlib.suppress(sqlite3.Error, UnicodeDecodeError)
        with unreadable, contextlib.closing(_connection(aside)) as damaged:
            for row in damaged.execute(f"SELECT * FROM {table} ORDER BY rowid {order}"):
                marks = ", ".join("?" * len(row))
                with contextlib.suppress(sqlite3.IntegrityError):
                    connection.execute(f"INSERT INTO {table} VALUES ({marks})", row)


@contextlib.contextmanager
def _opening(folder: Path) -> Iterator[None]:
    """Let one client at a time open the database.

    Raises:
        DeviceError: another client has been opening it for `_OPENING_S` seconds.
    """
    flags = os.O_RDWR | os.O_CREAT | _NO_LINK
    end = os.open(folder / "clients" / "opening", flags, 0o600)
    try:
        late = time.monotonic() + _OPENING_S
        while not try_lock(end):
            if time.monotonic() > late:
                raise DeviceError(
                    f"Another client has been opening {folder / DATABASE} for {_OPENING_S:g} s.",
                    ErrorCode.DENIED_BY_DEVICE,
                )
            time.sleep(0.02)
        yield
    finally:
        os.close(end)
