"""The spool: noted entries, handed to the operating system at once and to the journal a little later.

A record is written with one `os.write`, so killing the process loses none; only a power cut can. Records
carry a number that only grows and a CRC, so that after a crash the journal takes what it does not have yet,
once, and a torn last record is recognised. The file is emptied when all of it is in the journal.
"""

from __future__ import annotations

import os
import struct
import sys
import zlib
from pathlib import Path
from typing import NamedTuple

from core.audit.encode import MAX_ENTRY_BYTES, Parts
from core.errors import JournalUnavailable

# CRC of all that follows it, length of head, length of tail, number.
_HEADER = struct.Struct("<IIIQ")
_CRC, _COVERED = struct.Struct("<I"), struct.Struct("<IIQ")
_EMPTY_ABOVE_BYTES = 256 * 1024
_BINARY: int = getattr(os, "O_BINARY", 0)


class Record(NamedTuple):
    """One noted entry as the spool holds it."""

    number: int
    parts: Parts


class Spool:
    """An open spool; used by one journal, under that journal's lock."""

    def __init__(self, path: Path) -> None:
        """Open or create the file.

        Raises:
            JournalUnavailable: it cannot be opened for writing.
        """
        self.path = path
        self._written = 0
        self._broken: str | None = None
        try:
            self._handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | _BINARY, 0o600)
            _lock(self._handle)
            self._size = os.fstat(self._handle).st_size
        except BlockingIOError:
            os.close(self._handle)
            raise JournalUnavailable(
                f"Another program has this journal open ({path} is locked);"
                " only one may write. Close it first."
            ) from None
        except OSError as error:
            raise JournalUnavailable(f"The spool {path} cannot be opened: {error.strerror}.") from error

    @property
    def last_number(self) -> int:
        """The number of the newest record ever written or seen."""
        return self._written

    def read(self) -> tuple[list[Record], int]:
        """All whole records, oldest first, and how many bytes after them belong to none (a torn end)."""
        data = self.path.read_bytes()
        records, used = read_records(data)
        return records, len(data) - used

    def start_after(self, number: int) -> None:
        """Number the next record `number` + 1."""
        self._written = number

    def write(self, *parts: Parts) -> int:
        """Hand records to the operating system in one piece; gives the number of the last.

        Raises:
            JournalUnavailable: nothing of them is in the spool.
        """
        if self._broken is not None:
            raise JournalUnavailable(self._broken)
        number = self._written + len(parts)
        data = b"".join([pack(one, part) for one, part in enumerate(parts, self._written + 1)])
        try:
            done = os.write(self._handle, data)
        except OSError as error:
            self._undo()
            raise JournalUnavailable(self._message(error.strerror or "write failed")) from error
        if done != len(data):
            self._undo()
            raise JournalUnavailable(self._message("only a part of a record could be written"))
        self._size += done
        self._written = number
        return number

    def empty(self, always: bool = False) -> None:
        """Drop all records; for when all of them are in the journal. Small files are left unless `always`."""
        if self._size == 0 or (self._size < _EMPTY_ABOVE_BYTES and not always):
            return
        try:
            os.ftruncate(self._handle, 0)
        except OSError:
            return  # harmless: the records are known by their numbers, and the next time may work
        self._size = 0

    def close(self) -> None:
        """Close the file."""
        os.close(self._handle)

    def _undo(self) -> None:
        """Take a part of a record back: a torn record in the middle would hide those after it."""
        try:
            os.ftruncate(self._handle, self._size)
        except OSError as error:
            self._broken = self._message(error.strerror or "truncate failed")

    def _message(self, cause: str) -> str:
        return f"The spool {self.path} cannot be written: {cause}. Free disk space or mend permissions."


def _lock(handle: int) -> None:
    """Claim the spool for this process: emptying one that another still fills would lose entries.

    Raises:
        BlockingIOError: another process has it.
    """
    if sys.platform == "win32":
        import msvcrt

        # Locked bytes cannot be read by others there, so the lock is on one far beyond the records.
        os.lseek(handle, 1 << 40, os.SEEK_SET)
        try:
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        except OSError as error:
            raise BlockingIOError(error.errno, error.strerror) from error
    else:
        import fcntl

        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)


def pack(number: int, parts: Parts) -> bytes:
    """A record's bytes."""
    head, tail = parts
    covered = _COVERED.pack(len(head), len(tail), number) + head + tail
    return _CRC.pack(zlib.crc32(covered)) + covered


def read_records(data: bytes) -> tuple[list[Record], int]:
    """The whole records at the beginning of `data`, and how many bytes they take."""
    records: list[Record] = []
    at = 0
    while len(data) - at >= _HEADER.size:
        crc, head, tail, number = _HEADER.unpack_from(data, at)
        start = at + _HEADER.size
        end = start + head + tail
        if head + tail > MAX_ENTRY_BYTES or end > len(data) or zlib.crc32(data[at + 4 : end]) != crc:
            break
        records.append(Record(number, Parts(data[start : start + head], data[start + head : end])))
        at = end
    return records, at
