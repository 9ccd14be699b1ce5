"""Where the cursor is: which command, and what the word at the cursor names.

A command line is read as far as it is typed and is not judged: what is wrong with it the command itself says.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from core.completion.kinds import Kind
from core.completion.words import Offer

Table = dict[str, Any]
_HELP = {"names": ["--help", "-h"], "help": "Show this help."}


@dataclass(slots=True)
class Position:
    """The word at the cursor, and what was typed before it.

    `before` is the part of the word that stays as it is (`--device=`), `typed` the rest. `offers` are words
    of the command line itself; else `kind` says what the word names. `given` has the values before the
    cursor, by kind; `home` is that of `--home`.
    """

    before: str = ""
    typed: str = ""
    offers: list[Offer] = field(default_factory=list)
    kind: Kind = Kind.TEXT
    given: dict[Kind, list[str]] = field(default_factory=dict)
    home: str | None = None

    def first(self, kind: Kind) -> str:
        """The first value of this kind before the cursor, empty if there is none."""
        return next(iter(self.given.get(kind, ())), "")


def position_in(words: Sequence[str], commands: Table) -> Position:
    """The position at the end of a command line, whose last word is being typed, perhaps empty.

    `words` are those behind the program's name.
    """
    *before, last = words or ("",)
    reader = _Reader(commands)
    for word in before:
        reader.take(word)
    return reader.at(last)


class _Reader:
    """Reads the words before the cursor one by one."""

    def __init__(self, commands: Table) -> None:
        self._root = self._here = commands
        self._is_known = True
        self._arguments = 0
        self._awaits: Table | None = None
        self._options_over = False
        self._used: set[str] = set()
        self._position = Position()

    def take(self, word: str) -> None:
        """Read a whole word."""
        if self._awaits is not None:
            self._keep(self._awaits, word)
            self._awaits = None
        elif word == "--" and not self._options_over:
            self._options_over = True
        elif self._is_option(word):
            name, sign, value = word.partition("=")
            self._used.add(name)
            option = self._option(name)
            if option is not None and _takes_value(option):
                if sign:
                    self._keep(option, value)
                else:
                    self._awaits = option
        elif "commands" in self._here and word not in self._here["commands"] and "default" in self._here:
            self._here = self._default()
            self._take_argument(word)
        elif "commands" in self._here:
            self._is_known = self._is_known and word in self._here["commands"]
            self._here = self._here["commands"].get(word, {})
        else:
            self._take_argument(word)

    def _take_argument(self, word: str) -> None:
        argument = self._argument()
        self._arguments += 1
        if argument is not None:
            self._keep(argument, word)

    def _default(self) -> Table:
        """The command of a group to which words belong that name none of its commands."""
        return dict(self._here["commands"][self._here["default"]])

    def at(self, word: str) -> Position:
        """The position in the last word."""
        at = self._position
        at.typed = word
        if not self._is_known:
            return at
        if self._awaits is not None:
            self._offer_value(self._awaits)
        elif self._is_option(word):
            name, sign, value = word.partition("=")
            option = self._option(name)
            if not sign:
                at.offers = self._option_offers()
            elif option is not None and _takes_value(option):
                at.before, at.typed = name + sign, value
                self._offer_value(option)
        elif "commands" in self._here:
            at.offers = [Offer(name, one["help"]) for name, one in self._here["commands"].items()]
            if "default" in self._here and not any(one.text.startswith(word) for one in at.offers):
                self._here = self._default()
                if (argument := self._argument()) is not None:
                    self._offer_value(argument)
        elif (argument := self._argument()) is not None:
            self._offer_value(argument)
        elif not word and not self._options_over:
            at.offers = self._option_offers()
        return at

    def _is_option(self, word: str) -> bool:
        return word.startswith("-") and not self._options_over

    def _offer_value(self, parameter: Table) -> None:
        self._position.offers = [Offer(choice) for choice in parameter.get("choices", ())]
        self._position.kind = Kind(parameter.get("kind", Kind.TEXT))

    def _option_offers(self) -> list[Offer]:
        return [
            Offer(name, option["help"])
            for option in self._options()
            if option.get("many") or self._used.isdisjoint(option["names"])
            for name in option["names"]
        ]

    def _options(self) -> list[Table]:
        common = [one for one in self._root["options"] if "--version" not in one["names"]]
        own = self._here.get("options", [])
        return [*own, *([] if self._here is self._root else common), _HELP]

    def _option(self, name: str) -> Table | None:
        return next((one for one in self._options() if name in one["names"]), None)

    def _argument(self) -> Table | None:
        """The argument that the next word is."""
        declared = self._here.get("arguments", [])
        if self._arguments < len(declared):
            return dict(declared[self._arguments])
        return dict(declared[-1]) if declared and declared[-1].get("many") else None

    def _keep(self, parameter: Table, value: str) -> None:
        if "--home" in parameter.get("names", ()):
            self._position.home = value
        elif "kind" in parameter:
            self._position.given.setdefault(Kind(parameter["kind"]), []).append(value)


def _takes_value(option: Table) -> bool:
    return "kind" in option or "choices" in option
