"""A tool's JSON Schema as a tree of `Field`s, from which the window and the terminal build a form.

The kind of a field, its unit and its bounds are derived from the schema's keywords and the argument's name.

The tree is built on demand: a schema may refer to itself without end, a form only goes as deep as the
operator opens it. A part that is not understood becomes a `json` field with the reason. Building a field
never raises and takes a few milliseconds at most. Text of a schema is shown with hidden characters escaped.

`best_alternative` finds the alternative of an anyOf that a value belongs to.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any, TypeGuard

from core.schema_forms.document import (
    MAX_CHARACTERS,
    References,
    UnsupportedSchema,
    references_of,
    serialized,
)
from core.schema_forms.json_values import UNSET, Path, path_text, same_json, shown, type_word
from core.schema_forms.messages import bound, branch_phrase, type_phrase
from core.schema_forms.normalize import (
    NormalizedSchema,
    WorkBudget,
    default_of,
    normalise,
)
from core.schema_forms.patterns import (
    MOST_QUICK,
    PatternTooCostly,
    PatternUnsupported,
    is_quick,
    safe_pattern,
)
from core.secret_rule import is_secret
from core.text import escape_hidden, shorten_middle

MOST_CHOICES = 2_000
"""Values in a list of choices; with more of them the operator types the value."""
MAX_DEPTH = 32
"""Levels; a field below them is edited as JSON."""
MOST_WORDS = 4_000
"""Characters of a description that are shown."""
_LONGEST_NAME = 80
# Characters of a name, from its end, that tell the kind and the unit.
_LONGEST_NAME_READ = 200
_LONGEST_BOUND = 40
_MOST_ITEMS = 2**31
_NO_REFERENCES = references_of({})
# Steps (10 µs each) allowed for matching a name against one pattern.
_STEPS_OF_A_PATTERN = 50

_MONO_NAME = re.compile(
    r"command|expression|regex|pattern|glob|query|sql|script|code|url|uri|path|file|dir|host|sha|hash|args?$|_id$|^id$"
    r"|^(?:when|expect|selector|branch|ref)$",
    re.IGNORECASE,
)


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
NUMBER_KINDS = frozenset({FieldKind.INTEGER, FieldKind.NUMBER})
# Kinds that are named like the JSON type of their values.
_NAMED_BY_TYPE = (FieldKind.BOOLEAN, FieldKind.OBJECT, FieldKind.ARRAY, FieldKind.NULL)


@dataclass(frozen=True, slots=True)
class Choice:
    """One allowed value with its label."""

    value: Any
    label: str
    description: str = ""


@dataclass(frozen=True, eq=False)
class Field:
    """One value of a form; sub-fields are built when they are first read."""

    path: Path
    kind: FieldKind
    required: bool
    normal: NormalizedSchema
    depth: int = 0
    reason: str = ""
    title: str = ""

    @property
    def name(self) -> str:
        """The argument's name exactly as the tool spells it; empty for the whole value."""
        last = self.path[-1] if self.path else ""
        return last if isinstance(last, str) else f"[{last}]"

    @property
    def label(self) -> str:
        """The name for display."""
        return shorten_middle(escape_hidden(self.name[:MOST_WORDS], keep_lines=False), _LONGEST_NAME)

    @property
    def where(self) -> str:
        """The path for display, as in `region.x`."""
        whole = path_text(tuple(part[:MOST_WORDS] if isinstance(part, str) else part for part in self.path))
        return shorten_middle(escape_hidden(whole, keep_lines=False), 2 * _LONGEST_NAME)

    @property
    def keys(self) -> dict[str, Any]:
        """The schema's keywords at this place, with references followed and allOf merged."""
        return self.normal.keys

    @property
    def nullable(self) -> bool:
        """Whether null is allowed instead of a value."""
        return self.normal.nullable and self.kind is not FieldKind.NULL

    @cached_property
    def description(self) -> str:
        """The tool's description of the argument: plain text from outside."""
        return _text(self.keys.get("description"))

    @property
    def default(self) -> Any:
        """The default that the schema states for an omitted argument, or `UNSET`; never sent by itself."""
        return default_of(self.keys)

    @property
    def examples(self) -> tuple[Any, ...]:
        """The first five examples of the schema."""
        examples = self.keys.get("examples")
        return tuple(examples[:5]) if isinstance(examples, list) else ()

    @property
    def is_secret(self) -> bool:
        """Whether the value must be redacted, also where only one of its alternatives is a secret."""
        return is_secret(self.keys) or any(is_secret(branch.keys) for branch in self.normal.branches)

    @property
    def is_deprecated(self) -> bool:
        """Whether the schema marks the argument as deprecated."""
        return self.keys.get("deprecated") is True

    @property
    def is_mono(self) -> bool:
        """Whether the text is for a machine: commands, paths, expressions, patterns, addresses."""
        return self.kind is FieldKind.PATH or bool(_MONO_NAME.search(self.name[:_LONGEST_NAME]))

    @property
    def states_lines(self) -> bool:
        """Whether the schema says, or its default shows, that the text has several lines."""
        return _states_lines(self.keys) or (isinstance(self.default, str) and "\n" in self.default)

    @property
    def values(self) -> list[Any]:
        """The allowed values in the order of the schema."""
        listed = self.keys.get("enum")
        return listed if _is_list(listed) else [self.keys["const"]] if "const" in self.keys else []

    @cached_property
    def choices(self) -> tuple[Choice, ...]:
        """The allowed values of an enum or const, with null where it is allowed."""
        names, notes = self.keys.get("enumNames"), self.keys.get("enumDescriptions")
        choices = [
            Choice(value, _nth(names, at) or _label(value), _nth(notes, at))
            for at, value in enumerate(self.values)
        ]
        if self.normal.nullable and not any(choice.value is None for choice in choices):
            choices.append(Choice(None, "null"))
        return tuple(choices)

    @cached_property
    def properties(self) -> tuple[Field, ...]:
        """The named fields of an object in the schema's order."""
        work = WorkBudget()
        return tuple(self.property_of(name, work) for name in _dict(self.keys.get("properties")))

    @cached_property
    def required_names(self) -> frozenset[str]:
        """The names of the required properties."""
        required = self.keys.get("required")
        return (
            frozenset(name for name in required if isinstance(name, str))
            if _is_list(required)
            else frozenset()
        )

    def property_of(self, name: str, work: WorkBudget) -> Field:
        """Build one of the named fields within the remaining work.

        Raises:
            KeyError: the object has no property of this name.
        """
        return self._below(name, _dict(self.keys.get("properties"))[name], name in self.required_names, work)

    def _below(self, part: str | int, schema: Any, required: bool, work: WorkBudget | None = None) -> Field:
        work = work or WorkBudget()
        return _build(schema, self.normal.references, (*self.path, part), required, self.depth + 1, work)

    def key_field(self, key: str) -> Field:
        """The field for a key outside `properties`, from patternProperties or additionalProperties."""
        if key in _dict(self.keys.get("properties")):
            return self.property_of(key, WorkBudget())
        try:
            for schema in _pattern_schemas(key, _dict(self.keys.get("patternProperties"))):
                return self._below(key, schema, False)
        except PatternTooCostly:
            reason = "the patterns that its name is held against are too large"
            empty = NormalizedSchema({}, _NO_REFERENCES)
            return Field((*self.path, key), FieldKind.JSON, False, empty, self.depth + 1, reason)
        additional = self.keys.get("additionalProperties", True)
        return self._below(key, additional if isinstance(additional, dict) else True, False)

    @property
    def offers_keys(self) -> bool:
        """Whether the form offers rows for keys that the operator names.

        JSON Schema allows additional keys unless it forbids them. Offering them in every form would be noise,
        so they are offered where the schema describes such keys, or describes no properties at all.
        """
        additional = self.keys.get("additionalProperties")
        if isinstance(additional, dict) or additional is True or _dict(self.keys.get("patternProperties")):
            return True
        return additional is None and not _dict(self.keys.get("properties"))

    def item_field(self, index: int, work: WorkBudget | None = None) -> Field:
        """The field for one item of an array or tuple."""
        prefix, items = self._tuple_and_rest()
        schema = prefix[index] if index < len(prefix) else items
        return self._below(index, schema, True, work)

    def _tuple_and_rest(self) -> tuple[list[Any], Any]:
        items = self.keys.get("items", True)
        if isinstance(items, list):
            return items, self.keys.get("additionalItems", True)
        prefix = self.keys.get("prefixItems")
        return (prefix if isinstance(prefix, list) else []), items

    @property
    def item_limit(self) -> int | None:
        """The most items that the schema allows; None without a limit."""
        most = self.keys.get("maxItems")
        prefix, items = self._tuple_and_rest()
        ends = [len(prefix)] if items is False else []
        if _is_number(most) and most == (
            whole := int(min(most, _MOST_ITEMS))
        ):  # 3.0 is a whole number, true is not
            ends.append(max(0, whole))
        return min(ends, default=None)

    @cached_property
    def alternatives(self) -> tuple[Field, ...]:
        """The alternatives of an anyOf or oneOf as fields, each with its own `title`."""
        alternatives: list[Field] = []
        work = WorkBudget()
        for at, branch in enumerate(self.normal.branches):
            built = _build_normal(branch, self.path, self.required, self.depth + 1)
            title = _branch_title(branch, built, work) or f"alternative {at + 1}"
            if any(other.title == title for other in alternatives):
                title = f"{title} ({at + 1})"
            alternatives.append(
                Field(built.path, built.kind, built.required, branch, built.depth, built.reason, title)
            )
        return tuple(alternatives)

    @property
    def unit(self) -> str:
        """The unit of a number, as far as name and description tell: `s`, `ms`, `px`, …"""
        return _unit_of(self.name, self.description) if self.kind in NUMBER_KINDS else ""

    @property
    def limits(self) -> str:
        """The bounds of a value in words: `1 to 600`, `at most 64 characters`."""
        return _limits_of(self.keys, self.kind)

    @cached_property
    def hint(self) -> str:
        """The meaning of an empty field: the default, or that the argument is left out."""
        if self.default is not UNSET and not self.is_secret:
            return f"default {_label(self.default) if self.default != '' else 'empty text'}"[:120]
        return "" if self.required else "left out when empty"

    def fits(self, value: Any) -> bool:
        """Whether this field's editor can show `value` without losing anything."""
        json_type = type_word(value)
        if value is None and self.nullable:
            return True
        if self.kind in TEXT_KINDS:
            return json_type == "string"
        if self.kind in NUMBER_KINDS:
            return json_type in ("integer", "number")
        if self.kind in (FieldKind.ENUM, FieldKind.CONST):
            return any(same_json(allowed, value) for allowed in self.values)
        return json_type == self.kind.value if self.kind in _NAMED_BY_TYPE else True


