"""Output of the command line: device text cannot move the cursor, hide characters or change their order.

A text is made of blocks: tables and facts, which fold to the width of a terminal, and strings. In a pipe or a
file each row is one line, whole.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import zip_longest
from typing import Any, TextIO

from pydantic import BaseModel

from core.cli.terminal import (
    STATE_STYLES,
    Terminal,
    can_encode,
    fold,
    fold_prose,
    longest_piece,
    styled,
    terminal_of,
    width,
)
from core.errors import ErrorInfo
from core.text import escape_hidden, escape_right_to_left, plural, sentences, shorten_middle

GAP = "  "
MOST_REASON = 160
"""Characters of a reason in the last column of a table, whose width pads no other column."""
# The fields of `core.fleet.models.ToolScope` as people read them.
SCOPE_NAMES = {
    "authentication": "Sign-in",
    "network": "Network",
    "files": "Files",
    "processes": "Processes",
    "account": "Acts as",
    "served_by": "Served by",
    "repair": "If it fails",
}
# The limit of most language model clients for the name of a tool.
_LONGEST_TOOL = 64
_LONGEST_CLAIM = 40
_SECONDS = len("2026-01-01T00:00:00")


class AnswerLost(Exception):
    """The answer could not be written, for example because the disk is full."""


def say(block: str | Prose | Table | Facts = "") -> None:
    """Print a block on standard output; after its reader has closed the pipe (`| head`), print nothing.

    Raises:
        AnswerLost: the output cannot be written for another reason.
    """
    terminal = terminal_of(sys.stdout)
    print_text(f"{block if isinstance(block, str) else block.folded(terminal)}\n")


def show(block: Block) -> None:
    """Print a block of an answer where it belongs; see `say`."""
    match block:
        case Remark():
            note(block.text)
        case Exact():
            print_text(block.text)
        case _:
            say(block)


def print_text(text: str) -> None:
    """Print text on standard output as it is, without a line end; see `say`."""
    try:
        print(terminal_of(sys.stdout).shown(text), end="", flush=True)
    except BrokenPipeError:
        # A closed pipe is not a fault: the exit code still reports the command itself.
        leave(sys.stdout)
    except OSError as error:
        leave(sys.stdout)
        raise AnswerLost(f"The answer could not be written: {error.strerror}.") from error


def note(block: str | Prose | Table | Facts) -> None:
    """Print a remark on standard error: it is not part of the answer, and a failed write is ignored."""
    terminal = terminal_of(sys.stderr)
    text = (Prose(block) if isinstance(block, str) else block).folded(terminal)
    try:
        print(terminal.shown(text), file=sys.stderr, flush=True)
    except OSError:
        leave(sys.stderr)


def note_blocks(blocks: Iterable[Block]) -> None:
    """Print the blocks of a text on standard error."""
    for block in blocks:
        note(block.text if isinstance(block, Remark | Exact) else block)


def leave(stream: TextIO) -> None:
    """Redirect a broken stream to the null device, so that the interpreter's last flush does not fail."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def one_line(text: object) -> str:
    """Text from outside as one line, with hidden characters and right-to-left letters escaped.

    Terminals reorder a line with right-to-left letters, each in its own way: only codes keep its order.
    """
    return escape_right_to_left(escape_hidden(str(text), keep_lines=False))


def lines(text: str) -> str:
    """Text from outside with its line breaks; otherwise as in `one_line`."""
    return escape_right_to_left(escape_hidden(text.replace("\r\n", "\n")))


def as_json(value: Any) -> str:
    """JSON for programs, of models too: ASCII only, so that it is also safe on a terminal."""
    return json.dumps(value, indent=2, ensure_ascii=True, default=_dumped)


