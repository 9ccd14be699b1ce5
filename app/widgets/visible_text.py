"""Bytes as text that hides nothing: what the code box shows, and the way back to the bytes. Without Qt.

Characters that would be invisible, end a line in silence, or that no font draws are replaced by their names,
such as U+200B; bytes that are not UTF-8 by \\xFF. The marks say where, so that they can be boxed: a name in
the text itself has no box. A line with right-to-left letters is shown in the order of its bytes.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field

from core.text import LEFT_TO_RIGHT_OVERRIDE, plural, right_to_left_letters

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
    """A replaced character: where its name stands (UTF-16 units of the shown text), and what it was.

    `hides` is false of a visible character that no font draws here.
    """

    start: int
    end: int
    name: str
    hides: bool = True


@dataclass(frozen=True, slots=True)
class VisibleText:
    """Bytes, the text shown for them, and how places in the one map to the other.

    Places in the shown text are UTF-16 units, as Qt counts them. `right_to_left` counts the letters that are
    held in the order of their bytes.
    """

    data: bytes
    text: str
    marks: tuple[Mark, ...] = ()
    right_to_left: int = 0
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
        hidden = sum(mark.hides for mark in self.marks)
        parts = [plural(hidden, "hidden character") if hidden else "no hidden characters"]
        if missing := len(self.marks) - hidden:
            parts.append(f"{plural(missing, 'character')} that no font here draws")
        if self.right_to_left:
            parts.append(f"{plural(self.right_to_left, 'right-to-left letter')}, in the order of the bytes")
        return "   ".join(parts)


def visible_text(data: bytes, is_drawn: Callable[[str], bool] = lambda sign: True) -> VisibleText:
    """Work out what to show for `data`; `is_drawn` tells whether a font here draws a character."""
    if _PLAIN.match(data):
        return VisibleText(data, data.decode("ascii"))
    text = data.decode("utf-8", "surrogateescape")
    shown: list[str] = []
    marks: list[Mark] = []
    offsets, places = [], []
    offset = place = 0
    letters = right_to_left_letters(text)
    turned_lines = _lines_with(letters, text)
    for at, char in enumerate(text):
        offsets.append(offset)
        places.append(place)
        code = ord(char)
        invalid = 0xDC80 <= code <= 0xDCFF
        offset += 1 if invalid or code < 0x80 else 2 if code < 0x800 else 3 if code < 0x10000 else 4
        if at in turned_lines:
            # Belongs to the character behind it: every place then is that of a byte.
            shown.append(LEFT_TO_RIGHT_OVERRIDE)
            place += 1
        name = name_of_hidden(char)
        hides = name is not None
        if name is None and not is_drawn(char):
            name = f"U+{code:04X}"
        if name is not None:
            marks.append(Mark(place, place + len(name), name, hides))
            shown.append(name)
            place += len(name)
            continue
        shown.append(char)
        place += 2 if code > 0xFFFF else 1
    offsets.append(offset)
    places.append(place)
    return VisibleText(data, "".join(shown), tuple(marks), len(letters), offsets, places)


def _lines_with(letters: list[int], text: str) -> set[int]:
    """Where the lines begin that have one of these letters; each line is looked at once."""
    starts: set[int] = set()
    end = -1
    for at in letters:
        if at > end:
            starts.add(text.rfind("\n", 0, at) + 1)
            end = text.find("\n", at)
            end = len(text) if end < 0 else end
    return starts


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
