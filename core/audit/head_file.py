"""`journal.head`: a file beside the database with the newest signed head of the journal.

After a crash, SQLite does not report what it lost: with a damaged log, or an older copy of the database, the
journal looks sound but ends earlier. So each commit's signed head is also written to this file, after the
database has made the commit durable and before the callers get their entries. After a kill or a power cut,
the database therefore never has less than this file; after a kill, this file covers every entry that a
caller got.

Each write is followed by an fsync, but callers do not wait for it: that would more than double the time of a
durable entry (8.3 ms instead of 3.1 ms where an fsync takes 4 ms; during the next commit it costs nothing
measurable). The next commit waits for the fsync, so a power cut can lose one head, that of the newest commit,
and only during the fsync. The commit itself is not lost. To exploit this, an attacker must cut the power at
that moment and change the disk afterwards; such an attacker could also restore all files of an earlier day,
which only a checkpoint stored elsewhere reveals.

The file has two records of `RECORD` bytes, each a signed note padded with zeros. They are written
alternately, so that a write torn by a power cut leaves the previous record.
"""

from __future__ import annotations

import os
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from core.audit.checkpoint import Checkpoint, read_checkpoint
from core.errors import BadInput, JournalCorrupt
from core.files import write_atomic

HEAD_FILE = "journal.head"
# A disk page for each record, so that writing one cannot damage the other; the note is in its first sector.
RECORD = 4096
_BINARY: int = getattr(os, "O_BINARY", 0)
_sync = getattr(os, "fdatasync", os.fsync)


@dataclass(frozen=True, slots=True)
class KnownHead:
    """The content of a head file. `torn` is the other record if that cannot be read, else None."""

    note: str
    checkpoint: Checkpoint
    record: int
    older: Checkpoint | None
    torn: bytes | None


class HeadFile:
    """An open head file; used by the journal's writer."""

    def __init__(self, path: Path, newest: int) -> None:
        """Open the file; `newest` is the record (0 or 1) that the next write must not overwrite.

        Raises:
            OSError: the file cannot be opened for writing.
        """
        self._newest = newest
        self._handle = os.open(path, os.O_RDWR | _BINARY)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="journal-head")
        self._syncing: Future[None] | None = None

    def write(self, note: str) -> None:
        """Wait until the newest record is on the disk, then write a head over the older record.

        Raises:
            OSError: the head was not written, or the newest record may not be on the disk; one of the file's
                two records is intact.
        """
        self.wait()
        record = 1 - self._newest
        os.lseek(self._handle, record * RECORD, os.SEEK_SET)
        if os.write(self._handle, _packed(note)) != RECORD:
            raise OSError(None, "only a part of a record could be written")
        self._newest = record
        self._syncing = self._thread.submit(_sync, self._handle)

    def wait(self) -> None:
        """Wait until the last write is on the disk.

        Raises:
            OSError: it may not be on the disk.
        """
        syncing, self._syncing = self._syncing, None
        try:
            if syncing is not None:
                syncing.result()
        except OSError:
            # Only the other record is certainly on the disk, so the next write must not overwrite it.
            self._newest = 1 - self._newest
            raise

    def close(self) -> None:
        """Close the file after the last fsync has succeeded or failed."""
        self._thread.shutdown(wait=True)
        os.close(self._handle)


def make_head_file(path: Path, note: str) -> None:
    """Create a head file at `path` atomically, even if the power fails.

    Raises:
        OSError: the file cannot be written.
    """
    write_atomic(path, 2 * _packed(note))


def read_head_file(path: Path, key: Ed25519PublicKey) -> KnownHead | None:
    """Read the head file at `path`; None if there is no file.

    Raises:
        JournalCorrupt: neither record is a head that this key signed, or the file's length is wrong.
        OSError: the file cannot be read.
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
    """A sort key that only grows from head to head: entries, spool records, permanent checkpoints."""
    # A stored checkpoint, which another program may have put in place of a head, sorts before all heads.
    return checkpoint.size, checkpoint.spool or 0, -1 if checkpoint.kept is None else checkpoint.kept.count


def check_known(known: KnownHead, note: str, checkpoint: Checkpoint, path: Path, reason: str = "") -> None:
    """Refuse a database whose head (`note`, parsed as `checkpoint`) is older than the known head.

    `path` is the database's; `reason` is another problem to mention in the message.

    Raises:
        JournalCorrupt: entries or commits are missing, or a record of the head file was changed.
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
        # A record can be torn only by the write of a head that the database has and this file lacks. A torn
        # record is a mixture of two heads, and does not differ from a head in a single byte.
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
        f" then put the last good copy back, {HEAD_FILE} with it. Where there is none, an operator can sign"
        " that what is missing is lost: quarterdeck audit accept-loss."
    )


def missing_after(count: int, size: int) -> str:
    """The message for a journal that ends at `size` entries and lacks the `count` entries after them."""
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
