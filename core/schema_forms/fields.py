"""A tool's JSON Schema as a tree of plain `Field`s, which a window or a terminal can ask for one by one.

The tree unfolds on demand: a schema may refer to itself for ever, a form only as far as somebody opens it.
Anything that is not understood becomes a `json` field with the reason; building a field never raises.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from core.schema_forms.json_values import UNSET, Path, path_text, same_json, shown, type_word
from core.schema_forms.kinds import (
    NUMBER_KINDS,
    TEXT_KINDS,
    FieldKind,
    kind_of,
    limits_of,
    unit_of,
)
from core.schema_forms.normal import Normal, NotUnderstood, default_of, normalise, resolver_for
from core.schema_forms.patterns import PatternTooCostly, PatternUnsupported, safe_pattern
from core.schema_forms.words import branch_phrase, is_secret, type_phrase

MAX_DEPTH = 32
"""Levels below which a field is asked for as JSON."""


_MONO_NAME = re.compile(
    r"command|expression|regex|pattern|glob|query|sql|script|code|url|uri|path|file|dir|host|sha|hash|args?$|_id$|^id$"
    r"|^(?:when|expect|selector|branch|ref)$",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Choice:
    """One allowed value with its words."""

    value: Any
    label: str
    description: str = ""


@dataclass(frozen=True, eq=False)
class Field:
    """One value that is asked for; sub-fields are made when they are first looked at."""

    path: Path
    kind: FieldKind
    required: bool
    normal: Normal
    depth: int = 0
    reason: str = ""
    title: str = ""

    @property
    def name(self) -> str:
        """The argument's own name, exactly as the tool spells it; empty for the whole."""
        last = self.path[-1] if self.path else ""
        return last if isinstance(last, str) else f"[{last}]"

    @property
    def where(self) -> str:
        """The path as people write it."""
        return path_text(self.path)

    @property
    def keys(self) -> dict[str, Any]:
        """The schema's keywords at this place, references followed and allOf merged."""
        return self.normal.keys

    @property
    def nullable(self) -> bool:
        """Whether null may stand in place of a value."""
        return self.normal.nullable and self.kind is not FieldKind.NULL

    @property
    def description(self) -> str:
        """What the tool says about the argument: plain text from outside."""
        return _text(self.keys.get("description"))

    @property
    def default(self) -> Any:
        """What the tool says it uses when the argument is left out, or `UNSET`; never sent by itself."""
        return default_of(self.keys)

    @property
    def examples(self) -> tuple[Any, ...]:
        """Values that the schema gives as examples."""
        found = self.keys.get("examples")
        return tuple(found[:5]) if isinstance(found, list) else ()

    @property
    def is_secret(self) -> bool:
        """Whether the value must be masked."""
        return is_secret(self.keys)

    @property
    def is_deprecated(self) -> bool:
        """Whether the tool says that the argument is going away."""
        return self.keys.get("deprecated") is True

    @property
    def is_mono(self) -> bool:
        """Whether a machine reads the text: commands, paths, expressions, patterns, addresses."""
        return self.kind is FieldKind.PATH or bool(_MONO_NAME.search(self.name))

    @cached_property
    def choices(self) -> tuple[Choice, ...]:
        """The allowed values of an enum or const, null among them where it is allowed."""
        values = self.keys.get("enum")
        listed = values if isinstance(values, list) else [self.keys["const"]] if "const" in self.keys else []
        names, notes = self.keys.get("enumNames"), self.keys.get("enumDescriptions")
        found = [
            Choice(value, _nth(names, at) or _label(value), _nth(notes, at))
            for at, value in enumerate(listed)
        ]
        if self.normal.nullable and not any(choice.value is None for choice in found):
            found.append(Choice(None, "null"))
        return tuple(found)

    @cached_property
    def properties(self) -> tuple[Field, ...]:
        """The named fields of an object, required ones where the schema puts them."""
        return tuple(self._property(name) for name in _dict(self.keys.get("properties")))

    def _property(self, name: str) -> Field:
        required = self.keys.get("required")
        is_required = isinstance(required, list) and name in required
        return self._below(name, _dict(self.keys.get("properties"))[name], is_required)

    def _below(self, part: str | int, schema: Any, required: bool) -> Field:
        return _build(schema, self.normal.resolver, (*self.path, part), required, self.depth + 1)

    def key_field(self, key: str) -> Field:
        """The field for a key that is not among the properties, by pattern or by what is allowed beyond."""
        named = _dict(self.keys.get("properties"))
        if key in named:
            return self._property(key)
        for pattern, schema in _dict(self.keys.get("patternProperties")).items():
            if _key_matches(pattern, key):
                return self._below(key, schema, False)
        beyond = self.keys.get("additionalProperties", True)
        return self._below(key, beyond if isinstance(beyond, dict) else True, False)

    @property
    def offers_keys(self) -> bool:
        """Whether rows with names of the operator's own make sense here.

        JSON Schema allows surplus keys wherever it does not forbid them; offering that in every form would
        be noise, so it is offered where the schema speaks of such keys, or of nothing else.
        """
        beyond = self.keys.get("additionalProperties")
        if isinstance(beyond, dict) or beyond is True or _dict(self.keys.get("patternProperties")):
            return True
        return beyond is None and not _dict(self.keys.get("properties"))

    def item_field(self, index: int) -> Field:
        """The field for one item of an array or tuple."""
        prefix, items = self._tuple_and_rest()
        schema = prefix[index] if index < len(prefix) else items
        return self._below(index, schema, True)

    def _tuple_and_rest(self) -> tuple[list[Any], Any]:
        items = self.keys.get("items", True)
        if isinstance(items, list):
            return items, self.keys.get("additionalItems", True)
        prefix = self.keys.get("prefixItems")
        return (prefix if isinstance(prefix, list) else []), items

    @property
    def item_limit(self) -> int | None:
        """The most items an array may have, when the schema says so."""
        most = self.keys.get("maxItems")
        prefix, items = self._tuple_and_rest()
        ends = [len(prefix)] if items is False else []
        return min([*ends, most] if isinstance(most, int) else ends, default=None)

    @cached_property
    def alternatives(self) -> tuple[Field, ...]:
        """The forms between which an anyOf or oneOf lets one choose; each has its own `title`."""
        found: list[Field] = []
        for at, branch in enumerate(self.normal.branches):
            built = _build_normal(branch, self.path, self.required, self.depth + 1)
            title = _branch_title(branch, built) or f"alternative {at + 1}"
            if any(other.title == title for other in found):
                title = f"{title} ({at + 1})"
            found.append(
                Field(built.path, built.kind, built.required, branch, built.depth, built.reason, title)
            )
        return tuple(found)

    @property
    def unit(self) -> str:
        """The unit a number is in, as far as name and description give it away: `s`, `ms`, `px`, …"""
        return unit_of(self.name, self.description) if self.kind in NUMBER_KINDS else ""

    @property
    def limits(self) -> str:
        """The bounds of a value in words: `1 to 600`, `at most 64 characters`."""
        return limits_of(self.keys, self.kind)

    @property
    def hint(self) -> str:
        """What happens when the field is left empty."""
        if self.default is not UNSET and not self.is_secret:
            return f"default {_label(self.default) if self.default != '' else 'empty text'}"[:120]
        return "" if self.required else "left out when empty"

    def fits(self, value: Any) -> bool:
        """Whether this field's own way of asking can show `value` without losing anything."""
        word = type_word(value)
        if value is None and self.nullable:
            return True
        if self.kind in TEXT_KINDS:
            return word == "string"
        if self.kind in NUMBER_KINDS:
            return word in ("integer", "number")
        if self.kind in (FieldKind.ENUM, FieldKind.CONST):
            return any(same_json(choice.value, value) for choice in self.choices)
        return word == self.kind.value if self.kind in _PLAIN else True