def field_for(schema: Any) -> Field:
    """The field for a whole schema; a `json` field where it is not understood."""
    if not serialized(schema).text:
        reason = f"its schema has more than {MAX_CHARACTERS:,} characters, or is nested too deeply"
        return Field((), FieldKind.JSON, True, NormalizedSchema({}, _NO_REFERENCES), 0, reason)
    return _build(schema, None, (), True, 0, WorkBudget())


def form_for(schema: Any) -> Field:
    """The field for a tool's arguments, an object wherever the schema allows: a call carries an object."""
    root = field_for(schema)
    if root.kind is FieldKind.OBJECT or (root.kind is FieldKind.ANY_OF and not root.nullable):
        return root
    if root.kind is FieldKind.JSON and not root.reason:
        keys = {**root.keys, "type": "object"}
        return Field((), FieldKind.OBJECT, True, NormalizedSchema(keys, root.normal.references))
    return root


def _build(
    schema: Any, references: References | None, path: Path, required: bool, depth: int, work: WorkBudget
) -> Field:
    """The field for one place of a schema; without `references`, for a whole schema."""
    empty = NormalizedSchema({}, references or _NO_REFERENCES)
    if depth > MAX_DEPTH:
        return Field(path, FieldKind.JSON, required, empty, depth, "it is nested too deeply for a form")
    try:
        if references is None:
            references = _references(schema)
        return _build_normal(normalise(schema, references, work), path, required, depth)
    except UnsupportedSchema as error:
        return Field(path, FieldKind.JSON, required, empty, depth, _line(str(error)))
    except RecursionError:
        return Field(path, FieldKind.JSON, required, empty, depth, "its schema is nested too deeply")


