"""The spool: noted entries, handed to the operating system at once and to the journal a little later.

A record is written with one `os.write`, so killing the process loses none; only a power cut can. Records are
numbered without gaps, so that after a crash the journal takes what it does not have yet, once. The file is
emptied when all of it is in the journal.

What is no whole record is one of three things. A last record that is shorter than its head says was never
acknowledged: the write was cut short. Blocks of zeros never reached the disk before a power cut. All else is
damage, and never passes for the other two: the head of a record has a checksum of its own, which tells a
changed length from a short record, and the records behind a bad one are found by the mark they begin with.
"""

from __future__ import annotations

import os
import struct
import sys
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from core.audit.encode import MAX_ENTRY_BYTES, Parts
from core.errors import JournalUnavailable

SPOOL = "journal.spool"
# It holds a byte that no entry holds, so it is found nowhere within one.
_MARK = b"\0QSR"
# The mark, the CRC of what follows; length of the entry's head and tail, number, CRC of head and tail.
_HEADER = struct.Struct("<4sIIIQI")
_COVERED = struct.Struct("<IIQI")
# Format 1: CRC of all that follows it, length of head, length of tail, number.
_OLD_HEADER = struct.Struct("<IIIQ")
_EMPTY_ABOVE_BYTES = 256 * 1024
# What a disk or a file system writes at once, at least.
_BLOCK = 512
_FEWEST_ZEROS = 8
_BINARY: int = getattr(os, "O_BINARY", 0)


class Record(NamedTuple):
    """One noted entry as the spool holds it."""

    number: int
    parts: Parts


class Gap(NamedTuple):
    """Bytes from `start` up to `end` that are no whole record, behind the first `after` records.

    `torn` where a crash explains them: a write that was cut short, or blocks that a power cut kept from the
    disk.
    """

    start: int
    end: int
    after: int
    torn: bool


@dataclass(frozen=True, slots=True)
class Spooled:
    """What a spool holds: its whole records, oldest first, and what lies between and behind them."""

    records: list[Record]
    gaps: list[Gap]

    @property
    def torn_bytes(self) -> int:
        """How many bytes belong to no whole record."""
        return sum(gap.end - gap.start for gap in self.gaps)

    def fresh(self, done: int) -> list[Record]:
        """The records that a journal lacks which has those up to number `done`."""
        return [record for record in self.records if record.number > done]

    def lost(self, done: int) -> int:
        """How many numbers are missing between the records that the journal lacks: a power cut took them."""
        numbers = [done, *(record.number for record in self.fresh(done))]
        return numbers[-1] - done - len(numbers) + 1

    def damage(self, done: int) -> str:
        """What no crash explains, in words, else nothing. The journal has the records up to `done`."""
        for gap in self.gaps:
            if not gap.torn:
                return f"what stands at byte {gap.start:,} is no record"
        torn_at = {gap.after for gap in self.gaps}
        before = done
        for place, (number, _) in enumerate(self.records):
            if place and number <= self.records[place - 1].number:
                return f"record {number:,} stands behind record {self.records[place - 1].number:,}"
            if number > before + 1 and place not in torn_at:
                return f"the records {before + 1:,} to {number - 1:,} are missing"
            before = max(before, number)
        return ""


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

    def read(self, old: bool = False) -> Spooled:
        """What is in it; `old` for the spool of a journal of format 1."""
        return read_records(self.path.read_bytes(), old)

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
    crc = zlib.crc32(tail, zlib.crc32(head))
    covered = _COVERED.pack(len(head), len(tail), number, crc)
    return b"%b%b%b%b%b" % (_MARK, zlib.crc32(covered).to_bytes(4, "little"), covered, head, tail)


def read_records(data: bytes, old: bool = False) -> Spooled:
    """The whole records in `data`, and what is between and behind them; `old` for format 1.

    In format 1 a bad last record cannot be told from one that a crash tore, and counts as torn.
    """
    records: list[Record] = []
    gaps: list[Gap] = []
    at = 0
    while at < len(data):
        whole = _old_record_at(data, at) if old else _record_at(data, at)
        if whole is not None:
            record, at = whole
            records.append(record)
            continue
        start, at = at, (_next_old if old else _next)(data, at + 1)
        torn = at == len(data) and (old or _is_cut_short(data, start))
        gaps.append(Gap(start, at, len(records), torn or _never_written(data, start, at)))
    return Spooled(records, gaps)


def _record_at(data: bytes, at: int) -> tuple[Record, int] | None:
    """The record that begins at `at`, and where it ends; None when there is no whole one."""
    lengths = _head_at(data, at)
    if lengths is None:
        return None
    start = at + _HEADER.size
    middle = start + lengths[0]
    end = middle + lengths[1]
    *_, number, crc = _HEADER.unpack_from(data, at)
    if end > len(data) or zlib.crc32(data[start:end]) != crc:
        return None
    return Record(number, Parts(data[start:middle], data[middle:end])), end


def _head_at(data: bytes, at: int) -> tuple[int, int] | None:
    """The two lengths in a record's head; None when there is no whole head."""
    if len(data) - at < _HEADER.size:
        return None
    mark, crc, head, tail, _, _ = _HEADER.unpack_from(data, at)
    covered = data[at + _HEADER.size - _COVERED.size : at + _HEADER.size]
    return (head, tail) if mark == _MARK and zlib.crc32(covered) == crc else None


def _next(data: bytes, at: int) -> int:
    """Where the next whole record begins, or the end."""
    while (at := data.find(_MARK, at)) >= 0:
        if _record_at(data, at) is not None:
            return at
        at += 1
    return len(data)


def _is_cut_short(data: bytes, start: int) -> bool:
    """Whether what stands from `start` to the end is the beginning of a record whose rest was not written."""
    if len(data) - start < _HEADER.size:
        return True
    lengths = _head_at(data, start)
    return lengths is not None and start + _HEADER.size + sum(lengths) > len(data)


def _never_written(data: bytes, start: int, end: int) -> bool:
    """Whether a block is all zeros between these places: it never reached the disk. Entries hold no zeros."""
    if not any(data[start:end]):
        return True
    blocks = range(-(-start // _BLOCK) * _BLOCK, end - _FEWEST_ZEROS + 1, _BLOCK)
    return any(not any(data[block : min(block + _BLOCK, end)]) for block in blocks)


def _old_record_at(data: bytes, at: int) -> tuple[Record, int] | None:
    if len(data) - at < _OLD_HEADER.size:
        return None
    crc, head, tail, number = _OLD_HEADER.unpack_from(data, at)
    start = at + _OLD_HEADER.size
    end = start + head + tail
    if head + tail > MAX_ENTRY_BYTES or end > len(data) or zlib.crc32(data[at + 4 : end]) != crc:
        return None
    return Record(number, Parts(data[start : start + head], data[start + head : end])), end


def _next_old(data: bytes, at: int) -> int:
    while at < len(data) and _old_record_at(data, at) is None:
        at += 1
    return at
