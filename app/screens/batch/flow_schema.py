"""What the forms of Batch ask for beside a tool's arguments, taken from the schema of batch files."""

from __future__ import annotations

from functools import cache
from typing import Any

from app.forms.object_editor import HIDDEN
from core.batch.batch_schema import batch_schema

_STEP = ("retry", "on_failure", "allow_failure", "note")
_APPROVAL = ("approval", "note")
_BATCH = ("description", "inputs", "on_failure", "rollout", "notes")


@cache
def step_schema() -> dict[str, Any]:
    """How a step goes on, without its expressions, which have fields of their own."""
    return _part("step", _STEP)


@cache
def recovery_schema() -> dict[str, Any]:
    """How a recovery step goes on."""
    return _part("recovery_step", _STEP)


@cache
def approval_schema() -> dict[str, Any]:
    """What an approval step asks."""
    return _part("approval_step", _APPROVAL)


@cache
def settings_schema() -> dict[str, Any]:
    """What a batch says beside its name, its devices and its steps."""
    schema = batch_schema()
    properties = {name: schema["properties"][name] for name in _BATCH}
    one = schema["$defs"]["input"]
    properties["inputs"] = {
        **properties["inputs"],
        "additionalProperties": {"anyOf": [_input(one, *kind) for kind in _KINDS]},
    }
    return {**schema, "properties": properties, "required": []}


_KINDS: tuple[tuple[str, str, dict[str, Any], bool], ...] = (
    ("text", "string", {"type": "string"}, False),
    ("whole number", "integer", {"type": "integer"}, False),
    ("number", "number", {"type": "number"}, False),
    ("true or false", "boolean", {"type": "boolean"}, False),
    ("list", "list", {"type": "array"}, False),
    ("object", "object", {}, False),
    ("secret text", "string", {"type": "string", "writeOnly": True}, True),
    ("secret whole number", "integer", {"type": "integer", "writeOnly": True}, True),
    ("secret number", "number", {"type": "number", "writeOnly": True}, True),
    ("secret true or false", "boolean", {"type": "boolean", "writeOnly": True}, True),
    ("secret list", "list", {"type": "array", "writeOnly": True}, True),
    ("secret object", "object", {"writeOnly": True}, True),
)
"""Kinds of inputs: their title, their `type`, the schema of their values, whether secret."""


def _input(
    schema: dict[str, Any], title: str, kind: str, value: dict[str, Any], secret: bool
) -> dict[str, Any]:
    """The schema of inputs of one kind, so that the form asks for a default of that kind."""
    known = schema["properties"]
    properties = {
        # The choice of the kind says both already.
        "type": {"const": kind, HIDDEN: True},
        "secret": {"const": secret, HIDDEN: True},
        "default": {**value, "description": known["default"]["description"]},
        "one_of": {
            "type": "array",
            "items": value,
            "minItems": 1,
            "description": known["one_of"]["description"],
        },
        "description": known["description"],
    }
    required = ["type", "secret"] if secret else ["type"]
    return {
        "title": title,
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }


def _part(name: str, keys: tuple[str, ...]) -> dict[str, Any]:
    schema = batch_schema()
    part = schema["$defs"][name]
    properties = {key: part["properties"][key] for key in keys}
    required = [key for key in part["required"] if key in keys]
    return {"type": "object", "properties": properties, "required": required, "$defs": schema["$defs"]}
