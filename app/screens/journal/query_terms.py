"""A query as text that is being typed: its terms, what may be completed, and small edits to it.

`core.audit.query` says what a query means; this says where its parts stand.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal

from core.audit.query import FIELDS, SYNTAX, quoted
from core.query_tokens import Token, tokens

TIME_FIELDS = ("since", "until")
_AGE = re.compile(r"(\d{1,6})(s|m|h|d|w)")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_NEEDS_QUOTES = re.compile(r'[\s",*\\]')


@dataclass(frozen=True, slots=True)
class TermSpan:
    """Where one term stands: from `start` (its `!`, if any) to `end`; its value begins at `value_start`.

    `field` is None for a word that is looked for everywhere.
    """

    start: int
    end: int
    value_start: int
    field: str | None
    negated: bool


@dataclass(frozen=True, slots=True)
class Slot:
    """What is being typed: the beginning `prefix` of a field's name or of a value, from `start` to `end`."""

    kind: Literal["key", "value"]
    field: str
    prefix: str
    start: int
    end: int


def terms_of(text: str) -> list[TermSpan]:
    """The terms of a query, also of one that is not finished."""
    return [_span(token) for token in tokens(text, SYNTAX)]


def _span(token: Token) -> TermSpan:
    name = (token.name or "").lower()
    if name in FIELDS:
        return TermSpan(token.start, token.end, token.value_start, name, token.negated)
    return TermSpan(token.start, token.end, token.name_start, None, token.negated)


def term_at(text: str, cursor: int) -> TermSpan | None:
    """The term that the cursor is in or directly behind."""
    return next((span for span in terms_of(text) if span.start <= cursor <= span.end), None)


def slot_at(text: str, cursor: int) -> Slot:
    """What may be completed at the cursor."""
    span = term_at(text, cursor)
    if span is None:
        return Slot("key", "", "", cursor, cursor)
    if span.field is None or cursor < span.value_start:
        start = min(cursor, span.start + span.negated)
        return Slot("key", "", text[start:cursor], start, span.end if span.field is None else cursor)
    start, in_quotes, escaped = span.value_start, False, False
    for place in range(span.value_start, cursor):
        if text[place] == '"' and not escaped:
            in_quotes = not in_quotes
        elif text[place] == "," and not in_quotes:
            start = place + 1
        escaped = in_quotes and text[place] == "\\" and not escaped
    end = span.end
    if (comma := text.find(",", cursor, span.end)) >= 0 and not in_quotes:
        end = comma
    return Slot("value", span.field, text[start:cursor].strip('"'), start, end)


def quoted_value(value: str) -> str:
    """A value as it must be written so that it means itself."""
    if value and not _NEEDS_QUOTES.search(value):
        return value
    return quoted(value)


def completed(text: str, slot: Slot, choice: str) -> tuple[str, int]:
    """The text with `choice` in the slot, and where the cursor goes."""
    inserted = f"{choice}:" if slot.kind == "key" else quoted_value(choice)
    rest = text[slot.end :]
    if slot.kind == "value" and not rest:
        inserted += " "
    return text[: slot.start] + inserted + rest, slot.start + len(inserted)


def with_term(text: str, term: str) -> str:
    """The query with one more term, unless it is there."""
    here = {text[span.start : span.end] for span in terms_of(text)}
    if term in here:
        return text
    return f"{text.rstrip()} {term}".lstrip()


def without_fields(text: str, fields: Iterable[str]) -> str:
    """The query without its terms of these fields."""
    gone = set(fields)
    return " ".join(text[span.start : span.end] for span in terms_of(text) if span.field not in gone)


def without_term(text: str, start: int) -> str:
    """The query without the term that begins at `start`."""
    return " ".join(text[span.start : span.end] for span in terms_of(text) if span.start != start)


def with_time(text: str, start: datetime, end: datetime) -> str:
    """The query narrowed to a stretch of time, in place of the one it has.

    Moments are widened to whole seconds where the stretch is long enough for that not to matter.
    """
    unit = timedelta(seconds=1) if end - start > timedelta(seconds=10) else timedelta(milliseconds=1)
    low = start - timedelta(microseconds=start.microsecond % round(unit / timedelta(microseconds=1)))
    high = end + timedelta(microseconds=-end.microsecond % round(unit / timedelta(microseconds=1)))
    kept = without_fields(text, TIME_FIELDS)
    return f"{kept} since:{_moment(low)} until:{_moment(high)}".lstrip()


def _moment(moment: datetime) -> str:
    timespec = "milliseconds" if moment.microsecond else "seconds"
    return moment.astimezone(UTC).isoformat(timespec=timespec).replace("+00:00", "Z")


def with_moments_fixed(text: str, now: datetime) -> str:
    """The query with ages such as `since:1h` written as moments, so that every page has the same bounds."""
    parts, last = [], 0
    for span in terms_of(text):
        match = _AGE.fullmatch(text[span.value_start : span.end])
        if span.field in TIME_FIELDS and match is not None:
            try:
                moment = now.astimezone(UTC) - timedelta(seconds=int(match[1]) * _SECONDS[match[2]])
            except OverflowError:
                continue
            parts += [text[last : span.value_start], moment.isoformat(timespec="microseconds")[:26] + "Z"]
            last = span.end
    return "".join([*parts, text[last:]])
