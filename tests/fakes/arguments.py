"""Arguments as the dispatcher makes them: masked and checked by the real code, for a tool made up here."""

from __future__ import annotations

from typing import Any

from core.commands.arguments import PreparedCall
from core.dispatch.call_preparer import CallPreparer
from core.dispatch.redaction import Redactor
from core.models.tools import Contract, Effect, Fact, Risk, Source, Tool

CONTRACT = "c" * 64


def _fact(value: Any) -> Fact[Any]:
    return Fact(value=value, source=Source.BUILT_IN, why="")


def tool_of(name: str = "shell_execute", schema: dict[str, Any] | None = None) -> Tool:
    """An action of the device bench."""
    contract = Contract(
        effect=_fact(Effect.CHANGE),
        risk=_fact(Risk.HIGH),
        reversible=_fact(False),
        idempotent=_fact(False),
        open_world=_fact(False),
        digest=CONTRACT,
    )
    return Tool(
        device="bench",
        tool_key=f"action::{name}",
        tool_name=name,
        tool_type="action",
        namespace="builtin",
        input_schema={"type": "object"} if schema is None else schema,
        contract=contract,
    )


def checked(parameters: dict[str, Any], tool: Tool | None = None) -> PreparedCall:
    """A call that passed the first three stages."""
    offered = tool or tool_of()
    preparer = CallPreparer(None, Redactor(b"x" * 32))  # type: ignore[arg-type]  # no device is asked for its tools
    return preparer.prepare_at_once(offered, preparer.take(offered, parameters))


def masked(parameters: dict[str, Any], *schemas: Any, salt: bytes = b"x" * 32) -> dict[str, Any]:
    """Arguments as they are shown."""
    return Redactor(salt).redact("a_tool", parameters, schemas).shown
