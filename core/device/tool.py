"""What a tool of this device is: its contract, its schemas, and the function that serves it."""

from __future__ import annotations

import asyncio
import concurrent.futures
import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar

from core.aip.messages import ToolInfo, ToolType
from core.device.desktop import Desktop, local_desktop
from core.errors import DeviceError, ErrorCode

if TYPE_CHECKING:
    from pathlib import Path

    from core.device.config import DeviceConfig
    from core.device.fs.safe_path import HeldPath
    from core.device.guard import Guard
    from core.device.observations import ObservationStore
    from core.device.processes.child_process import Children
    from core.device.undo import UndoStore

NAMESPACE = "builtin"
EVERYWHERE = ("linux", "windows", "macos")
Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Unavailable:
    """A tool that this machine cannot serve now, why, and what a person can do about it."""

    tool: str
    reason: str
    how_to_fix: str


class FailedWithResult(DeviceError):
    """A tool failed but has something to show, such as the output until the time-out."""

    def __init__(self, message: str, code: ErrorCode, result: Any) -> None:
        super().__init__(message, code)
        self.result = result


class Report(Protocol):
    """Tells whoever asked how far a call has come; see `core.aip.extensions.Progress`. It never blocks."""

    def __call__(
        self,
        text: str = "",
        *,
        stream: Literal["stdout", "stderr", "note"] = "note",
        done: float | None = None,
        total: float | None = None,
        unit: str = "",
    ) -> None: ...


def tell_nobody(
    text: str = "",
    *,
    stream: Literal["stdout", "stderr", "note"] = "note",
    done: float | None = None,
    total: float | None = None,
    unit: str = "",
) -> None:
    """A `Report` where nobody listens."""


@dataclass(frozen=True, slots=True)
class ToolCall:
    """Arguments that passed the guard; path arguments come resolved, by the argument's name.

    `room`: how many bytes of JSON the result may take, where that is less than this device's own limit.
    `approved`: an operator approved this very call, so that it is shown private places too.
    `until`: when the call's deadline passes, on the loop's clock; infinity where it has none.
    """

    arguments: dict[str, Any]
    paths: dict[str, HeldPath] = field(default_factory=dict)
    report: Report = tell_nobody
    room: int | None = None
    approved: bool = False
    until: float = math.inf


@dataclass(frozen=True, slots=True)
class Contract:
    """What holds of every call of a tool, declared to the console; words are those of its fleet."""

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
    """A tool and how to run it.

    `is_instant` says that a call with these arguments, not yet checked, waits for nothing, so that it may
    be served without a task and a deadline of its own.

    `stops_with_task` says that nothing more can happen once the task running it has been cancelled; where
    it is false for an action, a deadline that passes leaves the outcome unknown.

    `keeps_deadline` says that the tool itself ends by `ToolCall.until` and then has something to show.
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
    # How a hosted server described the tool, where that is not ours to say.
    declared: ToolInfo | None = None

    @property
    def key(self) -> str:
        """AIP's key of a tool: its type and its name."""
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


@dataclass(frozen=True, slots=True)
class Workshop:
    """What the tools of one device share."""

    device: str
    config: DeviceConfig
    guard: Guard
    undo: UndoStore
    observations: ObservationStore
    threads: concurrent.futures.Executor
    children: Children
    desktop: Desktop = field(default_factory=local_desktop)

    async def in_thread(self, work: Callable[..., Answer], *arguments: Any) -> Answer:
        """Run blocking work beside the loop."""
        return await asyncio.get_running_loop().run_in_executor(self.threads, work, *arguments)

    @property
    def first_root(self) -> Path:
        """Where a shell starts when no working directory is named."""
        return self.config.roots[0]


def object_schema(properties: dict[str, Any], required: tuple[str, ...] | None = None) -> dict[str, Any]:
    """A closed JSON Schema object; every property is required unless `required` says which are."""
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
    """The same with null allowed."""
    return {**schema, "type": [schema["type"], "null"]}
