"""The filter language, such as `os:linux tag:lab,prod !name:db-* free-text`, for any objects with fields.

Terms are separated by spaces and must all hold; a comma means "or"; `!` negates a term; `*` matches any text
and `?` any single character; quotes make spaces, commas, colons and wildcards literal. Case is ignored.
`key:value` compares the whole value; a plain word is searched in an object's texts.

Matching does not backtrack: each part between wildcards is matched at its leftmost place only. The time is
therefore at most the text's length times the filter's length, which is at most `LONGEST` characters.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Generic, NoReturn, TypeVar

from core.errors import BadInput

LONGEST = 2000

Thing = TypeVar("Thing")
Texts = Callable[[Thing], Iterable[str]]


@dataclass(frozen=True, slots=True)
class Term(Generic[Thing]):
    """A term. `key` is empty for a plain word; `start` and `end` are offsets into the filter's text."""

    key: str
    negated: bool
    values: tuple[str, ...]
    start: int
    end: int
    patterns: tuple[re.Pattern[str] | str, ...] = field(repr=False)
    texts: Texts[Thing] = field(repr=False, compare=False)

    def matches(self, thing: Thing) -> bool:
        """Whether the term, including its `!`, holds for an object."""
        texts = [text.casefold() for text in self.texts(thing)]
        return self.negated != any(_fits(pattern, text) for pattern in self.patterns for text in texts)


@dataclass(frozen=True, slots=True)
class Filter(Generic[Thing]):
    """A parsed filter; without terms it matches everything."""

    text: str
    terms: tuple[Term[Thing], ...]

    def matches(self, thing: Thing) -> bool:
        """Whether every term holds for an object."""
        return all(term.matches(thing) for term in self.terms)


@dataclass(frozen=True, slots=True)
class Language(Generic[Thing]):
    """The filter fields of one kind of object.

    `fields` maps each field name to a function that returns an object's values for it. `plain` returns the
    texts in which plain words are searched. `closed` lists the possible values of fields with a fixed set.
    """

    fields: Mapping[str, Texts[Thing]]
    plain: Texts[Thing]
    closed: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def parse(self, text: str) -> Filter[Thing]:
        """Parse a filter.

        Raises:
            BadInput: the text is not a valid filter; names the column (from 1) and what is expected there.
        """
        if len(text) > LONGEST:
            _fail(LONGEST, f"A filter has at most {LONGEST} characters; this one has {len(text)}.")
        terms: list[Term[Thing]] = []
        at = 0
        while at < len(text):
            if text[at].isspace():
                at += 1
                continue
            term = self._read_term(text, at)
            terms.append(term)
            at = term.end
        return Filter(text, tuple(terms))

    def _read_term(self, text: str, start: int) -> Term[Thing]:
        at = start
        negated = text[at] == "!"
        if negated:
            at += 1
            if at == len(text) or text[at].isspace():
                _fail(at, f'After "!" comes a term, such as !{next(iter(self.fields))}:lab.')
            if text[at] == "!":
                _fail(at, 'One "!" is enough.')
        key, at = self._read_key(text, at)
        values: list[str] = []
        patterns: list[re.Pattern[str] | str] = []
        while True:
            began = at
            pieces, at = _read_value(text, at)
            if not pieces:
                _fail(began, f"Expected {self._allowed(key) if key else 'a word'} here.")
            pattern = _pattern(pieces, inside=not key)
            if key in self.closed and not any(_fits(pattern, value) for value in self.closed[key]):
                _fail(began, f'"{text[began:at]}" is not a value of {key}. Expected {self._allowed(key)}.')
            values.append(text[began:at])
            patterns.append(pattern)
            if at == len(text) or text[at] != ",":
                looked_at = self.fields[key] if key else self.plain
                return Term(key, negated, tuple(values), start, at, tuple(patterns), looked_at)
            at += 1

    def _read_key(self, text: str, at: int) -> tuple[str, int]:
        """The field name before a colon (empty for a plain word), and the offset where its value begins."""
        named = re.compile(r"[^\s:,!\"'*?]*:").match(text, at)
        if not named:
            return "", at
        key = named.group()[:-1].casefold()
        if key not in self.fields:
            shown, known = named.group()[:-1], ", ".join(self.fields)
            _fail(at, f'There is no field "{shown}". Fields: {known}. Quote it to search for the text.')
        return key, named.end()

    def _allowed(self, key: str) -> str:
        return "one of: " + ", ".join(self.closed[key]) if key in self.closed else f"a value for {key}"


def _read_value(text: str, at: int) -> tuple[list[str | None], int]:
    """A value as literal characters, with None for `*` and "" for `?`; and the offset where it ends."""
    pieces: list[str | None] = []
    while at < len(text) and not text[at].isspace() and text[at] != ",":
        sign = text[at]
        if sign in "\"'":
            end = text.find(sign, at + 1)
            if end < 0:
                _fail(at, f"This quote is not closed; end it with {sign}.")
            if end == at + 1:
                _fail(at, "There is nothing between these quotes.")
            pieces.extend(text[at + 1 : end])
            at = end + 1
            continue
        pieces.append({"*": None, "?": ""}.get(sign, sign))
        at += 1
    return pieces, at


def _pattern(pieces: list[str | None], inside: bool) -> re.Pattern[str] | str:
    """The matcher of a value: a pattern for the whole text, or a string that is searched anywhere in it."""
    # A plain word without wildcards matches anywhere; with wildcards it must match the whole text.
    if inside and all(pieces):
        return "".join(piece for piece in pieces if piece).casefold()
    segments: list[str] = [""]
    for piece in pieces:
        if piece is None:
            segments.append("")
        else:
            segments[-1] += re.escape(piece.casefold()) if piece else "."
    if len(segments) == 1:
        return re.compile(segments[0], re.DOTALL)
    first, *middle, last = segments
    found = "".join(f"(?>.*?{segment})" for segment in middle if segment)
    return re.compile(f"{first}{found}.*{last}", re.DOTALL)


def _fits(pattern: re.Pattern[str] | str, text: str) -> bool:
    return pattern in text if isinstance(pattern, str) else pattern.fullmatch(text) is not None


def _fail(at: int, what: str) -> NoReturn:
    raise BadInput(f"Filter, column {at + 1}: {what}")
