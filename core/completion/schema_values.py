"""What a JSON Schema says of the arguments of a tool: their names, and the values of closed sets.

Schemas come from devices: whatever they hold, reading them ends soon and raises nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from core.completion.words import Offer, short_help

_DEEPEST = 6
_MOST_VALUES = 200
# The types whose values are written as JSON on the command line (`core.cli.arguments`).
_AS_JSON = frozenset({"array", "object"})


def argument_offers(schema: Any, used: set[str]) -> list[Offer]:
    """`key=` or `key:=` for each argument that was not given, those first that must be."""
    properties = _dict(_dict(schema).get("properties"))
    required = set(filter(_is_text, _list(_dict(schema).get("required"))))
    names = sorted((name for name in properties if name not in used), key=lambda name: name not in required)
    offers = []
    for name in names:
        part = _resolved(properties[name], schema)
        types = _types(part)
        sign = ":=" if types and types <= _AS_JSON else "="
        kind = " or ".join(sorted(types)) or "any value"
        needed = "" if name in required else ", may be left out"
        description = str(part.get("description") or part.get("title") or "")
        offers.append(Offer(f"{name}{sign}", short_help(f"{kind}{needed}:", description), is_open=True))
    return offers


def value_offers(schema: Any, name: str, as_json: bool) -> list[Offer]:
    """The values of an argument that takes one of a closed set, as `key=` or `key:=` wants them."""
    part = _dict(_dict(schema).get("properties")).get(name)
    values = list(_closed(part, schema, _DEEPEST))[:_MOST_VALUES]
    return [Offer(text) for text in dict.fromkeys(written(value, as_json) for value in values) if text]


def written(value: Any, as_json: bool) -> str:
    """A value as the command line wants it; empty for a text that `key=` would read as the name of a file."""
    if isinstance(value, str) and not as_json:
        return "" if value.startswith("@") else value
    return json.dumps(value, ensure_ascii=False)


def _closed(part: Any, schema: Any, deepest: int) -> Iterator[Any]:
    """The values that a schema lists, also in its alternatives."""
    part = _resolved(part, schema)
    if "const" in part:
        yield part["const"]
    yield from _list(part.get("enum"))
    if "boolean" in _types(part) and "enum" not in part:
        yield from (True, False)
    if deepest:
        for word in ("anyOf", "oneOf"):
            for option in _list(part.get(word)):
                yield from _closed(option, schema, deepest - 1)


def _resolved(part: Any, schema: Any) -> dict[str, Any]:
    """The part of the schema to which a reference leads; empty if it leads nowhere."""
    for _ in range(_DEEPEST):
        reference = _dict(part).get("$ref")
        if not isinstance(reference, str):
            break
        part = schema if reference.startswith("#/") else None
        for step in reference[2:].split("/"):
            part = _dict(part).get(step.replace("~1", "/").replace("~0", "~"))
    return _dict(part)


def _types(part: dict[str, Any]) -> set[str]:
    kinds = part.get("type")
    return {kinds} if isinstance(kinds, str) else set(filter(_is_text, _list(kinds)))


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
