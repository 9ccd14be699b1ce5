"""Making a backup of a home whose journal this process has open."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import sqlite3
import stat
import threading
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import BinaryIO, Protocol

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from core import __version__
from core.audit import journal_copy
from core.audit.journal import BLOBS, Journal
from core.audit.store import DATABASE, connect
from core.canonical_json import sha256_hex
from core.errors import BadInput, JournalCorrupt, JournalUnavailable
from core.files import give_name, sync_folder, temporary_name
from core.home import Home
from core.ids import now_utc
from core.service.backup import sealing
from core.service.backup.archive import END, READ_AT_ONCE, Member, header, padding, size_of
from core.service.backup.contents import Contents, HomeFile, contents_of
from core.service.backup.description import (
    DESCRIPTION,
    HOME,
    JOURNAL_KEY,
    MAC,
    SECRETS,
    SUMS,
    Description,
    sum_line,
)
from core.service.backup.models import BackupKey, BackupMade
from core.service.backup.progress import Progress, Tell, in_stoppable_thread
from core.service.backup.sealing import SealWriter
from core.text import sentences

# Databases of other processes, which change while they are read.
_DATABASES = frozenset({"this-computer/device.db"})
_FLAGS = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)


class _Gone(BadInput):
    """A file is not there any more."""


class _Target(Protocol):
    def write(self, data: bytes, /) -> object: ...


async def back_up(home: Home, journal: Journal, path: str, key: BackupKey, tell: Tell) -> BackupMade:
    """Write a backup to the new file at `path`; cancelling it leaves no file.

    Everything that happened before the call is in it, and the journal goes on meanwhile. `tell` is called in
    a thread with the bytes that are done and those in total.

    Raises:
        BadInput: there is a file already, the file cannot be written, or a file of the home cannot be read.
        JournalUnavailable: the journal cannot be written, so that some of what happened is not in it.
        JournalCorrupt: a blob or the journal's head is damaged.
    """
    target = Path(path)
    _check_target(home, target)
    await journal.flush_late()
    await journal.settle()
    if not journal.state.writable or journal.has_late:
        raise JournalUnavailable(
            "A backup has all that happened, and the journal cannot be written now:"
            f" {journal.state.error or 'entries wait in memory.'} Mend that first."
        )

    def work(stop: threading.Event) -> BackupMade:
        return _Making(home, journal.public_key, target, key, Progress(tell, stop)).run()

    return await in_stoppable_thread(work)


def _check_target(home: Home, target: Path) -> None:
    if not target.is_absolute() or not target.parent.is_dir():
        raise BadInput(f"There is no folder {target.parent}; make it first.")
    if os.path.lexists(target):
        raise BadInput(f"{target} is there already, and is not overwritten; choose another name.")
    if Path(os.path.realpath(target.parent)).is_relative_to(home.path):
        raise BadInput(f"{target} is in the home, and would be lost with it; choose a place on another disk.")


class _Making:
    """One backup that is being made, in a folder of its own beside the target."""

    def __init__(
        self, home: Home, home_key: Ed25519PublicKey, target: Path, key: BackupKey, progress: Progress
    ) -> None:
        self._home = home
        self._home_key = home_key
        self._target = target
        self._key = key
        self._progress = progress
        self._folder = temporary_name(target)
        self._made_at = now_utc()
        self._time = int(datetime.fromisoformat(self._made_at).timestamp())

    def run(self) -> BackupMade:
        """Make it; whatever happens, the folder is removed."""
        try:
            self._folder.mkdir(mode=0o700)
            try:
                return self._make()
            finally:
                shutil.rmtree(self._folder, ignore_errors=True)
        except FileExistsError as error:
            raise BadInput(f"{self._target} is there already, and is not overwritten.") from error
        except OSError as error:
            why = error.strerror or error.args[-1]
            raise BadInput(f"{self._target} cannot be written: {why}. Nothing is left of it.") from error

    def _make(self) -> BackupMade:
        database = self._home.path / DATABASE
        # Roughly: the journal grows meanwhile, and its copy is read once more.
        with _reading(database):
            self._progress.total = 2 * database.stat().st_size
        head = journal_copy.copy_journal(database, self._home_key, self._folder, self._progress.step)
        # After the journal: whatever an entry names is there by now.
        with _reading(self._home.path):
            found = contents_of(self._home)
        self._progress.total += found.size
        files = [*self._journal_files(), *self._copies(found.plain), *found.blobs]
        digests = {file.name: _digest(file) for file in files if not _is_blob(file)}
        secrets, count = self._seal(found)
        sums = "".join(
            sum_line(digests.get(file.name) or file.path.name, HOME + file.name) for file in files
        ) + sum_line(secrets.digest.hexdigest(), SECRETS)
        members = [self._member(HOME + file.name, file.size) for file in files]
        members.append(self._member(SECRETS, secrets.size))
        description = Description(
            program=__version__,
            made_at=self._made_at,
            home_key=self._home_key.public_bytes_raw().hex(),
            entries=head.checkpoint.size,
            checkpoint=head.note,
            salt=self._key.salt,
            files=len(files) + count,
            size=sum(map(size_of, members)),
            sums=sha256_hex(sums.encode()),
        )
        files.append(HomeFile(SECRETS, self._folder / SECRETS, secrets.size))
        size = self._write(description.to_bytes(), sums.encode(), list(zip(members, files, strict=True)))
        return BackupMade(
            path=str(self._target),
            made_at=self._made_at,
            files=description.files,
            size=size,
            entries=description.entries,
            checkpoint=head.note,
            left_out=found.left_out,
        )

    def _member(self, name: str, size: int) -> Member:
        return Member(name, size, self._time)

    def _journal_files(self) -> list[HomeFile]:
        paths = [self._folder / name for name in journal_copy.FILES]
        return [HomeFile(path.name, path, path.stat().st_size) for path in paths]

    def _copies(self, files: list[HomeFile]) -> Iterator[HomeFile]:
        """Copies of files that may change before they are written."""
        for number, file in enumerate(files):
            copy = self._folder / f"plain-{number}"
            with contextlib.suppress(_Gone), _opened(file.path) as (source, size):
                with copy.open("xb") as target:
                    self._put(source, size, target, file)
                yield HomeFile(file.name, copy, size)

    def _seal(self, found: Contents) -> tuple[SealWriter, int]:
        """Write the archive of the secrets, encrypted; also returns their number.

        In clear they are never on the target's disk.
        """
        with (self._folder / SECRETS).open("xb") as file:
            writer = SealWriter(file, self._key)
            sealed = [secret.name for secret in found.secret if self._seal_file(secret, writer)]
            writer.write(END)
            writer.close()
        if JOURNAL_KEY not in sealed:
            raise BadInput(f"{self._home.path / JOURNAL_KEY} is missing: without it no backup could be used.")
        return writer, len(sealed)

    def _seal_file(self, secret: HomeFile, writer: SealWriter) -> bool:
        """Write a secret; False if it is gone by now."""
        if secret.name in _DATABASES and (data := _database(secret.path)) is not None:
            writer.write(header(self._member(secret.name, len(data))) + data + padding(len(data)))
            return True
        with contextlib.suppress(_Gone), _opened(secret.path) as (source, size):
            writer.write(header(self._member(secret.name, size)))
            self._put(source, size, writer, secret)
            writer.write(padding(size))
            return True
        return False

    def _write(self, description: bytes, sums: bytes, files: list[tuple[Member, HomeFile]]) -> int:
        """Write the archive and give it its name; returns its size."""
        made = self._folder / "archive"
        handle = os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o600)
        with open(handle, "wb") as out:
            code = sealing.mac(self._key, description).encode() + b"\n"
            for name, data in ((DESCRIPTION, description), (MAC, code), (SUMS, sums)):
                out.write(header(self._member(name, len(data))) + data + padding(len(data)))
            for member, file in files:
                out.write(header(member))
                with _opened(file.path) as (source, _):
                    digest = self._put(source, member.size, out, file)
                if _is_blob(file) and digest != file.path.name:
                    raise JournalCorrupt(
                        f"The blob {file.path} was changed: it does not have the hash that it is named by."
                        " A backup with it would not verify, and none was made; see quarterdeck audit verify."
                    )
                out.write(padding(member.size))
            out.write(END)
            out.flush()
            os.fsync(out.fileno())
            size = out.tell()
        self._progress.check()
        give_name(made, self._target)
        sync_folder(self._target.parent)
        return size

    def _put(self, source: BinaryIO, size: int, target: _Target, file: HomeFile) -> str:
        """Write exactly `size` bytes of a source; returns their digest."""
        digest, left = hashlib.sha256(), size
        while left:
            with _reading(file.path):
                data = source.read(min(left, READ_AT_ONCE))
            if not data:
                raise BadInput(f"{file.path} was changed while it was read; try again.")
            target.write(data)
            digest.update(data)
            left -= len(data)
            self._progress.step(len(data))
        return digest.hexdigest()


def _is_blob(file: HomeFile) -> bool:
    return file.name.startswith(f"{BLOBS}/")


def _digest(file: HomeFile) -> str:
    with file.path.open("rb") as source:
        return hashlib.file_digest(source, "sha256").hexdigest()


@contextlib.contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Say of an error of reading in the home which file it is about; other errors are the target's."""
    try:
        yield
    except OSError as error:
        raise BadInput(sentences(f"{path} cannot be read: {error.strerror}")) from error


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[tuple[BinaryIO, int]]:
    """A file, which is no link, and its size."""
    with _reading(path):
        try:
            handle = os.open(path, _FLAGS)
        except FileNotFoundError as error:
            raise _Gone(f"{path} is missing; try again.") from error
        seen = os.fstat(handle)
    with open(handle, "rb") as file:
        if not stat.S_ISREG(seen.st_mode):
            raise BadInput(f"{path} is not a regular file.")
        yield file, seen.st_size


def _database(path: Path) -> bytes | None:
    """A database as one transaction sees it; None where SQLite cannot read it, so that it is copied as it is.

    The device sets a damaged one aside when it starts.
    """
    try:
        with contextlib.closing(connect(path, "ro")) as source, contextlib.closing(_in_memory()) as copy:
            source.backup(copy)
            return copy.serialize()
    except sqlite3.Error:
        return None


def _in_memory() -> sqlite3.Connection:
    return sqlite3.connect(":memory:")
