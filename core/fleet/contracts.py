"""From a tool's definition to its contract: built-in knowledge first, a device's own claims only upwards.

A device that calls its tool read-only does not make it so: annotations (MCP: "declared") may raise a risk and
never lower it, and a tool nobody knows has the effect `unknown`, which counts as high risk.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from core.aip.messages import ToolInfo, ToolType
from core.canonical import digest_of
from core.fleet.models import Contract, Effect, Fact, Risk, Source, Tool

# Tools of our own device client carry this namespace; the same name elsewhere is a stranger's tool.
BUILT_IN_NAMESPACE = "builtin"


@dataclass(frozen=True, slots=True)
class Known:
    """What we know of a built-in tool because we wrote it."""

    tool_type: ToolType
    effect: Effect
    risk: Risk
    why: str
    reversible: bool = False
    idempotent: bool = False
    open_world: bool = False


def _reads(why: str) -> Known:
    return Known("data_collection", Effect.OBSERVE, Risk.LOW, why, reversible=True, idempotent=True)


_SHELL = Known(
    "action",
    Effect.UNKNOWN,
    Risk.HIGH,
    "A shell line can do whatever its user can; only its text tells.",
    open_world=True,
)

KNOWN: dict[str, Known] = {
    "screenshot": _reads("Takes a picture of the screen and changes nothing."),
    "get_system_info": _reads("Reads counters of the operating system."),
    "SYS_INFO": _reads("Reads counters of the operating system."),
    "read_file": _reads("Reads one file below the allowed roots."),
    "list_directory": _reads("Lists names below the allowed roots."),
    "list_windows": _reads("Lists windows."),
    "list_processes": _reads("Lists processes."),
    "list_tools": _reads("Lists what the device offers."),
    "get_mcp_tools": _reads("Lists what the device offers."),
    "write_file": Known(
        "action",
        Effect.CHANGE,
        Risk.MEDIUM,
        "Changes one file; the device keeps the old content for undo.",
        reversible=True,
    ),
    "restore_file": Known(
        "action",
        Effect.CHANGE,
        Risk.MEDIUM,
        "Puts one file back as it was; refused when it changed since.",
    ),
    "shell_execute": _SHELL,
    "EXEC_CLI": _SHELL,
}


def definition_of(info: ToolInfo) -> dict[str, Any]:
    """The parts of a tool that a pin covers: what it is called, what it says, what it takes and gives."""
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


def judge(info: ToolInfo) -> Contract:
    """Say what the console holds to be true of a tool, each fact with its source.

    Raises:
        BadInput: the definition has no canonical form (numbers beyond 2^53, broken Unicode).
    """
    known = KNOWN.get(info.tool_name)
    if known and info.namespace == BUILT_IN_NAMESPACE and info.tool_type == known.tool_type:
        facts = _built_in(known)
    else:
        facts = _stranger()
    _raise_by_claims(facts, info)
    plain = {name: fact.model_dump(mode="json") for name, fact in facts.items()}
    digest = digest_of({"definition": definition_of(info), "facts": plain})
    return Contract.model_validate({**plain, "digest": digest})


def tool_of(device: str, info: ToolInfo, *, changed: bool) -> Tool:
    """A device's tool as the screens see it, with its contract."""
    return Tool(
        device=device,
        tool_key=info.tool_key,
        tool_name=info.tool_name,
        tool_type=info.tool_type,
        namespace=info.namespace,
        title=info.title,
        description=info.description or "",
        input_schema=info.input_schema or {},
        output_schema=info.output_schema or {},
        annotations=info.annotations or {},
        contract=judge(info),
        changed=changed,
    )


def _built_in(known: Known) -> dict[str, Fact[Any]]:
    def fact(value: Any, why: str) -> Fact[Any]:
        return Fact(value=value, source=Source.BUILT_IN, why=why)

    undo = "The device can put things back." if known.reversible else "Nothing puts this back by itself."
    again = "Twice does what once does." if known.idempotent else "Running it twice may do it twice."
    reach = "May reach beyond this device." if known.open_world else "Stays on this device."
    return {
        "effect": fact(known.effect, known.why),
        "risk": fact(known.risk, known.why),
        "reversible": fact(
            known.reversible, "It changes nothing." if known.effect is Effect.OBSERVE else undo
        ),
        "idempotent": fact(known.idempotent, again),
        "open_world": fact(known.open_world, reach),
    }


def _stranger() -> dict[str, Fact[Any]]:
    def fact(value: Any, why: str) -> Fact[Any]:
        return Fact(value=value, source=Source.DEFAULT, why=why)

    return {
        "effect": fact(Effect.UNKNOWN, "Nobody this console trusts has said what it does."),
        "risk": fact(Risk.HIGH, "An unknown effect counts as high risk."),
        "reversible": fact(False, "Not known to be reversible."),
        "idempotent": fact(False, "Not known to be safe to run twice."),
        "open_world": fact(True, "Not known to stay on the device."),
    }


def _raise_by_claims(facts: dict[str, Fact[Any]], info: ToolInfo) -> None:
    """Let the device's own words make things worse, never better."""
    claims = info.annotations or {}
    own = (info.meta or {}).get("quarterdeck")
    claimed = own.get("risk") if isinstance(own, dict) else None
    if claimed in list(Risk) and Risk(claimed).rank > facts["risk"].value.rank:
        facts["risk"] = Fact(value=Risk(claimed), source=Source.DECLARED, why="The device rates it higher.")
    if claims.get("destructiveHint") is True and claims.get("readOnlyHint") is not True:
        if facts["effect"].value in (Effect.UNKNOWN, Effect.OBSERVE) and not _is_built_in(facts):
            facts["effect"] = Fact(
                value=Effect.DESTROY, source=Source.DECLARED, why="The device calls it destructive."
            )
        if facts["effect"].value is Effect.OBSERVE:
            facts["risk"] = Fact(
                value=Risk.HIGH, source=Source.DECLARED, why="The device calls it destructive."
            )


def _is_built_in(facts: dict[str, Fact[Any]]) -> bool:
    return facts["effect"].source is Source.BUILT_IN
