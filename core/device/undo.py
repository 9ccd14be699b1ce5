"""Old file content, kept on the device until it is restored, expires or is dropped for space.

An entry is a row in the device's store, and a file `undo/<id>.old` with the content before the change, if
there was any. The row comes before the file and goes before it, so a file without a row is a leftover.
Claiming an entry changes its row, which succeeds for exactly one claimant, also across processes. What a
client left behind is given back or cleared away when that client has ended.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import secrets
import sqlite3
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from core.device.config import Undo
from core.device.device_store import DeviceStore
from core.errors import BadInput, DeviceError, ErrorCode, Refused
from core.files import sync_folder
from core.log import Logger
from core.text import sentences

log = Logger(__name__)

# A limit besides the bytes: an entry for a new file holds no content, but still takes a file.
MOST_ENTRIES = 10_000
# The most changes that may have been unfinished when a process was killed; it has four threads for them.
_AT_WORK = 8
ID_PATTERN = "^[A-Za-z0-9_-]{16,64}$"
_ID = re.compile(ID_PATTERN)

UndoKind = Literal["write_file", "mcp_servers"]
"""Which inverse undoes a change: `write_file` a file's, `mcp_servers` one of the list of added servers."""


class UndoEntry(BaseModel):
    """One change of one file. `mode` is its permission bits; digests are SHA-256 in hexadecimal.

    `kind` names what was changed, and so the inverse.
    """

    # A later version may write more fields; its entries stay usable.
    model_config = ConfigDict(frozen=True, extra="ignore")

    undo_id: str
    kind: UndoKind = "write_file"
    path: str
    existed: bool
    mode: int
    old_sha256: str | None
    new_sha256: str
    old_size: int
    made_at: float


