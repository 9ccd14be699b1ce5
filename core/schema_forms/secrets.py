"""Secret arguments of a call, found by the tool's schema or by their names.

The console asks before it writes or shows a value, the window before it draws a value, and a device before it
accepts a redacted value for an approved one. A schema comes from a device: reading it is counted work, and
where it cannot be read completely, everything that it describes counts as secret.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from core.schema_forms.document import References, UnsupportedSchema, references_of, serialized, subschemas
from core.schema_forms.patterns import PatternTooCostly, PatternUnsupported, is_quick, safe_pattern
from core.secret_rule import KNOWN_NAMES, SECRET_IF, SecretNames, is_secret

Path = tuple[str | int, ...]

MOST_STEPS = 20_000
"""Parts of schemas that are read for one call, about 1 µs each."""
MOST_BRANCHES = 1_000
"""Schemas that may apply together to one value: alternatives, conditions, references."""

_LISTS_OF_SCHEMAS = ("anyOf", "oneOf", "allOf")
_CONDITIONS = ("if", "then", "else")
_BY_PRESENCE = ("dependentSchemas", "dependencies")
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
_OF_ELEMENTS = ("items", "prefixItems", "additionalItems", "unevaluatedItems", "contains")
# The library parses a reference, and may search the whole schema for its target.
_STEPS_TO_FOLLOW = 20
_LONGEST_MATCHED = 200
# The schema assumed in place of an unreadable schema.
_SECRET: dict[str, Any] = {"writeOnly": True}


def secret_paths(
    arguments: dict[str, Any], schemas: Sequence[Any], names: SecretNames = KNOWN_NAMES
) -> list[Path]:
    """The paths of the secrets in a call's arguments, by any of the schemas or by name.

    No path leads inside another. A value that may be secret counts as secret: under every alternative, every
    branch of a condition, a reference that leads nowhere, or more alternatives than are read. A true, false
    or null is secret only where a schema says so, never by its name.
    """
    reader = _Reader()
    places = [place for schema in schemas for place in _root(schema)]
    return list(_paths(arguments, (), places, reader, names))


def secret_arguments(schema: Any, names: SecretNames = KNOWN_NAMES) -> frozenset[str]:
    """The arguments named by a schema whose values are secret whatever the other values are.

    Only `secret_paths` finds those that are secret only beside certain other values.
    """
    if not serialized(schema).text:
        # Too large to be read: such a tool has no form and cannot be called.
        return frozenset(_named(schema))
    reader = _Reader()
    branches = reader.branches(_root(schema))
    if _any_secret(branches):
        return frozenset(_named(schema))
    return frozenset(
        name
        for place in branches
        for name in _named(place.schema)
        if names.match(name) or _any_secret(reader.branches(reader.of_member(branches, name)))
    )


def _named(schema: Any) -> Iterable[str]:
    properties = schema.get("properties") if isinstance(schema, dict) else None
    return properties if isinstance(properties, dict) else ()


def _paths(
    value: Any, path: Path, places: list[_Place], reader: _Reader, names: SecretNames
) -> Iterator[Path]:
    """Yield the secret paths at and below one value; `places` are the schemas that apply to it."""
    branches = reader.branches(places)
    # The arguments as a whole are never one secret: where the schema says so, each argument is a secret.
    all_members = _any_secret(branches)
    if path and all_members:
        yield path
    elif isinstance(value, dict):
        for name, member in value.items():
            inner = reader.of_member(branches, name)
            named = names.match(name) and not (member is None or isinstance(member, bool))
            if all_members or named or _secret_beside(reader.branches(inner), value):
                yield (*path, name)
            else:
                yield from _paths(member, (*path, name), inner, reader, names)
    elif isinstance(value, list | tuple):
        for at, element in enumerate(value):
            yield from _paths(element, (*path, at), reader.of_element(branches, at), reader, names)


def _any_secret(branches: list[_Place]) -> bool:
    return any(is_secret(place.schema) for place in branches)


def _secret_beside(branches: list[_Place], neighbours: dict[str, Any]) -> bool:
    """Whether another member of the object makes this value secret: any value but null or false."""
    names = (place.schema.get(SECRET_IF) for place in branches)
    values = (neighbours.get(name) for name in names if isinstance(name, str))
    return any(value is not None and value is not False for value in values)


class _Unreadable(Exception):
    """A schema cannot be read completely, and may mark a value as secret."""


class _Place(NamedTuple):
    """One schema inside a document, with the resolver of its references."""

    schema: dict[str, Any]
    document: _Document
    references: References | None


class _Document:
    """A tool's whole schema. Its references are resolved from the first use on."""

    def __init__(self, schema: Any) -> None:
        self.schema = schema
        self._references: References | None = None

    @property
    def references(self) -> References:
        if self._references is None:
            try:
                self._references = references_of(self.schema)
            except Exception as error:
                # The library fails on some schemas that a device may send: no reference resolves then.
                raise _Unreadable from error
        return self._references


