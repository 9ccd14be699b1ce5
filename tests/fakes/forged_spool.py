"""What another program of the user does to a spool: it knows the form of records, and has no key of ours."""

from __future__ import annotations

import os
import re
import struct
import zlib
from collections.abc import Iterable

from core.audit.encode import Parts, encode_parts
from core.audit.entries import NewEntry
from core.home import Home

# Long ago: the journal raises it to the time of its last entry, the earliest that there can be.
_AT = "2020-01-01T00:00:00.000000Z"
_NUMBER = struct.Struct("<Q")
# Mark, checksum, two lengths; the number follows.
_BEFORE_NUMBER = 16


def _covered(number: int, parts: Parts) -> bytes:
    crc = zlib.crc32(parts.tail, zlib.crc32(parts.head))
    return struct.pack("<IIQI", len(parts.head), len(parts.tail), number, crc)


def forged(number: int, parts: Parts) -> bytes:
    """A record that is whole but for its MAC, which is made up."""
    covered = _covered(number, parts) + os.urandom(32)
    return b"\0QM2" + struct.pack("<I", zlib.crc32(covered)) + covered + parts.head + parts.tail


def last_number(home: Home) -> int:
    """The newest number that the files show: of a record in the spool, or of the signed head."""
    spool = (home.path / "journal.spool").read_bytes()
    starts = (match.end() for match in re.finditer(rb"\0QM2", spool))
    at = (start - 4 + _BEFORE_NUMBER for start in starts)
    written = [_NUMBER.unpack_from(spool, place)[0] for place in at if place + _NUMBER.size <= len(spool)]
    signed = re.findall(rb"\nspool (\d+)\n", (home.path / "journal.head").read_bytes())
    return max(0, *map(int, written), *map(int, signed))


def append(home: Home, entries: Iterable[NewEntry]) -> None:
    """Append entries to the spool of a home that no service owns, where the next ones are expected."""
    last = last_number(home)
    with (home.path / "journal.spool").open("ab") as file:
        for number, entry in enumerate(entries, last + 1):
            file.write(forged(number, encode_parts(entry, _AT)))
