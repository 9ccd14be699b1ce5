"""Tar archives of regular files, in one form only.

Every header and every padding byte follows from the names, the sizes and the time, so that an archive with
any other byte is refused: a link, a device, a sparse file, an extension header, something behind the end.
Names of more than 100 bytes and sizes from 8 GiB on are written as GNU tar writes them, which other programs
read. Source: https://www.gnu.org/software/tar/manual/html_node/Standard.html.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple, Protocol

from core.errors import BadInput

BLOCK = 512
END = bytes(2 * BLOCK)
READ_AT_ONCE = 1 << 20
_LONGEST_NAME = 4096
_LONG_NAME = "././@LongLink"
_OCTAL = re.compile(rb"[0-7]+\0")
# What no name may have: control characters, and what separates parts of a path on Windows.
_BAD_SIGNS = re.compile(r"[\x00-\x1f\x7f\\:]")


class Source(Protocol):
    """What bytes are read from; fewer than wanted only at the end."""

    def read(self, size: int, /) -> bytes: ...


class Member(NamedTuple):
    """A file in an archive; `time` is in whole seconds since 1970."""

    name: str
    size: int
    time: int


class Damaged(BadInput):
    """An archive is not as it was written."""


def safe_name(name: str) -> bool:
    """Whether a name stays below the folder that it is unpacked into, on every system."""
    return not _BAD_SIGNS.search(name) and all(part not in ("", ".", "..") for part in name.split("/"))


def header(member: Member) -> bytes:
    """The header of a member. The file belongs to root and is for its owner alone."""
    name = member.name.encode()
    if len(name) <= 100:
        return _block(name, member.size, member.time, b"0")
    long = name + b"\0"
    return (
        _block(_LONG_NAME.encode(), len(long), 0, b"L")
        + long
        + padding(len(long))
        + _block(name[:100], member.size, member.time, b"0")
    )


def padding(size: int) -> bytes:
    """The zeros after the content of a member."""
    return bytes(-size % BLOCK)


def size_of(member: Member) -> int:
    """How many bytes of an archive a member takes."""
    return len(header(member)) + member.size + len(padding(member.size))


def read_member(source: Source) -> Member | None:
    """Read the header of the next member; None at the end of the archive, which is read too.

    Raises:
        Damaged: it is not a header in the one form, or its name is not safe.
    """
    first = source.read(BLOCK)
    if first == bytes(BLOCK):
        if source.read(BLOCK) != bytes(BLOCK) or source.read(1):
            raise Damaged("There is something else where the archive should end.")
        return None
    if len(first) != BLOCK:
        raise Damaged("It ends early.")
    read, long = first, b""
    if first[156:157] == b"L":
        size = _number(first[124:136])
        if not 0 < size <= _LONGEST_NAME:
            raise Damaged("A name in it is too long.")
        long = source.read(size)
        last = source.read(len(padding(size)) + BLOCK)
        read += long + last
        first = last[-BLOCK:]
    try:
        name = (long[:-1] or first[:100].rstrip(b"\0")).decode()
    except UnicodeDecodeError:
        raise Damaged("A name in it is not text in UTF-8.") from None
    member = Member(name, _number(first[124:136]), _number(first[136:148]))
    if read != header(member):
        raise Damaged(f"What stands before {name!r:.200} is not a header of a backup.")
    if not safe_name(name):
        raise Damaged(f"A file in it has the name {name!r:.200}, which leads out of the home.")
    return member


def read_content(source: Source, size: int) -> Iterator[bytes]:
    """The content of a member, whose header was just read, in pieces; then its padding is read.

    Raises:
        Damaged: the content or the padding is not there.
    """
    left = size
    while left:
        data = source.read(min(left, READ_AT_ONCE))
        if not data:
            raise Damaged("It ends early.")
        left -= len(data)
        yield data
    if source.read(len(padding(size))) != padding(size):
        raise Damaged("There is something between its files.")


def _block(name: bytes, size: int, time: int, kind: bytes) -> bytes:
    block = b"".join(
        (
            name.ljust(100, b"\0"),
            _octal(0o600, 8),
            _octal(0, 8),
            _octal(0, 8),
            _octal(size, 12),
            _octal(time, 12),
            b" " * 8,
            kind,
            bytes(100),
            b"ustar  \0",
            bytes(247),
        )
    )
    return block[:148] + b"%06o\0 " % sum(block) + block[156:]


def _octal(number: int, width: int) -> bytes:
    """A number in octal digits; one that is too large for them in base 256, as GNU tar writes it."""
    digits = b"%0*o" % (width - 1, number)
    if len(digits) < width:
        return digits + b"\0"
    return b"\x80" + number.to_bytes(width - 1, "big")


def _number(data: bytes) -> int:
    if data[:1] == b"\x80":
        return int.from_bytes(data[1:], "big")
    if not _OCTAL.fullmatch(data):
        raise Damaged("A number in a header of it is not one.")
    return int(data[:-1], 8)
