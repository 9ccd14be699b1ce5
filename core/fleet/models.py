"""Models of a device and its tools, as screens, terminals and agents receive them."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from core.aip.messages import ToolType
from core.hosted_names import own_name
from core.text import sentences

# The namespace of our own device client's tools. A tool of the same name in another namespace is foreign.
BUILT_IN_NAMESPACE = "builtin"


class FrozenModel(BaseModel):
    """Base of frozen models that cross the console API; unknown keys are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Effect(StrEnum):
    """A call's effect on the device."""

    OBSERVE = "observe"
    CHANGE = "change"
    DESTROY = "destroy"
    UNKNOWN = "unknown"


class Risk(StrEnum):
    """The damage that a wrong call can do; ordered by `rank`."""

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
    """The source of a fact, in order of precedence: the first counts most."""

    OPERATOR = "operator"
    BUILT_IN = "built-in"
    DECLARED = "declared"
    HEURISTIC = "heuristic"
    DEFAULT = "default"


Value = TypeVar("Value")


class Fact(FrozenModel, Generic[Value]):
    """One fact about a tool, with its source and one sentence of reason."""

    value: Value
    source: Source
    why: str


NO_EVIDENCE = Fact[str](
    value="Nothing but the tool's own word.",
    source=Source.DEFAULT,
    why="Nobody has said what would show it.",  # digested
)


class Contract(FrozenModel):
    """The facts that the console accepts about one tool. `evidence` is what shows that a call has worked.

    `digest` covers the device's definition of the tool and every fact below, so that an approval which names
    it applies to exactly this tool with exactly these facts.
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
        """Whether at least one fact comes from built-in knowledge of our own device client's tools."""
        facts = (self.effect, self.risk, self.reversible, self.idempotent, self.open_world, self.evidence)
        return any(fact.source is Source.BUILT_IN for fact in facts)

    def facts(self) -> dict[str, Any]:
        """All facts as JSON: the part that the digest covers beside the tool's definition."""
        return self.model_dump(mode="json", exclude={"digest"})


OTHERWISE = "is defined otherwise, or its device claims less of it"
"""The text for a changed tool if it is not known which of both changed."""


class Tool(FrozenModel):
    """One tool of one device: the device's definition, and the contract.

    `changed` is set while the tool differs from its trusted state: calls are blocked until it is reviewed.
    `change` then describes the difference as the predicate of a sentence that begins with the tool's name:
    `changed its definition`, or a claim of the device that would allow less care.
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
        """The tool's name at its hosted MCP server, if the device lists it under another name."""
        return None if self.namespace == BUILT_IN_NAMESPACE else own_name(self.tool_name, self.namespace)


class ContractChange(FrozenModel):
    """A tool as it was trusted (`before`) and as its device lists it now (`after`).

    `before` is None if that definition was not stored. Both hold the definition and, if known, `claimed_risk`
    (the risk that the device claims) and `client` (the name that the device's client gives itself).
    `before_contract` is the contract that the trusted definition would have now, so that any difference to
    the present contract is due to the device; None if that is not known. `changed` names the parts that
    differ.
    """

    device: str
    tool_key: str
    before: dict[str, Any] | None
    before_contract: Contract | None = None
    after: dict[str, Any]
    changed: list[str]


class Unavailable(FrozenModel):
    """A tool that a device could offer but does not, with the reason and the fix."""

    tool: str
    reason: str
    how_to_fix: str = ""


UNLISTED = "list of tools"
"""Stands in an `Unavailable` for the whole list, which the console could not read again."""


class Health(StrEnum):
    """Whether a device can take commands now."""

    ONLINE = "online"
    BUSY = "busy"
    STALE = "stale"
    RECONNECTING = "reconnecting"
    OFFLINE = "offline"


# A device's reason from the start of the service until its first link or first failed attempt.
NOT_CONNECTED_YET = "not connected yet"


class Machine(FrozenModel):
    """A machine as its device client describes it: `identity` is a digest, empty if it reports none."""

    identity: str = ""
    host: str = ""

    @property
    def words(self) -> str:
        """Its host name, and the beginning of its identity."""
        host = f"host {self.host}" if self.host else "a host that it does not name"
        return f"{host} (machine {self.identity[:8] or 'not told'})"


NO_MACHINE = Machine()


