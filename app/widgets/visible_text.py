"""Bytes as text that hides nothing: what the code box shows, and the way back to the bytes. Without Qt.

Characters that would be invisible, reorder their neighbours or end a line in silence are replaced by their
names, such as U+200B; bytes that are not UTF-8 by \\xFF. The marks say where, so that they can be boxed: a
name in the text itself has no box.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from dataclasses import dataclass, field

_PLAIN = re.compile(rb"[\t\n\x20-\x7e]*\Z")
_HIDING_CATEGORIES = frozenset({"Cc", "Cf", "Zl", "Zp", "Zs", "Co", "Cn", "Cs"})
_SHOWN_BLANKS = frozenset("\n\t ")
# Letters and marks by category, but drawn as nothing.
_DRAWN_AS_NOTHING = frozenset(
    (
        *(0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x2800, 0x3164, 0xFFA0, 0xFFFC),
        *range(0x180B, 0x1810),
        *range(0xFE00, 0xFE10),
        *range(0xE0100, 0xE01F0),
    )
)


@dataclass(frozen=True, slots=True)
class Mark:
    """A replaced character: where its name stands (UTF-16 units of the shown text), and what it was."""

    start: int
    end: int
    name: str


@dataclass(frozen=True, slots=True)
class VisibleText:
    """Bytes, the text shown for them, and how places in the one map to the other.

    Places in the shown text are UTF-16 units, as Qt counts them.
    """

    data: bytes
    text: str
    marks: tuple[Mark, ...] = ()
    right_to_left: bool = False
    _bytes: list[int] = field(default_factory=list)
    _places: list[int] = field(default_factory=list)

    @property
    def lines(self) -> int:
        """Lines as a person counts them: a last line break ends a line, it does not begin one."""
        breaks = self.data.count(b"\n")
        return breaks + (1 if self.data and not self.data.endswith(b"\n") else 0)

    def place_of(self, offset: int) -> int:
        """Where the byte at `offset` is shown; an offset within a character counts as its start."""
        if not self._bytes:
            return min(max(offset, 0), len(self.data))
        at = bisect_right(self._bytes, max(0, offset)) - 1
        return self._places[at]

    def offset_of(self, place: int) -> int:
        """Which byte is shown at `place`; a place within a name counts as the name's start."""
        if not self._places:
            return min(max(place, 0), len(self.data))
        at = bisect_right(self._places, max(0, place)) - 1
        return self._bytes[at]

    def bytes_between(self, start: int, end: int) -> bytes:
        """The exact bytes that are shown from `start` to `end`; a name that is cut counts as a whole."""
        first, last = self.offset_of(start), self.offset_of(end)
        if last < len(self.data) and self.place_of(last) < end:
            last = self._bytes[bisect_right(self._bytes, last)]
        return self.data[first:last]

    def describe_hidden(self) -> str:
        """The words for the line below the box."""
        if not self.marks:
            return "no hidden characters"
        return "1 hidden character" if len(self.marks) == 1 else f"{len(self.marks)} hidden characters"


def visible_text(data: bytes) -> VisibleText:
    """Work out what to show for `data`."""
    if _PLAIN.match(data):
        return VisibleText(data, data.decode("ascii"))
    text = data.decode("utf-8", "surrogateescape")
    shown: list[str] = []
    marks: list[Mark] = []
    offsets, places = [], []
    offset = place = 0
    reorders = False
    for char in text:
        offsets.append(offset)
        places.append(place)
        code = ord(char)
        invalid = 0xDC80 <= code <= 0xDCFF
        offset += 1 if invalid or code < 0x80 else 2 if code < 0x800 else 3 if code < 0x10000 else 4
        if (name := name_of_hidden(char)) is not None:
            marks.append(Mark(place, place + len(name), name))
            shown.append(name)
            place += len(name)
            continue
        shown.append(char)
        place += 2 if code > 0xFFFF else 1
        reorders = reorders or (code > 0x58F and unicodedata.bidirectional(char) in ("R", "AL"))
    offsets.append(offset)
    places.append(place)
    return VisibleText(data, "".join(shown), tuple(marks), reorders, offsets, places)


def name_of_hidden(char: str) -> str | None:
    """The name to show in place of a character that hides something; None when it shows itself."""
    code = ord(char)
    if char in _SHOWN_BLANKS or 0x20 < code < 0x7F:
        return None
    if 0xDC80 <= code <= 0xDCFF:
        return f"\\x{code - 0xDC00:02X}"
    if code in _DRAWN_AS_NOTHING or unicodedata.category(char) in _HIDING_CATEGORIES:
        return f"U+{code:04X}"
    return None
