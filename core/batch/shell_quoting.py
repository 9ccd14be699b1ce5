"""Puts texts into a shell line as data, whatever they contain: quoted for the place where they stand.

A place is between two literal texts of a line: as a word or a part of one, inside single quotes, or inside
double quotes. A place where no quoting is safe, or whose quoting is not certain, is refused. POSIX shells and
bash read the results alike; `cmd` and PowerShell do not.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache

from core.policy.analysis.shell.databases import query_texts
from core.policy.analysis.shell.languages import programs_in
from core.policy.analysis.shell.parser import Call, LineTooComplex, Word, read_line
from core.policy.analysis.shell.walk import lines_inside
from core.policy.analysis.shell.wrappers import innermost
from core.programs.catalog import named, program_of
from core.programs.record import Kind
from core.token_formats import Span

ADVICE = 'give the text to the line with env: and write "$NAME" here, or insert it as it is with raw(…)'

_BLANKS = frozenset(" \t\n;&|()<>")
_BEFORE_A_WORD = frozenset(" \t\n;&|<>")
_AFTER_A_WORD = frozenset({"", " ", "\t", "\n", ";"})
_RESERVED = frozenset(named(Kind.KEYWORD))
_NAME = re.compile(r"[A-Za-z0-9_]")
_BARE = re.compile(r"[A-Za-z0-9_@%+=:,./-]+")
_NUMBER_TESTS = frozenset({"-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-v", "-R"})
_NAMING_OPTIONS = frozenset({"-v", "-R", "-p"})


class UnsafePlace(Exception):
    """No text can be inserted at this place of a shell line. `number` counts the places from 0."""

    def __init__(self, why: str, number: int) -> None:
        super().__init__(why)
        self.why = why
        self.number = number


class Place(Enum):
    """How the text around a place is quoted."""

    ALONE = "a word of its own"
    WORD = "a part of a word"
    SINGLE = "inside single quotes"
    DOUBLE = "inside double quotes"


@dataclass(frozen=True, slots=True)
class Inserted:
    """A text as it stands in a shell line; `span` is the part that was made of the text, without quotes."""

    text: str
    span: Span


def quoted(text: str, place: Place, *, always: bool = False) -> Inserted:
    """The text for a place in a shell line. `always`: with quotes also where it needs none."""
    if place is Place.DOUBLE:
        escaped = re.sub(r'([\\"$`])', r"\\\1", text)
        return Inserted(escaped, (0, len(escaped)))
    if place is Place.ALONE and not always and _BARE.fullmatch(text) and text not in _RESERVED:
        return Inserted(text, (0, len(text)))
    escaped = text.replace("'", "'\\''")
    if place is Place.SINGLE:
        return Inserted(escaped, (0, len(escaped)))
    return Inserted(f"'{escaped}'", (1, len(escaped) + 1))


# A run makes the same line for each of a thousand devices, and reading it takes about a millisecond.
@lru_cache(maxsize=256)
def places_in(literals: tuple[str, ...]) -> tuple[Place, ...]:
    """The places between the literal texts of a shell line, in order.

    Raises:
        UnsafePlace: no text can be inserted at one of them.
    """
    if len(literals) == 1:
        return ()
    places = _Scanner(literals).places()
    _check_use(literals, places)
    return places


def _check_use(literals: Sequence[str], places: Sequence[Place]) -> None:
    """Refuse places whose text a program reads as more than data: as its name, a variable or a line.

    Raises:
        UnsafePlace: the first such place.
    """
    probes = [f"Qd{number}probe" for number in range(len(places))]
    line = literals[0] + "".join(
        quoted(probe, place, always=True).text + literal
        for probe, place, literal in zip(probes, places, literals[1:], strict=True)
    )
    try:
        read = read_line(line)
    except LineTooComplex:
        raise UnsafePlace("the line is too long or too tangled to be read", 0) from None
    if not read.parsed:
        raise UnsafePlace("the line cannot be read with certainty", 0)
    inside = lines_inside(line)
    for number, probe in enumerate(probes):
        if any(probe in text for text in inside):
            raise UnsafePlace("another shell or interpreter reads this part as a program", number)
        for call in read.calls:
            if why := _use_of(probe, call):
                raise UnsafePlace(why, number)


def _use_of(probe: str, call: Call) -> str:
    """Why a word of a call is more than data; "" if none is."""
    for each in (call, innermost(call)):
        if not each.words:
            continue
        if each.words[0].written.startswith(probe):
            return "here it would be the name of the program"
        if any(probe in word.written for word in (*programs_in(each), *query_texts(each))):
            return f"{each.name} reads this part as a program or a query"
    for before, word in zip(call.words, call.args, strict=False):
        if probe in word.written and _names_a_variable(probe, call.name, before, word):
            return f"{call.name} reads it as the name of a variable, in whose index a command may stand"
    return ""


def _names_a_variable(probe: str, program: str, before: Word, word: Word) -> bool:
    kinds = program_of(program).kinds
    if Kind.SETS_VARIABLES in kinds:
        return True
    if Kind.DECLARES in kinds:
        return probe in word.written.partition("=")[0]
    return Kind.NAMES_VARIABLES in kinds and before.text in _NAMING_OPTIONS


class _Scanner:
    """Reads a line from left to right as a shell does, as far as that decides how each place is quoted."""

    def __init__(self, literals: Sequence[str]) -> None:
        # The characters of the line; a number in place of the text with this number.
        self._items: list[str | int] = list(literals[0])
        for number, literal in enumerate(literals[1:]):
            self._items += [number, *literal]
        self._at = 0
        self._places: dict[int, Place] = {}

    def places(self) -> tuple[Place, ...]:
        """The places of the whole line.

        Raises:
            UnsafePlace: one of them cannot be quoted.
        """
        self._words(closing=False)
        return tuple(self._places[number] for number in sorted(self._places))

    def _peek(self, ahead: int = 0) -> str | int:
        """The item at an offset; "" at the end. A backslash before a line's end joins two lines."""
        at = self._at
        while True:
            while self._items[at : at + 2] == ["\\", "\n"]:
                at += 2
            if ahead == 0:
                return self._items[at] if at < len(self._items) else ""
            ahead -= 1
            at += 1

    def _next(self) -> str | int:
        """Take one item; "" at the end."""
        while self._items[self._at : self._at + 2] == ["\\", "\n"]:
            self._at += 2
        self._at += 1
        return self._items[self._at - 1] if self._at <= len(self._items) else ""

    def _words(self, *, closing: bool) -> None:
        """Read words up to the end of the line, or to the `)` of a command substitution (`closing`)."""
        depth, word, tests, last = 0, "", _Test(), ""
        # Behind `>&` bash expands even what is quoted.
        expands = False
        while (item := self._peek()) != "":
            if item == ")" and closing and depth == 0:
                self._next()
                return
            if isinstance(item, int):
                self._word_place(item, word)
                self._check_redirect(item, expands)
                tests.place(item)
                word += "x"
                continue
            self._next()
            if item in _BLANKS:
                if closing and word == "case":
                    self._unsure("of case inside of $(…)")
                tests.word(word)
                expands = (item == "&" and last in ("<", ">")) or (expands and not word)
                word = ""
                depth += {"(": 1, ")": -1}.get(item, 0)
                self._operator(item)
            elif item == "#" and not word:
                self._skip("\n", "in a comment", escapes=False)
            else:
                known = len(self._places)
                self._quotes_or_sign(item)
                for number in list(self._places)[known:]:
                    self._check_redirect(number, expands)
                    tests.place(number)
                word += item
            last = item
        tests.word(word)
        if closing:
            self._unsure("$(…) is not closed")

    def _check_redirect(self, number: int, expands: bool) -> None:
        if expands:
            raise UnsafePlace("behind >& or <&, where bash may expand even what is quoted", number)

    def _word_place(self, number: int, word: str) -> None:
        if re.match(r"\w*\[", word):
            raise UnsafePlace("in an index, where a shell calculates", number)
        before = self._items[self._at - 1] if self._at else " "
        self._next()
        after = self._peek()
        is_alone = not word and before in _BEFORE_A_WORD and after in _AFTER_A_WORD
        self._places[number] = Place.ALONE if is_alone else Place.WORD

    def _operator(self, item: str) -> None:
        """Read on after a blank or an operator's first character."""
        if item == "(" and self._peek() == "(":
            self._unsure("of ((…))")
        elif item in "<>" and self._peek() == "(":
            self._next()
            self._words(closing=True)
        elif item == "<" and self._peek() == "<":
            self._next()
            if self._peek() != "<":
                self._unsure("of a here-document")
            self._next()

    def _quotes_or_sign(self, item: str) -> None:
        match item:
            case "\\":
                self._escaped()
            case "'":
                self._single()
            case '"':
                self._double()
            case "`":
                self._skip("`", "inside of backquotes")
            case "$":
                self._dollar(quoted=False)

    def _escaped(self) -> None:
        item = self._items[self._at] if self._at < len(self._items) else ""
        if isinstance(item, int):
            raise UnsafePlace("after a backslash", item)
        self._at += 1

    def _single(self) -> None:
        # A backslash before a line's end is a part of the text here.
        while self._at < len(self._items):
            item = self._items[self._at]
            self._at += 1
            if item == "'":
                return
            if isinstance(item, int):
                self._places[item] = Place.SINGLE
        self._refuse_all("inside of quotes that are not closed")

    def _double(self) -> None:
        while (item := self._next()) != "":
            if item == '"':
                return
            if isinstance(item, int):
                self._places[item] = Place.DOUBLE
            elif item == "\\":
                self._escaped()
            elif item == "`":
                self._skip("`", "inside of backquotes")
            elif item == "$":
                self._dollar(quoted=True)
        self._refuse_all("inside of quotes that are not closed")

    def _dollar(self, *, quoted: bool) -> None:
        """Read on after a dollar sign."""
        item = self._peek()
        if isinstance(item, int):
            raise UnsafePlace("after a dollar sign", item)
        if item == "(":
            self._next()
            if self._peek() == "(":
                self._unsure("of $((…))")
            self._words(closing=True)
        elif item == "{":
            self._next()
            self._braces()
        elif item == "[":
            self._unsure("of $[…]")
        elif item == "'" and not quoted:
            self._next()
            self._skip("'", "inside of $'…'")
        elif item == '"' and not quoted:
            self._unsure('of $"…"')
        elif item and re.match(r"[A-Za-z_]", item):
            while isinstance(item := self._peek(), str) and _NAME.match(item):
                self._next()
            if quoted and isinstance(item, int):
                raise UnsafePlace("right after the name of a variable; write ${NAME}", item)
        elif item and not quoted and item in "#":
            self._next()

    def _braces(self) -> None:
        """Read on to the end of `${…}`, where nothing can be inserted."""
        while (item := self._next()) != "":
            if item == "}":
                return
            if isinstance(item, int):
                raise UnsafePlace("inside of ${…}", item)
            if item == "\\":
                self._escaped()
            elif item in "'\"`$":
                self._unsure("of quotes inside of ${…}")
        self._unsure("${…} is not closed")

    def _skip(self, end: str, where: str, *, escapes: bool = True) -> None:
        """Read on behind the end of a part in which nothing can be inserted."""
        while self._at < len(self._items):
            item = self._items[self._at]
            self._at += 1
            if isinstance(item, int):
                raise UnsafePlace(where, item)
            if escapes and item == "\\":
                self._escaped()
            elif item == end:
                return

    def _unsure(self, why: str) -> None:
        """Refuse every later place: how it is quoted is not certain."""
        for item in self._items[self._at :]:
            if isinstance(item, int):
                raise UnsafePlace(f"how it is quoted here is not certain, because {why}", item)
        self._at = len(self._items)

    def _refuse_all(self, why: str) -> None:
        if self._places:
            raise UnsafePlace(why, max(self._places))


class _Test:
    """Watches for `[[ … ]]` with an operator that calculates: it runs a command in an index of its words."""

    def __init__(self) -> None:
        self._inside = False
        self._calculates = False
        self._places: list[int] = []

    def word(self, word: str) -> None:
        """Take note of a whole word."""
        if word == "[[":
            self._inside, self._calculates, self._places = True, False, []
        elif word == "]]":
            self._inside = False
        elif self._inside and word in _NUMBER_TESTS:
            self._calculates = True
            self._check()

    def place(self, number: int) -> None:
        """Take note of a place in a word."""
        if self._inside:
            self._places.append(number)
            self._check()

    def _check(self) -> None:
        if self._calculates and self._places:
            raise UnsafePlace("in [[ … ]] with an operator that calculates", self._places[0])
