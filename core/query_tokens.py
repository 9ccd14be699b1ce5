"""Splits filters and queries into terms: `[!][field:]value[,value…]`, separated by spaces.

Quotes make everything between them literal. The tokenizer accepts every text, also one that is still being
typed; the languages on top of it (`core.filter_language`, `core.audit.query`) decide what is an error.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Syntax:
    """The differences between the languages. `field` matches a field name (group 1) and its colon.

    `quotes` and `wildcards` are the characters with that meaning. With `escapes`, a backslash before a quote
    or a backslash makes it literal inside quotes.
    """

    field: re.Pattern[str]
    quotes: str
    wildcards: str
    escapes: bool = False


@dataclass(frozen=True, slots=True)
class Value:
    """A value, from offset `start` to `end`; `text` is without its quotes.

    `wildcards` are the places in `text` of wildcards that are not quoted. `empty_quotes` and `open_quote` are
    the offsets of the first quotes without content, and of a quote that is not closed.
    """

    start: int
    end: int
    text: str
    wildcards: frozenset[int]
    empty_quotes: int | None
    open_quote: int | None


@dataclass(frozen=True, slots=True)
class Token:
    """A term. Offsets: its first character, the field name or value after the `!`, the value, the end."""

    start: int
    name_start: int
    value_start: int
    end: int
    negated: bool
    name: str | None
    values: tuple[Value, ...]


def tokens(text: str, syntax: Syntax) -> Iterator[Token]:
    """The terms of a text, in order; an open quote reaches to the end of the text."""
    at = 0
    while at < len(text):
        if text[at].isspace():
            at += 1
            continue
        token = _token(text, at, syntax)
        yield token
        at = token.end


def _token(text: str, start: int, syntax: Syntax) -> Token:
    negated = text[start] == "!"
    name_start = start + negated
    named = syntax.field.match(text, name_start)
    value_start = named.end() if named else name_start
    values = [_value(text, value_start, syntax)]
    while text[values[-1].end : values[-1].end + 1] == ",":
        values.append(_value(text, values[-1].end + 1, syntax))
    name = named[1] if named else None
    return Token(start, name_start, value_start, values[-1].end, negated, name, tuple(values))


def _value(text: str, start: int, syntax: Syntax) -> Value:
    at = start
    content = ""
    wildcards: list[int] = []
    empty_quotes: int | None = None
    while at < len(text) and not (sign := text[at]).isspace() and sign != ",":
        at += 1
        if sign not in syntax.quotes:
            if sign in syntax.wildcards:
                wildcards.append(len(content))
            content += sign
            continue
        opened = at - 1
        quoted, at = _quoted(text, at, sign, syntax.escapes)
        content += quoted
        if at > len(text):
            return Value(start, len(text), content, frozenset(wildcards), empty_quotes, opened)
        if not quoted and empty_quotes is None:
            empty_quotes = opened
    return Value(start, at, content, frozenset(wildcards), empty_quotes, None)


def _quoted(text: str, at: int, quote: str, escapes: bool) -> tuple[str, int]:
    """The text up to the closing quote, and the offset behind it: behind the end if the quote is open."""
    content = ""
    while at < len(text) and (sign := text[at]) != quote:
        if escapes and sign == "\\" and text[at + 1 : at + 2] in {quote, "\\"}:
            at += 1
            sign = text[at]
        content += sign
        at += 1
    return content, at + 1
