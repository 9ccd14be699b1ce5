"""Models of a device: its health, its machine, and a snapshot of all that the console knows of it."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from pydantic import Field

from core.models.frozen import FrozenModel


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
