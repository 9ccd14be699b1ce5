"""Validates batch files with the JSON Schema that ships in `resources/`, in words for their authors."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.batch.yaml_reader import Fault, Node, Place
from core.similar import most_like

if TYPE_CHECKING:
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import ValidationError

SCHEMA_FILE = Path(__file__).resolve().parents[2] / "resources" / "quarterdeck.batch-1.schema.json"

_KINDS = {
    "string": "is not a text; put it in quotes",
    "boolean": "is not a yes or no; allowed true, false",
    "integer": "is not a whole number",
    "number": "is not a number",
    "array": "is not a list; begin each line with -",
    "object": "is not a set of key: value lines",
}
_SIGNS = {
    "exclusiveMinimum": "above",
    "minimum": "at least",
    "exclusiveMaximum": "below",
    "maximum": "at most",
}


@cache
def batch_schema() -> dict[str, Any]:
    """The JSON Schema of batch files; not to be changed."""
    schema: dict[str, Any] = json.loads(SCHEMA_FILE.read_text(encoding="utf-8"))
    return schema


@cache
def _validator() -> Draft202012Validator:
    # A command that reads no batch file starts without it.
    from jsonschema import Draft202012Validator

    return Draft202012Validator(batch_schema())


def schema_faults(root: Node) -> Iterator[Fault]:
    """The faults of a document by the schema, each with its place."""
    for error in _validator().iter_errors(root.plain()):
        path = list(error.absolute_path)
        node = node_at(root, path)
        yield from _faults(error, node, str(path[-1]) if path else "")


def node_at(root: Node, path: list[str | int]) -> Node:
    """The node at a path of keys and indexes, or the innermost node around it."""
    node = root
    for part in path:
        match node.value:
            case dict() if part in node.value:
                node = node.value[part]
            case list() if isinstance(part, int) and part < len(node.value):
                node = node.value[part]
            case _:
                break
    return node


def _faults(error: ValidationError, node: Node, name: str) -> Iterator[Fault]:
    schema: dict[str, Any] = error.schema if isinstance(error.schema, dict) else {}
    title = schema.get("title", "")
    allowed = ", ".join(schema.get("properties", ()))
    # jsonschema types it as possibly unset, which it is not in an error that `iter_errors` gives.
    required: Any = error.validator_value
    match error.validator:
        case "additionalProperties":
            yield from _unknown_keys(node, title, schema)
        case "required":
            if title != "a parallel group" and "parallel" in node.keys:
                return  # the fault is that a group stands where a step must
            missing = next(key for key in required if repr(key) in error.message)
            yield Fault(node.place, f"{missing} is missing")
        case "type" if title and schema.get("type") == "object":
            what = name if title == name else title
            words = "is a set of key: value lines" if what == title != name else _KINDS["object"]
            yield Fault(node.place, f"{what} {words}; allowed {allowed}")
        case _:
            place, subject = _subject(error, node, name)
            yield Fault(place, f"{subject} {_words(error, schema)}")


def _subject(error: ValidationError, node: Node, name: str) -> tuple[Place, str]:
    """The place of a fault and what it is a fault of; for the name of a key, the key."""
    if "propertyNames" in error.absolute_schema_path:
        return node.keys.get(str(error.instance), node.place), str(error.instance)[:80]
    return node.place, name


def _unknown_keys(node: Node, title: str, schema: dict[str, Any]) -> Iterator[Fault]:
    allowed = schema["properties"]
    for key, place in node.keys.items():
        if key in allowed:
            continue
        if key == "parallel":
            yield Fault(place, "a parallel group cannot stand inside another one")
        else:
            near = most_like(key, allowed, 1)
            meant = f" (did you mean {near[0]}?)" if near else ""
            yield Fault(place, f'{title} has no key "{key[:80]}"; allowed {", ".join(allowed)}{meant}')


def _words(error: ValidationError, schema: dict[str, Any]) -> str:
    if message := schema.get("errorMessage") or (
        schema.get("patternErrorMessage") if error.validator in ("pattern", "minimum") else None
    ):
        return str(message)
    value: Any = error.validator_value
    match error.validator:
        case "type":
            kinds = [kind for kind in ([value] if isinstance(value, str) else value) if kind != "null"]
            return _not_of(kinds[-1], schema)
        case "enum":
            *others, last = [str(word) for word in value]
            return f"is not known; allowed {', '.join(others)}{' or ' if others else ''}{last}"
        case "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum":
            return f"is out of range{_allowed(schema)}"
        case "minLength":
            return "is empty" if value == 1 else f"is too short; it has at least {value} characters"
        case "maxLength":
            return f"is too long; allowed are {value} characters"
        case "minItems":
            return "is an empty list"
        case "maxItems" | "maxProperties":
            return f"is too long; allowed are {value} entries"
    return error.message


def _not_of(kind: str, schema: dict[str, Any]) -> str:
    """That a value is of another type; for a number also what it counts, and which ones are allowed."""
    if kind not in ("number", "integer"):
        return _KINDS[kind]
    # A wait is often written with its unit, as in "1s".
    counts = " of seconds, such as 1" if str(schema.get("description")).startswith("Seconds ") else ""
    return f"{_KINDS[kind]}{counts}{_allowed(schema)}"


def _allowed(schema: dict[str, Any]) -> str:
    limits = [f"{word} {schema[key]:g}" for key, word in _SIGNS.items() if key in schema]
    return f"; allowed {', '.join(limits)}" if limits else ""
