"""Parses the journal's query language into a `Query`.

Terms are separated by spaces and all must match: `tool:type_text status:failure device:lab-* dur:>2s`. Commas
separate alternatives, `*` matches any text, a leading `!` negates; in double quotes, spaces, commas, stars
and colons are literal. A word without a field is searched case-insensitively in all content of an entry.
`since` includes its moment and `until` does not; moments without an offset are UTC.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import NoReturn

from core.audit.entries import Kind
from core.errors import BadInput
from core.query_tokens import Syntax, Token, Value, tokens
from core.similar import most_like
from core.text import at_place, too_long

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

SYNTAX = Syntax(re.compile(r"([A-Za-z_]+):"), quotes='"', wildcards="*", escapes=True)
_DURATION = re.compile(r"(\d{1,9}(?:\.\d{1,6})?)(ms|s|m|h)")
_AGO = re.compile(r"(\d{1,6})(s|m|h|d|w)")
_SEQ = re.compile(r"(\d{1,18})?\.\.(\d{1,18})?|(\d{1,18})")
_MS = {"ms": 1.0, "s": 1000.0, "m": 60_000.0, "h": 3_600_000.0}
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_KINDS = tuple(kind.value for kind in Kind)


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
class _RawTerm:
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
        raise BadInput(too_long("A query", text, MAX_LENGTH))
    now = now or datetime.now(UTC)
    terms: list[Term] = []
    since: list[str] = []
    until: list[str] = []
    for count, token in enumerate([_raw_term(text, token) for token in tokens(text, SYNTAX)], 1):
        if count > MAX_TERMS:
            _fail(token.column, f"more than {MAX_TERMS} terms", "fewer terms, or alternatives with a comma")
        if token.field in {"since", "until"}:
            (since if token.field == "since" else until).append(_moment(token, now))
        else:
            terms.append(_term(token))
    return Query(tuple(terms), max(since, default=None), min(until, default=None))


def quoted(value: str) -> str:
    """A value, not an empty one, as a query has it that means exactly this value."""
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _raw_term(text: str, token: Token) -> _RawTerm:
    field = token.name.lower() if token.name is not None else None
    if field is not None and field not in FIELDS:
        near = most_like(field, FIELDS, 1)
        hint = f"did you mean {near[0]}? " if near else ""
        _fail(
            token.name_start + 1,
            f"there is no field {field!r}",
            f"{hint}fields are {', '.join(FIELDS)}; put text with a colon into double quotes",
        )
    opened = token.values[-1].open_quote
    if opened is not None:
        _fail(opened + 1, "this quote is never closed", 'a second " behind the text')
    column = token.value_start + 1
    raw = text[token.value_start : token.end]
    if not raw:
        what = f"{field}: has no value" if field else "nothing follows the !"
        _fail(column, what, "a value without a space before it")
    values = tuple(Pattern(_pieces(value)) for value in token.values)
    return _RawTerm(token.start + 1, column, token.negated, field, values, raw)


def _pieces(value: Value) -> tuple[str, ...]:
    """The texts between the stars of a value."""
    stars = sorted(value.wildcards)
    starts, ends = [0, *(star + 1 for star in stars)], [*stars, len(value.text)]
    return tuple(value.text[start:end] for start, end in zip(starts, ends, strict=True))


def _term(token: _RawTerm) -> Term:
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


def _free_text(token: _RawTerm) -> str:
    """A word with its commas and stars, which are literal in free text."""
    return ",".join("*".join(value.pieces) for value in token.values)


def _check_kinds(token: _RawTerm) -> None:
    for pattern in token.values:
        if pattern.literal not in _KINDS and not any(pattern.matches(kind) for kind in _KINDS):
            text = "*".join(pattern.pieces)
            near = most_like(text, _KINDS) or _KINDS
            _fail(token.value_column, f"there is no kind {text!r}", f"for example {', '.join(near[:5])}")


def _duration(token: _RawTerm) -> DurationTerm:
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


def _milliseconds(token: _RawTerm, text: str, allowed: str) -> float:
    match = _DURATION.fullmatch(text)
    if match is None:
        _fail(token.value_column, f"{text!r} is not a duration", allowed)
    return float(match[1]) * _MS[match[2]]


def _numbers(token: _RawTerm) -> SeqTerm:
    match = _SEQ.fullmatch(token.raw)
    if match is None or token.raw == "..":
        _fail(
            token.value_column,
            f"{token.raw!r} is not a number or a range",
            "seq:17, seq:100..200, seq:100.. or seq:..200",
        )
    if match[3] is not None:
        return SeqTerm(int(match[3]), int(match[3]), token.negated)
    return SeqTerm(int(match[1] or 0), int(match[2]) if match[2] else MAX_SEQ, token.negated)


def _moment(token: _RawTerm, now: datetime) -> str:
    allowed = f"an age such as {token.field}:1h (s, m, h, d, w), or a date or time in ISO 8601"
    if token.negated:
        _fail(token.column, f"{token.field} cannot be negated", "since for the one side, until for the other")
    moment = _parse_moment(token.raw.strip('"'), now)
    if moment is None:
        _fail(token.value_column, f"{token.raw!r} is not a date, a time or an age", allowed)
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
    raise BadInput(at_place(f"{problem}. Allowed: {allowed}.", column))
