"""`journal.head`: the newest head that the journal is known to have had, beside the database.

What SQLite brings back after a crash says nothing of what it lost: with a damaged log, or an older copy of
the file, it is a sound journal that ends earlier. So each commit's signed head is written here as well: after
the database has made the commit durable, and before its callers are told so. So the database never has less
than what stands here, after a kill or a power cut, and after a kill every entry that a caller was told of
stands here.

The disk is asked for the file at once, but callers do not wait for that: it would double what a durable entry
costs (8.3 ms instead of 3.1 where an fsync takes 4; beside the next commit it costs nothing that shows). The
next commit waits for it, so a power cut can take back one head, that of the newest commit, and only while the
disk writes it. The commit itself is not lost by that. To make use of it takes the plug at that moment and a
hand on the disk afterwards, which could as well put back all files of an earlier day; only a checkpoint that
is kept elsewhere shows that.

The file holds two records of `RECORD` bytes, each a signed note with zeros behind it. They are written in
turn, so that a write that a power cut tears leaves the record before it.
"""

from __future__ import annotations

import contextlib
import os
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from core.audit.checkpoint import Checkpoint, read_checkpoint
from core.errors import BadInput, JournalCorrupt
from core.files import sync_folder

HEAD_FILE = "journal.head"
# A page of a disk each, so that writing one cannot touch the other; the note is in its first sector.
RECORD = 4096
_BINARY: int = getattr(os, "O_BINARY", 0)
_sync = getattr(os, "fdatasync", os.fsync)


@dataclass(frozen=True, slots=True)
class KnownHead:
    """What a head file says. `torn` is the other record where that cannot be read, else None."""

    note: str
    checkpoint: Checkpoint
    record: int
    older: Checkpoint | None
    torn: bytes | None


class HeadFile:
    """An open head file; used by the journal's writer."""

    def __init__(self, path: Path, newest: int) -> None:
        """Open the file; `newest` is the record (0 or 1) that must outlive the next write.

        Raises:
            OSError: it cannot be opened for writing.
        """
        self._newest = newest
        self._handle = os.open(path, os.O_RDWR | _BINARY)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="journal-head")
        self._syncing: Future[None] | None = None

    def write(self, note: str) -> None:
        """Hand a head to the operating system, over the older record, once the disk has the newest.

        Raises:
            OSError: it is not there, or the newest record may not be on the disk; one of the two is.
        """
        self.wait()
        record = 1 - self._newest
        os.lseek(self._handle, record * RECORD, os.SEEK_SET)
        if os.write(self._handle, _packed(note)) != RECORD:
            raise OSError(None, "only a part of a record could be written")
        self._newest = record
        self._syncing = self._thread.submit(_sync, self._handle)

    def wait(self) -> None:
        """Wait until the disk has what was written.

        Raises:
            OSError: it may not have it.
        """
        syncing, self._syncing = self._syncing, None
        try:
            if syncing is not None:
                syncing.result()
        except OSError:
            # The disk is sure to have the other record only, which the next write must not touch.
            self._newest = 1 - self._newest
            raise

    def close(self) -> None:
        """Close the file, once the disk has what was written, or says that it has not."""
        self._thread.shutdown(wait=True)
        os.close(self._handle)


def make_head_file(path: Path, note: str) -> None:
    """Put a head file at `path`, whole or not at all, also after a power cut.

    Raises:
        OSError: it cannot be written.
    """
    fresh = path.with_name(f"{path.name}.new")
    # One that a crash left behind may have another mode.
    fresh.unlink(missing_ok=True)
    handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _BINARY, 0o600)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(2 * _packed(note))
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)
        sync_folder(path.parent)
    except OSError:
        with contextlib.suppress(OSError):
            fresh.unlink(missing_ok=True)
        raise