def _dumped(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", by_alias=True)
    raise TypeError(f"{type(value).__name__} is not JSON")


def shown_json(value: Any) -> str:
    """JSON for people: readable, exact.

    Hidden characters, right-to-left letters and letters that the output's encoding lacks are JSON escapes.
    The output is JSON of the same value, so no part of it can be mistaken for something else.
    """
    text = json.dumps(value, indent=2, ensure_ascii=False)
    signs = set(text) - {"\n"}
    hidden = {ord(sign) for sign in signs if one_line(sign) != sign or not can_encode(sign)}
    # JSON does not escape DELETE.
    escapes = {code: json.dumps(chr(code))[1:-1] for code in hidden - {0x7F}}
    return text.translate({**escapes, 0x7F: "\\u007f"})


def error_json(error: ErrorInfo) -> dict[str, Any]:
    """An error as `--json` prints it: as in an envelope."""
    # Imported here: most commands succeed, and do without the models of results.
    from core.service.envelope import envelope_error

    return envelope_error(error).model_dump(mode="json")


def print_error(error: ErrorInfo, json_wanted: bool) -> None:
    """Print what happened, then what to do.

    With `--json` it goes to standard output, where a program also reads the answer.
    """
    if json_wanted:
        say(as_json({"error": error_json(error)}))
        return
    note(f"{styled('Error', 'red')}: {lines(sentences(error.message))}")
    if error.next:
        note(lines(error.next))


@dataclass(frozen=True, slots=True)
class Cell:
    """A value in a table or behind a fact, with a style."""

    text: str
    style: str = ""


def state_cell(state: StrEnum, words: str = "") -> Cell:
    """A state in its colour, in these words or else its own."""
    return Cell(words or state.value, STATE_STYLES.get(state.value, ""))


@dataclass(frozen=True, slots=True)
class Prose:
    """Sentences, which fold at their spaces; a string is printed as it is."""

    text: str

    def __str__(self) -> str:
        return self.text

    def folded(self, terminal: Terminal) -> str:
        """The sentences as wide as the terminal."""
        return fold_prose(self.text, terminal.columns)


@dataclass(frozen=True, slots=True)
class Remark:
    """A remark that accompanies an answer's text: it goes to standard error."""

    text: str


@dataclass(frozen=True, slots=True)
class Exact:
    """Text of an answer that is printed without a line end of its own."""

    text: str


@dataclass(frozen=True, slots=True)
class Table:
    """Aligned columns; see `table`."""

    head: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]

    def __str__(self) -> str:
        return self.folded(Terminal())

    def folded(self, terminal: Terminal) -> str:
        """The table as wide as the terminal: long cells fold in their column.

        The first column names the row and does not fold, so that a line that begins with a space continues
        the row above it. Where the columns would be too narrow to read, each row is a block of facts. On a
        terminal, a column without any value is left out.
        """
        cells = [[Cell(terminal.letters(cell.text), cell.style) for cell in row] for row in self.rows]
        kept = [
            place
            for place in range(len(self.head))
            if terminal.columns is None or not (place and cells) or any(row[place].text for row in cells)
        ]
        names = [self.head[place] for place in kept]
        cells = [[row[place] for place in kept] for row in cells]
        widths = _narrowed(names, cells, terminal.columns)
        if widths is None and not cells:
            return styled("\n".join(fold(GAP.join(names), terminal.columns or 0)), "bold")
        if widths is None and not any(names):
            pairs = ((first.text, GAP.join(cell.text for cell in rest)) for first, *rest in cells)
            return facts(pairs).folded(terminal)
        if widths is None:
            labels = list(map(_label, names))
            return "\n\n".join(facts(zip(labels, row, strict=True)).folded(terminal) for row in cells)
        head = [styled(_row([Cell(name) for name in names], widths), "bold")] if any(names) else []
        return "\n".join([*head, *(_row(row, widths) for row in cells)])


def _label(heading: str) -> str:
    """A heading as the name of a fact: `ASKED BY` as `Asked by`; abbreviations stay."""
    first, *others = heading.split(" ")
    kept = first if first in ("ID", "URL") else first.capitalize()
    return " ".join([kept, *(word if word.startswith("(") else word.lower() for word in others)])


# Cells of a column below which it is hard to read: of names and numbers, and of sentences.
_NARROWEST_COLUMN = 10
_NARROWEST_SENTENCES = 20
_SENTENCES = 40
# A longer word is broken rather than that its column takes the room of the others.
_LONGEST_PIECE = 24


def _narrowed(names: Sequence[str], rows: Sequence[Sequence[Cell]], columns: int | None) -> list[int] | None:
    """The widths of columns that fit: wide ones give, the first one does not; None if they cannot fit."""
    texts = [[name, *(row[place].text for row in rows)] for place, name in enumerate(names)]
    natural = [max(map(width, column)) for column in texts]
    if columns is None or sum(natural) + len(GAP) * (len(natural) - 1) <= columns:
        return natural
    first, *others = natural
    left = columns - first - len(GAP) * len(others)
    least = [_least(column, wide) for column, wide in zip(texts[1:], others, strict=True)]
    if left < sum(least):
        return None
    # The widest columns are cut to one width, the largest with which all fit.
    at = range(left + 1)
    given = ([max(min(wide, most), low) for wide, low in zip(others, least, strict=True)] for most in at)
    return [first, *max((one for one in given if sum(one) <= left), key=sum)]


