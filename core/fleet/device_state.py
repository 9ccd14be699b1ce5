"""What the fleet remembers of one device, and what it shows of it."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from core.dispatch.channel import BasicCommandDispatcher
from core.fleet.contracts import Offered
from core.fleet.models import NOT_CONNECTED_YET, Device, Health, HealthChange, Tool, Unavailable
from core.ids import now_utc
from core.policy.policy_file import Overrides
from core.quick import changed

PRODUCTION_TAGS = frozenset({"prod", "production"})
MEASURES_KEPT = 40
CHANGES_KEPT = 200
MOST_WORDS = 300


@dataclass(frozen=True, slots=True)
class Identity:
    """What is known of a device before it connects. `production` None: its tags say."""

    tags: list[str]
    production: bool | None = None
    direction: Literal["in", "out", "local"] = "local"
    address: str = ""
    agent: str = ""
    paired: bool = True


@dataclass(frozen=True, slots=True)
class Arrival:
    """What a device brings when it connects."""

    channel: BasicCommandDispatcher
    kind: str
    platform: str
    system: str
    client: str
    unavailable: list[Unavailable]
    roots: list[Path] | None
    features: list[str] = field(default_factory=list)
    clock_offset_ms: float | None = None
    address: str = ""
    secure: bool = False
    # Whether our own device client is at the other end, as far as it says so itself.
    ours: bool = True
    # How many operators' signatures it wants for an action; 0 where it asks for none.
    approvers: int = 0
    # Whether it is the computer that the console runs on.
    own_computer: bool = False
    # Whether its paths are this computer's: only of a process that the service itself has started, or of
    # tools in here, never by a device's own word.
    shares_disk: bool = False


@dataclass(frozen=True, slots=True)
class Remembered:
    """What the journal says of a device that has not connected since the service started."""

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
class Record:
    """One device while the service runs."""

    name: str
    identity: Identity
    health: Health = Health.OFFLINE
    since: str = field(default_factory=now_utc)
    reason: str = NOT_CONNECTED_YET
    # Its link; `last` is what it brought with the newest one, also when that is gone.
    arrival: Arrival | None = None
    last: Arrival | None = None
    remembered: Remembered = field(default_factory=Remembered)
    offered: dict[str, Offered] = field(default_factory=dict)
    tools: dict[str, Tool] = field(default_factory=dict)
    # What operators said of tools when these were judged.
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
    # What it does at the moment changed since `shown`; who it is has not.
    stale: bool = False
    profile: str | None = None

    def set_health(self, health: Health, reason: str) -> None:
        """Stand there from now on; a change is part of the history, but not being busy."""
        quiet = {self.health, health} <= {Health.ONLINE, Health.BUSY}
        if self.health is not health and not quiet:
            self.since = now_utc()
        if (self.health is not health and not quiet) or (reason and reason != self.reason):
            self.history.append(HealthChange(at=now_utc(), health=health, reason=reason))
        self.health, self.reason = health, reason

    @property
    def ours(self) -> bool:
        """Whether our own device client offered its tools last, as far as it says so itself."""
        return self.last is None or self.last.ours

    @property
    def here(self) -> Health:
        """The health of a device that answers."""
        return Health.BUSY if self.running else Health.ONLINE

    def picture_of(self) -> Device:
        """The device as it stands, without the profile that holds for it."""
        arrival, last, then, identity = self.arrival, self.last, self.remembered, self.identity
        production = identity.production
        if production is None:
            production = bool(PRODUCTION_TAGS.intersection(identity.tags))
        return Device(
            name=self.name,
            tags=identity.tags,
            production=production,
            # Who it was is still worth knowing, and filtering by, while it is away.
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
            requires_approval=last.approvers > 0 if last else False,
            approvers=max(1, last.approvers) if last else 1,
            own_computer=last.own_computer if last else False,
            **self._at_the_moment(),
        )

    def moved(self, shown: Device) -> Device:
        """The same device a moment later: who it is has not changed. Thousands of these a second."""
        return changed(shown, **self._at_the_moment())

    def _at_the_moment(self) -> dict[str, Any]:
        """What a command, a sign of life or a measurement changes of a device."""
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
