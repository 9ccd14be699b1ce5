"""Sorts the words of a call into options, their values and operands.

The record of a program names its options that take a value. Words are read by the POSIX Utility Syntax
Guidelines and the GNU rules for long options: `-abc` is three options; `-ovalue` and `-o value` are an option
with a value, like `--name=value` and `--name value`; a long option may be abbreviated. Operands may stand
between options, unless the first operand ends the options.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from core.policy.analysis.shell.parser import Call, Word
from core.programs.record import Takes

_SHORTEST_CUT = 5


class Option(NamedTuple):
    """An option: its full name, its value if it has one, and the word that contains it."""

    name: str
    value: Word | None
    word: Word


@dataclass(slots=True)
class Options:
    """The options and operands of a call. `first` is the index of the first operand among the words."""

    options: list[Option]
    operands: list[Word]
    first: int

    def has(self, *names: str) -> bool:
        """Whether one of these options is given."""
        return any(option.name in names for option in self.options)

    def values(self, *names: str) -> list[Word]:
        """The values given to these options."""
        return [option.value for option in self.options if option.name in names and option.value is not None]


def options_of(call: Call, *, stop: bool = False) -> Options:
    """The options and operands of a call, by the record of its program."""
    record = call.program
    return read_options(call.args, record.options, stop=stop, single=record.single)


def read_options(
    words: tuple[Word, ...], table: Takes, *, stop: bool = False, single: bool = False
) -> Options:
    """Sort the words after a program's name into options and operands.

    `stop`: the first operand ends the options. `single`: one dash begins a whole name, as in `find -name`;
    without it, only the options of several letters in the table are whole names.
    """
    all_options: list[Option] = []
    operands: list[Word] = []
    first = len(words)
    at = 0
    while at < len(words):
        word = words[at]
        text = word.written
        if text == "--":
            operands.extend(words[at + 1 :])
            first = min(first, at + 1)
            break
        if len(text) < 2 or text[0] != "-":
            operands.append(word)
            first = min(first, at)
            at += 1
            if stop:
                break
            continue
        options, used = options_at(words, at, table, single=single)
        all_options.extend(options)
        at += used
    return Options(all_options, operands, first)


def options_at(
    words: tuple[Word, ...], at: int, table: Takes, *, single: bool = False
) -> tuple[list[Option], int]:
    """The options in the word at this index, and the number of words that they and their values occupy."""
    word = words[at]
    after = words[at + 1] if at + 1 < len(words) else None
    whole = single or word.written.startswith("--") or word.written.partition("=")[0] in table.whole
    options = [_long(word, after, table)] if whole else _short(word, after, table)
    takes_next = after is not None and options[-1].value is after
    return options, 1 + takes_next + (takes_next and options[-1].name in table.twice)


def _long(word: Word, after: Word | None, table: Takes) -> Option:
    name, sign, _ = word.written.partition("=")
    full = name
    if name not in table.values | table.attached and len(name) >= _SHORTEST_CUT and name.startswith("--"):
        full = next((option for option in table.long if option.startswith(name)), name)
    if sign:
        return Option(full, word.cut(len(name) + 1), word)
    return Option(full, after if full in table.values else None, word)


def _short(word: Word, after: Word | None, table: Takes) -> list[Option]:
    cluster: list[Option] = []
    for place, letter in enumerate(word.written[1:], 1):
        name = f"-{letter}"
        has_rest = place + 1 < len(word.written)
        if name in table.values:
            cluster.append(Option(name, word.cut(place + 1) if has_rest else after, word))
            break
        if name in table.attached:
            cluster.append(Option(name, word.cut(place + 1) if has_rest else None, word))
            break
        cluster.append(Option(name, None, word))
    return cluster
