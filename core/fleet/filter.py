"""The filter language for devices: `os:linux tag:lab,prod !name:db-* health:online free-text`.

Terms are separated by spaces and must all hold; a comma means "one of"; `!` negates a term; `*` and `?` stand
for any text and any one character; quotes make spaces, commas, colons and wildcards literal. Case does not
matter. `key:value` compares the whole value; a plain word is looked for inside name, tags and platform.

Matching cannot blow up: between wildcards the leftmost place is taken and never reconsidered, so the time is
at most the length of the text times the length of the filter, and a filter has at most `LONGEST` characters.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NoReturn

from core.errors import BadInput
from core.fleet.models import Device, Health

LONGEST = 2000

_YES_NO = ("yes", "no")
_OS_NAMES = {"darwin": "macos", "win32": "windows"}


def _systems(device: Device) -> list[str]:
    other = _OS_NAMES.get(device.platform.casefold())
    return [device.platform, device.system, *([other] if other else [])]


FIELDS: dict[str, Callable[[Device], list[str]]] = {
    "name": lambda device: [device.name],
    "os": _systems,
    "tag": lambda device: device.tags,
    "health": lambda device: [device.health.value],
    "production": lambda device: ["yes" if device.production else "no"],
    "profile": lambda device: [device.profile],
    "client": lambda device: [device.client],
    "channel": lambda device: [device.channel],
}
"""What may stand before a colon, and which values of a device it looks at."""

_CLOSED: dict[str, tuple[str, ...]] = {
    "health": tuple(health.value for health in Health),
    "production": _YES_NO,
}


@dataclass(frozen=True, slots=True)
class Term:
    """One term. `key` is empty for a plain word; `start` and `end` are offsets into the filter's text."""

    key: str
    negated: bool
    values: tuple[str, ...]
    start: int
    end: int
    patterns: tuple[re.Pattern[str], ...] = field(repr=False)

    def matches(self, device: Device) -> bool:
        """Whether the term holds for a device, `!` included."""
        looked_at = FIELDS[self.key](device) if self.key else [device.name, *device.tags, device.platform]
        texts = [text.casefold() for text in looked_at]
        return self.negated != any(pattern.fullmatch(text) for pattern in self.patterns for text in texts)


@dataclass(frozen=True, slots=True)
class DeviceFilter:
    """A parsed filter; without terms it matches every device."""

    text: str
    terms: tuple[Term, ...]

    def matches(self, device: Device) -> bool:
        """Whether every term holds for a device."""
        return all(term.matches(device) for term in self.terms)


def parse_filter(text: str) -> DeviceFilter:
    """Read a filter.

    Raises:
        BadInput: it is not a filter; names the column (counting from 1) and what is allowed there.
    """
    if len(text) > LONGEST:
        _fail(text, LONGEST, f"A filter has at most {LONGEST} characters; this one has {len(text)}.")
    terms: list[Term] = []
    at = 0
    while at < len(text):
        if text[at].isspace():
            at += 1
            continue
        term = _read_term(text, at)
        terms.append(term)
        at = term.end
    return DeviceFilter(text, tuple(terms))


def _read_term(text: str, start: int) -> Term:
    at = start
    negated = text[at] == "!"
    if negated:
        at += 1
        if at == len(text) or text[at].isspace():
            _fail(text, at, 'After "!" comes a term, such as !tag:lab.')
        if text[at] == "!":
            _fail(text, at, 'One "!" is enough.')
    named = re.compile(r"[^\s:,!\"'*?]*:").match(text, at)
    key = ""
    if named:
        key = named.group()[:-1].casefold()
        if key not in FIELDS:
            shown = named.group()[:-1]
            _fail(
                text,
                at,
                f'There is no field "{shown}". Fields: {", ".join(FIELDS)}. Quote it to search for the text.',
            )
        at = named.end()
    values: list[str] = []
    patterns: list[re.Pattern[str]] = []
    while True:
        began = at
        pieces, at = _read_value(text, at)
        if not pieces:
            wanted = _allowed(key) if key else "a word"
            _fail(text, began, f"Expected {wanted} here.")
        pattern = _pattern(pieces, inside=not key)
        if key in _CLOSED and not any(pattern.fullmatch(value) for value in _CLOSED[key]):
            _fail(text, began, f'"{text[began:at]}" is not a value of {key}. Expected {_allowed(key)}.')
        values.append(text[began:at])
        patterns.append(pattern)
        if at == len(text) or text[at] != ",":
            return Term(key, negated, tuple(values), start, at, tuple(patterns))
        at += 1


def _read_value(text: str, at: int) -> tuple[list[str | None], int]:
    """One value as literal characters, with None for `*` and "" for `?`, and where it ends."""
    pieces: list[str | None] = []
    while at < len(text) and not text[at].isspace() and text[at] != ",":
        sign = text[at]
        if sign in "\"'":
            end = text.find(sign, at + 1)
            if end < 0:
                _fail(text, at, f"This quote is not closed; end it with {sign}.")
            if end == at + 1:
                _fail(text, at, "There is nothing between these quotes.")
            pieces.extend(text[at + 1 : end])
            at = end + 1
            continue
        pieces.append({"*": None, "?": ""}.get(sign, sign))
        at += 1
    return pieces, at


def _pattern(pieces: list[str | None], inside: bool) -> re.Pattern[str]:
    # A plain word without wildcards may stand anywhere; with wildcards its author says where.
    anywhere = inside and all(pieces)
    segments: list[str] = [""]
    for piece in [None, *pieces, None] if anywhere else pieces:
        if piece is None:
            segments.append("")
        else:
            segments[-1] += re.escape(piece.casefold()) if piece else "."
    if len(segments) == 1:
        return re.compile(segments[0], re.DOTALL)
    first, *middle, last = segments
    found = "".join(f"(?>.*?{segment})" for segment in middle if segment)
    return re.compile(f"{first}{found}.*{last}", re.DOTALL)


def _allowed(key: str) -> str:
    return "one of: " + ", ".join(_CLOSED[key]) if key in _CLOSED else f"a value for {key}"


def _fail(text: str, at: int, what: str) -> NoReturn:
    raise BadInput(f"Filter, column {at + 1}: {what}")