def _references(schema: Any) -> References:
    try:
        return references_of(schema if isinstance(schema, dict | bool) else {})
    except (AttributeError, TypeError, ValueError):  # for example an `$id` that is not text
        return _NO_REFERENCES


def _build_normal(normal: NormalizedSchema, path: Path, required: bool, depth: int) -> Field:
    name = path[-1] if path and isinstance(path[-1], str) else ""
    kind, reason = _kind_of(normal, name)
    title = _line(_text(normal.keys.get("title")))
    return Field(path, kind, required, normal, depth, _line(reason), title)


def _branch_title(branch: NormalizedSchema, built: Field, work: WorkBudget) -> str:
    title = _line(_text(branch.keys.get("title")))
    label = title or _tag(built, work) or _line(branch_phrase(branch.keys))
    if built.kind is FieldKind.ARRAY and not title:
        kinds = type_phrase(built.item_field(0, work).keys.get("type"))
        return f"a list of {_line(kinds)[:_LONGEST_NAME]}" if kinds != type_phrase(None) else "a list"
    return label[:80]


def _tag(built: Field, work: WorkBudget) -> str:
    """The label of an alternative: the value of its first property that has only one allowed value."""
    for name in _dict(built.keys.get("properties")):
        if work.left < 0:
            break
        field = built.property_of(name, work)
        if field.kind is FieldKind.CONST and field.choices:
            return field.choices[0].label
    return ""


