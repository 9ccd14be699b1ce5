"""The tool `undo`: runs the recorded inverse of an earlier tool call."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from core.device.tool import Contract, Tool, ToolCall, Unavailable, object_schema, text
from core.device.tool_context import ToolContext
from core.device.tools import files
from core.device.undo import ID_PATTERN
from core.errors import BadInput

Inverse = Callable[[str], Awaitable[dict[str, Any]]]
"""Undoes the change of an undo id, or refuses if what was there can no longer be restored."""

KINDS = ("write_file", "mcp_servers")


def offer(workshop: ToolContext) -> tuple[list[Tool], list[Unavailable]]:
    """The tool with the inverses of this device's own tools, which is available on every platform."""
    return [undo_tool(workshop, inverses(workshop))], []


def inverses(workshop: ToolContext) -> dict[str, Inverse]:
    """The inverses that every device has, by the kind of what was changed."""

    async def write_file(undo_id: str) -> dict[str, Any]:
        return await workshop.in_thread(files.restore, workshop, undo_id)

    return {"write_file": write_file}


def undo_tool(workshop: ToolContext, inverses: Mapping[str, Inverse]) -> Tool:
    """The tool `undo`; `inverses` by the kind of what was changed."""

    async def undo(call: ToolCall) -> dict[str, Any]:
        undo_id = call.arguments["undo_id"]
        kind = (await workshop.in_thread(workshop.undo.entry, undo_id)).kind
        if kind not in inverses:
            raise BadInput(f"This device does not undo changes of {kind} now; see its device.toml.")
        return {"undone": kind, "result": await inverses[kind](undo_id)}

    return _undo(undo)


def _undo(run: Any) -> Tool:
    return Tool(
        name="undo",
        title="Undo",
        tool_type="action",
        description=(
            "Undo what the tool that gave this undo id did. Refuses when the thing has changed since. "
            "An undo id works once, and until it expires."
        ),
        input_schema=object_schema({"undo_id": text("The undo id.", pattern=ID_PATTERN)}),
        output_schema=object_schema(
            {
                "undone": {"enum": list(KINDS), "description": "What was changed back."},
                "result": {"type": "object", "description": "What the inverse says it did."},
            }
        ),
        contract=Contract("change", "medium", reversible=False, idempotent=False),
        run=run,
    )
