"""The digest of a tool's contract, computed by both the console and the device.

A contract is a tool's definition by its device, together with the console's facts about it (effect, risk and
others, each with its source). Its digest is SHA-256 over the canonical JSON of
`{"definition": …, "facts": …}`. Every approval signs this digest. A device that receives the facts can
therefore check that the approved tool is the tool that it has now.
"""

from __future__ import annotations

import hashlib
from typing import Any

from core.aip.messages import ToolInfo
from core.canonical_json import canonical_bytes


def definition_of(info: ToolInfo) -> dict[str, Any]:
    """The parts of a tool that a pin covers: names, descriptions, input and output schema, annotations."""
    return {
        "tool_key": info.tool_key,
        "tool_name": info.tool_name,
        "namespace": info.namespace,
        "tool_type": info.tool_type,
        "title": info.title,
        "description": info.description,
        "input_schema": info.input_schema,
        "output_schema": info.output_schema,
        "annotations": info.annotations,
    }


def pinned_definition(info: ToolInfo) -> dict[str, Any]:
    """`definition_of` without differences between starts of a server that have no meaning.

    It sorts the words or elements in the default of an optional argument. The console never sends that
    default, and a server that builds it from a set lists it in a different order at each start.
    """
    definition = definition_of(info)
    schema = info.input_schema
    properties = schema.get("properties") if isinstance(schema, dict) else None
    if not isinstance(schema, dict) or not isinstance(properties, dict):
        return definition
    required = schema.get("required")
    sent = set(filter(lambda name: isinstance(name, str), required)) if isinstance(required, list) else set()
    settled = {
        name: {**said, "default": ordered}
        for name, said in properties.items()
        if name not in sent
        and isinstance(said, dict)
        and (ordered := _in_order(said.get("default"))) is not None
    }
    if not settled:
        return definition
    return {**definition, "input_schema": {**schema, "properties": {**properties, **settled}}}


def _in_order(default: Any) -> Any:
    """A default of several words or elements, sorted; None for any other default."""
    if isinstance(default, str) and "," in default:
        return ",".join(sorted(part.strip() for part in default.split(",")))
    if isinstance(default, list) and all(isinstance(part, str) for part in default):
        return sorted(default)
    return None


def begun_with(definition: bytes) -> hashlib._Hash:
    """The hash state after the definition; `definition` is its canonical JSON."""
    begun = hashlib.sha256(b'{"definition":')
    begun.update(definition)
    begun.update(b',"facts":')
    return begun


def ended_with(begun: hashlib._Hash, facts: bytes) -> str:
    """The complete digest, hexadecimal; `facts` is their canonical JSON. `begun` can be used again."""
    whole = begun.copy()
    whole.update(facts)
    whole.update(b"}")
    return whole.hexdigest()


def contract_digest(info: ToolInfo, facts: dict[str, Any]) -> str:
    """The digest of a tool's contract, hexadecimal.

    Raises:
        BadInput: definition or facts have no canonical form.
    """
    return ended_with(begun_with(canonical_bytes(definition_of(info))), canonical_bytes(facts))
