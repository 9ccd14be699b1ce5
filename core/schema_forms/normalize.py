"""Normal form of a tool's schema: references followed, allOf merged, null separated from the type.

Only keywords that shape a form are kept; validity is always checked against the whole schema. A schema comes
from a device and the window reads it itself, so work is counted, and too much of it gives no form.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from core.schema_forms.document import References, UnsupportedSchema
from core.schema_forms.json_values import UNSET
from core.secret_rule import is_secret

MAX_HOPS = 64
"""Nested references and alternatives that one place may lead through."""
MOST_WORK = 20_000
"""Work allowed at once, in keywords and values that are read (about 0.5 µs each)."""
MOST_BRANCHES = 100
"""Alternatives that one place may have; an operator does not choose among more."""
_PART, _LOOKUP = 10, 20
_MOST_TYPES = 20
_ANNOTATIONS = ("title", "description", "default", "examples")
_SHAPE = {"type", "properties", "items", "prefixItems", "enum", "const", "$ref", "anyOf", "oneOf", "allOf"}


class WorkBudget:
    """Remaining work for one place, or for all places that are shown together."""

    def __init__(self, most: int = MOST_WORK) -> None:
        self.left = most

    def take(self, much: int) -> None:
        """Use up work before doing it.

        Raises:
            UnsupportedSchema: less than that is left.
        """
        self.left -= much
        if self.left < 0:
            raise UnsupportedSchema("it is put together from too many parts")


@dataclass(slots=True)
class NormalizedSchema:
    """One place of a schema: its keywords, its references, and its alternatives."""

    keys: dict[str, Any]
    references: References
    nullable: bool = False
    branches: list[NormalizedSchema] = field(default_factory=list)


def normalise(schema: Any, references: References, work: WorkBudget, hops: int = 0) -> NormalizedSchema:
    """Bring one place of a schema to normal form.

    Raises:
        UnsupportedSchema: the schema is false or not a schema, a reference is remote or unknown, or the parts
            are contradictory or too many.
    """
    if hops > MAX_HOPS:
        raise UnsupportedSchema("its references lead in a circle")
    work.take(_PART)
    if schema is True:
        return NormalizedSchema({}, references)
    if schema is False:
        raise UnsupportedSchema("the schema allows no value here")
    if not isinstance(schema, dict):
        raise UnsupportedSchema("this part of the schema is not a schema")
    normal = _follow(schema, references, work, hops)
    for part in _list(normal.keys.pop("allOf", None)):
        if isinstance(part, dict):
            normal = _merged(normal, normalise(part, normal.references, work, hops + 1), work)
    _separate_null(normal)
    return _with_branches(normal, work, hops)


def _follow(schema: dict[str, Any], references: References, work: WorkBudget, hops: int) -> NormalizedSchema:
    work.take(len(schema))
    ref = next((schema[name] for name in ("$ref", "$dynamicRef", "$recursiveRef") if name in schema), None)
    own = {key: value for key, value in schema.items() if key not in ("$ref", "$dynamicRef", "$recursiveRef")}
    if ref is None:
        return NormalizedSchema(own, references)
    if not isinstance(ref, str):
        raise UnsupportedSchema("its reference is not text")
    work.take(_LOOKUP + ref.count("/") + len(ref) // 20)
    contents, inner = references.lookup(ref)
    target = normalise(contents, inner, work, hops + 1)
    return _merged(target, NormalizedSchema(own, references), work) if own else target


def _merged(base: NormalizedSchema, over: NormalizedSchema, work: WorkBudget) -> NormalizedSchema:
    """Merge two schemas that both apply. Texts of `over` win; the narrower bounds and types win."""
    work.take(len(base.keys) + len(over.keys))
    keys = dict(base.keys)
    for name, value in over.keys.items():
        keys[name] = _merged_key(name, keys[name], value, work) if name in keys else value
    if base.branches and over.branches:
        raise UnsupportedSchema("it combines several sets of alternatives")
    # Sub-schemas of both sides keep their meaning only where references mean the same in both; within one
    # document they do.
    return NormalizedSchema(
        keys, over.references, base.nullable and over.nullable, base.branches or over.branches
    )


def _merged_key(name: str, left: Any, right: Any, work: WorkBudget) -> Any:
    if name in ("properties", "patternProperties") and isinstance(left, dict) and isinstance(right, dict):
        work.take(len(left) + len(right))
        both = {k: _both(left[k], value, work) if k in left else value for k, value in right.items()}
        return left | both
    if name == "required":
        work.take(len(_list(left)) + len(_list(right)))
        return list(dict.fromkeys(key for key in [*_list(left), *_list(right)] if isinstance(key, str)))
    if name == "type":
        return _narrower_type(left, right)
    if name == "enum":
        return _in_both(_list(left), _list(right), work)
    if name == "writeOnly" or (name == "format" and "password" in (left, right)):
        # A value that one part marks as secret is secret, whatever another part says.
        return "password" if name == "format" else left is True or right is True
    if _are_numbers(left, right):
        if name.startswith(("min", "exclusiveMin")):
            return max(left, right)
        if name.startswith(("max", "exclusiveMax")):
            return min(left, right)
    if name == "additionalProperties" and (left is False or right is False):
        return False
    if name in ("anyOf", "oneOf") and not _alike(left, right, work):
        raise UnsupportedSchema("it combines several sets of alternatives")
    return right


def _in_both(left: list[Any], right: list[Any], work: WorkBudget) -> list[Any]:
    keys = {_key(value, work) for value in right}
    return [value for value in left if _key(value, work) in keys]


def _alike(left: Any, right: Any, work: WorkBudget) -> bool:
    return left is right or _key(left, work) == _key(right, work)


def _key(value: Any, work: WorkBudget) -> Any:
    """A hashable key, equal exactly for values that are written the same."""
    work.take(1)
    if isinstance(value, dict):
        return dict, frozenset((key, _key(item, work)) for key, item in value.items())
    if isinstance(value, list):
        return list, tuple(_key(item, work) for item in value)
    return type(value), value


def _both(left: Any, right: Any, work: WorkBudget) -> Any:
    return left if _alike(left, right, work) else {"allOf": [left, right]}


def _narrower_type(left: Any, right: Any) -> Any:
    first, second = _types(left), _types(right)
    common = [name for name in first if name in second]
    if "integer" in first + second and not common and {"number", "integer"} <= {*first, *second}:
        common = ["integer"]
    if not common:
        raise UnsupportedSchema("its parts ask for different types")
    return common[0] if len(common) == 1 else common


def _separate_null(normal: NormalizedSchema) -> None:
    types = _types(normal.keys.get("type"))
    if isinstance(normal.keys.get("type"), list):  # `["string"]` means the same as `"string"`
        normal.keys["type"] = types if len(types) > 1 else types[0] if types else None
        normal.keys = {key: value for key, value in normal.keys.items() if key != "type" or value is not None}
    if normal.keys.get("nullable") is True:  # the keyword of OpenAPI
        normal.nullable = True
    if "null" in types and len(types) > 1:
        normal.nullable = True
        rest = [name for name in types if name != "null"]
        normal.keys["type"] = rest[0] if len(rest) == 1 else rest


def _with_branches(normal: NormalizedSchema, work: WorkBudget, hops: int) -> NormalizedSchema:
    """Turn anyOf, oneOf and lists of types into alternatives, or into the only schema left beside null."""
    name = next((name for name in ("anyOf", "oneOf") if isinstance(normal.keys.get(name), list)), "")
    if not name:
        types = _types(normal.keys.get("type"))
        if len(types) > 1 and "enum" not in normal.keys and "const" not in normal.keys:
            work.take(len(types) * len(normal.keys))
            normal.branches = [
                NormalizedSchema(_for_type(normal.keys, name), normal.references) for name in types
            ]
        return normal
    work.take(len(normal.keys) + len(normal.keys[name]))
    rest = {key: value for key, value in normal.keys.items() if key != name}
    raw = [branch for branch in normal.keys[name] if branch is not False]
    if any(is_secret(branch) for branch in raw if _only_constrains(branch)):
        rest["writeOnly"] = True
    if not raw or (all(_only_constrains(branch) for branch in raw) and _SHAPE & rest.keys()):
        return NormalizedSchema(rest, normal.references, normal.nullable, normal.branches)
    if (listed := _as_enum(raw)) is not None:
        return NormalizedSchema(rest | listed, normal.references, normal.nullable)
    if len(raw) > MOST_BRANCHES:
        raise UnsupportedSchema(f"it has more than {MOST_BRANCHES} alternatives")
    branches = [normalise(branch, normal.references, work, hops + 1) for branch in raw]
    return _combined(NormalizedSchema(rest, normal.references, normal.nullable), branches, work)


def _combined(
    whole: NormalizedSchema, branches: list[NormalizedSchema], work: WorkBudget
) -> NormalizedSchema:
    """Combine a place with its alternatives: each of them also gets the keywords common to all."""
    rest = whole.keys
    others = [branch for branch in branches if not _is_null(branch)]
    nullable = whole.nullable or len(others) < len(branches) or any(branch.nullable for branch in others)
    if not others:
        return NormalizedSchema(rest | {"type": "null"}, whole.references)
    if len(others) == 1:
        only = _merged(others[0], NormalizedSchema(rest, others[0].references), work)
        return NormalizedSchema(only.keys, only.references, nullable, only.branches)
    base = NormalizedSchema(
        {key: value for key, value in rest.items() if key not in _ANNOTATIONS}, whole.references
    )
    merged = [_merged_branch(base, branch, work) for branch in others]
    flat = [leaf for branch in merged for leaf in (branch.branches or [branch])]
    if len(flat) > MOST_BRANCHES:
        raise UnsupportedSchema(f"it has more than {MOST_BRANCHES} alternatives")
    return NormalizedSchema(rest, whole.references, nullable, flat)


def _is_null(branch: NormalizedSchema) -> bool:
    return branch.keys.get("type") == "null" or branch.keys.get("const", 0) is None


def _merged_branch(base: NormalizedSchema, branch: NormalizedSchema, work: WorkBudget) -> NormalizedSchema:
    merged = _merged(base, branch, work)
    return NormalizedSchema(merged.keys, branch.references, branch.nullable, merged.branches)


def _only_constrains(branch: Any) -> bool:
    return isinstance(branch, dict) and not _SHAPE & branch.keys()


def _as_enum(branches: list[Any]) -> dict[str, Any] | None:
    """`oneOf: [{const, title, description}, …]` as an enum with a label for each value."""
    if len(branches) < 2 or not all(isinstance(branch, dict) and "const" in branch for branch in branches):
        return None
    return {
        "enum": [branch["const"] for branch in branches],
        "enumNames": [branch.get("title", "") for branch in branches],
        "enumDescriptions": [branch.get("description", "") for branch in branches],
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
    """The keywords that apply to one type."""
    of_type = _KEYWORDS_OF_TYPE.get(name, ())
    return {
        key: value
        for key, value in keys.items()
        if key not in _ANNOTATIONS and (key not in _TYPED or key in of_type)
    } | {"type": name}


def _types(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    names = [name for name in _list(value) if isinstance(name, str)]
    return list(dict.fromkeys(names))[:_MOST_TYPES]


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _are_numbers(left: Any, right: Any) -> bool:
    return all(isinstance(value, int | float) and not isinstance(value, bool) for value in (left, right))


def default_of(keys: dict[str, Any]) -> Any:
    """The schema's default, or `UNSET`."""
    return keys.get("default", UNSET)
