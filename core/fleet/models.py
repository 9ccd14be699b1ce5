"""A device and its tools as every screen, terminal and agent sees them."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from core.aip.messages import ToolType


class Plain(BaseModel):
    """Frozen data that crosses the door; unknown keys are faults."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Effect(StrEnum):
    """What a call does to the device."""

    OBSERVE = "observe"
    CHANGE = "change"
    DESTROY = "destroy"
    UNKNOWN = "unknown"


class Risk(StrEnum):
    """How much a wrong call can cost; ordered by `rank`."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"
    CRITICAL = "critical"

    @property
    def rank(self) -> int:
        """0 for low up to 3 for critical."""
        return _RANKS[self]


_RANKS = {Risk.LOW: 0, Risk.MEDIUM: 1, Risk.HIGH: 2, Risk.CRITICAL: 3}


class Source(StrEnum):
    """Who says so; the earlier in this list, the more it counts."""

    OPERATOR = "operator"
    BUILT_IN = "built-in"
    DECLARED = "declared"
    HEURISTIC = "heuristic"
    DEFAULT = "default"


Value = TypeVar("Value")


class Fact(Plain, Generic[Value]):
    """One thing held to be true of a tool, with who says so and one sentence why."""

    value: Value
    source: Source
    why: str


class Contract(Plain):
    """What the console holds to be true of one tool.

    `digest` covers the device's definition of the tool and every fact below, so that an approval which
    names it means exactly this tool, judged exactly this way.
    """

    effect: Fact[Effect]
    risk: Fact[Risk]
    reversible: Fact[bool]
    idempotent: Fact[bool]
    open_world: Fact[bool]
    digest: str


class Tool(Plain):
    """One tool of one device: its definition, as the device gave it, and its contract.

    `changed` is set while the definition differs from the pinned one: calls are blocked until reviewed.
    """

    device: str
    tool_key: str
    tool_name: str
    tool_type: ToolType
    namespace: str | None = None
    title: str | None = None
    description: str = ""
    input_schema: dict[str, Any] = Field(default_factory=dict)
    output_schema: dict[str, Any] = Field(default_factory=dict)
    annotations: dict[str, Any] = Field(default_factory=dict)
    contract: Contract
    changed: bool = False


class Unavailable(Plain):
    """A tool that a device could offer but does not, why, and how to get it."""

    tool: str
    reason: str
    how_to_fix: str = ""


class Health(StrEnum):
    """Whether a device can be asked now."""

    ONLINE = "online"
    BUSY = "busy"
    STALE = "stale"
    RECONNECTING = "reconnecting"
    OFFLINE = "offline"


class Device(Plain):
    """A device as the fleet shows it. Times are UTC, ISO 8601; durations in milliseconds."""

    name: str
    health: Health
    since: str
    reason: str = ""
    tags: list[str] = Field(default_factory=list)
    production: bool = False
    platform: str = ""
    system: str = ""
    client: str = ""
    channel: str = ""
    profile: str = ""
    tool_count: int = 0
    unavailable: list[Unavailable] = Field(default_factory=list)
    changed_tools: list[str] = Field(default_factory=list)
    round_trip_ms: float | None = None
    round_trips_ms: list[float] = Field(default_factory=list)
    last_heard: str | None = None
    doing: str = ""
    restarts: int = 0
    picture: str | None = None
    picture_at: str | None = None