_PLAIN = (FieldKind.BOOLEAN, FieldKind.OBJECT, FieldKind.ARRAY, FieldKind.NULL)


def field_for(schema: Any) -> Field:
    """The field for a whole schema; what is not understood is asked for as JSON."""
    return _build(schema, None, (), True, 0)


def form_for(schema: Any) -> Field:
    """The field for a tool's arguments: always an object, because that is what a call carries."""
    root = field_for(schema)
    if root.kind is FieldKind.OBJECT or (root.kind is FieldKind.ANY_OF and not root.nullable):
        return root
    if root.kind is FieldKind.JSON and not root.reason:
        keys = {**root.keys, "type": "object"}
        return Field((), FieldKind.OBJECT, True, Normal(keys, root.normal.resolver))
    return root


def _build(schema: Any, resolver: Any, path: Path, required: bool, depth: int) -> Field:
    empty = Normal({}, resolver)
    if depth > MAX_DEPTH:
        return Field(path, FieldKind.JSON, required, empty, depth, "it is nested too deeply for a form")
    try:
        if resolver is None:
            resolver = _resolver(schema)
        return _build_normal(normalise(schema, resolver), path, required, depth)
    except NotUnderstood as error:
        return Field(path, FieldKind.JSON, required, empty, depth, str(error))
    except RecursionError:
        return Field(path, FieldKind.JSON, required, empty, depth, "its schema is nested too deeply")


