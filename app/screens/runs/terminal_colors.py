"""Colours that a command writes into its output: SGR sequences of ECMA-48 (8.3.117), taken out of the text.

Only these sequences are taken out. All others move the cursor, erase or hide text, and stay visible.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from core.text import escape_hidden

# What one stream may have of coloured parts: each costs the text view a selection.
MOST_COLORED = 2_000
_SGR = re.compile(r"\x1b\[([0-9;:]{0,64})m")
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

    Every other hidden character is written out, as by `escape_hidden`. Only foreground colours count: a
    background, or "concealed", could make text unreadable.
    """
    pieces: list[str] = []
    colored: list[ColoredPart] = []
    tone, begun, at = "", 0, 0
    for match in _SGR.finditer(text):
        at += _add(pieces, text[begun : match.start()], at, tone, colored)
        tone, begun = _tone_after(match.group(1), tone), match.end()
    _add(pieces, text[begun:], at, tone, colored)
    return "".join(pieces), colored


def _add(pieces: list[str], text: str, at: int, tone: str, colored: list[ColoredPart]) -> int:
    shown = escape_hidden(text) if text else ""
    if shown:
        pieces.append(shown)
    if shown and tone and len(colored) < MOST_COLORED:
        colored.append(ColoredPart(at, len(shown), tone))
    return len(shown)


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
