"""The devices of one home: who is there, what they offer, whether they can be asked now.

Links and processes report here; the dispatcher asks here for targets; screens hear of changes, coalesced.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from core.aip.messages import ToolInfo
from core.audit.entries import Entry, Kind, NewEntry
from core.canonical import digest_of
from core.coalesce import Coalescer
from core.dispatch.channel import BasicCommandDispatcher
from core.dispatch.models import CommandResult
from core.dispatch.order import Target
from core.errors import BadInput, DeviceError, ErrorCode, QuarterdeckError
from core.fleet.contracts import definition_of, tool_of
from core.fleet.models import Device, Health, Tool, Unavailable
from core.fleet.pins import Pins
from core.ids import new_id, now_utc
from core.policy.policy import Policy

PRODUCTION_TAGS = frozenset({"prod", "production"})
LISTING_TIMEOUT = 15.0
ROUND_TRIPS_KEPT = 40


class Recorder(Protocol):
    """The journal, as far as the fleet needs it."""

    async def append(self, entry: NewEntry) -> Entry: ...
    def note(self, entry: NewEntry) -> None: ...


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


@dataclass(slots=True)
class _Record:
    name: str
    tags: list[str]
    health: Health = Health.OFFLINE
    since: str = field(default_factory=now_utc)
    reason: str = "not connected yet"
    arrival: Arrival | None = None
    infos: dict[str, ToolInfo] = field(default_factory=dict)
    tools: dict[str, Tool] = field(default_factory=dict)
    running: dict[str, str] = field(default_factory=dict)
    round_trips: deque[float] = field(default_factory=lambda: deque(maxlen=ROUND_TRIPS_KEPT))
    last_heard: str | None = None
    restarts: int = 0
    picture: str | None = None
    picture_at: str | None = None
    shown: Device | None = None
    # What it does at the moment changed since `shown`; who it is has not.
    stale: bool = False


class Fleet:
    """Every device by its name."""

    def __init__(
        self, journal: Recorder, policy: Policy, pins: Pins, publish: Callable[[Device], None]
    ) -> None:
        self._journal = journal
        self._policy = policy
        self._pins = pins
        self._records: dict[str, _Record] = {}
        self._changes: Coalescer[str] = Coalescer(lambda name: publish(self.get(name)))

    def add(self, name: str, tags: list[str]) -> None:
        """Make a device known before it has ever connected."""
        self._records[name] = _Record(name, tags)
        self._changed(name)

    def devices(self) -> list[Device]:
        """Every device, by name."""
        return [self._shown(self._records[name]) for name in sorted(self._records)]

    def get(self, name: str) -> Device:
        """One device.

        Raises:
            BadInput: there is none of that name (code `unknown_device`).
        """
        return self._shown(self._record(name))

    def tools(self, name: str) -> list[Tool]:
        """What a device offers, by name; of a device that is away, what it offered last."""
        return sorted(self._record(name).tools.values(), key=lambda tool: tool.tool_name)

    def target(self, device: str) -> Target:
        """See `core.dispatch.order.Devices`."""
        record = self._record(device)
        arrival = record.arrival
        return Target(
            # Judging asks who a device is, not what it does at the moment: this is asked at every command.
            device=record.shown or self._shown(record),
            tools=record.tools,
            channel=arrival.channel if arrival else None,
            roots=arrival.roots if arrival else None,
        )

    async def arrived(self, name: str, arrival: Arrival) -> None:
        """A device has connected: list its tools, pin what is new, block what changed, and call it online.

        Raises:
            QuarterdeckError: its tools cannot be listed or are nonsense; it stays away.
        """
        record = self._record(name)
        infos = await self._listed(name, arrival)
        self._note(Kind.DEVICE_CONNECTED, name, {"channel": arrival.kind, "client": arrival.client})
        await self._pin(name, infos)
        record.infos = infos
        record.arrival = arrival
        record.tools = {info.tool_name: self._judged(name, info) for info in infos.values()}
        record.last_heard = now_utc()
        self._set_health(record, Health.ONLINE, "")

    def lost(self, name: str, channel: BasicCommandDispatcher | None, reason: str, health: Health) -> None:
        """A device has gone. `channel` says which link ended, so that an old one cannot end a newer one."""
        record = self._record(name)
        if channel is not None and record.arrival is not None and record.arrival.channel is not channel:
            return
        if record.arrival is not None:
            self._note(Kind.DEVICE_LOST, name, {"reason": reason})
        record.arrival = None
        if record.health is Health.RECONNECTING and health is Health.RECONNECTING:
            reason = record.reason  # how its process ended says more than that its link did
        self._set_health(record, health, reason)

    def restarting(self, name: str, restarts: int, reason: str) -> None:
        """The process of a device of ours ended and is being started again."""
        record = self._record(name)
        record.restarts = restarts
        self._set_health(record, Health.RECONNECTING, reason)

    def heard(self, name: str, round_trip_ms: float | None = None) -> None:
        """A sign of life, and how long it took there and back."""
        record = self._records.get(name)
        if record is None:
            return
        record.last_heard = now_utc()
        if round_trip_ms is not None:
            record.round_trips.append(round(round_trip_ms, 2))
        self._changed(name)

    def began(self, device: str, call_id: str, what: str) -> None:
        """A command is on its way to a device."""
        record = self._record(device)
        record.running[call_id] = what
        if record.health is Health.ONLINE:
            record.health, record.since = Health.BUSY, now_utc()
        self._touched(record)

    def ended(self, device: str, call_id: str, result: CommandResult) -> None:
        """A command has come back, or will not."""
        record = self._record(device)
        record.running.pop(call_id, None)
        record.last_heard = now_utc()
        for evidence in result.evidence:
            if evidence.what == "picture" and result.tool_name == "screenshot":
                record.picture, record.picture_at = evidence.blob, record.last_heard
        if not record.running and record.health is Health.BUSY:
            record.health, record.since = Health.ONLINE, now_utc()
        self._touched(record)

    async def review(self, name: str, tool_key: str, contract_digest: str, actor: str) -> Tool:
        """Trust a tool's changed definition.

        Raises:
            BadInput: no such tool, or its definition is not the reviewed one any more.
        """
        record = self._record(name)
        info = record.infos.get(tool_key)
        if info is None:
            raise BadInput(f"{name} has no tool {tool_key}.", ErrorCode.UNKNOWN_TOOL)
        tool = record.tools[info.tool_name]
        if tool.contract.digest != contract_digest:
            raise BadInput(
                f"{info.tool_name} changed again since you looked at it.", ErrorCode.CONTRACT_CHANGED
            )
        digest = digest_of(definition_of(info))
        await self._journal.append(
            NewEntry(
                kind=Kind.CONTRACT_PINNED,
                actor=actor,
                device=name,
                tool=info.tool_name,
                body={"tools": {tool_key: digest}, "reviewed": True},
            )
        )
        self._pins.pin(name, {tool_key: digest})
        record.tools[info.tool_name] = self._judged(name, info)
        self._changed(name)
        return record.tools[info.tool_name]

    def refresh(self) -> None:
        """Tell the screens again, as when the policy changed."""
        for name in self._records:
            self._changed(name)

    def close(self) -> None:
        """Stop telling anybody."""
        self._changes.close()

    async def _listed(self, name: str, arrival: Arrival) -> dict[str, ToolInfo]:
        call_id = new_id()
        # The listing reaches the device too, so the journal has it, although no contract can exist yet.
        self._journal.note(_listing(Kind.COMMAND_SENT, name, call_id, {}))
        started = time.perf_counter()
        try:
            infos = await arrival.channel.list_tools(LISTING_TIMEOUT)
        except QuarterdeckError as error:
            self._journal.note(_listing(Kind.RESULT_RECORDED, name, call_id, {"problem": error.message}))
            raise
        took = (time.perf_counter() - started) * 1000
        self._journal.note(
            _listing(Kind.RESULT_RECORDED, name, call_id, {"tools": len(infos)}).model_copy(
                update={"status": "success", "verdict": "confirmed", "duration_ms": round(took, 3)}
            )
        )
        by_key: dict[str, ToolInfo] = {}
        names: set[str] = set()
        for info in infos:
            if info.tool_key in by_key or info.tool_name in names:
                raise DeviceError(f"{name} lists the tool {info.tool_name} twice.", ErrorCode.PROTOCOL_ERROR)
            by_key[info.tool_key] = info
            names.add(info.tool_name)
        return by_key

    async def _pin(self, name: str, infos: dict[str, ToolInfo]) -> None:
        fresh: dict[str, str] = {}
        changed: dict[str, str] = {}
        for key, info in infos.items():
            digest = digest_of(definition_of(info))
            pinned = self._pins.get(name, key)
            if pinned is None:
                fresh[key] = digest
            elif pinned != digest:
                changed[key] = digest
        if fresh:
            await self._journal.append(
                NewEntry(kind=Kind.CONTRACT_PINNED, actor="service", device=name, body={"tools": fresh})
            )
            self._pins.pin(name, fresh)
        if changed:
            await self._journal.append(
                NewEntry(kind=Kind.CONTRACT_CHANGED, actor="service", device=name, body={"tools": changed})
            )

    def _judged(self, name: str, info: ToolInfo) -> Tool:
        pinned = self._pins.get(name, info.tool_key)
        return tool_of(name, info, changed=pinned != digest_of(definition_of(info)))

    def _record(self, name: str) -> _Record:
        record = self._records.get(name)
        if record is None:
            known = ", ".join(sorted(self._records)) or "none"
            raise BadInput(f"No device is called {name!r}. Devices: {known}.", ErrorCode.UNKNOWN_DEVICE)
        return record

    def _set_health(self, record: _Record, health: Health, reason: str) -> None:
        if record.health is not health:
            record.health, record.since = health, now_utc()
        record.reason = reason
        self._changed(record.name)

    def _note(self, kind: Kind, device: str, body: dict[str, Any]) -> None:
        try:
            self._journal.note(NewEntry(kind=kind, actor="service", device=device, body=body))
        except QuarterdeckError:
            # The journal shows its own trouble; a link's coming and going must not depend on it.
            self._changed(device)

    def _changed(self, name: str) -> None:
        self._records[name].shown = None
        self._changes.mark(name)

    def _touched(self, record: _Record) -> None:
        record.stale = True
        self._changes.mark(record.name)

    def _shown(self, record: _Record) -> Device:
        if record.shown is None or record.stale:
            record.shown = self._picture_of(record)
            record.stale = False
        return record.shown

    def _picture_of(self, record: _Record) -> Device:
        arrival = record.arrival
        device = Device(
            name=record.name,
            health=record.health,
            since=record.since,
            reason=record.reason,
            tags=record.tags,
            production=bool(PRODUCTION_TAGS.intersection(record.tags)),
            platform=arrival.platform if arrival else "",
            system=arrival.system if arrival else "",
            client=arrival.client if arrival else "",
            channel=arrival.kind if arrival else "",
            tool_count=len(record.tools),
            unavailable=arrival.unavailable if arrival else [],
            changed_tools=sorted(tool.tool_key for tool in record.tools.values() if tool.changed),
            round_trip_ms=record.round_trips[-1] if record.round_trips else None,
            round_trips_ms=list(record.round_trips),
            last_heard=record.last_heard,
            doing=", ".join(list(record.running.values())[:3]),
            restarts=record.restarts,
            picture=record.picture,
            picture_at=record.picture_at,
        )
        return device.model_copy(update={"profile": self._policy.profile_of(device).value})


def _listing(kind: Kind, device: str, call_id: str, body: dict[str, Any]) -> NewEntry:
    return NewEntry(kind=kind, actor="service", device=device, call_id=call_id, tool="list_tools", body=body)
