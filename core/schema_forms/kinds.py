"""Kind, unit and bounds of a form field, derived from its schema."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Any, TypeGuard

from core.schema_forms.json_values import shown
from core.schema_forms.messages import bound, is_secret
from core.schema_forms.normalize import NormalizedSchema
from core.text import shorten_middle


class FieldKind(StrEnum):
    """The kind of editor for a value."""

    STRING = "string"
    MULTILINE = "multiline"
    PATH = "path"
    SECRET = "secret"
    INTEGER = "integer"
    NUMBER = "number"
    BOOLEAN = "boolean"
    ENUM = "enum"
    CONST = "const"
    NULL = "null"
    OBJECT = "object"
    ARRAY = "array"
    ANY_OF = "any_of"
    JSON = "json"


TEXT_KINDS = frozenset({FieldKind.STRING, FieldKind.MULTILINE, FieldKind.PATH, FieldKind.SECRET})
MOST_CHOICES = 2_000
"""Values in a list of choices; with more of them the operator types the value."""
_LONGEST_NAME = 200
_LONGEST_BOUND = 40

NUMBER_KINDS = frozenset({FieldKind.INTEGER, FieldKind.NUMBER})


def kind_of(normal: NormalizedSchema, name: str) -> tuple[FieldKind, str]:
    """The kind of field for a schema; for `json` also the reason."""
    keys = normal.keys
    if isinstance(values := keys.get("enum"), list):
        return _listed_kind(values, keys, name)
    if "const" in keys:
        return FieldKind.CONST, ""
    if normal.branches:
        return FieldKind.ANY_OF, ""
    stated = keys.get("type")
    word = stated if isinstance(stated, str) else _implied_type(keys)
    if word == "string":
        return _text_kind(keys, name), ""
    if word in ("integer", "number", "boolean", "null", "object", "array"):
        return FieldKind(word), ""
    return FieldKind.JSON, f"its type {shown(stated)} is not known" if stated is not None else ""


def _listed_kind(values: list[Any], keys: dict[str, Any], name: str) -> tuple[FieldKind, str]:
    if not values:
        return FieldKind.JSON, "its list of values is empty"
    if len(values) <= MOST_CHOICES:
        return FieldKind.ENUM, ""
    if all(isinstance(value, str) for value in values):
        return _text_kind(keys, name), ""
    return FieldKind.JSON, f"its list has {len(values):,} values"


def _implied_type(keys: dict[str, Any]) -> str:
    signs = {
        "object": ("properties", "patternProperties", "additionalProperties", "required", "propertyNames"),
        "array": ("items", "prefixItems", "minItems", "maxItems", "uniqueItems"),
        "string": ("pattern", "minLength", "maxLength", "format"),
        "number": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
    }
    return next((word for word, marks in signs.items() if any(mark in keys for mark in marks)), "")


_PATH_NAME = re.compile(
    r"(?:^|[_\-.])(?:path|paths|file|filename|dir|directory|folder|cwd|root)$"
    r"|(?:[a-z](?:Path|File|Dir|Directory|Folder))$"
)
_LONG_NAME = re.compile(
    r"(?:^|_)(?:content|contents|text|body|script|code|source|prompt|markdown|html|sql|patch|diff|instructions)$",
    re.IGNORECASE,
)
_PATH_FORMATS = ("path", "file-path", "directory-path", "filepath", "file", "directory")


def _text_kind(keys: dict[str, Any], name: str) -> FieldKind:
    if is_secret(keys):
        return FieldKind.SECRET
    said = keys.get("format")
    shape = said.lower() if isinstance(said, str) else ""
    name = name[-_LONGEST_NAME:]
    if shape in _PATH_FORMATS or (not shape and _PATH_NAME.search(name)):
        return FieldKind.PATH
    longest = keys.get("maxLength")
    is_long = is_number(longest) and longest > 400
    if shape in ("multiline", "textarea", "markdown") or "contentMediaType" in keys or is_long:
        return FieldKind.MULTILINE
    return FieldKind.MULTILINE if not shape and _LONG_NAME.search(name) else FieldKind.STRING


_UNITS = (
    (r"(?:^|_)(?:ms|millis|milliseconds)$|[a-z]Ms$", r"\bmilliseconds?\b|\bin ms\b", "ms"),
    (r"(?:^|_)(?:s|sec|secs|seconds)$", r"\bseconds?\b", "s"),
    (r"(?:^|_)(?:min|mins|minutes)$", r"\bminutes?\b", "min"),
    (r"(?:^|_)(?:hours?)$", r"\bin hours\b", "h"),
    (r"(?:^|_)(?:days?)$", r"\bin days\b", "d"),
    (r"(?:^|_)(?:bytes)$", r"\bin bytes\b", "B"),
    (r"(?:^|_)(?:percent|pct)$", r"\bpercent\b|%", "%"),
    (r"(?:^|_)(?:px|pixels)$", r"\bpixels?\b", "px"),
)


def unit_of(name: str, description: str) -> str:
    """The unit of a number by its name, else by its description; empty where neither tells."""
    for by_name, _, unit in _UNITS:
        if re.search(by_name, name[-_LONGEST_NAME:]):
            return unit
    return next((unit for _, said, unit in _UNITS if re.search(said, description[:300], re.IGNORECASE)), "")


def limits_of(keys: dict[str, Any], kind: FieldKind) -> str:
    """The bounds of a value in words; empty without bounds."""
    if kind in NUMBER_KINDS:
        low, high = keys.get("minimum"), keys.get("maximum")
        above, below = keys.get("exclusiveMinimum"), keys.get("exclusiveMaximum")
        if is_number(low) and is_number(high):
            return f"{_said(low)} to {_said(high)}"
        parts = [(low, "at least"), (high, "at most"), (above, "more than"), (below, "less than")]
        return ", ".join(f"{word} {_said(value)}" for value, word in parts if is_number(value))
    nouns = {FieldKind.ARRAY: ("Items", "items"), FieldKind.OBJECT: ("Properties", "fields")}
    suffix, noun = nouns.get(kind, ("Length", "characters") if kind in TEXT_KINDS else ("", ""))
    low, high = (keys.get(f"{end}{suffix}") if noun else None for end in ("min", "max"))
    if is_number(low) and low == high:
        return f"exactly {_said(low)} {noun}"
    parts = [(low if low not in (0, 1) else None, "at least"), (high, "at most")]
    return ", ".join(f"{word} {_said(value)} {noun}" for value, word in parts if is_number(value))


def _said(limit: Any) -> str:
    return shorten_middle(str(bound(limit)), _LONGEST_BOUND)


def is_number(value: Any) -> TypeGuard[int | float]:
    """Whether a bound is a number; a boolean is not."""
    return isinstance(value, int | float) and not isinstance(value, bool)
