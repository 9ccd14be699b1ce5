"""The spool: a file of noted entries, written at once and committed to the journal a little later.

A record is written with one `os.write`, so killing the process loses none; only a power cut can. Records are
numbered without gaps, so that after a crash the journal takes each missing record exactly once. The file is
emptied when all its records are in the journal.

Bytes that are not a whole record have one of three causes. A last record that is shorter than its head says
was never acknowledged: its write was cut short. Blocks of zeros never reached the disk before a power cut.
Everything else is damage, and cannot be taken for the other two: the head of a record has its own checksum,
which distinguishes a changed length from a short record, and each record begins with a mark, so the records
after a damaged record are found.
"""

from __future__ import annotations

import os
import struct
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from core.audit.encode import MAX_ENTRY_BYTES, Parts
from core.errors import JournalUnavailable
from core.files import FileLock

SPOOL = "journal.spool"
# The mark contains a zero byte, which no entry contains, so it never occurs within an entry.
_MARK = b"\0QSR"
# Mark, CRC of the following fields, length of the entry's head and tail, number, CRC of head and tail.
_HEADER = struct.Struct("<4sIIIQI")
_COVERED = struct.Struct("<IIQI")
# Format 1: CRC of everything after it, length of head, length of tail, number.
_OLD_HEADER = struct.Struct("<IIIQ")
_EMPTY_ABOVE_BYTES = 256 * 1024
# The smallest unit in which disks and file systems write.
_BLOCK = 512
_FEWEST_ZEROS = 8


class Record(NamedTuple):
    """One noted entry in the spool."""

    number: int
    parts: Parts


class Gap(NamedTuple):
    """Bytes from `start` up to `end` that are not a whole record, after the first `after` records.

    `torn` says that a crash explains them: a write that was cut short, or blocks that did not reach the disk
    before a power cut.
    """

    start: int
    end: int
    after: int
    torn: bool


@dataclass(frozen=True, slots=True)
class Spooled:
    """A spool's content: its whole records, oldest first, and the gaps between and after them."""

    records: list[Record]
    gaps: list[Gap]

    @property
    def torn_bytes(self) -> int:
        """The number of bytes that belong to no whole record."""
        return sum(gap.end - gap.start for gap in self.gaps)

    def fresh(self, done: int) -> list[Record]:
        """The records that a journal with the records up to number `done` lacks."""
        return [record for record in self.records if record.number > done]

    def lost(self, done: int) -> int:
        """The number of records that a power cut removed from those that the journal lacks."""
        numbers = [done, *(record.number for record in self.fresh(done))]
        return numbers[-1] - done - len(numbers) + 1

    def damage(self, done: int) -> str:
        """Describe damage that no crash explains; empty if none. The journal has the records up to `done`."""
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
            JournalUnavailable: the file cannot be opened for writing, or another process has locked it.
        """
        self.path = path
        self._written = 0
        self._broken: str | None = None
        try:
            # Locked, because emptying it while another process writes to it would lose entries.
            self._file = FileLock(path, os.O_RDWR | os.O_CREAT | os.O_APPEND)
            locked = self._file.take()
            self._size = os.fstat(self._file.handle).st_size
        except OSError as error:
            raise JournalUnavailable(f"The spool {path} cannot be opened: {error.strerror}.") from error
        if not locked:
            self._file.close()
            raise JournalUnavailable(
                f"Another program has this journal open ({path} is locked);"
                " only one may write. Close it first."
            )

    @property
    def last_number(self) -> int:
        """The number of the newest record written or recovered."""
        return self._written

    def read(self, old: bool = False) -> Spooled:
        """Read the spool's content; `old` is for a journal of format 1."""
        return read_records(self.path.read_bytes(), old)

    def start_after(self, number: int) -> None:
        """Number the next record `number` + 1."""
        self._written = number

    def write(self, *parts: Parts) -> int:
        """Write records with one system call; returns the number of the last.

        Raises:
            JournalUnavailable: the records are not in the spool; a partial write is undone.
        """
        if self._broken is not None:
            raise JournalUnavailable(self._broken)
        number = self._written + len(parts)
        data = b"".join([pack(one, part) for one, part in enumerate(parts, self._written + 1)])
        try:
            done = os.write(self._file.handle, data)
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
        """Drop all records, once they are in the journal. A small file is left as it is unless `always`."""
        if self._size == 0 or (self._size < _EMPTY_ABOVE_BYTES and not always):
            return
        try:
            os.ftruncate(self._file.handle, 0)
        except OSError:
            return  # harmless: the journal knows the records by their numbers; the next call may succeed
        self._size = 0

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _undo(self) -> None:
        """Remove an incomplete record; in the middle of the spool it would count as damage."""
        try:
            os.ftruncate(self._file.handle, self._size)
        except OSError as error:
            self._broken = self._message(error.strerror or "truncate failed")

    def _message(self, cause: str) -> str:
        return f"The spool {self.path} cannot be written: {cause}. Free disk space or mend permissions."


def pack(number: int, parts: Parts) -> bytes:
    """Encode a record."""
    head, tail = parts
    crc = zlib.crc32(tail, zlib.crc32(head))
    covered = _COVERED.pack(len(head), len(tail), number, crc)
    return b"%b%b%b%b%b" % (_MARK, zlib.crc32(covered).to_bytes(4, "little"), covered, head, tail)


def read_records(data: bytes, old: bool = False) -> Spooled:
    """Read the whole records in `data`, and the gaps between and after them; `old` is for format 1.

    In format 1, a damaged last record looks the same as a torn record, and counts as torn.
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
    """The record that begins at `at`, and its end; None when there is no whole record."""
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
    """Whether the bytes from `start` to the end are the beginning of a record whose rest was not written."""
    if len(data) - start < _HEADER.size:
        return True
    lengths = _head_at(data, start)
    return lengths is not None and start + _HEADER.size + sum(lengths) > len(data)


def _never_written(data: bytes, start: int, end: int) -> bool:
    """Whether a block in this range is all zeros (never reached the disk). Entries contain no zero bytes."""
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