class UndoStore:
    """The entries of one state folder. Methods block on the disk and may be called from any thread."""

    def __init__(self, store: DeviceStore, limits: Undo, clock: Callable[[], float] = time.time) -> None:
        """Take over what ended clients left, and clear away what is not needed.

        Raises:
            BadInput: the folder for old content cannot be made.
        """
        self._store = store
        self._folder = store.folder / "undo"
        self._limits = limits
        self._clock = clock
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise BadInput(sentences(f"The state folder {self._folder} cannot be used: {error}")) from error
        try:
            cut, leftovers = self._store.do(self._begin)
        except (BadInput, DeviceError) as error:
            # Such as a disk that is read-only: nothing is kept, so no file is written.
            log.warning("what undo kept cannot be looked at", reason=str(error))
            return
        for path in leftovers:
            _remove(path)
        if cut:
            # In a thread: a network disk that does not answer must not block the device's start.
            threading.Thread(target=_clear_beside, args=(cut,), name="undo", daemon=True).start()

    def _begin(self, connection: sqlite3.Connection) -> tuple[list[UndoEntry], list[Path]]:
        """Take over what ended clients left.

        Returns the entries of changes that may have been cut off, and files that are not needed.
        """
        # An entry dated in the future by a wrong clock expires as if it were made now.
        connection.execute("UPDATE undo_entries SET made_at = min(made_at, ?)", (self._clock(),))
        cut: list[UndoEntry] = []
        rows = connection.execute("SELECT undo_id, client, state, entry FROM undo_entries ORDER BY seq DESC")
        alive: dict[str, bool] = {}
        for number, (undo_id, client, state, text) in enumerate(rows.fetchall()):
            if client not in alive:
                alive[client] = self._store.is_alive(client)
            if alive[client]:
                continue
            if state == "writing":
                connection.execute("DELETE FROM undo_entries WHERE undo_id = ?", (undo_id,))
                continue
            # A crash cut a restore off: the next one checks whether the file is as the write left it.
            connection.execute("UPDATE undo_entries SET state = 'kept' WHERE undo_id = ?", (undo_id,))
            if number < _AT_WORK or state == "claimed":
                with contextlib.suppress(ValidationError):
                    cut.append(UndoEntry.model_validate_json(text))
        self._make_room(connection, 0)
        known = {undo_id for (undo_id,) in connection.execute("SELECT undo_id FROM undo_entries")}
        return cut, [path for path in self._folder.glob("*.old") if path.stem not in known]

    @property
    def most_bytes(self) -> int:
        """The quota for the content of all entries."""
        return self._limits.max_bytes

    def refuse_too_large(self, path: Path, size: int) -> None:
        """Refuse a file that is too large to be kept, before it is read.

        Raises:
            Refused: `size` bytes are more than the quota.
        """
        if size > self._limits.max_bytes:
            raise Refused(
                f"{path} holds {size} bytes; this device keeps at most {self._limits.max_bytes} for undo.",
                ErrorCode.DENIED_BY_DEVICE,
            )

    def keep(
        self, path: Path, old: bytes | None, mode: int, new_sha256: str, kind: UndoKind = "write_file"
    ) -> str:
        """Store the old content of `path` durably (None: it did not exist); returns the undo id.

        Raises:
            Refused: the content alone is larger than the quota.
            OSError: the content cannot be written; no part of it is left.
            DeviceError: the entry cannot be written; no part of it is left.
        """
        size = len(old or b"")
        self.refuse_too_large(path, size)
        entry = UndoEntry(
            undo_id=secrets.token_urlsafe(18),
            kind=kind,
            path=str(path),
            existed=old is not None,
            mode=mode,
            old_sha256=None if old is None else hashlib.sha256(old).hexdigest(),
            new_sha256=new_sha256,
            old_size=size,
            made_at=self._clock(),
        )
        try:
            dropped = self._store.do(partial(self._add, entry=entry), durable=old is None)
            for undo_id in dropped:
                _remove(self._old(undo_id))
            if old is not None:
                _write_private(self._old(entry.undo_id), old)
                sync_folder(self._folder)
                self._store.do(partial(_set_state, undo_id=entry.undo_id, state="kept"), durable=True)
        except BaseException:
            # A partial entry would fill a disk that is full already.
            self.forget(entry.undo_id)
            raise
        return entry.undo_id

    def _add(self, connection: sqlite3.Connection, entry: UndoEntry) -> list[str]:
        dropped = self._make_room(connection, entry.old_size, MOST_ENTRIES - 1)
        _insert(connection, entry, "writing" if entry.existed else "kept", self._store.client)
        return dropped

    def forget(self, undo_id: str) -> None:
        """Remove an entry whose change did not happen or has been undone."""
        try:
            self._store.do(partial(_delete, undo_id=undo_id))
        except (BadInput, DeviceError) as error:
            # The next restore finds that its file has changed since.
            log.warning("what undo needs no more cannot be removed", undo_id=undo_id, reason=error.message)
        else:
            _remove(self._old(undo_id))

    def entry(self, undo_id: str) -> UndoEntry:
        """Read an entry without claiming it.

        Raises:
            BadInput: there is no such entry.
        """
        if not _ID.fullmatch(undo_id):
            raise BadInput("undo_id is not an undo id.")
        text = self._store.do(partial(_entry_of, undo_id=undo_id))
        if text is None:
            raise _gone()
        try:
            return UndoEntry.model_validate_json(text)
        except ValidationError as error:
            raise _gone() from error

    def claim(self, undo_id: str) -> tuple[UndoEntry, bytes | None]:
        """Claim an entry exclusively and read its content; `give_back` or `forget` must follow.

        Raises:
            BadInput: the entry is unknown, used, expired or dropped for space, or cannot be read.
        """
        if not _ID.fullmatch(undo_id):
            raise BadInput("undo_id is not an undo id.")
        text, dropped = self._store.do(partial(self._claim, undo_id=undo_id))
        for expired in dropped:
            _remove(self._old(expired))
        if text is None:
            raise _gone()
        try:
            return self._kept(undo_id, text)
        except FileNotFoundError as error:
            self.forget(undo_id)
            raise _gone() from error
        except BaseException:
            # The cause may pass, such as too many open files: a later claim can succeed.
            self.give_back(undo_id)
            raise

    def _claim(self, connection: sqlite3.Connection, undo_id: str) -> tuple[str | None, list[str]]:
        dropped = self._make_room(connection, 0)
        text = _entry_of(connection, undo_id)
        if text is not None:
            connection.execute(
                "UPDATE undo_entries SET state = 'claimed', client = ? WHERE undo_id = ?",
                (self._store.client, undo_id),
            )
        return text, dropped

    def _kept(self, undo_id: str, text: str) -> tuple[UndoEntry, bytes | None]:
        try:
            entry = UndoEntry.model_validate_json(text)
            old = self._old(undo_id).read_bytes() if entry.existed else None
        except FileNotFoundError:
            raise
        except (OSError, ValidationError) as error:
            raise BadInput(
                sentences(f"The kept content cannot be read: {error}"), ErrorCode.NOT_FOUND
            ) from error
        if old is not None and hashlib.sha256(old).hexdigest() != entry.old_sha256:
            raise BadInput("The kept content does not match its digest.", ErrorCode.NOT_FOUND)
        return entry, old

    def give_back(self, undo_id: str) -> None:
        """Make a claimed entry usable again."""
        try:
            self._store.do(partial(_set_state, undo_id=undo_id, state="kept"))
        except (BadInput, DeviceError) as error:
            # The next start gives it back.
            log.warning("an undo entry cannot be given back now", undo_id=undo_id, reason=error.message)

    def _old(self, undo_id: str) -> Path:
        return self._folder / f"{undo_id}.old"

    def _make_room(self, connection: sqlite3.Connection, size: int, most: int = MOST_ENTRIES) -> list[str]:
        """Drop expired entries, then the oldest, until `size` bytes fit and at most `most` are left.

        Returns the ids of the dropped entries, whose content must be removed when they are.
        """
        expired_before = self._clock() - self._limits.days * 86_400
        # In the order in which the entries were made, whatever the clock said.
        rows = connection.execute(
            "SELECT undo_id, made_at, size, state FROM undo_entries ORDER BY seq"
        ).fetchall()
        total, left = sum(row[2] for row in rows) + size, len(rows)
        dropped = []
        for undo_id, made_at, its_size, state in rows:
            needed = made_at > expired_before and total <= self._limits.max_bytes and left <= most
            # An entry that a client is at counts, and stays until that client has ended.
            if state == "kept" and not needed:
                _delete(connection, undo_id)
                dropped.append(undo_id)
                total, left = total - its_size, left - 1
        return dropped


