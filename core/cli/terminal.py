"""What a stream can show: columns, colours and letters; how many cells a text takes; folding to a width.

Texts of the command line carry their styles as escape sequences. Text from outside never holds one
(`core.cli.output.one_line`), so that `Terminal.shown` can take all of them out where there are no colours.
"""

from __future__ import annotations

import codecs
import io
import os
import re
import sys
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TextIO

from core.text import code_of

_STYLES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "blue": "34", "magenta": "35"}
_STYLE = re.compile(r"\x1b\[\d*m")
# The style at the beginning of a line, and what has it.
_LEAD = re.compile(r"(\x1b\[\d+m)([^\x1b]*)\x1b\[0m")
# The terminals whose description (terminfo) has no colours: vt52 to vt525, and the monochrome variants.
_WITHOUT_COLOURS = re.compile(r"|dumb|unknown|vt\d.*|.*-m(ono)?")
_NARROWEST = 20
_ZERO_WIDTH_JOINER = "\u200d"
_EMOJI_PICTURE = "\ufe0f"
_SKIN_TONES = range(0x1F3FB, 0x1F400)
# The vowels and last consonants of Korean syllables written in parts: they join the first consonant.
_HANGUL_PARTS = range(0x1160, 0x1200)

STATE_STYLES = {
    **dict.fromkeys(("online", "done", "confirmed", "passed", "undone", "success", "approved"), "green"),
    **dict.fromkeys(("busy", "running"), "blue"),
    **dict.fromkeys(
        ("stale", "reconnecting", "waiting", "paused", "retrying", "cancel_asked", "unverified"),
        "yellow",
    ),
    **dict.fromkeys(
        ("offline", "failed", "refused", "no_such_tool", "interrupted", "no_effect", "failure", "denied"),
        "red",
    ),
    "unknown": "magenta",
    **dict.fromkeys(("cancelled", "skipped", "not_started", "queued", "nothing"), "dim"),
    **dict.fromkeys(("expired", "edited", "withdrawn"), "dim"),
}
"""The style of each state of a device, a run, a step, a check, a verdict or a request."""


@dataclass(frozen=True, slots=True)
class Terminal:
    """What a stream shows. `columns` is None where lines stay whole, as in a pipe or a file."""

    columns: int | None = None
    colours: bool = False
    encoding: str = "utf-8"

    def shown(self, text: str) -> str:
        """The text without styles where there are no colours, and with codes for letters that it lacks."""
        return self.letters(text if self.colours else _STYLE.sub("", text))

    def letters(self, text: str) -> str:
        """The text with the code of each letter that the stream's encoding lacks: `[U+00FC]`."""
        if text.isascii() or self.encoding == "utf-8":
            return text
        return text.encode(self.encoding, CODES).decode(self.encoding)


def terminal_of(stream: TextIO) -> Terminal:
    """What this stream can show now."""
    encoding = _encoding_of(stream)
    try:
        if not stream.isatty():
            return Terminal(encoding=encoding)
        columns = os.get_terminal_size(stream.fileno()).columns
    except (OSError, ValueError):
        columns = 0
    # A terminal that does not know its width says 0.
    return Terminal(max(columns, _NARROWEST) if columns else None, has_colours(), encoding)


def has_colours() -> bool:
    """Whether the environment lets a terminal have colours: by NO_COLOR (no-color.org) and TERM."""
    return not os.environ.get("NO_COLOR") and not _WITHOUT_COLOURS.fullmatch(os.environ.get("TERM", ""))


def moves_cursor() -> bool:
    """Whether TERM names a terminal on which a program can draw over its own lines."""
    return os.environ.get("TERM", "") not in ("", "dumb", "unknown")


def _encoding_of(stream: TextIO) -> str:
    try:
        return codecs.lookup(stream.encoding or "utf-8").name
    except (LookupError, AttributeError, TypeError):
        return "utf-8"


def can_encode(sign: str) -> bool:
    """Whether standard output and standard error both have this letter."""
    try:
        for stream in (sys.stdout, sys.stderr):
            sign.encode(_encoding_of(stream))
    except UnicodeEncodeError:
        return False
    return True


# The name of the way in which a stream writes a letter that its encoding lacks.
CODES = "quarterdeck.codes"


