"""Invented tools whose definition changed: what was trusted, and what is there now."""

from __future__ import annotations

from typing import Any

from core.aip.messages import ToolInfo
from core.fleet.contracts import judge
from core.models.tools import Contract, Tool

_FIELDS = (
    "tool_key tool_name tool_type namespace title description input_schema output_schema annotations".split()
)


def definition_of(tool: Tool) -> dict[str, Any]:
    """A tool's definition as its device gives it."""
    return {field: getattr(tool, field) for field in _FIELDS}


def contract_of(definition: dict[str, Any]) -> Contract:
    """The contract that the real console would give a definition."""
    return judge(ToolInfo.model_validate(definition), ours=False)


def trusted_definition(tool: Tool) -> dict[str, Any]:
    """The definition before it changed: fewer arguments, other words."""
    before = definition_of(tool)
    arguments = dict(tool.input_schema.get("properties", {}))
    if arguments:
        arguments.pop(list(arguments)[-1])
    arguments["dry_run"] = {"type": "boolean", "default": True, "description": "Only say what would be done"}
    before["input_schema"] = {**tool.input_schema, "properties": arguments}
    before["description"] = tool.description.partition(" New since")[0]
    before["annotations"] = {"readOnlyHint": False, "destructiveHint": False}
    return before