def _insert(connection: sqlite3.Connection, entry: UndoEntry, state: str, client: str) -> None:
    connection.execute(
        "INSERT OR IGNORE INTO undo_entries (undo_id, state, client, made_at, size, entry) "
        "VALUES (?, ?, ?, ?, ?, ?)",
        (entry.undo_id, state, client, entry.made_at, entry.old_size, entry.model_dump_json()),
    )


def _set_state(connection: sqlite3.Connection, undo_id: str, state: str) -> None:
    connection.execute("UPDATE undo_entries SET state = ? WHERE undo_id = ?", (state, undo_id))


def _delete(connection: sqlite3.Connection, undo_id: str) -> None:
    connection.execute("DELETE FROM undo_entries WHERE undo_id = ?", (undo_id,))


def _entry_of(connection: sqlite3.Connection, undo_id: str) -> str | None:
    """The text of an entry that can be claimed."""
    row = connection.execute(
        "SELECT entry FROM undo_entries WHERE undo_id = ? AND state = 'kept'", (undo_id,)
    ).fetchone()
    return None if row is None else str(row[0])


def temporary_name(undo_id: str) -> str:
    """The name of a file's new content until it is complete; its undo id leads to the entry after a crash."""
    return f".{undo_id}.tmp"


def _clear_beside(entries: list[UndoEntry]) -> None:
    for entry in entries:
        if _ID.fullmatch(entry.undo_id):
            _remove(Path(entry.path).parent / temporary_name(entry.undo_id))


def _remove(path: Path) -> None:
    try:
        with contextlib.suppress(FileNotFoundError):
            path.unlink()
    except OSError as error:
        log.warning("what undo needs no more cannot be removed", path=str(path), reason=str(error))


def _gone() -> BadInput:
    return BadInput(
        "Nothing is kept under this undo_id: it was used, expired, or is not this device's.",
        ErrorCode.NOT_FOUND,
    )


def _write_private(path: Path, data: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