def _as_codes(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(f"[{code_of(sign)}]" for sign in error.object[error.start : error.end]), error.end


codecs.register_error(CODES, _as_codes)


def write_codes() -> None:
    """Let the standard streams write the code of a letter that they lack, instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=CODES)


def styled(text: str, style: str) -> str:
    """The text with a style, which `Terminal.shown` takes out again where there are no colours."""
    return f"\x1b[{_STYLES[style]}m{text}\x1b[0m" if style else text


def width(text: str) -> int:
    """The number of terminal cells of a line without styles."""
    return len(text) if text.isascii() else sum(cells for _, cells in _clusters(text))


def _clusters(text: str) -> Iterator[tuple[str, int]]:
    """The characters as a reader counts them, each with its cells.

    A mark, and what a zero width joiner joins, belongs to the character before it (UAX #29, simplified); wide
    and fullwidth letters (UAX #11) and emoji drawn as pictures take two cells, all others one.
    """
    cluster, cells = "", 0
    for sign in text:
        joins = cluster.endswith(_ZERO_WIDTH_JOINER) or _adds_no_cell(sign)
        if cluster and not joins:
            yield cluster, cells
            cluster, cells = "", 0
        if sign == _EMOJI_PICTURE and cells == 1 and unicodedata.category(cluster[0]) == "So":
            cells = 2
        elif not joins:
            cells = 2 if unicodedata.east_asian_width(sign) in "WF" else 1
        cluster += sign
    if cluster:
        yield cluster, cells


def _adds_no_cell(sign: str) -> bool:
    code = ord(sign)
    if code < 0x300:
        return False
    return code in _SKIN_TONES or code in _HANGUL_PARTS or unicodedata.category(sign) in ("Mn", "Me", "Cf")


# Signs after which a name, a path or an address may be broken.
_JOINTS = "_-/.,:=&"
_PIECE = re.compile(rf" |(?<=[{re.escape(_JOINTS)}])")


def longest_piece(text: str) -> int:
    """The cells of the longest part of a line that `fold` keeps together where it can."""
    return max(map(width, _PIECE.split(text)))


def fold(text: str, columns: int) -> list[str]:
    """The text in lines of at most `columns` cells, broken at spaces where that is possible.

    A word that is longer than a line is broken after one of its `_-/.,:=&`, else where the line ends.
    """
    if width(text) <= columns:
        return [text]
    folded, line, used, space, joint = [], "", 0, -1, -1
    for cluster, cells in _clusters(text):
        if used + cells > columns and line:
            if cluster == " ":
                folded.append(line.rstrip())
                line, used, space, joint = "", 0, -1, -1
                continue
            # A joint near the beginning, as of `a-01J…`, would leave most of the line empty.
            end = space if space > 0 else joint if joint * 3 >= columns else len(line)
            kept, rest = line[:end], line[end:].removeprefix(" ")
            folded.append(kept.rstrip())
            line, used, space, joint = rest, width(rest), -1, -1
        if cluster == " ":
            if folded and not line:
                continue
            space = len(line)
        line += cluster
        used += cells
        if cluster in _JOINTS:
            joint = len(line)
    return [*folded, line] if line else folded


def fold_prose(text: str, columns: int | None) -> str:
    """Sentences in lines of at most `columns` cells, below the beginning of their own line.

    Only a space ends a line: a longer word, such as a path to be copied, stays whole. Of a line's styles, the
    one at its beginning is kept.
    """
    if columns is None:
        return text
    return "\n".join(part for line in text.split("\n") for part in _fold_sentence(line, columns))


def _fold_sentence(line: str, columns: int) -> list[str]:
    plain = _STYLE.sub("", line)
    if width(plain) <= columns:
        return [line]
    indent = " " * (len(plain) - len(plain.lstrip(" ")))
    folded: list[str] = []
    for word in plain.split():
        if folded and width(f"{folded[-1]} {word}") <= columns:
            folded[-1] += f" {word}"
        else:
            folded.append(f"{indent}{word}")
    if (lead := _LEAD.match(line)) and folded[0].startswith(lead[2]):
        folded[0] = folded[0].replace(lead[2], lead[0], 1)
    return folded
