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
from core.query_tokens import Syntax, Token, Value, tokens
from core.similar import most_like
from core.text import at_place, sentences, too_long

LONGEST = 2000
SIGNS = (
    "A blank means and, a comma or, ! not; * stands for any text, ? for any character, quotes make a text "
    "literal"
)
"""The grammar of every filter in words."""
_SYNTAX = Syntax(re.compile(r"([^\s:,!\"'*?]*):"), quotes="\"'", wildcards="*?")

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
            BadInput: the text is not a valid filter; its message begins with the column.
        """
        if len(text) > LONGEST:
            raise BadInput(too_long("A filter", text, LONGEST))
        return Filter(text, tuple(self._term(text, token) for token in tokens(text, _SYNTAX)))

    def _term(self, text: str, token: Token) -> Term[Thing]:
        if token.negated and token.end == token.name_start:
            _fail(token.end, f'a term comes after "!", such as !{next(iter(self.fields))}:lab')
        if token.negated and text[token.name_start] == "!":
            _fail(token.name_start, 'one "!" is enough')
        key = self._key(token)
        patterns = [self._value(text, key, value) for value in token.values]
        values = [text[value.start : value.end] for value in token.values]
        looked_at = self.fields[key] if key else self.plain
        return Term(key, token.negated, tuple(values), token.start, token.end, tuple(patterns), looked_at)

    def _key(self, token: Token) -> str:
        """The field of a term; empty for a plain word."""
        if token.name is None:
            return ""
        if token.name.casefold() not in self.fields:
            near = most_like(token.name, self.fields, 1)
            known = ", ".join(self.fields) + (f" (did you mean {near[0]}?)" if near else "")
            message = f'there is no field "{token.name}"; fields are {known}; quote it to search for the text'
            _fail(token.name_start, message)
        return token.name.casefold()

    def _value(self, text: str, key: str, value: Value) -> re.Pattern[str] | str:
        """The matcher of a value that is valid for this field."""
        if value.empty_quotes is not None:
            _fail(value.empty_quotes, "there is nothing between these quotes")
        if value.open_quote is not None:
            _fail(value.open_quote, f"this quote is not closed; end it with {text[value.open_quote]}")
        if not value.text:
            _fail(value.start, f"{f'a value for {key}' if key else 'a word'} is expected here")
        pattern = _pattern(value, inside=not key)
        if key in self.closed and not any(_fits(pattern, known) for known in self.closed[key]):
            shown = text[value.start : value.end]
            allowed = ", ".join(self.closed[key])
            _fail(value.start, f'"{shown}" is not a value of {key}; allowed are {allowed}')
        return pattern


def _pattern(value: Value, inside: bool) -> re.Pattern[str] | str:
    """The matcher of a value: a pattern for the whole text, or a string that is searched anywhere in it."""
    # A plain word without wildcards matches anywhere; with wildcards it must match the whole text.
    if inside and not value.wildcards:
        return value.text.casefold()
    segments: list[str] = [""]
    for place, sign in enumerate(value.text):
        if place not in value.wildcards:
            segments[-1] += re.escape(sign.casefold())
        elif sign == "?":
            segments[-1] += "."
        else:
            segments.append("")
    if len(segments) == 1:
        return re.compile(segments[0], re.DOTALL)
    first, *middle, last = segments
    found = "".join(f"(?>.*?{segment})" for segment in middle if segment)
    return re.compile(f"{first}{found}.*{last}", re.DOTALL)


def _fits(pattern: re.Pattern[str] | str, text: str) -> bool:
    return pattern in text if isinstance(pattern, str) else pattern.fullmatch(text) is not None


def _fail(at: int, what: str) -> NoReturn:
    raise BadInput(at_place(sentences(what), at + 1))
