"""Defines a tool of this device: its contract, its schemas and the function that runs it."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from core.aip.messages import ToolInfo
from core.device.progress import Report, no_progress
from core.errors import DeviceError, ErrorCode
from core.models.tools import ToolType

if TYPE_CHECKING:
    from core.device.fs.safe_path import SafePath

NAMESPACE = "builtin"
EVERYWHERE = ("linux", "windows", "macos")


@dataclass(frozen=True, slots=True)
class Unavailable:
    """A tool that this machine cannot serve now, the reason, and what a person can do about it."""

    tool: str
    reason: str
    how_to_fix: str


class FailedWithResult(DeviceError):
    """A tool failed with a partial result, such as the output until the time-out."""

    def __init__(self, message: str, code: ErrorCode, result: Any) -> None:
        super().__init__(message, code)
        self.result = result


@dataclass(frozen=True, slots=True)
class ToolCall:
    """The checked arguments of a call; `paths` holds resolved path arguments by the argument's name.

    `room`: the limit of the result's JSON in bytes, if less than this device's own limit.
    `approved`: an operator approved exactly this call, so it may read private places.
    `until`: when the call's deadline passes, on the loop's clock; infinity where it has none.
    """

    arguments: dict[str, Any]
    paths: dict[str, SafePath] = field(default_factory=dict)
    report: Report = no_progress
    room: int | None = None
    approved: bool = False
    until: float = math.inf


@dataclass(frozen=True, slots=True)
class Contract:
    """The properties of every call of a tool, declared to the console; values as in `core.models.tools`."""

    effect: Literal["observe", "change", "destroy"]
    risk: Literal["low", "medium", "high", "critical"]
    reversible: bool
    idempotent: bool
    open_world: bool = False


OBSERVES = Contract("observe", "low", reversible=True, idempotent=True)


def _never(arguments: dict[str, Any]) -> bool:
    return False


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool and the function that runs it.

    `is_instant`: a call with these (not yet checked) arguments never waits, so that it may be served without
    a task and a deadline of its own.

    `stops_with_task`: nothing more can happen once the task that runs it has been cancelled. Where it is
    false for an action, a deadline that passes leaves the outcome unknown.

    `keeps_deadline`: the tool itself ends by `ToolCall.until` and then has a partial result.
    """

    name: str
    title: str
    tool_type: ToolType
    description: str
    input_schema: dict[str, Any]
    output_schema: dict[str, Any]
    contract: Contract
    run: Callable[[ToolCall], Awaitable[Any]]
    platforms: tuple[str, ...] = EVERYWHERE
    path_arguments: tuple[str, ...] = ()
    stops_with_task: bool = False
    keeps_deadline: bool = False
    is_instant: Callable[[dict[str, Any]], bool] = _never
    meta_tool: bool = False
    namespace: str = NAMESPACE
    # A hosted server's description of its tool, used unchanged; None for built-in tools.
    declared: ToolInfo | None = None

    @property
    def key(self) -> str:
        """The tool's key in AIP: its type and its name."""
        return f"{self.tool_type}::{self.name}"

    def info(self) -> ToolInfo:
        """The tool as AIP lists it."""
        if self.declared is not None:
            return self.declared
        contract = self.contract
        return ToolInfo(
            tool_key=self.key,
            tool_name=self.name,
            title=self.title,
            namespace=self.namespace,
            tool_type=self.tool_type,
            description=self.description,
            input_schema=self.input_schema,
            output_schema=self.output_schema,
            meta={
                "quarterdeck": {
                    "effect": contract.effect,
                    "risk": contract.risk,
                    "reversible": contract.reversible,
                    "idempotent": contract.idempotent,
                    "platforms": list(self.platforms),
                }
            },
            annotations={
                "title": self.title,
                "readOnlyHint": contract.effect == "observe",
                "destructiveHint": contract.effect == "destroy",
                "idempotentHint": contract.idempotent,
                "openWorldHint": contract.open_world,
            },
        )


def object_schema(properties: dict[str, Any], required: tuple[str, ...] | None = None) -> dict[str, Any]:
    """A JSON Schema object without additional properties; all are required unless `required` is given."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties if required is None else required),
        "additionalProperties": False,
    }


def text(description: str, **more: Any) -> dict[str, Any]:
    """A JSON Schema string."""
    return {"type": "string", "description": description, **more}


def whole_number(description: str, **more: Any) -> dict[str, Any]:
    """A JSON Schema integer."""
    return {"type": "integer", "description": description, **more}


def number(description: str, **more: Any) -> dict[str, Any]:
    """A JSON Schema number."""
    return {"type": "number", "description": description, **more}


def yes_or_no(description: str, **more: Any) -> dict[str, Any]:
    """A JSON Schema boolean."""
    return {"type": "boolean", "description": description, **more}


def nullable(schema: dict[str, Any]) -> dict[str, Any]:
    """A schema that also allows null."""
    return {**schema, "type": [schema["type"], "null"]}
