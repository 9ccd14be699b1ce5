"""A device and its tools as every screen, terminal and agent sees them."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from core.aip.messages import ToolType
from core.hosted_names import own_name

# Tools of our own device client carry this namespace; the same name elsewhere is a stranger's tool.
BUILT_IN_NAMESPACE = "builtin"


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


NO_EVIDENCE = Fact[str](
    value="Nothing but the tool's own word.",
    source=Source.DEFAULT,
    why="Nobody has said what would show it.",  # digested
)


class Contract(Plain):
    """What the console holds to be true of one tool. `evidence` is what shows that a call has worked.

    `digest` covers the device's definition of the tool and every fact below, so that an approval which
    names it means exactly this tool, judged exactly this way.
    """

    effect: Fact[Effect]
    risk: Fact[Risk]
    reversible: Fact[bool]
    idempotent: Fact[bool]
    open_world: Fact[bool]
    evidence: Fact[str] = NO_EVIDENCE
    digest: str

    @property
    def built_in(self) -> bool:
        """Whether the tool is one of our own device client's, and operators have not overruled all of it."""
        facts = (self.effect, self.risk, self.reversible, self.idempotent, self.open_world, self.evidence)
        return any(fact.source is Source.BUILT_IN for fact in facts)

    def facts(self) -> dict[str, Any]:
        """Everything but the digest, as JSON: what the digest covers beside the tool's definition."""
        return self.model_dump(mode="json", exclude={"digest"})


OTHERWISE = "is defined otherwise, or its device claims less of it"
"""What is said of a changed tool where nobody says which of both it was."""


class Tool(Plain):
    """One tool of one device: its definition, as the device gave it, and its contract.

    `changed` is set while it is not as it was trusted: calls are blocked until it is reviewed. `change` says
    then what is different, as a sentence goes on after the tool's name: it `changed its definition`, or what
    its device claims of it would get by with less care.
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
    change: str = ""

    @property
    def own_name(self) -> str | None:
        """The name that a hosted MCP server itself gave to the tool, where the device lists it as another."""
        return None if self.namespace == BUILT_IN_NAMESPACE else own_name(self.tool_name, self.namespace)


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


# The reason of a device since the service started, until its first link or the first failure to get it.
NOT_CONNECTED_YET = "not connected yet"


class Device(Plain):
    """A device as the fleet shows it. Times are UTC, ISO 8601; durations in milliseconds.

    `direction` says who dials: the device (`in`), the console (`out`), or nobody (`local`).
    `clock_offset_ms` is how far the device's clock is ahead of the console's. The last of `cpu_percents` and
    `memory_percents` is the newest. `refused` counts attempts refused in this device's name. `features` are
    the extensions agreed with it; none for a stock client. `requires_approval`: the device itself refuses
    an action without the signatures of `approvers` operators. `own_computer`: the console runs on it.
    `since` is when its health changed last; to be busy, and to be so no more, is no such change.
    `picture` is the last one that somebody took, `glimpse` the last small one of a live wall (blobs).
    """

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
    glimpse: str | None = None
    glimpse_at: str | None = None
    direction: Literal["in", "out", "local"] = "local"
    address: str = ""
    secure: bool = False
    agent: str = ""
    features: list[str] = Field(default_factory=list)
    clock_offset_ms: float | None = None
    cpu_percents: list[float] = Field(default_factory=list)
    memory_percents: list[float] = Field(default_factory=list)
    refused: int = 0
    paired: bool = True
    progress: str = ""
    requires_approval: bool = False
    approvers: int = 1
    own_computer: bool = False


class Pairing(Plain):
    """What a device needs to find and trust this console: shown once, kept nowhere in this form.

    `string` is the one line to paste on the device; `command` is what asks for it there, so that it stands
    in no list of processes. `stock_url` is the address for a client that can set no header. `fingerprint` is
    the SHA-256 of the console's certificate (hexadecimal), empty where the link stays on this computer
    without TLS.
    """

    name: str
    string: str
    url: str
    stock_url: str
    command: str
    fingerprint: str = ""


class DeviceSettings(Plain):
    """What an operator can set of a device. None leaves a thing as it is; `agent` is for stock clients."""

    tags: list[str] | None = None
    production: bool | None = None
    agent: str | None = None


class Refusal(Plain):
    """One attempt that was refused. `name` is whose token or name it used, as far as that is known."""

    at: str
    peer: str
    name: str = ""
    reason: str
    count: int = 1


class HealthChange(Plain):
    """When a device's health changed, to what, and why."""

    at: str
    health: Health
    reason: str = ""


class DeviceDetails(Plain):
    """What the device page shows beside the device itself; oldest first."""

    device: Device
    history: list[HealthChange] = Field(default_factory=list)
    refusals: list[Refusal] = Field(default_factory=list)
    fingerprint: str = ""
    paired_at: str | None = None


class CheckState(StrEnum):
    """How one check of the doctor ended."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


CheckName = Literal[
    "address", "browser", "clock", "dns", "duplicate", "heard", "listening", "name", "pairing", "process",
    "protocol", "reach", "refused", "tls", "token", "tools", "version",
]  # fmt: skip


class Check(Plain):
    """One thing that the doctor looked at."""

    name: CheckName
    state: CheckState
    found: str
    next: str = ""
    took_ms: float = 0.0


class Listening(Plain):
    """Where this console listens for devices; `problem` says why it does not."""

    address: str
    url: str = ""
    secure: bool = False
    fingerprint: str = ""
    problem: str = ""
    refused: int = 0
