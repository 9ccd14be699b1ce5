"""Making a home of a backup: all of it or nothing, and only what verifies.

The backup is unpacked into a new folder beside the home's place, which gets the home's name when all is
checked and on the disk. Nothing from a backup is used before its description is authenticated; every file is
then compared with its digest, and the journal is verified as by `audit verify`.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import shutil
import stat
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Self

from core.audit.checkpoint import load_or_create_journal_key
from core.audit.events import HomeRestored
from core.audit.journal_copy import continue_copy
from core.audit.spool import SpoolKey
from core.audit.verify import verify_folder
from core.canonical_json import sha256_hex
from core.errors import BadInput, JournalCorrupt, JournalUnavailable
from core.files import sync_folder, temporary_name
from core.home import Home
from core.service.backup import sealing
from core.service.backup.archive import (
    END,
    Damaged,
    Member,
    Source,
    padding,
    read_content,
    read_member,
)
from core.service.backup.description import (
    DESCRIPTION,
    HOME,
    JOURNAL_KEY,
    MAC,
    SECRETS,
    SUMS,
    Description,
    read_description,
    read_sums,
)
from core.service.backup.models import BackupKey
from core.service.backup.progress import Progress, Tell
from core.service.backup.sealing import SealReader
from core.text import clause

JOURNAL_NAME = "quarterdeck"
# What may be read before anything is authenticated.
_LARGEST_DESCRIPTION = 64 * 1024
_MAC_BYTES = 65
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)


@dataclass(frozen=True, slots=True)
class Restored:
    """A home that was made of the backup `description`; `entry` is the number of the entry that says so."""

    description: Description
    entry: int


class BackupFile:
    """An open backup, of which only the description was read; nothing is authenticated yet."""

    def __init__(self, path: Path) -> None:
        """Open the file.

        Raises:
            BadInput: it cannot be read, or is no backup that this version reads.
        """
        self.path = path
        try:
            # Opening a FIFO would wait for its other end.
            handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
        except OSError as error:
            raise BadInput(f"{path} cannot be read: {error.strerror}.") from error
        seen = os.fstat(handle)
        if not stat.S_ISREG(seen.st_mode):
            os.close(handle)
            raise BadInput(f"{path} is not a backup: it is not a regular file.")
        self._file = open(handle, "rb")  # noqa: SIM115  # closed by `close`
        try:
            self.size = seen.st_size
            with self.faults("is not a backup that can be read"):
                self._time: int | None = None
                self._bytes = self._read(DESCRIPTION, _LARGEST_DESCRIPTION)
                self.description = read_description(self._bytes)
                self._mac = self._read(MAC, _MAC_BYTES)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @contextlib.contextmanager
    def faults(self, what: str) -> Iterator[None]:
        """Name the file in the error about it.

        Raises:
            BadInput: the file is damaged, or cannot be read.
        """
        try:
            yield
        except Damaged as error:
            raise BadInput(
                f"{self.path} {what}: {clause(error.message)}. Nothing was restored; take another backup."
            ) from error

    @property
    def source(self) -> Source:
        """Where the rest of the archive is read from."""
        return self._file

    def unlock(self, key: BackupKey) -> list[tuple[str, str]]:
        """Authenticate the description; returns the names of all files, and their digests.

        Raises:
            BadInput: it is another passphrase's key, or the file was changed.
        """
        if not hmac.compare_digest(sealing.mac(key, self._bytes).encode() + b"\n", self._mac):
            raise BadInput(
                f"{self.path} does not open: the passphrase is wrong, or the file was changed."
                " Nothing was restored."
            )
        with self.faults("was changed"):
            if self._time != int(datetime.fromisoformat(self.description.made_at).timestamp()):
                raise Damaged("Its files have the time of another backup.")
            sums = self._read(SUMS, self.size)
            if sha256_hex(sums) != self.description.sums:
                raise Damaged("Its list of files is another.")
            expected = self._file.tell() + self.description.size + len(END)
            if self.size != expected:
                raise Damaged(f"It has {self.size:,} bytes, and had {expected:,}.")
            return read_sums(sums)

    def next_member(self) -> Member | None:
        """The next file of the archive; None at its end.

        Raises:
            Damaged: it is not one, or has another time than those before it.
        """
        member = read_member(self._file)
        if self._time is None and member is not None:
            self._time = member.time
        if member is not None and member.time != self._time:
            raise Damaged("Its files have different times.")
        return member

    def _read(self, name: str, most: int) -> bytes:
        member = self.next_member()
        if member is None or member.name != name or member.size > most:
            raise Damaged(f"It has no {name} at its place.")
        return b"".join(read_content(self._file, member.size))


def check_unused(home: Home) -> None:
    """Refuse a home that has anything in it.

    Raises:
        BadInput: it has, or it is no folder.
    """
    try:
        names = sorted(os.listdir(home.path))
    except FileNotFoundError:
        return
    except OSError as error:
        raise BadInput(f"The home {home.path} cannot be used: {error.strerror}.") from error
    if names:
        raise BadInput(
            f"The home {home.path} is used: it has {names[0]!r}. A backup is restored into a new home only;"
            " name one with --home."
        )


def restore(
    home: Home, backup: BackupFile, key: BackupKey, actor: str, tell: Tell, stop: threading.Event
) -> Restored:
    """Make a new home of a backup, and write into its journal that it was restored. Blocks.

    `tell` gets the bytes that are done and those in total. Setting `stop` ends it; nothing is left then.

    Raises:
        BadInput: the home is used or cannot be written; the passphrase is wrong, or the backup was changed.
        JournalError: the journal in the backup does not verify.
    """
    check_unused(home)
    folder = temporary_name(home.path)
    try:
        sums = backup.unlock(key)
        home.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if shutil.disk_usage(home.path.parent).free < backup.size:
            raise BadInput(
                f"There is too little room for the home {home.path}: it takes {backup.size:,} bytes."
            )
        folder.mkdir(mode=0o700)
        try:
            progress = Progress(tell, stop)
            progress.total = backup.size
            with backup.faults("was changed"):
                _unpack(backup, sums, key, folder, progress)
            entry = _continue(folder, backup.description, actor, progress)
            Home(folder).create()
            _bring_to_disk(folder)
            progress.check()
            _place(folder, home)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
    except OSError as error:
        why = error.strerror or str(error)
        raise BadInput(f"The home {home.path} cannot be made: {why}. Nothing was restored.") from error
    return Restored(backup.description, entry)


def _unpack(
    backup: BackupFile, sums: list[tuple[str, str]], key: BackupKey, folder: Path, progress: Progress
) -> None:
    """Unpack exactly the files that are listed."""
    count = 0
    for name, digest in sums:
        member = backup.next_member()
        if member is None or member.name != name:
            raise Damaged(f"{name!r:.200} is not at its place.")
        if name == SECRETS:
            reader = SealReader(backup.source, member.size, key)
            count += _unpack_secrets(reader, folder, progress)
            found = reader.digest.hexdigest()
            if backup.source.read(len(padding(member.size))) != padding(member.size):
                raise Damaged("There is something between its files.")
        elif name.startswith(HOME):
            found = _unpack_file(backup.source, name.removeprefix(HOME), member.size, folder, progress)
            count += 1
        else:
            raise Damaged(f"It has a file {name!r:.200}, which belongs to no home.")
        if found != digest:
            raise Damaged(f"{name!r:.200} does not have its digest.")
    if backup.next_member() is not None:
        raise Damaged("It has more files than it lists.")
    if count != backup.description.files:
        raise Damaged(f"It has {count:,} files, and had {backup.description.files:,}.")


def _unpack_secrets(reader: SealReader, folder: Path, progress: Progress) -> int:
    count = 0
    while (member := read_member(reader)) is not None:
        _unpack_file(reader, member.name, member.size, folder, progress)
        count += 1
    return count


def _unpack_file(source: Source, name: str, size: int, folder: Path, progress: Progress) -> str:
    """Write a new file below the folder; returns its digest. Names are safe (`read_member`)."""
    path = folder.joinpath(*name.split("/"))
    _make_folders(path.parent, folder)
    digest = hashlib.sha256()
    try:
        handle = os.open(path, _NEW_FILE, 0o600)
    except FileExistsError:
        raise Damaged(f"It has {name!r:.200} twice.") from None
    with open(handle, "wb") as file:
        for data in read_content(source, size):
            file.write(data)
            digest.update(data)
            progress.step(len(data))
    return digest.hexdigest()


def _make_folders(wanted: Path, below: Path) -> None:
    """Make a folder and those above it, each for its owner alone."""
    if wanted != below and not wanted.is_dir():
        # `Path.mkdir` gives the mode to the last one only.
        _make_folders(wanted.parent, below)
        wanted.mkdir(mode=0o700)


def _continue(folder: Path, description: Description, actor: str, progress: Progress) -> int:
    """Verify the journal, and write into it that the home was restored; returns that entry's number."""
    path = folder / JOURNAL_KEY
    if not path.is_file():
        raise BadInput("The backup has no key of the journal; take another one.")
    key = load_or_create_journal_key(path)
    if key.public_key().public_bytes_raw().hex() != description.home_key:
        raise JournalCorrupt("The key of the journal in the backup is another home's; take another backup.")
    report = verify_folder(folder, key.public_key(), stop=progress.stop, spool_key=SpoolKey(key))
    progress.check()
    if not report.ok:
        raise JournalCorrupt(f"The journal in the backup does not verify: {clause(report.problem)}.")
    if (report.entries, report.checkpoint) != (description.entries, description.checkpoint):
        raise JournalCorrupt("The journal in the backup is not the one that was backed up.")
    event = HomeRestored(
        backup_made_at=description.made_at, entries=description.entries, checkpoint=description.checkpoint
    )
    try:
        return continue_copy(folder, key, JOURNAL_NAME, event.entry(actor))
    except JournalUnavailable as error:
        raise OSError(None, clause(error.message)) from error


def _bring_to_disk(folder: Path) -> None:
    """Make all files survive a power cut. One `sync` for all of them: each fsync may take milliseconds."""
    if hasattr(os, "sync"):
        os.sync()
        return
    for path in folder.rglob("*"):
        if path.is_file():
            with path.open("r+b") as file:
                os.fsync(file.fileno())


def _place(folder: Path, home: Home) -> None:
    """Give the folder the home's name; a home that was begun meanwhile is left as it is."""
    if os.name != "posix":
        # Elsewhere a folder is not replaced, not even an empty one.
        with contextlib.suppress(FileNotFoundError):
            home.path.rmdir()
    folder.rename(home.path)
    sync_folder(home.path.parent)