def _least(texts: Sequence[str], natural: int) -> int:
    """The cells that a column must have to be read."""
    narrowest = _NARROWEST_SENTENCES if natural > _SENTENCES else _NARROWEST_COLUMN
    piece = min(max(map(longest_piece, texts)), _LONGEST_PIECE)
    return min(natural, max(narrowest, piece))


def _row(cells: Sequence[Cell], widths: Sequence[int]) -> str:
    """One row, in as many lines as its longest cell needs."""
    folded = [fold(cell.text, wide) for cell, wide in zip(cells, widths, strict=True)]
    told = []
    for parts in zip_longest(*folded, fillvalue=""):
        line, gap = "", 0
        for part, cell, wide in zip(map(str.rstrip, parts), cells, widths, strict=True):
            # Spaces are written before the next cell that is not empty: a line does not end with any.
            if part:
                line += " " * gap + styled(part, cell.style)
                gap = 0
            gap += wide - width(part) + len(GAP)
        told.append(line)
    return "\n".join(told)


@dataclass(frozen=True, slots=True)
class Facts:
    """Names and values; see `facts`."""

    pairs: tuple[tuple[str, Cell], ...]

    def __str__(self) -> str:
        return self.folded(Terminal())

    def folded(self, terminal: Terminal) -> str:
        """The facts as wide as the terminal: a long value goes on below its beginning."""
        widest = max((len(name) for name, _ in self.pairs), default=0)
        indent = " " * (widest + len(GAP))
        told = []
        for name, cell in self.pairs:
            value = terminal.letters(cell.text)
            columns = terminal.columns - len(indent) if terminal.columns else width(value)
            parts = fold(value, max(columns, _NARROWEST_COLUMN))
            shown = f"\n{indent}".join(styled(part, cell.style) for part in parts)
            told.append(f"{styled(name.ljust(widest), 'dim')}{GAP}{shown}")
        return "\n".join(told)


Block = str | Prose | Table | Facts | Remark | Exact


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> Table:
    """Aligned columns; every cell on one line, with hidden characters escaped. Empty names: no heading."""
    return Table(tuple(head), tuple(tuple(map(_cell, row)) for row in rows))


def facts(pairs: Iterable[tuple[str, object]]) -> Facts:
    """Names and values in two columns, without empty values."""
    cells = ((name, _cell(value)) for name, value in pairs)
    return Facts(tuple((name, cell) for name, cell in cells if cell.text))


def _cell(value: object) -> Cell:
    if isinstance(value, Cell):
        return Cell(one_line(value.text), value.style)
    return Cell(one_line(value))


def time_cell(stamp: str | None) -> str:
    """A time from the service in UTC, to the second, for a column whose heading names UTC."""
    return (stamp or "")[:_SECONDS].replace("T", " ")


def moment(stamp: str | None) -> str:
    """A time with its time zone, for places without such a heading; empty for none."""
    return f"{time_cell(stamp)} UTC" if stamp else ""


def span(seconds: float) -> str:
    """A length of time in the unit that suits it: `12 ms`, `4.2 s`, `9 min 30 s`, `2 h 5 min`."""
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 59.95:
        return f"{seconds:.1f}".removesuffix(".0") + " s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60} min" + (f" {whole % 60} s" if whole % 60 else "")
    minutes = round(seconds / 60)
    return f"{minutes // 60:,} h" + (f" {minutes % 60} min" if minutes % 60 else "")


def size_words(count: int) -> str:
    """A number of bytes in the unit that suits it: `70 bytes`, `4.2 kB`, `1.3 MB`."""
    if count < 1000:
        return plural(count, "byte")
    for unit, scale in (("kB", 1e3), ("MB", 1e6)):
        if count < 999.95 * scale:
            return f"{count / scale:.1f} {unit}"
    return f"{count / 1e9:,.1f} GB"


def what_it_does(name: str, title: str | None, description: str) -> str:
    """A tool's title, or, where that only repeats its name, the first line of its description."""
    return title if title and title != name else description.split("\n", 1)[0]


def tool_cell(name: str | None) -> str:
    """A tool's name, shortened so that it does not widen every row; `--json` has the whole name."""
    return shorten_middle(one_line(name or ""), _LONGEST_TOOL)


def claim_cell(said: str, most: int = _LONGEST_CLAIM) -> str:
    """A device's claim about itself, shortened so that it does not widen every row; `--json` has it whole."""
    return shorten_middle(one_line(said), most)
