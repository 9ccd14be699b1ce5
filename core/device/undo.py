"""The store of old file content, kept on the device until it is restored, expires or is dropped for space.

An entry has two files: `<id>.json` (the change and its file) and `<id>.old` (the content before the change).
Claiming an entry renames its JSON file, which succeeds for exactly one claimant, also across processes.
Several device clients may use one folder. Leftovers of a crash are removed only while no other client uses
the folder, since they may be a change that it is making.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import secrets
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import structlog
from pydantic import BaseModel, ConfigDict, ValidationError

from core.device.config import Undo
from core.device.presence import Presence
from core.errors import BadInput, ErrorCode, Refused
from core.files import sync_folder

log = structlog.get_logger(__name__)

# A limit besides the bytes: an entry for a new file holds no content, but still takes a file.
MOST_ENTRIES = 10_000
# The most changes that may have been unfinished when a process was killed; it has four threads for them.
_AT_WORK = 8
ID_PATTERN = "^[A-Za-z0-9_-]{16,64}$"
_ID = re.compile(ID_PATTERN)


class UndoEntry(BaseModel):
    """One change of one file. `mode` is its permission bits; digests are SHA-256 in hexadecimal.

    `kind` names the tool that made the change, and so the inverse.
    """

    # A later version may write more fields; its entries stay usable.
    model_config = ConfigDict(frozen=True, extra="ignore")

    undo_id: str
    kind: Literal["write_file"] = "write_file"
    path: str
    existed: bool
    mode: int
    old_sha256: str | None
    new_sha256: str
    old_size: int
    made_at: float


class UndoStore:
    """The entries below one folder. Methods block on the disk and may be called from any thread."""

    def __init__(self, folder: Path, limits: Undo, clock: Callable[[], float] = time.time) -> None:
        self._folder = folder
        self._limits = limits
        self._clock = clock
        self._lock = threading.RLock()
        # In the order in which the entries were made, whatever the clock said.
        self._index: dict[str, tuple[float, int]] = {}
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._presence = Presence(folder.with_name(f"{folder.name}.users"))
            with self._lock:
                self._begin(self._presence.is_alone)
        except OSError as error:
            raise BadInput(f"The state folder {folder} cannot be used: {error}") from error

    def _begin(self, alone: bool) -> None:
        claimed = self._give_back_all() if alone else []
        entries = self._load()
        if alone:
            self._clear_leftovers(entries, claimed)
        self._presence.share()
        self._make_room(0)

    def close(self) -> None:
        """Stop using the folder, which other clients can see; the entries stay."""
        self._presence.close()

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
                f"{path} holds {size} bytes; this device keeps at most {self._limits.max_bytes} for undo",
                ErrorCode.DENIED_BY_DEVICE,
            )

    def keep(self, path: Path, old: bytes | None, mode: int, new_sha256: str) -> str:
        """Store the old content of `path` durably (None: it did not exist); returns the undo id.

        Raises:
            Refused: the content alone is larger than the quota.
            OSError: the entry cannot be written; no part of it is left.
        """
        size = len(old or b"")
        self.refuse_too_large(path, size)
        entry = UndoEntry(
            undo_id=secrets.token_urlsafe(18),
            path=str(path),
            existed=old is not None,
            mode=mode,
            old_sha256=None if old is None else hashlib.sha256(old).hexdigest(),
            new_sha256=new_sha256,
            old_size=size,
            made_at=self._clock(),
        )
        with self._lock:
            # Entries of other clients are in this folder too, and count against the same quota.
            self._load()
            self._make_room(size, MOST_ENTRIES - 1)
            try:
                if old is not None:
                    _write_private(self._old(entry.undo_id), old)
                _write_private(self._entry(entry.undo_id), entry.model_dump_json().encode())
                sync_folder(self._folder)
            except BaseException:
                # A partial entry would fill a disk that is full already, without counting against the quota.
                self.forget(entry.undo_id)
                raise
            self._index[entry.undo_id] = (entry.made_at, size)
        return entry.undo_id

    def forget(self, undo_id: str) -> None:
        """Remove an entry whose change did not happen or has been undone."""
        with self._lock:
            self._index.pop(undo_id, None)
            for path in (self._entry(undo_id), self._claimed(undo_id), self._old(undo_id)):
                _remove(path)

    def entry(self, undo_id: str) -> UndoEntry:
        """Read an entry without claiming it.

        Raises:
            BadInput: there is no such entry.
        """
        if not _ID.fullmatch(undo_id):
            raise BadInput("undo_id is not an undo id")
        try:
            return UndoEntry.model_validate_json(self._entry(undo_id).read_bytes())
        except (OSError, ValidationError) as error:
            raise _gone() from error

    def claim(self, undo_id: str) -> tuple[UndoEntry, bytes | None]:
        """Claim an entry exclusively and read its content; `give_back` or `forget` must follow.

        Raises:
            BadInput: the entry is unknown, used, expired or dropped for space, or cannot be read.
        """
        if not _ID.fullmatch(undo_id):
            raise BadInput("undo_id is not an undo id")
        with self._lock:
            self._make_room(0)
            try:
                os.rename(self._entry(undo_id), self._claimed(undo_id))
            except FileNotFoundError as error:
                raise _gone() from error
            except OSError as error:
                raise BadInput(f"The kept content cannot be taken: {error.strerror}") from error
            try:
                return self._kept(undo_id)
            except FileNotFoundError as error:
                self.forget(undo_id)
                raise _gone() from error
            except BaseException:
                # The cause may pass, such as too many open files: a later claim can succeed.
                self.give_back(undo_id)
                raise

    def _kept(self, undo_id: str) -> tuple[UndoEntry, bytes | None]:
        try:
            entry = UndoEntry.model_validate_json(self._claimed(undo_id).read_bytes())
            old = self._old(undo_id).read_bytes() if entry.existed else None
        except FileNotFoundError:
            raise
        except (OSError, ValidationError) as error:
            raise BadInput(f"The kept content cannot be read: {error}", ErrorCode.NOT_FOUND) from error
        if old is not None and hashlib.sha256(old).hexdigest() != entry.old_sha256:
            raise BadInput("The kept content does not match its digest", ErrorCode.NOT_FOUND)
        return entry, old

    def give_back(self, undo_id: str) -> None:
        """Make a claimed entry usable again."""
        try:
            os.rename(self._claimed(undo_id), self._entry(undo_id))
        except OSError as error:
            # The next start gives it back.
            log.warning("an undo entry cannot be given back now", undo_id=undo_id, reason=str(error))

    def _entry(self, undo_id: str) -> Path:
        return self._folder / f"{undo_id}.json"

    def _claimed(self, undo_id: str) -> Path:
        return self._folder / f"{undo_id}.claimed"

    def _old(self, undo_id: str) -> Path:
        return self._folder / f"{undo_id}.old"

    def _give_back_all(self) -> list[str]:
        """Give back the claims of restores that a crash interrupted; returns their ids.

        The next restore checks whether the file is still as the write left it.
        """
        claimed = [path.stem for path in self._folder.glob("*.claimed") if _ID.fullmatch(path.stem)]
        for undo_id in claimed:
            self.give_back(undo_id)
        return claimed

    def _load(self) -> list[UndoEntry]:
        """Bring the index up to date with other clients' changes; returns the new entries, oldest first."""
        alone, now = self._presence.is_alone, self._clock()
        there = {name.removesuffix(".json") for name in os.listdir(self._folder) if name.endswith(".json")}
        for undo_id in self._index.keys() - there:
            del self._index[undo_id]
        unknown = [self._entry(undo_id) for undo_id in there - self._index.keys()]
        found = [entry for path in unknown if (entry := _read(path, alone)) is not None]
        found.sort(key=lambda entry: entry.made_at)
        for entry in found:
            # An entry dated in the future by a wrong clock expires as if it were made now.
            self._index[entry.undo_id] = (min(entry.made_at, now), entry.old_size)
        return found

    def _clear_leftovers(self, entries: list[UndoEntry], claimed: list[str]) -> None:
        """Remove old content without an entry, and temporary files of unfinished writes, after a crash."""
        for path in self._folder.glob("*.old"):
            if not self._entry(path.stem).exists():
                _remove(path)
        last = [*entries[-_AT_WORK:], *(entry for entry in entries if entry.undo_id in claimed)]
        if last:
            # In a thread: a network disk that does not answer must not block the device's start.
            threading.Thread(target=_clear_beside, args=(last,), name="undo", daemon=True).start()

    def _make_room(self, wanted: int, most: int = MOST_ENTRIES) -> None:
        """Drop expired entries, then the oldest, until `wanted` bytes fit and at most `most` are left."""
        expired_before = self._clock() - self._limits.days * 86_400
        total = sum(size for _, size in self._index.values()) + wanted
        for undo_id, (made_at, size) in list(self._index.items()):
            fits = total <= self._limits.max_bytes and len(self._index) <= most
            if made_at <= expired_before or not fits:
                self.forget(undo_id)
                total -= size


def _read(path: Path, alone: bool) -> UndoEntry | None:
    """Read an entry; None where it cannot be used.

    An entry that a crash truncated is removed, but only while no other client uses the folder: it may be
    writing that entry now. Other unusable entries stay, since a later version may read them.
    """
    try:
        entry = UndoEntry.model_validate_json(path.read_bytes())
        return entry if entry.undo_id == path.stem else None
    except FileNotFoundError:
        # Another client has just claimed it.
        return None
    except OSError as error:
        log.warning("an undo entry cannot be read", path=str(path), reason=str(error))
    except ValidationError as error:
        if alone and error.errors()[0]["type"] == "json_invalid":
            _remove(path)
            _remove(path.with_suffix(".old"))
    return None


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
        "Nothing is kept under this undo_id: it was used, expired, or is not this device's",
        ErrorCode.NOT_FOUND,
    )


def _write_private(path: Path, data: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
