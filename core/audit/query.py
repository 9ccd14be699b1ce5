"""Parses the journal's query language into a `Query`.

Terms are separated by spaces and all must match: `tool:type_text status:failure device:lab-* dur:>2s`. Commas
separate alternatives, `*` matches any text, a leading `!` negates; in double quotes, spaces, commas, stars
and colons are literal. A word without a field is searched case-insensitively in all content of an entry.
`since` includes its moment and `until` does not; moments without an offset are UTC.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import NoReturn

from core.audit.entries import Kind
from core.errors import BadInput

# Field of the query language: column of the journal's database.
TEXT_FIELDS = {
    "kind": "kind",
    "actor": "actor",
    "run": "run",
    "device": "device",
    "call": "call_id",
    "tool": "tool",
    "status": "status",
    "verdict": "verdict",
}
FIELDS = (*TEXT_FIELDS, "dur", "seq", "since", "until")
MAX_LENGTH = 2000
MAX_TERMS = 32
MAX_SEQ = 2**63 - 1

_FIELD = re.compile(r"([A-Za-z_]+):")
_DURATION = re.compile(r"(\d{1,9}(?:\.\d{1,6})?)(ms|s|m|h)")
_AGO = re.compile(r"(\d{1,6})(s|m|h|d|w)")
_SEQ = re.compile(r"(\d{1,18})?\.\.(\d{1,18})?|(\d{1,18})")
_MS = {"ms": 1.0, "s": 1000.0, "m": 60_000.0, "h": 3_600_000.0}
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}


@dataclass(frozen=True, slots=True)
class Pattern:
    """A text with `*` between its pieces; a single piece is a plain text."""

    pieces: tuple[str, ...]

    @property
    def literal(self) -> str | None:
        """The text if it has no star, else None."""
        return self.pieces[0] if len(self.pieces) == 1 else None

    @property
    def prefix(self) -> str:
        """The common beginning of all matching texts."""
        return self.pieces[0]

    def matches(self, text: str) -> bool:
        """Whether a text matches this pattern."""
        return re.fullmatch(".*".join(map(re.escape, self.pieces)), text, re.DOTALL) is not None

    def as_glob(self) -> str:
        """The pattern in SQLite's GLOB syntax."""
        return "*".join(re.sub(r"[*?\[]", r"[\g<0>]", piece) for piece in self.pieces)


@dataclass(frozen=True, slots=True)
class TextTerm:
    """The value of a column matches one of the patterns."""

    column: str
    patterns: tuple[Pattern, ...]
    negated: bool = False


@dataclass(frozen=True, slots=True)
class DurationTerm:
    """The duration in milliseconds is within bounds; a bound may be excluded."""

    low: float | None
    high: float | None
    low_open: bool = False
    high_open: bool = False
    negated: bool = False


@dataclass(frozen=True, slots=True)
class SeqTerm:
    """The number is within bounds, both included."""

    low: int
    high: int
    negated: bool = False


@dataclass(frozen=True, slots=True)
class FreeTerm:
    """A text occurs somewhere in the entry's content."""

    text: str
    negated: bool = False


Term = TextTerm | DurationTerm | SeqTerm | FreeTerm


@dataclass(frozen=True, slots=True)
class Query:
    """The conditions on entries. `since` (included) and `until` (excluded) have the format of entry times."""

    terms: tuple[Term, ...] = ()
    since: str | None = None
    until: str | None = None


@dataclass(frozen=True, slots=True)
class _Token:
    """The text of one term. `values` has the alternatives between unquoted commas; `column` counts from 1."""

    column: int
    value_column: int
    negated: bool
    field: str | None
    values: tuple[Pattern, ...]
    raw: str


def parse_query(text: str, now: datetime | None = None) -> Query:
    """Parse a query; ages such as `since:1h` are relative to `now`.

    Raises:
        BadInput: the query is invalid; the message names the column, the problem and the allowed terms.
    """
    if len(text) > MAX_LENGTH:
        raise BadInput(f"A query has at most {MAX_LENGTH} characters; this one has {len(text)}.")
    now = now or datetime.now(UTC)
    terms: list[Term] = []
    since: list[str] = []
    until: list[str] = []
    for count, token in enumerate(_Scanner(text).tokens(), 1):
        if count > MAX_TERMS:
            _fail(token.column, f"more than {MAX_TERMS} terms", "fewer terms, or alternatives with a comma")
        if token.field in {"since", "until"}:
            (since if token.field == "since" else until).append(_moment(token, now))
        else:
            terms.append(_term(token))
    return Query(tuple(terms), max(since, default=None), min(until, default=None))


