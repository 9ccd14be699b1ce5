"""The fields that a JSON Schema describes, flat, in its order: `filesystems[].mount_point`, a string.

For readers and for the search, not for validation: what cannot be read is left out, and a definition that
contains itself is followed once.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

MOST_FIELDS = 400
_DEEPEST = 8
# Subschemas that are looked at: references may multiply a small schema.
_MOST_LOOKED_AT = 5_000
_MOST_VALUES = 40


@dataclass(frozen=True, slots=True)
class SchemaField:
    """One field: its path with `[]` for the items of a list, its type, description, and allowed values.

    `when` is the name and value of the field on which it depends that this one is there, if any. `required`
    holds within the object that has the field.
    """

    path: str
    kind: str
    description: str
    values: tuple[Any, ...]
    required: bool
    when: tuple[str, Any] | None = None

    @property
    def name(self) -> str:
        """The last name of the path."""
        return self.path.rpartition(".")[2].removesuffix("[]")

    @property
    def kind_words(self) -> str:
        """The type, or the values where only these are allowed."""
        if not self.values:
            return self.kind
        return " | ".join(json.dumps(value, ensure_ascii=False) for value in self.values)


def schema_fields(schema: Any, most: int = MOST_FIELDS) -> list[SchemaField]:
    """The fields of a schema, in order: `most` at most."""
    definitions = schema if isinstance(schema, dict) else {}
    return list(islice(_Walk(definitions).fields(schema, "", None, frozenset(), 0), most))


class _Walk:
    def __init__(self, root: dict[str, Any]) -> None:
        self._root = root
        self._left = _MOST_LOOKED_AT

    def fields(
        self, schema: Any, prefix: str, when: tuple[str, Any] | None, within: frozenset[str], depth: int
    ) -> Iterator[SchemaField]:
        """The fields of an object or of the items of a list; `within` are the references that led here."""
        schema, within = self._followed(schema, within)
        self._left -= 1
        if schema is None or depth > _DEEPEST or self._left < 0:
            return
        properties, required = schema.get("properties"), schema.get("required")
        for name, part in properties.items() if isinstance(properties, dict) else ():
            path = f"{prefix}.{name}" if prefix else str(name)
            is_required = isinstance(required, list) and name in required
            yield from self._field(part, path, is_required, when, within, depth)
        if "items" in schema:
            yield from self.fields(schema["items"], f"{prefix}[]", when, within, depth + 1)
        for key in ("allOf", "oneOf", "anyOf"):
            branches = schema.get(key)
            for branch in branches[: max(self._left, 0)] if isinstance(branches, list) else ():
                condition = when or (_condition(branch) if key != "allOf" else None)
                yield from self.fields(branch, prefix, condition, within, depth + 1)

    def _field(
        self,
        schema: Any,
        path: str,
        required: bool,
        when: tuple[str, Any] | None,
        within: frozenset[str],
        depth: int,
    ) -> Iterator[SchemaField]:
        known, inside = self._followed(schema, within)
        if known is None:
            # A definition that contains itself, or a schema that says nothing.
            yield SchemaField(path, "any", "", (), required, when)
            return
        # A description beside a reference is about this field.
        said = schema.get("description") if isinstance(schema, dict) else None
        description = said if isinstance(said, str) else known.get("description")
        yield SchemaField(
            path,
            self._kind(known, inside),
            description if isinstance(description, str) else "",
            _values(known),
            required,
            when,
        )
        yield from self.fields(known, path, when, inside, depth + 1)

    def _followed(self, schema: Any, within: frozenset[str]) -> tuple[dict[str, Any] | None, frozenset[str]]:
        """The schema itself, or the definition that it refers to; None if that contains this one."""
        while isinstance(schema, dict) and isinstance(name := schema.get("$ref"), str):
            if name in within or not name.startswith("#/"):
                return None, within
            within |= {name}
            schema = self._root
            for part in name[2:].split("/"):
                schema = schema.get(part) if isinstance(schema, dict) else None
        return (schema, within) if isinstance(schema, dict) else (None, within)

    def _kind(self, schema: dict[str, Any], within: frozenset[str]) -> str:
        self._left -= 1
        if self._left < 0:
            return "any"
        written = schema.get("type")
        kinds = [str(kind) for kind in (written if isinstance(written, list) else [written]) if kind]
        for key in ("oneOf", "anyOf"):
            branches = schema.get(key)
            for branch in branches[:_MOST_VALUES] if isinstance(branches, list) and not kinds else ():
                known, inside = self._followed(branch, within)
                kinds.append(self._kind(known, inside) if known is not None else "any")
        if kinds == ["array"]:
            items, inside = self._followed(schema.get("items"), within)
            return f"list of {self._kind(items, inside)}" if items is not None else "list"
        return " or ".join(dict.fromkeys(kinds)) or "any"


def _values(schema: dict[str, Any]) -> tuple[Any, ...]:
    if "const" in schema:
        return (schema["const"],)
    allowed = schema.get("enum")
    return tuple(allowed[:_MOST_VALUES]) if isinstance(allowed, list) else ()


def _condition(branch: Any) -> tuple[str, Any] | None:
    """The field of a branch that has one value only, by which the branch is told from the others."""
    properties = branch.get("properties") if isinstance(branch, dict) else None
    for name, part in properties.items() if isinstance(properties, dict) else ():
        if isinstance(part, dict) and "const" in part:
            return str(name), part["const"]
    return None
