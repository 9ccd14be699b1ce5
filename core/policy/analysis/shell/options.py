"""The options of one call: which of its words are options, which their values, which operands.

Told by a table of the options that take a value, as POSIX's Utility Syntax Guidelines and GNU's long options
are read: `-abc` is three options, `-ovalue` and `-o value` one with a value, `--name=value`, `--name value`,
and a long option may be cut short. All operands are cluster wherever options stand, unless asked to stop.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from core.policy.analysis.shell.parser import Word

_SHORTEST_CUT = 5


class Option(NamedTuple):
    """An option by its full name, with the value it is given and the word that it stands in."""

    name: str
    value: Word | None
    word: Word


class Takes(NamedTuple):
    """The options of a program that take a value, that do so only inside their own word, that take two."""

    values: frozenset[str]
    attached: frozenset[str]
    twice: frozenset[str]
    long: tuple[str, ...]


@dataclass(slots=True)
class Options:
    """What the words of a call are. `first` is the place of the first operand among them."""

    options: list[Option]
    operands: list[Word]
    first: int

    def has(self, *names: str) -> bool:
        """Whether one of these options is given."""
        return any(option.name in names for option in self.options)

    def values(self, *names: str) -> list[Word]:
        """The values given to these options."""
        return [option.value for option in self.options if option.name in names and option.value is not None]


def takes(names: str = "") -> Takes:
    """A table entry: `-o --output -i? --bind:2`.

    A `?` stands after options whose value is in the same word if they have one, `:2` after those with two.
    """
    words = names.split()
    attached = frozenset(word[:-1] for word in words if word.endswith("?"))
    twice = frozenset(word[:-2] for word in words if word.endswith(":2"))
    values = twice | {word for word in words if not word.endswith(("?", ":2"))}
    long = [word for word in values | attached if word.startswith("--")]
    # A cut name that could be several is the shortest of them, in every process: sets have no order.
    return Takes(values, attached, twice, tuple(sorted(long, key=lambda word: (len(word), word))))


def read_options(
    words: tuple[Word, ...], table: Takes, *, stop: bool = False, single: bool = False
) -> Options:
    """Sort the words after a program's name into options and operands.

    `stop`: the first operand ends the options. `single`: one dash begins a whole name, as in `find -name`.
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
    """The options in the word at this place, and how many words they and their values take."""
    word = words[at]
    after = words[at + 1] if at + 1 < len(words) else None
    long = single or word.written.startswith("--")
    options = [_long(word, after, table)] if long else _short(word, after, table)
    takes_next = after is not None and options[-1].value is after
    return options, 1 + takes_next + (takes_next and options[-1].name in table.twice)


def _long(word: Word, after: Word | None, table: Takes) -> Option:
    name, sign, _ = word.written.partition("=")
    full = name
    if name not in table.values | table.attached and len(name) >= _SHORTEST_CUT and name.startswith("--"):
        full = next((known for known in table.long if known.startswith(name)), name)
    if sign:
        return Option(full, word.cut(len(name) + 1), word)
    return Option(full, after if full in table.values else None, word)


def _short(word: Word, after: Word | None, table: Takes) -> list[Option]:
    cluster: list[Option] = []
    for place, letter in enumerate(word.written[1:], 1):
        name = f"-{letter}"
        rest = place + 1 < len(word.written)
        if name in table.values:
            cluster.append(Option(name, word.cut(place + 1) if rest else after, word))
            break
        if name in table.attached:
            cluster.append(Option(name, word.cut(place + 1) if rest else None, word))
            break
        cluster.append(Option(name, None, word))
    return cluster