def _pattern_schemas(key: str, patterns: dict[str, Any]) -> Iterator[Any]:
    """Yield the schemas whose pattern a key matches.

    Raises:
        PatternTooCostly: matching would hold up the window for too long.
    """
    left = MOST_QUICK
    for pattern, schema in patterns.items():
        left -= len(pattern)
        if left < 0 or not is_quick(pattern):
            raise PatternTooCostly
        try:
            compiled = safe_pattern(pattern)
            if compiled.most_steps(len(key)) > _STEPS_OF_A_PATTERN:
                raise PatternTooCostly
            if compiled.search(key):
                yield schema
        except PatternUnsupported:
            continue


def _label(value: Any) -> str:
    return _line(value if isinstance(value, str) and value.strip() else shown(value, 80))


def _line(text: str) -> str:
    """Text from outside on one line, with hidden characters escaped."""
    if len(text) <= MOST_WORDS and text.isascii() and text.isprintable():
        return text
    return escape_hidden(text[:MOST_WORDS], keep_lines=False)


def _text(value: Any) -> str:
    return escape_hidden(value[:MOST_WORDS].strip()) if isinstance(value, str) else ""


def _nth(values: Any, at: int) -> str:
    return _line(_text(values[at])) if isinstance(values, list) and at < len(values) else ""


def _is_list(value: Any) -> TypeGuard[list[Any]]:
    return isinstance(value, list)


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def best_alternative(field: Field, value: Any) -> int | None:
    """The index of the alternative of an anyOf that a value belongs to; None when it fits none."""
    # One work limit for all alternatives: a hundred of them, each slow to read, cost no more than one.
    work = WorkBudget()
    scores = [_score(alternative, value, work) for alternative in field.alternatives]
    best = max(scores, default=0)
    return scores.index(best) if best > 0 else None


def _score(field: Field, value: Any, work: WorkBudget) -> int:
    if not _fits(field, value, work) or (value is None and field.kind is not FieldKind.NULL):
        return 0
    if field.kind is FieldKind.JSON:
        return 1
    if field.kind is FieldKind.NUMBER and type_word(value) == "integer":
        return 3
    if field.kind is FieldKind.INTEGER and type_word(value) == "number":
        return 2
    if field.kind is FieldKind.ARRAY:
        return 3 + (2 if value and _score(field.item_field(0, work), value[0], work) > 1 else 0)
    if field.kind is not FieldKind.OBJECT:
        return 6 if field.kind in (FieldKind.ENUM, FieldKind.CONST) else 4
    return _object_score(field, value, work)


def _fits(field: Field, value: Any, work: WorkBudget) -> bool:
    try:
        work.take(1 + len(field.values))
    except UnsupportedSchema:
        return False
    return field.fits(value)


