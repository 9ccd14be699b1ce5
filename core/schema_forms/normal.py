"""A schema as tools ship it, brought to one plain form: references followed, allOf merged, null set apart.

Only what shapes a form is brought over; whether a value is valid is always asked of the whole schema.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import referencing.jsonschema
from jsonschema_specifications import REGISTRY as META_SCHEMAS  # type: ignore[import-untyped]  # ships no types
from referencing.exceptions import NoSuchResource, Unresolvable

from core.schema_forms.bounded import dialect_of
from core.schema_forms.json_values import UNSET, same_json

MAX_HOPS = 64
"""References and alternatives, one inside the other, that one place may lead through."""
MAX_PARTS = 2_000
"""Parts that one place may be put together from: allOf of references can double with every level."""

# What the library raises for references that lead nowhere, and into parts that are no schemas.
_LOOKUP_FAILS = (NoSuchResource, Unresolvable, ValueError, RecursionError, AttributeError, TypeError)

_SPECIFICATIONS = {
    "draft-04": referencing.jsonschema.DRAFT4,
    "draft-06": referencing.jsonschema.DRAFT6,
    "draft-07": referencing.jsonschema.DRAFT7,
    "2019-09": referencing.jsonschema.DRAFT201909,
    "2020-12": referencing.jsonschema.DRAFT202012,
}
_WORDS = ("title", "description", "default", "examples")
_SHAPE = {"type", "properties", "items", "prefixItems", "enum", "const", "$ref", "anyOf", "oneOf", "allOf"}


class NotUnderstood(Exception):
    """This part of a schema has no form; its message says why, for people."""


@dataclass(slots=True)
class Normal:
    """One place of a schema: its keywords, how to follow its references, and its alternatives."""

    keys: dict[str, Any]
    resolver: Any
    nullable: bool = False
    branches: list[Normal] = field(default_factory=list)


def resolver_for(schema: Any) -> Any:
    """What follows the local references of a whole schema; remote ones are refused."""
    return META_SCHEMAS.resolver_with_root(_SPECIFICATIONS[dialect_of(schema)].create_resource(schema))


class _Steps:
    """How deep, and how often altogether, one place was looked into."""

    def __init__(self) -> None:
        self.left = MAX_PARTS

    def take(self, hops: int) -> None:
        self.left -= 1
        if hops > MAX_HOPS:
            raise NotUnderstood("its references lead in a circle")
        if self.left < 0:
            raise NotUnderstood("it is put together from too many parts")


def normalise(schema: Any, resolver: Any, hops: int = 0, steps: _Steps | None = None) -> Normal:
    """Bring one place of a schema to its plain form.

    Raises:
        NotUnderstood: false, not a schema, a remote or unknown reference, or parts that contradict.
    """
    steps = steps or _Steps()
    steps.take(hops)
    if schema is True:
        return Normal({}, resolver)
    if schema is False:
        raise NotUnderstood("the schema allows no value here")
    if not isinstance(schema, dict):
        raise NotUnderstood("this part of the schema is not a schema")
    normal = _follow(schema, resolver, hops, steps)
    for part in _list(normal.keys.pop("allOf", None)):
        if isinstance(part, dict):
            normal = _merged(normal, normalise(part, normal.resolver, hops + 1, steps))
    _set_null_apart(normal)
    return _with_branches(normal, hops, steps)


def _follow(schema: dict[str, Any], resolver: Any, hops: int, steps: _Steps) -> Normal:
    ref = next((schema[name] for name in ("$ref", "$dynamicRef", "$recursiveRef") if name in schema), None)
    own = {key: value for key, value in schema.items() if key not in ("$ref", "$dynamicRef", "$recursiveRef")}
    if ref is None:
        return Normal(own, resolver)
    if not isinstance(ref, str):
        raise NotUnderstood("its reference is not text")
    try:
        found = resolver.lookup(ref)
    except _LOOKUP_FAILS as error:
        where = "elsewhere and is never fetched" if "://" in ref else "to a part that does not exist"
        raise NotUnderstood(f"it refers {where}: {ref[:80]}") from error
    target = normalise(found.contents, found.resolver, hops + 1, steps)
    return _merged(target, Normal(own, resolver)) if own else target


def _merged(base: Normal, over: Normal) -> Normal:
    """Two schemas that hold at once. Words of `over` win; bounds and types become the narrower ones."""
    keys = dict(base.keys)
    for name, value in over.keys.items():
        keys[name] = _merged_key(name, keys[name], value) if name in keys else value
    if base.branches and over.branches:
        raise NotUnderstood("it combines several sets of alternatives")
    # Sub-schemas of both sides keep their meaning only when references mean the same on both; in one
    # document they do.
    return Normal(keys, over.resolver, base.nullable and over.nullable, base.branches or over.branches)


def _merged_key(name: str, left: Any, right: Any) -> Any:
    if name in ("properties", "patternProperties") and isinstance(left, dict) and isinstance(right, dict):
        return left | {key: _both(left[key], value) if key in left else value for key, value in right.items()}
    if name == "required":
        return list(dict.fromkeys([*_list(left), *_list(right)]))
    if name == "type":
        return _narrower_type(left, right)
    if name == "enum":
        return [value for value in _list(left) if any(same_json(value, other) for other in _list(right))]
    if _are_numbers(left, right):
        if name.startswith(("min", "exclusiveMin")):
            return max(left, right)
        if name.startswith(("max", "exclusiveMax")):
            return min(left, right)
    if name == "additionalProperties" and False in (left, right):
        return False
    if name in ("anyOf", "oneOf") and not same_json(left, right):
        raise NotUnderstood("it combines several sets of alternatives")
    return right


def _both(left: Any, right: Any) -> Any:
    return left if same_json(left, right) else {"allOf": [left, right]}


def _narrower_type(left: Any, right: Any) -> Any:
    first, second = _types(left), _types(right)
    common = [name for name in first if name in second]
    if "integer" in first + second and not common and {"number", "integer"} <= {*first, *second}:
        common = ["integer"]
    if not common:
        raise NotUnderstood("its parts ask for different types")
    return common[0] if len(common) == 1 else common


def _set_null_apart(normal: Normal) -> None:
    types = _types(normal.keys.get("type"))
    if normal.keys.get("nullable") is True:  # OpenAPI's spelling
        normal.nullable = True
    if "null" in types and len(types) > 1:
        normal.nullable = True
        rest = [name for name in types if name != "null"]
        normal.keys["type"] = rest[0] if len(rest) == 1 else rest


def _with_branches(normal: Normal, hops: int, steps: _Steps) -> Normal:
    """Turn anyOf, oneOf and lists of types into alternatives, or into the one that is left beside null."""
    name = next((name for name in ("anyOf", "oneOf") if isinstance(normal.keys.get(name), list)), "")
    rest = {key: value for key, value in normal.keys.items() if key != name}
    if not name:
        types = _types(normal.keys.get("type"))
        if len(types) > 1 and "enum" not in rest and "const" not in rest:
            normal.branches = [Normal(_for_type(rest, one), normal.resolver) for one in types]
        return normal
    raw = [branch for branch in normal.keys[name] if branch is not False]
    if not raw or (all(_only_constrains(branch) for branch in raw) and _SHAPE & rest.keys()):
        return Normal(rest, normal.resolver, normal.nullable, normal.branches)
    if (listed := _as_enum(raw)) is not None:
        return Normal(rest | listed, normal.resolver, normal.nullable)
    shared = {
        key: value
        for key, value in rest.items()
        if key not in ("title", "description", "default", "examples")
    }
    found = [normalise(branch, normal.resolver, hops + 1, steps) for branch in raw]
    kept = [one for one in found if one.keys.get("type") != "null" and one.keys.get("const", 0) is not None]
    nullable = normal.nullable or len(kept) < len(found) or any(one.nullable for one in kept)
    if not kept:
        return Normal(rest | {"type": "null"}, normal.resolver)
    base = Normal(shared, normal.resolver)
    if len(kept) == 1:
        one = _merged(kept[0], Normal(rest, kept[0].resolver))
        return Normal(one.keys, one.resolver, nullable, one.branches)
    merged = [_with_words(_merged(base, one), one) for one in kept]
    flat = [leaf for one in merged for leaf in (one.branches or [one])]
    return Normal(rest, normal.resolver, nullable, flat)


def _with_words(merged: Normal, one: Normal) -> Normal:
    return Normal(merged.keys, one.resolver, one.nullable, merged.branches)


def _only_constrains(branch: Any) -> bool:
    return isinstance(branch, dict) and not _SHAPE & branch.keys()


def _as_enum(branches: list[Any]) -> dict[str, Any] | None:
    """`oneOf: [{const, title, description}, …]` as an enum with words for its values."""
    if len(branches) < 2 or not all(isinstance(one, dict) and "const" in one for one in branches):
        return None
    return {
        "enum": [one["const"] for one in branches],
        "enumNames": [one.get("title", "") for one in branches],
        "enumDescriptions": [one.get("description", "") for one in branches],
    }


_KEYWORDS_OF_TYPE = {
    "string": ("minLength", "maxLength", "pattern", "format", "writeOnly", "contentMediaType"),
    "integer": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
    "number": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
    "array": ("items", "prefixItems", "additionalItems", "minItems", "maxItems", "uniqueItems", "contains"),
    "object": ("properties", "patternProperties", "additionalProperties", "required", "propertyNames"),
}
_TYPED = {keyword for keywords in _KEYWORDS_OF_TYPE.values() for keyword in keywords}


def _for_type(keys: dict[str, Any], name: str) -> dict[str, Any]:
    """The keywords that say something about one type."""
    mine = _KEYWORDS_OF_TYPE.get(name, ())
    words = ("title", "description", "default", "examples")
    kept = {
        key: value for key, value in keys.items() if key not in words and (key not in _TYPED or key in mine)
    }
    return kept | {"type": name}


def _types(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    return [name for name in value if isinstance(name, str)] if isinstance(value, list) else []


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _are_numbers(left: Any, right: Any) -> bool:
    return all(isinstance(value, int | float) and not isinstance(value, bool) for value in (left, right))


def default_of(keys: dict[str, Any]) -> Any:
    """The default a schema states, or `UNSET`."""
    return keys.get("default", UNSET)