def _root(schema: Any) -> list[_Place]:
    return [_Place(schema, _Document(schema), None)] if isinstance(schema, dict) else []


class _Reader:
    """Reads schemas for one question, within a common limit of steps.

    The schemas of a member are looked up once per name. Where schemas cannot be read, the value counts as
    secret.
    """

    def __init__(self) -> None:
        self._left = MOST_STEPS
        # Keyed by identity, which is safe: the lists and schemas are held here and by the caller.
        self._branches: dict[tuple[int, ...], list[_Place]] = {}
        self._members: dict[tuple[int, str | int], list[_Place]] = {}

    def branches(self, places: list[_Place]) -> list[_Place]:
        """These schemas and all others that may apply to the same value."""
        key = tuple(id(place.schema) for place in places)
        branches = self._branches.get(key)
        if branches is None:
            try:
                branches = self._expanded(places)
            except _Unreadable:
                branches = _secret_at(places)
            self._branches[key] = branches
        return branches

    def of_member(self, branches: list[_Place], name: str) -> list[_Place]:
        """The schemas of the member of this name."""
        return self._part(branches, name, self._of_member)

    def of_element(self, branches: list[_Place], at: int) -> list[_Place]:
        """The schemas of the element at this index of a list."""
        # Beyond the tuple elements of the schemas, all elements have the same schemas.
        return self._part(
            branches,
            min(at, max((_numbered(place.schema) for place in branches), default=0)),
            self._of_element,
        )

    def _part(
        self, branches: list[_Place], part: Any, look_up: Callable[[list[_Place], Any], Iterator[_Place]]
    ) -> list[_Place]:
        key = id(branches), part
        places = self._members.get(key)
        if places is None:
            try:
                places = list(look_up(branches, part))
            except _Unreadable:
                places = _secret_at(branches)
            self._members[key] = places
        return places

    def _expanded(self, places: list[_Place]) -> list[_Place]:
        applying: list[_Place] = []
        seen: set[int] = set()
        waiting = list(places)
        while waiting:
            place = waiting.pop()
            if id(place.schema) in seen:
                continue
            seen.add(id(place.schema))
            applying.append(place)
            if len(applying) > MOST_BRANCHES or not self._take(1 + len(place.schema)):
                if any(serialized(root.document.schema).may_have_secrets for root in places):
                    raise _Unreadable
                # The schema has no mark of a secret anywhere: the part that was read is enough.
                return applying
            waiting.extend(self._beside(place))
        return applying

    def _beside(self, place: _Place) -> Iterator[_Place]:
        """Yield the schemas that may apply wherever this one does."""
        schema = place.schema
        for keyword in _LISTS_OF_SCHEMAS:
            yield from _inside(place, schema.get(keyword))
        for keyword in _CONDITIONS:
            yield from _inside(place, [schema.get(keyword)])
        for keyword in _BY_PRESENCE:
            by_name = schema.get(keyword)
            yield from _inside(place, list(by_name.values()) if isinstance(by_name, dict) else None)
        for keyword in _REFERENCES:
            if keyword in schema:
                yield from self._referred(place, keyword, schema[keyword])

    def _referred(self, place: _Place, keyword: str, target: Any) -> Iterator[_Place]:
        """Yield the target of a reference.

        Raises:
            _Unreadable: the target is missing or remote.
        """
        if not isinstance(target, str) or not self._take(_STEPS_TO_FOLLOW + len(target) // 20):
            raise _Unreadable
        references = place.references or place.document.references
        try:
            contents, inner = references.lookup(target)
        except UnsupportedSchema as error:
            raise _Unreadable from error
        yield from _inside(place._replace(references=inner), [contents])
        if keyword == "$dynamicRef":
            # Which anchor of this name is meant depends on the path to it, so any of them may be.
            anchor = target.partition("#")[2]
            for part in subschemas(place.document.schema):
                if not self._take(1):
                    raise _Unreadable
                if anchor and part.get("$dynamicAnchor") == anchor:
                    yield from _inside(place, [part])

    def _of_member(self, branches: list[_Place], name: str) -> Iterator[_Place]:
        for place in branches:
            self._take(1)
            schema = place.schema
            named, patterns = schema.get("properties"), schema.get("patternProperties")
            is_described = isinstance(named, dict) and name in named
            if is_described and isinstance(named, dict):
                yield from _inside(place, [named[name]])
            if isinstance(patterns, dict):
                fitting = [inner for pattern, inner in patterns.items() if self._may_match(pattern, name)]
                is_described = is_described or bool(fitting)
                yield from _inside(place, fitting)
            if not is_described:
                others = ("additionalProperties", "unevaluatedProperties")
                yield from _inside(place, [schema.get(keyword) for keyword in others])

    def _of_element(self, branches: list[_Place], at: int) -> Iterator[_Place]:
        for place in branches:
            self._take(1)
            for keyword in _OF_ELEMENTS:
                inner = place.schema.get(keyword)
                if not isinstance(inner, list):
                    yield from _inside(place, [inner])
                elif at < len(inner):
                    yield from _inside(place, [inner[at]])

    def _may_match(self, pattern: Any, name: str) -> bool:
        """Whether a pattern may match this name; assumed for a pattern that is slow to compile or match."""
        if not isinstance(pattern, str) or not is_quick(pattern) or len(name) > _LONGEST_MATCHED:
            return True
        try:
            compiled = safe_pattern(pattern)
            return not self._take(1 + compiled.most_steps(len(name)) * 10) or compiled.search(name)
        except (PatternUnsupported, PatternTooCostly):
            return True

    def _take(self, steps: int) -> bool:
        """Use up steps; returns whether enough were left."""
        self._left -= steps
        return self._left >= 0


def _secret_at(places: list[_Place]) -> list[_Place]:
    return [places[0]._replace(schema=_SECRET)]


def _inside(place: _Place, schemas: Any) -> Iterator[_Place]:
    """Yield parts of a schema as places of their own; parts that are not schemas are skipped.

    Raises:
        _Unreadable: a part has an invalid address.
    """
    if not isinstance(schemas, list):
        return
    for schema in schemas:
        if not isinstance(schema, dict):
            continue
        references = place.references
        if isinstance(schema.get("$id", schema.get("id")), str):
            # References inside the part are relative to its own address.
            try:
                references = (references or place.document.references).within(schema)
            except UnsupportedSchema as error:
                raise _Unreadable from error
        yield _Place(schema, place.document, references)


def _numbered(schema: dict[str, Any]) -> int:
    """The number of list elements for which a schema has a schema by index."""
    return max(
        (len(inner) for keyword in _OF_ELEMENTS if isinstance(inner := schema.get(keyword), list)), default=0
    )
