"""Models of what the fleet finds out: searches of tools, pairings, settings, checks, certificates."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Literal

from pydantic import Field

from core.models.devices import Device, Health
from core.models.frozen import FrozenModel
from core.models.tools import Contract, Effect, Fact, Risk, Tool


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


class ToolHit(FrozenModel):
    """A tool that a search found, on the device that suits best. A higher `score` fits better.

    `reasons` say where the words of the query were found: `description: memory`. `missed` are the words of
    the query of which the tool says nothing. `description` is shortened.
    `devices` counts the devices that offer the same definition. A `changed` tool is blocked until reviewed.
    """

    device: str
    tool: str
    namespace: str | None = None
    title: str | None = None
    description: str = ""
    score: float
    reasons: list[str] = Field(default_factory=list)
    missed: list[str] = Field(default_factory=list)
    effect: Effect
    risk: Risk
    health: Health
    devices: int = 1
    changed: bool = False


NOT_KNOWN = "not known"


class ToolScope(FrozenModel):
    """The needs and reach of a tool besides its contract, each with its source; `NOT_KNOWN` where it is not.

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