class _Scanner:
    """Splits a query into tokens, respecting quotes."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def tokens(self) -> list[_Token]:
        tokens: list[_Token] = []
        while True:
            while self._at < len(self._text) and self._text[self._at].isspace():
                self._at += 1
            if self._at == len(self._text):
                return tokens
            tokens.append(self._token())

    def _token(self) -> _Token:
        column = self._at + 1
        negated = self._text[self._at] == "!"
        self._at += negated
        field = None
        if match := _FIELD.match(self._text, self._at):
            field = match[1].lower()
            if field not in FIELDS:
                near = difflib.get_close_matches(field, FIELDS, 1)
                hint = f"did you mean {near[0]}? " if near else ""
                _fail(
                    self._at + 1,
                    f"there is no field {field!r}",
                    f"{hint}fields are {', '.join(FIELDS)}; put text with a colon into double quotes",
                )
            self._at = match.end()
        start = self._at
        values = self._values()
        raw = self._text[start : self._at]
        if not raw:
            what = f"{field}: has no value" if field else "nothing follows the !"
            _fail(start + 1, what, "a value without a space before it")
        return _Token(column, start + 1, negated, field, values, raw)

    def _values(self) -> tuple[Pattern, ...]:
        values: list[Pattern] = []
        pieces = [""]
        while self._at < len(self._text) and not (letter := self._text[self._at]).isspace():
            self._at += 1
            if letter == '"':
                pieces[-1] += self._quoted()
            elif letter == "*":
                pieces.append("")
            elif letter == ",":
                values.append(Pattern(tuple(pieces)))
                pieces = [""]
            else:
                pieces[-1] += letter
        values.append(Pattern(tuple(pieces)))
        return tuple(values)

    def _quoted(self) -> str:
        """The text up to the closing quote; a backslash escapes a quote or a backslash."""
        opened = self._at
        text = ""
        while (letter := self._text[self._at : self._at + 1]) != '"':
            if not letter:
                _fail(opened, "this quote is never closed", 'a second " behind the text')
            self._at += 1
            if letter == "\\" and self._text[self._at : self._at + 1] in {'"', "\\"}:
                letter = self._text[self._at]
                self._at += 1
            text += letter
        self._at += 1
        return text


def _term(token: _Token) -> Term:
    if token.field is None:
        return FreeTerm(_free_text(token), token.negated)
    if token.field == "dur":
        return _duration(token)
    if token.field == "seq":
        return _numbers(token)
    if any(not any(pattern.pieces) and pattern.literal is not None for pattern in token.values):
        _fail(token.value_column, "an alternative is empty", "a value on both sides of each comma")
    if token.field == "kind":
        _check_kinds(token)
    return TextTerm(TEXT_FIELDS[token.field], token.values, token.negated)


def _free_text(token: _Token) -> str:
    """A word with its commas and stars, which are literal in free text."""
    return ",".join("*".join(value.pieces) for value in token.values)


def _check_kinds(token: _Token) -> None:
    kinds = [kind.value for kind in Kind]
    for pattern in token.values:
        if not any(pattern.matches(kind) for kind in kinds):
            text = "*".join(pattern.pieces)
            near = difflib.get_close_matches(text, kinds, 3) or kinds
            _fail(token.value_column, f"there is no kind {text!r}", f"for example {', '.join(near[:5])}")


def _duration(token: _Token) -> DurationTerm:
    allowed = "for example dur:>2s, dur:<=500ms or dur:1s..5s (units ms, s, m, h)"
    raw = token.raw
    if ".." in raw:
        low, _, high = raw.partition("..")
        bounds = [_milliseconds(token, part, allowed) if part else None for part in (low, high)]
        if bounds == [None, None]:
            _fail(token.value_column, "the range has no end", allowed)
        return DurationTerm(bounds[0], bounds[1], negated=token.negated)
    sign = re.match(r"[<>]=?", raw)
    if sign is None:
        _fail(token.value_column, f"{raw!r} does not say more or less than what", allowed)
    value = _milliseconds(token, raw[sign.end() :], allowed)
    is_open = len(sign[0]) == 1
    if sign[0][0] == ">":
        return DurationTerm(value, None, low_open=is_open, negated=token.negated)
    return DurationTerm(None, value, high_open=is_open, negated=token.negated)


def _milliseconds(token: _Token, text: str, allowed: str) -> float:
    match = _DURATION.fullmatch(text)
    if match is None:
        _fail(token.value_column, f"{text!r} is no duration", allowed)
    return float(match[1]) * _MS[match[2]]


def _numbers(token: _Token) -> SeqTerm:
    match = _SEQ.fullmatch(token.raw)
    if match is None or token.raw == "..":
        _fail(
            token.value_column,
            f"{token.raw!r} is no number or range",
            "seq:17, seq:100..200, seq:100.. or seq:..200",
        )
    if match[3] is not None:
        return SeqTerm(int(match[3]), int(match[3]), token.negated)
    return SeqTerm(int(match[1] or 0), int(match[2]) if match[2] else MAX_SEQ, token.negated)


def _moment(token: _Token, now: datetime) -> str:
    allowed = f"an age such as {token.field}:1h (s, m, h, d, w), or a date or time in ISO 8601"
    if token.negated:
        _fail(token.column, f"{token.field} cannot be negated", "since for the one side, until for the other")
    moment = _parse_moment(token.raw.strip('"'), now)
    if moment is None:
        _fail(token.value_column, f"{token.raw!r} is no moment", allowed)
    return moment.isoformat(timespec="microseconds")[:26] + "Z"


def _parse_moment(text: str, now: datetime) -> datetime | None:
    try:
        if match := _AGO.fullmatch(text):
            return now.astimezone(UTC) - timedelta(seconds=int(match[1]) * _SECONDS[match[2]])
        moment = datetime.fromisoformat(text)
        return (moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def _fail(column: int, problem: str, allowed: str) -> NoReturn:
    raise BadInput(f"Column {column}: {problem}. Allowed: {allowed}.")
