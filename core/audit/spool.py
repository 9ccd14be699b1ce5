"""The spool: a file of noted entries, written at once and committed to the journal a little later.

A record is written with one `os.write`, so killing the process loses none; only a power cut can. Records are
numbered without gaps, so that after a crash the journal takes each missing record exactly once. The file is
emptied when all its records are in the journal.

Every program of the user can write this file. So a record has a MAC, under a key that only a reader of the
journal's private key can derive, over its number and its entry. A number is used once in the life of the
journal: the signed head says which are used up (`spool N`), and each opening of the journal first signs a
head that uses up all numbers which an earlier opening could have given (`next_numbers`). A record that was
kept from an earlier spool therefore counts as one that the journal has. A whole record whose MAC is wrong or
missing is `Foreign`: it is not taken.

Bytes that are not a whole record have one of three causes. A last record that is shorter than its head says
was never acknowledged: its write was cut short. Blocks of zeros never reached the disk before a power cut.
Everything else is damage, and cannot be taken for the other two: the head of a record has its own checksum,
which distinguishes a changed length from a short record, and each record begins with a mark, so the records
after a damaged record are found.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import struct
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from core.audit.encode import Parts
from core.errors import JournalUnavailable
from core.files import FileLock

SPOOL = "journal.spool"
# The mark contains a zero byte, which no entry contains, so it never occurs within an entry.
_MARK = b"\0QM2"
# Mark, CRC of the following fields, length of the entry's head and tail, number, CRC of head and tail, MAC.
_HEADER = struct.Struct("<4sIIIQI32s")
_COVERED = struct.Struct("<IIQI")
_MAC_LABEL = b"quarterdeck journal spool/1"
_EMPTY_ABOVE_BYTES = 256 * 1024
# The smallest unit in which disks and file systems write.
_BLOCK = 512
_FEWEST_ZEROS = 8
# How many numbers one opening of the journal has. Far more than it writes: a million a second last an hour.
_NUMBERS = 1 << 32
# How many openings of the original a copy of a journal passes over, at least. No original is opened so often.
_OPENINGS = 1 << 20
_SHA256_BLOCK = 64


class SpoolKey:
    """Computes the MACs of one journal's records: HMAC-SHA256 under a key derived from the journal's."""

    def __init__(self, journal_key: Ed25519PrivateKey) -> None:
        derived = HKDF(SHA256(), 32, salt=None, info=_MAC_LABEL).derive(journal_key.private_bytes_raw())
        padded = derived.ljust(_SHA256_BLOCK, b"\0")
        # HMAC from copies of two prepared states takes 1.6 µs; `hmac.digest`, which prepares them for each
        # record, takes 3.8. Noting is on the way of every command.
        self._inner = hashlib.sha256(bytes(byte ^ 0x36 for byte in padded))
        self._outer = hashlib.sha256(bytes(byte ^ 0x5C for byte in padded))

    def mac(self, covered: bytes, parts: Parts) -> bytes:
        """The MAC of a record with these numbers and this entry."""
        inner = self._inner.copy()
        inner.update(b"%b%b%b" % (covered, *parts))
        outer = self._outer.copy()
        outer.update(inner.digest())
        return outer.digest()

    def wrote(self, mac: bytes, covered: bytes, parts: Parts) -> bool:
        """Whether a record with this MAC is the journal's own."""
        return hmac.compare_digest(mac, self.mac(covered, parts))


class Record(NamedTuple):
    """One noted entry in the spool."""

    number: int
    parts: Parts


class Foreign(NamedTuple):
    """A whole record that is not the journal's own, after the first `after` of those that are."""

    record: Record
    after: int


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
    """A spool's content: its own records, oldest first, and what stands between and after them."""

    records: list[Record]
    gaps: list[Gap]
    foreign: list[Foreign] = field(default_factory=list)

    @property
    def torn_bytes(self) -> int:
        """The number of bytes that belong to no whole record."""
        return sum(gap.end - gap.start for gap in self.gaps)

    def fresh(self, done: int) -> list[Record]:
        """The records that a journal with the records up to number `done` lacks."""
        return [record for record in self.records if record.number > done]

    def lost(self, done: int) -> int:
        """How many of the journal's next records are missing: by a power cut, or behind foreign records."""
        numbers = [done, *(record.number for record in self.fresh(done))]
        return numbers[-1] - done - len(numbers) + 1

    def damage(self, done: int) -> str:
        """Describe damage that no crash explains; empty if none. The journal has the records up to `done`."""
        for gap in self.gaps:
            if not gap.torn:
                return f"there is no record at byte {gap.start:,}"
        torn_at = {gap.after for gap in self.gaps} | {one.after for one in self.foreign}
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

    def __init__(self, path: Path, key: SpoolKey) -> None:
        """Open or create the file.

        Raises:
            JournalUnavailable: the file cannot be opened for writing, or another process has locked it.
        """
        self.path = path
        self.key = key
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
        data = b"".join([pack(self.key, one, part) for one, part in enumerate(parts, self._written + 1)])
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


