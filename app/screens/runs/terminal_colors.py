"""Colours that a command writes into its output: SGR sequences of ECMA-48 (8.3.117), taken out of the text.

Only these sequences are taken out. All others move the cursor, erase or hide text, and stay visible.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from core.text import escape_hidden, left_to_right

# What one stream may have of coloured parts: each costs the text view a selection.
MOST_COLORED = 2_000
_SGR = re.compile(r"\x1b\[([0-9;:]{0,64})m")
# The end of a piece that the next one may complete.
_UNFINISHED = re.compile(r"(?:\x1b(?:\[[0-9;:]{0,64})?|\r)\Z")
# The eight colours of a terminal as roles of the theme, which are readable on its own ground in both modes.
# Black and white are the ground and the text of a terminal, and stay the text of the theme.
_TONES = {1: "fail", 2: "ok", 3: "warn", 4: "waiting", 5: "unknown", 6: "accent"}


@dataclass(frozen=True, slots=True)
class ColoredPart:
    """A part of a text in a colour: offset and length in characters, and a role of the theme."""

    start: int
    length: int
    tone: str


def take_colors(text: str) -> tuple[str, list[ColoredPart]]:
    """The text as it is shown, without its SGR sequences, and its coloured parts in order.

    Every other hidden character is written out, as by `escape_hidden`, and right-to-left letters keep their
    order. Only foreground colours count: a
    background, or "concealed", could make text unreadable.
    """
    pieces: list[str] = []
    colored: list[ColoredPart] = []
    at = 0
    for shown, tone in _parts_of(text, ""):
        if not shown:
            continue
        pieces.append(shown)
        if tone and len(colored) < MOST_COLORED:
            colored.append(ColoredPart(at, len(shown), tone))
        at += len(shown)
    return "".join(pieces), colored


def _parts_of(text: str, tone: str) -> Iterator[tuple[str, str]]:
    """The parts of a text as they are shown, each with its colour; the last one is empty if there is no more.

    `tone` is the colour before it.
    """
    begun = 0
    for match in _SGR.finditer(text):
        yield _shown(text[begun : match.start()]), tone
        tone, begun = _tone_after(match.group(1), tone), match.end()
    yield _shown(text[begun:]), tone


def _shown(text: str) -> str:
    return left_to_right(escape_hidden(text))


class ColorReader:
    """Reads one stream in pieces, which may end within a sequence or a line end."""

    def __init__(self) -> None:
        self._tone, self._rest = "", ""

    def read(self, piece: str, last: bool = False) -> list[tuple[str, str]]:
        """The parts that can be shown now, each with its colour; after the `last` piece nothing is kept."""
        text = self._rest + piece
        cut = None if last else _UNFINISHED.search(text)
        text, self._rest = (text[: cut.start()], cut.group()) if cut else (text, "")
        parts = list(_parts_of(text.replace("\r\n", "\n"), self._tone))
        self._tone = parts[-1][1]
        return [(shown, tone) for shown, tone in parts if shown]


def _tone_after(codes: str, tone: str) -> str:
    """The foreground after one sequence."""
    numbers = [int(code) if code.isdecimal() else 0 for code in codes.split(";")]
    at = 0
    while at < len(numbers):
        code = numbers[at]
        if code in (38, 48):
            # 5;n of a palette, of which the first 16 have roles here, or 2;red;green;blue.
            kind, color = (*numbers[at + 1 : at + 3], -1, -1)[:2]
            if code == 38:
                tone = _TONES.get(color % 8, "") if kind == 5 and 0 <= color < 16 else ""
            at += 3 if kind == 5 else 5
            continue
        if code in (0, 39):
            tone = ""
        elif 30 <= code <= 37 or 90 <= code <= 97:
            tone = _TONES.get(code % 10, "")
        at += 1
    return tone
