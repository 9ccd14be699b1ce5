"""A tool's schema as a document: its size, its text, its draft and the references inside it.

Schemas come from devices, so every walk here stops at a limit, and no reference is ever fetched.
"""

from __future__ import annotations

import json
import re
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import referencing.jsonschema
from jsonschema_specifications import REGISTRY  # type: ignore[import-untyped]  # ships no types
from referencing.exceptions import NoSuchResource, Unresolvable

from core.secret_rule import MARKS

META_SCHEMAS: Any = REGISTRY
"""The official meta-schemas; a registry that fetches nothing."""
MAX_CHARACTERS = 256 * 1024
MAX_REFERENCE = 1_000
"""Characters of one `$ref`, `$id` or anchor, which is parsed again each time it is followed."""
MAX_SUBSCHEMAS = 4_000
"""Objects in one schema (about 0.4 ms each to read); a schema that describes a whole API has hundreds."""
_NO_SCHEMAS = ("enum", "const", "default", "examples")
_OF_NAMES = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies")
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef", "$id", "id", "$anchor", "$dynamicAnchor")

DRAFTS = {
    "draft-04": referencing.jsonschema.DRAFT4,
    "draft-06": referencing.jsonschema.DRAFT6,
    "draft-07": referencing.jsonschema.DRAFT7,
    "2019-09": referencing.jsonschema.DRAFT201909,
    "2020-12": referencing.jsonschema.DRAFT202012,
}
"""Draft by the part of `$schema` that names it."""
DEFAULT_DRAFT = "2020-12"
"""The draft that MCP assumes for a schema without `$schema`."""

# Characters of a schema that is searched for names at once, which takes a few milliseconds.
_MOST_SEARCHED = 32_000
_MOST_SERIALIZED = 32
# Exceptions of the library for references that lead nowhere or into parts that are not schemas.
_LOOKUP_FAILS = (NoSuchResource, Unresolvable, ValueError, RecursionError, AttributeError, TypeError)


def subschemas(schema: Any) -> Iterator[dict[str, Any]]:
    """Yield every object in a schema that could be a schema, without recursion."""
    stack = [(schema, False)]
    while stack:
        part, are_names = stack.pop()
        if isinstance(part, dict):
            yield part
            # A property may be called `default`: the value below it is a schema like any other.
            stack.extend(
                (value, key in _OF_NAMES and not are_names)
                for key, value in part.items()
                if are_names or key not in _NO_SCHEMAS
            )
        elif isinstance(part, list):
            stack.extend((item, False) for item in part)


def patterns_of(subschema: dict[str, Any]) -> Iterator[str]:
    """Yield the patterns for values and for names that one object of a schema states."""
    by_name = subschema.get("patternProperties")
    for source in (subschema.get("pattern"), *(by_name if isinstance(by_name, dict) else ())):
        if isinstance(source, str):
            yield source