def next_numbers(used: int) -> int:
    """The number after which an opening of the journal numbers its records; `used` is the highest in use."""
    return (used // _NUMBERS + 1) * _NUMBERS


def numbers_for_a_copy(used: int) -> int:
    """The number after which a copy of a journal numbers its records; `used` is the highest in use.

    The original goes on with the next numbers, and another copy of it with numbers of its own.
    """
    return next_numbers(used + (_OPENINGS + secrets.randbelow(_OPENINGS)) * _NUMBERS)


def pack(key: SpoolKey, number: int, parts: Parts) -> bytes:
    """Encode a record."""
    head, tail = parts
    covered = _COVERED.pack(len(head), len(tail), number, zlib.crc32(tail, zlib.crc32(head)))
    mac = key.mac(covered, parts)
    crc = zlib.crc32(mac, zlib.crc32(covered)).to_bytes(4, "little")
    return b"%b%b%b%b%b%b" % (_MARK, crc, covered, mac, head, tail)


def read_records(data: bytes, key: SpoolKey | None) -> Spooled:
    """Read the whole records in `data`, and the gaps between and after them.

    Without `key`, no MAC is checked, and all whole records count as the journal's own.
    """
    records: list[Record] = []
    gaps: list[Gap] = []
    foreign: list[Foreign] = []
    at = 0
    while at < len(data):
        whole = _record_at(data, at)
        if whole is not None:
            if key is None or key.wrote(whole.mac, whole.covered, whole.record.parts):
                records.append(whole.record)
            else:
                foreign.append(Foreign(whole.record, len(records)))
            at = whole.end
            continue
        start, at = at, _next(data, at + 1)
        torn = at == len(data) and _is_cut_short(data, start)
        gaps.append(Gap(start, at, len(records), torn or _never_written(data, start, at)))
    return Spooled(records, gaps, foreign)


class _Whole(NamedTuple):
    """A whole record, where it ends, and what its MAC covers beside the entry."""

    record: Record
    end: int
    covered: bytes
    mac: bytes


class _Head(NamedTuple):
    """The head of a record. `parts` are the lengths of the entry's parts, `crc` is the entry's."""

    parts: tuple[int, int]
    number: int
    crc: int
    covered: bytes
    mac: bytes


def _record_at(data: bytes, at: int) -> _Whole | None:
    """The record that begins at `at`; None when there is no whole record."""
    found = _head_at(data, at)
    if found is None:
        return None
    start = at + _HEADER.size
    middle = start + found.parts[0]
    end = middle + found.parts[1]
    if end > len(data) or zlib.crc32(data[start:end]) != found.crc:
        return None
    record = Record(found.number, Parts(data[start:middle], data[middle:end]))
    return _Whole(record, end, found.covered, found.mac)


def _head_at(data: bytes, at: int) -> _Head | None:
    """The head of the record that begins at `at`; None when there is no whole head."""
    if len(data) - at < _HEADER.size:
        return None
    mark, crc, head, tail, number, crc_of_entry, mac = _HEADER.unpack_from(data, at)
    checked = data[at + 8 : at + _HEADER.size]
    if mark != _MARK or zlib.crc32(checked) != crc:
        return None
    return _Head((head, tail), number, crc_of_entry, checked[: _COVERED.size], mac)


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
    found = _head_at(data, start)
    return found is not None and start + _HEADER.size + sum(found.parts) > len(data)


def _never_written(data: bytes, start: int, end: int) -> bool:
    """Whether a block in this range is all zeros (never reached the disk). Entries contain no zero bytes."""
    if not any(data[start:end]):
        return True
    blocks = range(-(-start // _BLOCK) * _BLOCK, end - _FEWEST_ZEROS + 1, _BLOCK)
    return any(not any(data[block : min(block + _BLOCK, end)]) for block in blocks)
