"""Checks the values of a batch's inputs, given as JSON, and fills in their defaults."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from core.batch.models import ABSENT, Batch, Input
from core.canonical_json import canonical_bytes
from core.errors import BadInput
from core.similar import most_like
from core.text import sentences, some_names

_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "list": (list,),
    "object": (dict,),
}


def check_inputs(batch: Batch, given: dict[str, Any]) -> dict[str, Any]:
    """The value of every input of a batch.

    Raises:
        BadInput: a value is missing, has the wrong type, is not allowed, or belongs to no input. The message
            names the inputs, and no value of a secret one.
    """
    return _checked(batch, batch.inputs, given)


def _checked(batch: Batch, wanted: Mapping[str, Input], given: dict[str, Any]) -> dict[str, Any]:
    faults = [unknown_input(batch, name) for name in given if name not in batch.inputs]
    values = {}
    for name, declared in wanted.items():
        value = given.get(name, declared.default)
        if fault := _fault_of(declared, value):
            faults.append(f"{name} {fault}")
        values[name] = value
    if faults:
        raise BadInput(sentences(f"The inputs do not fit: {'; '.join(faults)}"))
    canonical_bytes(values)
    return values


def unknown_input(batch: Batch, name: str) -> str:
    """The fault of a name that is not an input of a batch: what was probably meant, and its inputs."""
    near = most_like(name, batch.inputs, 1)
    meant = f", did you mean {near[0]}" if near else ""
    return f"{name} is not an input of this batch{meant} (inputs: {some_names(batch.inputs)})"


def secret_values(batch: Batch, values: Mapping[str, Any]) -> tuple[str, ...]:
    """The values of a batch's secret inputs, as texts."""
    return tuple(
        str(values[name]) for name, declared in batch.inputs.items() if declared.secret and name in values
    )


def fault_of_default(declared: Input) -> str:
    """Why the default of an input is no value for it; empty where it is, and without one."""
    return "" if declared.required else _fault_of(declared, declared.default)


def inputs_schema(batch: Batch) -> dict[str, Any]:
    """The JSON Schema of the values that `check_inputs` takes."""
    return {
        "type": "object",
        "properties": {name: _schema_of(declared) for name, declared in batch.inputs.items()},
        "required": [name for name, declared in batch.inputs.items() if declared.required],
        "additionalProperties": False,
    }


def _schema_of(declared: Input) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "array" if declared.type == "list" else declared.type}
    if declared.description:
        schema["description"] = declared.description
    if declared.one_of is not None and not declared.secret:
        schema["enum"] = declared.one_of
    if declared.secret:
        schema["writeOnly"] = True
    elif not declared.required:
        schema["default"] = declared.default
    return schema


def check_given(batch: Batch, given: dict[str, Any]) -> None:
    """Check values of which some may still be missing, as `check_inputs` does.

    Raises:
        BadInput: a value has the wrong type, is not allowed, or belongs to no input.
    """
    _checked(batch, {name: declared for name, declared in batch.inputs.items() if name in given}, given)


def _fault_of(declared: Input, value: Any) -> str:
    if value is ABSENT:
        return f"is missing; it is {_allowed(declared)}"
    is_bool = isinstance(value, bool)
    if not isinstance(value, _TYPES[declared.type]) or (is_bool and declared.type != "boolean"):
        return f"is not of type {declared.type}"
    if declared.one_of is not None and value not in declared.one_of:
        return "is not allowed" if declared.secret else f"is not {_allowed(declared)}"
    return ""


def _allowed(declared: Input) -> str:
    if declared.one_of is None or declared.secret:
        return f"a value of type {declared.type}"
    return f"one of {', '.join(map(str, declared.one_of))}"