class Device(FrozenModel):
    """A snapshot of a device. Times are UTC, ISO 8601; durations are in milliseconds.

    `direction`: the device dials (`in`), the console dials (`out`), or there is no remote link (`local`).
    `clock_offset_ms` is how far the device's clock is ahead of the console's. The last of `cpu_percents` and
    `memory_percents` is the newest. `refused` counts rejected connections in this device's name. `features`
    are the agreed extensions; none for a stock client. `requires_approval`: the device itself refuses an
    action without the signatures of `approvers` operators. `own_computer`: the console runs on it.
    `since` is when its health last changed; changes between online and busy do not count.
    `roots` are the folders that the device says its file tools are allowed; empty if it says none.
    `machine` is the machine that the pairing is bound to; without an identity, the pairing is not bound.
    `other_machine` shows the same pairing and is not let in until an operator accepts it.
    `picture` is the last screenshot of a whole screen, `glimpse` the last small picture of a live device
    wall (blobs).
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
    roots: list[str] = Field(default_factory=list)
    machine: Machine = NO_MACHINE
    other_machine: Machine | None = None

    def lacks(self, tool: str) -> str:
        """Why the device has no tool of this name: its own reason where it could offer it."""
        missing = next((one for one in self.unavailable if one.tool == tool), None)
        if missing is None:
            return f"{self.name} has no tool {tool!r}."
        return sentences(f"{self.name} does not offer {tool}: {missing.reason}", missing.how_to_fix)


class ToolHit(FrozenModel):
    """A tool that a search found, on the device that suits best. A higher `score` fits better.

    `reasons` say where the words of the query were found: `description: memory`. `description` is shortened.
    `devices` counts the devices that offer the same definition. A `changed` tool is blocked until reviewed.
    """

    device: str
    tool: str
    namespace: str | None = None
    title: str | None = None
    description: str = ""
    score: float
    reasons: list[str] = Field(default_factory=list)
    effect: Effect
    risk: Risk
    health: Health
    devices: int = 1
    changed: bool = False


NOT_KNOWN = "not known"


class ToolScope(FrozenModel):
    """What a tool needs and reaches besides its contract, each with its source; `NOT_KNOWN` where it is not.

    `authentication` is how it proves to others who it is, `account` as whom it acts. `served_by` is the way
    to the program that runs it; `repair` is what to do when it fails. None of this is part of what an
    operator trusts or approves: no decision depends on it, so it is not covered by the contract's digest.
    """

    authentication: Fact[str]
    network: Fact[str]
    files: Fact[str]
    processes: Fact[str]
    account: Fact[str]
    served_by: Fact[str]
    repair: Fact[str]


class PastCall(FrozenModel):
    """A call of a tool as the journal has it: its time (UTC) and outcome; `error` is the message, if any."""

    call_id: str
    at: str
    actor: str
    status: str
    verdict: str
    duration_ms: float | None = None
    error: str = ""


class ToolDescription(FrozenModel):
    """All that is known of one tool of a device; `calls` are its latest calls there, newest first.

    `undo` says how a call can be undone. `health` and `reason` are the device's.
    """

    tool: Tool
    scope: ToolScope
    undo: str
    health: Health
    reason: str = ""
    calls: list[PastCall] = Field(default_factory=list)


class Pairing(FrozenModel):
    """The data with which a device finds and trusts this console: shown once, and not stored in this form.

    `string` is the line to paste on the device. `command` is the command that prompts for it there, so that
    it appears in no process list. `stock_url` is the address for a client that cannot set headers.
    `fingerprint` is the SHA-256 of the console's certificate (hexadecimal), empty if the link stays on this
    computer without TLS.
    """

    name: str
    string: str
    url: str
    stock_url: str
    command: str
    fingerprint: str = ""


class DeviceSettings(FrozenModel):
    """An operator's settings of a device. None leaves a setting unchanged; `agent` is for stock clients."""

    tags: list[str] | None = None
    production: bool | None = None
    agent: str | None = None


class Refusal(FrozenModel):
    """A rejected connection. `name` is the device whose token or name it used, empty if unknown."""

    at: str
    peer: str
    name: str = ""
    reason: str
    count: int = 1


class HealthChange(FrozenModel):
    """A change of a device's health: its time, the new health and the reason."""

    at: str
    health: Health
    reason: str = ""


class DeviceDetails(FrozenModel):
    """The data of the device page; lists are oldest first.

    `fingerprint` is the certificate of the listening side: the device, or this console. `accepted` are the
    certificates of this console that a device accepts.
    """

    device: Device
    history: list[HealthChange] = Field(default_factory=list)
    refusals: list[Refusal] = Field(default_factory=list)
    fingerprint: str = ""
    accepted: list[str] = Field(default_factory=list)
    paired_at: str | None = None


class CheckState(StrEnum):
    """The outcome of one check of the doctor."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


CheckName = Literal[
    "address", "browser", "clock", "dns", "duplicate", "flapping", "heard", "listening", "machine", "name",
    "pairing", "process", "protocol", "reach", "refused", "tls", "token", "tools", "version",
]  # fmt: skip


class Check(FrozenModel):
    """One check of the doctor: `found` is the finding, `next` the operator's next step."""

    name: CheckName
    state: CheckState
    found: str
    next: str = ""
    took_ms: float = 0.0


class DeviceCertificates(FrozenModel):
    """The certificates of this console that a device accepts, the oldest first; none where it is not known.

    `takes_present` is true where it is not known. `why`: why it has not taken the next certificate.
    """

    device: str
    accepted: list[str] = Field(default_factory=list)
    takes_present: bool = True
    takes_next: bool = False
    why: str = ""


class Certificates(FrozenModel):
    """This console's certificate and the next one (SHA-256), empty if there is none, and who accepts them.

    `present_until` and `next_until` are the ends of their validity in ISO 8601, empty where not known.
    """

    present: str = ""
    present_until: str = ""
    next: str = ""
    next_until: str = ""
    devices: list[DeviceCertificates] = Field(default_factory=list)


class Listening(FrozenModel):
    """The address at which this console listens for devices; `problem` is why it does not listen.

    `warning` names the devices that do not accept the certificate of this console.
    """

    address: str
    url: str = ""
    secure: bool = False
    fingerprint: str = ""
    problem: str = ""
    warning: str = ""
    refused: int = 0
