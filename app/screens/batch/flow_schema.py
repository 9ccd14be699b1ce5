"""What the forms of Batch ask for beside a tool's arguments, taken from the schema of batch files."""

from __future__ import annotations

from functools import cache
from typing import Any

from core.batch.batch_schema import batch_schema

_STEP = ("retry", "on_failure", "note")
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
    return {**schema, "properties": {name: schema["properties"][name] for name in _BATCH}, "required": []}


def _part(name: str, keys: tuple[str, ...]) -> dict[str, Any]:
    schema = batch_schema()
    part = schema["$defs"][name]
    properties = {key: part["properties"][key] for key in keys}
    required = [key for key in part["required"] if key in keys]
    return {"type": "object", "properties": properties, "required": required, "$defs": schema["$defs"]}