def too_large(schema: Any) -> str:
    """Why a schema is too large to be read; empty where it is not."""
    if not could_fit(schema):
        return f"it has more than {MAX_CHARACTERS:,} characters"
    if _has_long_reference(schema):
        return f"a reference or a name in it has more than {MAX_REFERENCE:,} characters"
    for count, _ in enumerate(subschemas(schema)):
        if count >= MAX_SUBSCHEMAS:
            return f"it has more than {MAX_SUBSCHEMAS:,} parts"
    try:
        text = json.dumps(schema, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        return "it is not JSON, or nested too deeply"
    if len(text) > MAX_CHARACTERS:
        return f"it has more than {MAX_CHARACTERS:,} characters"
    # The library matches these patterns with `re` where both keywords meet; no known tool combines them.
    if '"unevaluatedProperties"' in text and '"patternProperties"' in text:
        return "unevaluatedProperties together with patternProperties is not supported"
    return ""


def could_fit(schema: Any, most: int = MAX_CHARACTERS) -> bool:
    """Whether a schema could have at most `most` characters; stops reading once that is exceeded."""
    left, stack = most, [schema]
    while stack:
        part = stack.pop()
        if type(part) is str:
            left -= len(part)
        elif type(part) is dict or type(part) is list:
            left -= 1 + len(part)
            if left < 0:
                return False
            if type(part) is dict:
                left -= _length(part)
            stack.extend(part.values() if type(part) is dict else part)
        if left < 0:
            return False
    return True


def _length(names: dict[Any, Any]) -> int:
    try:
        return sum(map(len, names))
    except TypeError:  # keys that are not text: this was never JSON
        return sum(len(name) for name in names if type(name) is str)


def _has_long_reference(schema: Any) -> bool:
    stack = [schema]
    while stack:
        part = stack.pop()
        if type(part) is dict:
            texts = (part.get(keyword) for keyword in _REFERENCES)
            if any(type(text) is str and len(text) > MAX_REFERENCE for text in texts):
                return True
            stack.extend(part.values())
        elif type(part) is list:
            stack.extend(part)
    return False


def draft_of(schema: Any, may_have_old_tuples: bool = True) -> str:
    """The key in `DRAFTS` of a schema's draft.

    A schema without `$schema` that writes tuples the old way (`items: [...]`) is read as draft 7, unless the
    caller knows that there are none.
    """
    uri = schema.get("$schema") if isinstance(schema, dict) else None
    if isinstance(uri, str):
        return draft_named(uri)
    has_old_tuple = may_have_old_tuples and any(isinstance(p.get("items"), list) for p in subschemas(schema))
    return "draft-07" if has_old_tuple else DEFAULT_DRAFT


def draft_named(uri: str) -> str:
    """The key in `DRAFTS` of the draft that a `$schema` names."""
    return next((name for name in DRAFTS if name in uri), DEFAULT_DRAFT)


@dataclass(frozen=True, slots=True)
class SerializedSchema:
    """A schema with quick checks of its text; `text` is empty where it is too large or nested too deeply."""

    schema: Any
    text: str

    @property
    def may_have_secrets(self) -> bool:
        """Whether the schema may mark a value as secret."""
        return not self.text or any(f'"{mark}"' in self.text for mark in MARKS)

    @property
    def may_have_old_tuples(self) -> bool:
        """Whether `items` may be a list in it."""
        return not self.text or '"items": [' in self.text

    @property
    def may_refer_by_name(self) -> bool:
        """Whether a part of it has its own name or address, or refers to a part by name or address."""
        ids = self.text.count('"$id": "')
        if isinstance(self.schema, dict) and isinstance(self.schema.get("$id"), str):
            ids -= 1
        old = any(draft in self.text for draft in ("draft-03", "draft-04")) and '"id": "' in self.text
        return ids > 0 or old or _BY_NAME.search(self.text) is not None


# Most references are pointers into the schema itself; they need no names.
_BY_NAME = re.compile(r'"\$(?:ref|dynamicRef|recursiveRef)": "(?!#?["/])')

# Keyed by identity, which is safe: `SerializedSchema` holds the schema. The window has each schema as one
# object.
serialized_schemas: OrderedDict[int, SerializedSchema] = OrderedDict()


def serialized(schema: Any) -> SerializedSchema:
    """The text of a schema, cached by identity; the schema must not change afterwards."""
    entry = serialized_schemas.get(id(schema))
    if entry is None:
        entry = serialized_schemas[id(schema)] = SerializedSchema(schema, _text(schema))
        if len(serialized_schemas) > _MOST_SERIALIZED:
            serialized_schemas.popitem(last=False)
    serialized_schemas.move_to_end(id(schema))
    return entry


def _text(schema: Any) -> str:
    if not could_fit(schema):
        return ""
    try:
        return json.dumps(schema)
    except (RecursionError, TypeError, ValueError):
        return ""


class UnsupportedSchema(Exception):
    """This part of a schema has no form; the message says why, for people."""


@dataclass(frozen=True, slots=True)
class References:
    """Resolver for the references of one schema, from one place in it."""

    resolver: Any
    # Whether all names and addresses are collected; for an unknown name the library searches the whole
    # schema at each lookup.
    are_known: bool
    specification: Any

    def within(self, schema: Any) -> References:
        """The resolver inside a part that has an address of its own.

        Raises:
            UnsupportedSchema: the address cannot be read.
        """
        resource = self.specification.create_resource(schema)
        try:
            resolver = self.resolver.in_subresource(resource)
        except _LOOKUP_FAILS as error:
            raise UnsupportedSchema("a `$id` or `$ref` in it is not a URI") from error
        return References(resolver, self.are_known, self.specification)

    def lookup(self, ref: str) -> tuple[Any, References]:
        """Return the target of a reference, and the resolver from there.

        Raises:
            UnsupportedSchema: the target is remote or missing, or following it is too much work.
        """
        if not self.are_known:
            raise UnsupportedSchema("its references are too many to be followed")
        try:
            target = self.resolver.lookup(ref)
        except _LOOKUP_FAILS as error:
            where = "elsewhere and is never fetched" if "://" in ref else "to a part that does not exist"
            raise UnsupportedSchema(f"it refers {where}: {ref[:80]}") from error
        return target.contents, References(target.resolver, True, self.specification)


def references_of(schema: Any) -> References:
    """The resolver for the local references of a whole schema; it refuses remote references.

    Raises:
        Exception: the library fails on the schema.
    """
    document = serialized(schema)
    draft = draft_of(schema, document.may_have_old_tuples)
    by_name = document.may_refer_by_name
    is_small = len(document.text) <= _MOST_SEARCHED
    resolver = local_resolver(schema, draft, collect_names=by_name and is_small)
    return References(resolver, is_small or not by_name, DRAFTS[draft])


def local_resolver(schema: Any, draft: str, collect_names: bool = True) -> Any:
    """A resolver that knows this schema and the official meta-schemas, and fetches nothing.

    The library's default registry would open any address that a `$ref` names. With `collect_names`, names and
    addresses in the schema are collected once; without, the library searches for them at every `$ref`.

    Raises:
        Exception: the library fails on the schema.
    """
    resource = DRAFTS[draft].create_resource(schema)
    uri = resource.id() or ""
    registry = META_SCHEMAS.with_resource(uri, resource)
    return (registry.crawl() if collect_names else registry).resolver(uri)