def _resolver(schema: Any) -> Any:
    try:
        return resolver_for(schema if isinstance(schema, dict | bool) else {})
    except (AttributeError, TypeError, ValueError):  # an `$id` that is no text, for example
        return resolver_for({})


def _build_normal(normal: Normal, path: Path, required: bool, depth: int) -> Field:
    name = path[-1] if path and isinstance(path[-1], str) else ""
    kind, reason = kind_of(normal, name)
    return Field(path, kind, required, normal, depth, reason, _text(normal.keys.get("title")))


def _branch_title(branch: Normal, built: Field) -> str:
    title = _text(branch.keys.get("title"))
    tag = next((f.choices[0].label for f in built.properties if f.kind is FieldKind.CONST and f.choices), "")
    words = title or tag or branch_phrase(branch.keys)
    if built.kind is FieldKind.ARRAY and not title:
        item = built.item_field(0)
        return f"a list of {type_phrase(item.keys.get('type'))}" if "type" in item.keys else "a list"
    return words[:80]


def _key_matches(pattern: str, key: str) -> bool:
    try:
        return safe_pattern(pattern).search(key)
    except (PatternUnsupported, PatternTooCostly):
        return False


def _label(value: Any) -> str:
    return value if isinstance(value, str) and value.strip() else shown(value, 80)


def _text(value: Any) -> str:
    return value.strip() if isinstance(value, str) else ""


def _nth(values: Any, at: int) -> str:
    return _text(values[at]) if isinstance(values, list) and at < len(values) else ""


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def best_alternative(field: Field, value: Any) -> int | None:
    """Which alternative of an anyOf a given value belongs to; None when it fits none of them."""
    scores = [_score(alternative, value) for alternative in field.alternatives]
    best = max(scores, default=0)
    return scores.index(best) if best > 0 else None


def _score(field: Field, value: Any) -> int:
    if not field.fits(value) or (value is None and field.kind is not FieldKind.NULL):
        return 0
    if field.kind is FieldKind.JSON:
        return 1
    if field.kind is FieldKind.NUMBER and type_word(value) == "integer":
        return 3
    if field.kind is FieldKind.INTEGER and type_word(value) == "number":
        return 2
    if field.kind is FieldKind.ARRAY:
        return 3 + (2 if value and _score(field.item_field(0), value[0]) > 1 else 0)
    if field.kind is not FieldKind.OBJECT:
        return 6 if field.kind in (FieldKind.ENUM, FieldKind.CONST) else 4
    return _object_score(field, value)


def _object_score(field: Field, value: dict[str, Any]) -> int:
    """Tags decide; then the more names are known, and the fewer are missing, the better."""
    score = 100
    for child in field.properties:
        here = value.get(child.name, UNSET)
        if here is UNSET:
            score -= 4 if child.required else 0
        elif child.kind in (FieldKind.CONST, FieldKind.ENUM) and not child.fits(here):
            score -= 40
        else:
            score += 2 if child.fits(here) else -2
    return max(2, score)
