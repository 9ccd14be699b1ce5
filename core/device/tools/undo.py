"""The tool `undo`: runs the recorded inverse of an earlier tool call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from core.device.tool import Contract, Tool, ToolCall, Unavailable, object_schema, text
from core.device.tool_context import ToolContext
from core.device.tools import files
from core.device.undo import ID_PATTERN

# Inverses by tool name. Each blocks on the disk and refuses if the old content can no longer be restored.
_INVERSES: dict[str, Callable[[ToolContext, str], dict[str, Any]]] = {"write_file": files.restore}


def offer(workshop: ToolContext) -> tuple[list[Tool], list[Unavailable]]:
    """The tool, which is available on every platform."""

    async def undo(call: ToolCall) -> dict[str, Any]:
        undo_id = call.arguments["undo_id"]

        def run_inverse() -> dict[str, Any]:
            done = workshop.undo.entry(undo_id).kind
            return {"undone": done, "result": _INVERSES[done](workshop, undo_id)}

        return await workshop.in_thread(run_inverse)

    return [_undo(undo)], []


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
                "undone": {"enum": list(_INVERSES), "description": "The tool whose work was undone."},
                "result": {"type": "object", "description": "What the inverse says it did."},
            }
        ),
        contract=Contract("change", "medium", reversible=False, idempotent=False),
        run=run,
    )
