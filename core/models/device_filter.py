"""The filter for devices: `os:linux tag:lab,prod !name:db-* health:online free-text`.

The syntax is that of `core.filter_language`; a plain word is searched for in name, tags and platform.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

from core.errors import BadInput, ErrorCode
from core.filter_language import LONGEST, SIGNS, Filter, Language, Term
from core.models.devices import Device, Health
from core.similar import meant_or_known
from core.text import sentences

__all__ = [
    "FIELDS",
    "GRAMMAR",
    "LANGUAGE",
    "LONGEST",
    "OS_NAMES",
    "DeviceFilter",
    "no_match",
    "os_word",
    "parse_filter",
]

OS_NAMES = {"darwin": "macos", "win32": "windows"}

_CONNECTIVES = frozenset({"or", "and"})

DeviceFilter = Filter[Device]


def os_word(device: Device) -> str:
    """The word for a device's operating system: linux, windows, macos."""
    platform = device.platform.casefold()
    return OS_NAMES.get(platform, platform)


def _systems(device: Device) -> list[str]:
    return [device.platform, device.system, os_word(device)]


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
"""The fields of the filter, and the values of a device that each of them matches."""

LANGUAGE = Language(
    FIELDS,
    plain=lambda device: [device.name, *device.tags, device.platform],
    closed={"health": tuple(health.value for health in Health), "production": ("yes", "no")},
)


GRAMMAR = f"{SIGNS}; fields are {', '.join(FIELDS)}."
"""The filter in one line, for help and messages."""


def parse_filter(text: str) -> DeviceFilter:
    """Parse a filter.

    Raises:
        BadInput: a syntax error; names the column (counting from 1) and what is allowed there.
    """
    try:
        return LANGUAGE.parse(text)
    except BadInput as error:
        raise BadInput(sentences(error.message, GRAMMAR), error.code) from error


def no_match(targets: str, devices: Iterable[Device] = ()) -> BadInput:
    """The error for a filter that no device matches: what it means, and what was probably meant.

    `devices` are those that exist for the client; it has names and tags of theirs.
    """
    terms = parse_filter(targets).terms
    meant = _signs_meant(targets, terms) or _values_meant(terms, list(devices)) or _comma_meant(terms)
    return BadInput(
        sentences(f"No device matches {targets!r}.", meant, GRAMMAR), code=ErrorCode.UNKNOWN_DEVICE
    )


def _signs_meant(text: str, terms: Sequence[Term[Device]]) -> str:
    """What to write instead of signs and words that other languages have for or."""
    values = [value for term in terms for value in term.values]
    if any("|" in value for value in values):
        return f"A comma means or: write {text.replace('||', ',').replace('|', ',')}."
    if any(re.search(r"\[.*\]", value) for value in values):
        return "There are no sets in brackets: name each, as in name:lab-1,lab-2, or write name:lab-?."
    said = [term for term in terms if term.key or term.values[0].casefold() not in _CONNECTIVES]
    if len(said) == len(terms):
        return ""
    return _comma_meant(said) or "OR and AND are looked for as texts: write a comma for or, a blank for and."


def _comma_meant(terms: Sequence[Term[Device]]) -> str:
    """What to write where several terms of one field were to match any of their values."""
    if len(terms) < 2 or len({term.key for term in terms}) > 1 or any(term.negated for term in terms):
        return ""
    field = f"{terms[0].key}:" * bool(terms[0].key)
    values = ",".join(value for term in terms for value in term.values)
    return f"All terms must hold at once: for any of them write {field}{values}."


def _values_meant(terms: Sequence[Term[Device]], devices: list[Device]) -> str:
    """What the first term that holds for no device may have meant."""
    if not devices:
        return ""
    for term in terms:
        if term.negated or any(term.matches(device) for device in devices):
            continue
        known = {text for device in devices for text in term.texts(device)}
        return meant_or_known(
            term.values[0], known, f"Values of {term.key}" if term.key else "Names and tags"
        )
    return ""
