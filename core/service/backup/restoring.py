"""Making a home of a backup: all of it or nothing, and only what verifies.

The backup is unpacked into a new folder beside the home's place, which gets the home's name when all is
checked and on the disk. Every file is compared with its digest (`reading.py`), and the journal is verified as
by `audit verify` (`checking.py`).
"""

from __future__ import annotations

import contextlib
import os
import shutil
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from core.audit.checkpoint import load_or_create_journal_key
from core.audit.events import HomeRestored
from core.audit.journal_copy import continue_copy
from core.errors import BadInput, JournalUnavailable
from core.files import sync_folder, temporary_name
from core.home import Home
from core.service.backup.checking import check_journal, journal_key
from core.service.backup.description import JOURNAL_KEY, Description
from core.service.backup.models import BackupKey
from core.service.backup.progress import Progress, Tell
from core.service.backup.reading import BackupFile, Put, unpack
from core.text import clause

JOURNAL_NAME = "quarterdeck"
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)


@dataclass(frozen=True, slots=True)
class Restored:
    """A home that was made of the backup `description`; `entry` is the number of the entry that says so."""

    description: Description
    entry: int


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
                unpack(backup, sums, key, _writer(folder), progress)
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


def _writer(folder: Path) -> Put:
    """Writes files below a new folder. Their names are safe (`read_member`)."""

    def write(name: str, content: Iterator[bytes]) -> None:
        path = folder.joinpath(*name.split("/"))
        _make_folders(path.parent, folder)
        handle = os.open(path, _NEW_FILE, 0o600)
        with open(handle, "wb") as file:
            file.writelines(content)

    return write


def _make_folders(wanted: Path, below: Path) -> None:
    """Make a folder and those above it, each for its owner alone."""
    if wanted != below and not wanted.is_dir():
        # `Path.mkdir` gives the mode to the last one only.
        _make_folders(wanted.parent, below)
        wanted.mkdir(mode=0o700)


def _continue(folder: Path, description: Description, actor: str, progress: Progress) -> int:
    """Verify the journal, and write into it that the home was restored; returns that entry's number."""
    path = folder / JOURNAL_KEY
    # Says what a backup without it lacks, before the key is loaded, and compared with its public half.
    journal_key(path, path.read_bytes() if path.is_file() else None)
    key = load_or_create_journal_key(path)
    check_journal(folder, key, description, progress)
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