def _object_score(field: Field, value: dict[str, Any], work: WorkBudget) -> int:
    """Score an object: tags decide, then more known names and fewer missing ones count."""
    properties = _dict(field.keys.get("properties"))
    score = 100 - 4 * sum(name not in value for name in field.required_names if name in properties)
    for name, member in value.items():
        if name not in properties or member is UNSET:
            continue
        child = field.property_of(name, work)
        fits = _fits(child, member, work)
        if child.kind in (FieldKind.CONST, FieldKind.ENUM) and not fits:
            score -= 40
        else:
            score += 2 if fits else -2
    return max(2, score)


def _kind_of(normal: NormalizedSchema, name: str) -> tuple[FieldKind, str]:
    """The kind of field for a schema; for `json` also the reason."""
    keys = normal.keys
    if isinstance(values := keys.get("enum"), list):
        return _listed_kind(values, keys, name)
    if "const" in keys:
        return FieldKind.CONST, ""
    if normal.branches:
        return FieldKind.ANY_OF, ""
    stated = keys.get("type")
    json_type = stated if isinstance(stated, str) else _implied_type(keys)
    if json_type == "string":
        return _text_kind(keys, name), ""
    if json_type in ("integer", "number", "boolean", "null", "object", "array"):
        return FieldKind(json_type), ""
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
    by_type = {
        "object": ("properties", "patternProperties", "additionalProperties", "required", "propertyNames"),
        "array": ("items", "prefixItems", "minItems", "maxItems", "uniqueItems"),
        "string": ("pattern", "minLength", "maxLength", "format"),
        "number": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
    }
    return next((name for name, keywords in by_type.items() if any(word in keys for word in keywords)), "")


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
    stated = keys.get("format")
    shape = stated.lower() if isinstance(stated, str) else ""
    name = name[-_LONGEST_NAME_READ:]
    if shape in _PATH_FORMATS or (not shape and _PATH_NAME.search(name)):
        return FieldKind.PATH
    if _states_lines(keys):
        return FieldKind.MULTILINE
    return FieldKind.MULTILINE if not shape and _LONG_NAME.search(name) else FieldKind.STRING


def _states_lines(keys: dict[str, Any]) -> bool:
    """Whether a schema's own keywords say that its text has several lines."""
    stated, longest = keys.get("format"), keys.get("maxLength")
    shape = stated.lower() if isinstance(stated, str) else ""
    is_long = _is_number(longest) and longest > 400
    return shape in ("multiline", "textarea", "markdown") or "contentMediaType" in keys or is_long


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


def _unit_of(name: str, description: str) -> str:
    """The unit of a number by its name, else by its description; empty where neither tells."""
    for by_name, _, unit in _UNITS:
        if re.search(by_name, name[-_LONGEST_NAME_READ:]):
            return unit
    return next(
        (unit for _, by_text, unit in _UNITS if re.search(by_text, description[:300], re.IGNORECASE)), ""
    )


def _limits_of(keys: dict[str, Any], kind: FieldKind) -> str:
    """The bounds of a value in words; empty without bounds."""
    if kind in NUMBER_KINDS:
        low, high = keys.get("minimum"), keys.get("maximum")
        above, below = keys.get("exclusiveMinimum"), keys.get("exclusiveMaximum")
        if _is_number(low) and _is_number(high):
            return f"{_bound_text(low)} to {_bound_text(high)}"
        parts = [(low, "at least"), (high, "at most"), (above, "more than"), (below, "less than")]
        return ", ".join(f"{word} {_bound_text(value)}" for value, word in parts if _is_number(value))
    nouns = {FieldKind.ARRAY: ("Items", "items"), FieldKind.OBJECT: ("Properties", "fields")}
    suffix, noun = nouns.get(kind, ("Length", "characters") if kind in TEXT_KINDS else ("", ""))
    low, high = (keys.get(f"{end}{suffix}") if noun else None for end in ("min", "max"))
    if _is_number(low) and low == high:
        return f"exactly {_bound_text(low)} {noun}"
    parts = [(low if low not in (0, 1) else None, "at least"), (high, "at most")]
    return ", ".join(f"{word} {_bound_text(value)} {noun}" for value, word in parts if _is_number(value))


def _bound_text(limit: Any) -> str:
    return shorten_middle(str(bound(limit)), _LONGEST_BOUND)


def _is_number(value: Any) -> TypeGuard[int | float]:
    """Whether a bound is a number; a boolean is not."""
    return isinstance(value, int | float) and not isinstance(value, bool)
