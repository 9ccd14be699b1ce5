"""The fleet's state of one device, and the snapshot (`Device`) made from it."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from core.commands.channel import BasicCommandDispatcher
from core.fleet.contracts import ListedTool
from core.fleet.models import HealthChange
from core.ids import now_utc
from core.models.devices import NO_MACHINE, NOT_CONNECTED_YET, Device, Health, Machine, Unavailable
from core.models.tools import Tool
from core.policy.policy_file import Overrides

PRODUCTION_TAGS = frozenset({"prod", "production"})
MEASURES_KEPT = 40
CHANGES_KEPT = 200
MOST_WORDS = 300


@dataclass(frozen=True, slots=True)
class DeviceIdentity:
    """The facts about a device before it connects. `production` None: its tags decide.

    `machine` and `other_machine` are those of `Device`.
    """

    tags: list[str]
    production: bool | None = None
    direction: Literal["in", "out", "local"] = "local"
    address: str = ""
    agent: str = ""
    paired: bool = True
    machine: Machine = NO_MACHINE
    other_machine: Machine | None = None


@dataclass(frozen=True, slots=True)
class ConnectionInfo:
    """The data that a device provides when it connects."""

    channel: BasicCommandDispatcher
    kind: str
    platform: str
    system: str
    client: str
    unavailable: list[Unavailable]
    roots: list[Path] | None
    host: str = ""
    features: list[str] = field(default_factory=list)
    clock_offset_ms: float | None = None
    address: str = ""
    secure: bool = False
    # Whether the client identifies itself as our own device client; this is its claim.
    ours: bool = True
    # The number of operators' signatures that the device demands for an action; 0 for none.
    approvers: int = 0
    # Whether it is the computer that the console runs on.
    own_computer: bool = False
    # Whether its paths are on this computer's disk: set only for the service's own process and in-process
    # tools, never on a device's claim.
    shares_disk: bool = False
    # The folders that the client says its file tools are allowed; empty if it says none. Only for words.
    said_roots: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class PersistedState:
    """The journal's data on a device that has not connected since the service started."""

    since: str | None = None
    reason: str = ""
    platform: str = ""
    system: str = ""
    client: str = ""
    picture: str | None = None
    picture_at: str | None = None


def _kept() -> deque[float]:
    return deque(maxlen=MEASURES_KEPT)


@dataclass(slots=True)
class DeviceState:
    """The mutable state of one device while the service runs."""

    name: str
    identity: DeviceIdentity
    health: Health = Health.OFFLINE
    since: str = field(default_factory=now_utc)
    reason: str = NOT_CONNECTED_YET
    # The data of its present link; `last` is that of its newest link, also after the link has ended.
    arrival: ConnectionInfo | None = None
    last: ConnectionInfo | None = None
    remembered: PersistedState = field(default_factory=PersistedState)
    offered: dict[str, ListedTool] = field(default_factory=dict)
    tools: dict[str, Tool] = field(default_factory=dict)
    # The operators' overrides with which `tools` were judged.
    overrides: Overrides = field(default_factory=Overrides)
    running: dict[str, str] = field(default_factory=dict)
    progress: dict[str, str] = field(default_factory=dict)
    round_trips: deque[float] = field(default_factory=_kept)
    cpu: deque[float] = field(default_factory=_kept)
    memory: deque[float] = field(default_factory=_kept)
    history: deque[HealthChange] = field(default_factory=lambda: deque(maxlen=CHANGES_KEPT))
    last_heard: str | None = None
    clock_offset_ms: float | None = None
    agent: str = ""
    restarts: int = 0
    refused: int = 0
    picture: str | None = None
    picture_at: str | None = None
    glimpse: str | None = None
    glimpse_at: str | None = None
    shown: Device | None = None
    # Only the transient state (`_at_the_moment`) has changed since `shown`.
    stale: bool = False
    profile: str | None = None

    def set_health(self, health: Health, reason: str) -> None:
        """Set health and reason. Changes enter the history, except those between online and busy."""
        quiet = {self.health, health} <= {Health.ONLINE, Health.BUSY}
        if self.health is not health and not quiet:
            self.since = now_utc()
        if (self.health is not health and not quiet) or (reason and reason != self.reason):
            self.history.append(HealthChange(at=now_utc(), health=health, reason=reason))
        self.health, self.reason = health, reason

    @property
    def ours(self) -> bool:
        """Whether the last client identified itself as our own device client; this is its claim."""
        return self.last is None or self.last.ours

    @property
    def here(self) -> Health:
        """The health while connected: busy with a command, or online."""
        return Health.BUSY if self.running else Health.ONLINE

    def picture_of(self) -> Device:
        """A snapshot of the device, without its profile unless that is known already."""
        arrival, last, then, identity = self.arrival, self.last, self.remembered, self.identity
        production = identity.production
        if production is None:
            production = bool(PRODUCTION_TAGS.intersection(identity.tags))
        return Device(
            name=self.name,
            tags=identity.tags,
            production=production,
            # Kept while the device is offline, for display and filters.
            platform=last.platform if last else then.platform,
            system=last.system if last else then.system,
            client=last.client if last else then.client,
            channel=arrival.kind if arrival else "",
            profile=self.profile or "",
            tool_count=len(self.tools),
            unavailable=arrival.unavailable if arrival else [],
            changed_tools=sorted(tool.tool_key for tool in self.tools.values() if tool.changed),
            direction=identity.direction,
            address=(arrival.address if arrival else "") or identity.address,
            secure=arrival.secure if arrival else False,
            features=arrival.features if arrival else [],
            paired=identity.paired,
            roots=last.said_roots if last else [],
            requires_approval=last.approvers > 0 if last else False,
            approvers=max(1, last.approvers) if last else 1,
            own_computer=last.own_computer if last else False,
            machine=self._machine,
            other_machine=identity.other_machine,
            **self._at_the_moment(),
        )

    @property
    def _machine(self) -> Machine:
        """The machine that the pairing is bound to, with the host name of the newest link."""
        bound, host = self.identity.machine, self.last.host if self.last else ""
        return bound.model_copy(update={"host": host}) if host else bound

    def moved(self, shown: Device) -> Device:
        """The snapshot with only the transient state updated. Fast: called thousands of times a second."""
        return shown.model_copy(update=self._at_the_moment())

    def _at_the_moment(self) -> dict[str, Any]:
        """The transient state: fields that a command, a sign of life or a measurement changes."""
        return {
            "health": self.health,
            "since": self.since,
            "reason": self.reason,
            "round_trip_ms": self.round_trips[-1] if self.round_trips else None,
            "round_trips_ms": list(self.round_trips),
            "last_heard": self.last_heard,
            "doing": ", ".join(list(self.running.values())[:3]),
            "restarts": self.restarts,
            "picture": self.picture,
            "picture_at": self.picture_at,
            "glimpse": self.glimpse,
            "glimpse_at": self.glimpse_at,
            "agent": self.agent or self.identity.agent,
            "clock_offset_ms": self.clock_offset_ms,
            "cpu_percents": list(self.cpu),
            "memory_percents": list(self.memory),
            "refused": self.refused,
            "progress": next(reversed(self.progress.values()), ""),
        }
