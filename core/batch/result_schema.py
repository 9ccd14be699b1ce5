"""The JSON Schema of what arrives from a tool, which is not always the output schema that it declares."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from core.dispatch.deadline import is_stock
from core.models.devices import Device
from core.models.tools import BUILT_IN_NAMESPACE, Tool

# A FastMCP server puts a number, a text or a list into an object, as a result must be one, and marks it so.
_WRAPPED = "x-fastmcp-wrap-result"
_WRAPPED_IN = "result"


def arriving_schema(tool: Tool, device: Device) -> Mapping[str, Any]:
    """The schema of the values that a tool of a device gives; empty where it is not known.

    A stock client takes the value out of FastMCP's object. Our own device client hands on the whole answer of
    a hosted server (`core.device.mcp.results`), whose `structured` is what the tool declares.
    """
    declared = tool.output_schema
    if not declared:
        return {}
    if is_stock(device):
        return _unwrapped(declared)
    if tool.namespace in (None, BUILT_IN_NAMESPACE):
        return declared
    answer = {
        "content": {"type": "array"},
        "structured": {key: part for key, part in declared.items() if key not in _DEFINITIONS},
        "meta": {"type": "object"},
        "truncated": {"type": "boolean"},
    }
    return {"type": "object", "properties": answer, **_definitions_of(declared)}


def _unwrapped(declared: Mapping[str, Any]) -> Mapping[str, Any]:
    properties = declared.get("properties")
    if declared.get(_WRAPPED) is not True or not isinstance(properties, Mapping):
        return declared
    inner = properties.get(_WRAPPED_IN)
    return {**inner, **_definitions_of(declared)} if isinstance(inner, Mapping) else {}


# References in a schema name these from the root of the document.
_DEFINITIONS = ("$defs", "definitions")


def _definitions_of(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {key: schema[key] for key in _DEFINITIONS if key in schema}