def read_head_file(path: Path, key: Ed25519PublicKey) -> KnownHead | None:
    """What stands at `path`; None where there is no file.

    Raises:
        JournalCorrupt: neither record is a head that this key signed, or the file has another length.
        OSError: it cannot be read.
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    if len(data) != 2 * RECORD:
        raise _damaged(path, f"it has {len(data):,} bytes instead of {2 * RECORD:,}")
    read: list[tuple[Checkpoint, str, int]] = []
    torn: bytes | None = None
    reason = ""
    for number in range(2):
        record = data[number * RECORD : (number + 1) * RECORD]
        try:
            note = record.rstrip(b"\0").decode()
            read.append((read_checkpoint(note, key), note, number))
        except (JournalCorrupt, UnicodeDecodeError) as error:
            torn, reason = record, str(error)
    if not read:
        raise _damaged(path, reason)
    read.sort(key=lambda record: order(record[0]))
    checkpoint, note, number = read[-1]
    older = read[0][0] if len(read) == 2 else None
    return KnownHead(note, checkpoint, number, older, torn)


def order(checkpoint: Checkpoint) -> tuple[int, int, int]:
    """What only grows from one head of a journal to the next: entries, spool records, kept checkpoints."""
    # A head of format 1 says nothing of kept checkpoints, and comes before one that says there are none.
    return checkpoint.size, checkpoint.spool or 0, -1 if checkpoint.kept is None else checkpoint.kept.count


def check_known(known: KnownHead, note: str, checkpoint: Checkpoint, path: Path, reason: str = "") -> None:
    """Refuse a database whose head (`note`, read as `checkpoint`) is older than the one that is known.

    `path` is the database's; `reason` says what else is wrong, for the words.

    Raises:
        JournalCorrupt: says what is missing, or that a record of the head file was changed.
    """
    newest = known.checkpoint
    if newest.origin != checkpoint.origin:
        raise _damaged(path.with_name(HEAD_FILE), f"it belongs to {newest.origin!r}, another journal")
    if order(checkpoint) < order(newest):
        raise JournalCorrupt(_missing(newest, checkpoint, path, reason))
    same = order(checkpoint) == order(newest)
    if same and note != known.note:
        raise _damaged(path.with_name(HEAD_FILE), f"it has another head at {newest.size:,} entries")
    if known.torn is not None and (same or _differ(known.torn, _packed(note)) == 1):
        # Only the write of the head that the database has and this file has not can have been torn; and
        # what is torn is a mixture of two heads, no head with one byte changed.
        raise _damaged(path.with_name(HEAD_FILE), "one of its two records was changed")


def _missing(newest: Checkpoint, checkpoint: Checkpoint, path: Path, reason: str) -> str:
    count = newest.size - checkpoint.size
    what = missing_after(count, checkpoint.size)
    have = f"{HEAD_FILE} was signed at {newest.size:,}"
    if count <= 0:
        what = f"The last commit after entry {checkpoint.size:,} is missing, though no entry is"
        have = f"{HEAD_FILE} was written after it"
    because = f"; {reason}" if reason else ""
    return (
        f"{what} in the journal {path}: {have}{because}. It is left as it is: keep a copy of the home,"
        f" then put the last good copy back, {HEAD_FILE} with it."
    )


def missing_after(count: int, size: int) -> str:
    """The words for a journal that ends at `size` entries and lacks `count` behind them."""
    return f"{count:,} {'entry is' if count == 1 else 'entries are'} missing after {size:,}"


def _packed(note: str) -> bytes:
    data = note.encode()
    if len(data) > RECORD:
        raise BadInput(f"A journal's name may not be so long that its checkpoint has {len(data):,} bytes.")
    return data.ljust(RECORD, b"\0")


def _differ(left: bytes, right: bytes) -> int:
    return sum(byte != other for byte, other in zip(left, right, strict=True))


def _damaged(path: Path, what: str) -> JournalCorrupt:
    return JournalCorrupt(
        f"{path} is damaged ({what}). It is left as it is: keep a copy of the home, then put back the"
        " last good copy of the file, with the journal it belongs to."
    )
