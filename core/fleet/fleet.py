"""The devices of one home: who is there, what they offer, whether they can be asked now.

Links and processes report here; the dispatcher asks here for targets; screens hear of changes, coalesced.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from core.audit.entries import Kind, NewEntry
from core.debounce import Coalescer
from core.dispatch.channel import BasicCommandDispatcher
from core.dispatch.command_request import Target
from core.dispatch.live_secrets import LiveSecrets
from core.dispatch.models import CommandResult, Verdict
from core.errors import BadInput, DeviceError, ErrorCode, QuarterdeckError
from core.fleet.contracts import Offered
from core.fleet.device_state import MOST_WORDS, Arrival, Identity, Record, Remembered
from core.fleet.models import Device, Health, HealthChange, Tool, Unavailable
from core.fleet.tool_catalog import Change, Offers, Recorder
from core.fleet.tool_pins import Pins
from core.ids import now_utc
from core.policy.policy_file import Overrides
from core.policy.policy_store import Policy
from core.text import some_names

# What a device brings is made where devices come in.
__all__ = ["Arrival", "Fleet", "Recorder"]

FORGOTTEN_KEPT = 1000
# Nothing came back from the device, so that its end says nothing of its life.
_NOT_HEARD = frozenset({Verdict.UNKNOWN, Verdict.REFUSED})


class Fleet:
    """Every device by its name."""

    def __init__(
        self,
        journal: Recorder,
        policy: Policy,
        pins: Pins,
        tell: Callable[[str], None],
        live_secrets: LiveSecrets,
    ) -> None:
        """`tell` is handed the name of a device that has changed, at a bounded rate."""
        self._live_secrets = live_secrets
        self._journal = journal
        self._policy = policy
        self._pins = pins
        self._offers = Offers(journal, pins, lambda: policy.overrides)
        self._tell_changed = tell
        self._records: dict[str, Record] = {}
        # A command may be on its way to a device while it is forgotten: it finds nobody there, not nothing.
        self._forgotten: OrderedDict[str, Record] = OrderedDict()
        self._changes: Coalescer[str] = Coalescer(self._tell)

    def add(self, name: str, tags: list[str]) -> None:
        """Make a device of this computer known before it has ever connected."""
        self.know(name, Identity(tags))

    def know(self, name: str, identity: Identity, why_away: str = "") -> None:
        """Make a device known, or take over what was changed of it. `why_away` holds while it is not here."""
        record = self._records.get(name)
        before = record.identity if record is not None else None
        if record is None:
            record = self._records[name] = Record(name, identity)
        record.identity = identity
        # Tags and colours say nothing of why it is away; trust and direction do.
        same = before and (before.paired, before.direction) == (identity.paired, identity.direction)
        if why_away and record.arrival is None and not (same and identity.paired):
            record.set_health(Health.OFFLINE, why_away)
        self._changed(name)

    async def forget(self, name: str) -> None:
        """Know a device no more, nor what was trusted of it; its link must have ended.

        Raises:
            BadInput: there is none of that name.
        """
        self._record(name)
        async with self._offers.alone(name):
            await self._offers.forget(name)
            record = self._records.pop(name, None)
        if record is not None:
            record.tools = {}
            self._forgotten[name] = record
            if len(self._forgotten) > FORGOTTEN_KEPT:
                self._forgotten.popitem(last=False)

    def remember(self, name: str, then: Remembered) -> None:
        """Show of a device that has not connected yet what the journal says of it."""
        record = self._records.get(name)
        if record is None:
            return
        if record.picture is None:
            record.picture, record.picture_at = then.picture, then.picture_at
        record.remembered = then
        if record.last is None and record.health is Health.OFFLINE and then.since:
            record.since, record.last_heard = then.since, then.since
            if record.identity.paired:
                record.reason = then.reason or record.reason
        self._changed(name)

    def history(self, name: str) -> list[HealthChange]:
        """How a device's health changed since the service started; oldest first."""
        return list(self._record(name).history)

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
        record = self._record(name)
        self._judge(record)
        return sorted(record.tools.values(), key=lambda tool: tool.tool_name)

    def target(self, device: str, refreshed: bool = False) -> Target:
        """See `core.dispatch.command_request.Devices`."""
        record = self._addressed(device)
        self._judge(record, refreshed)
        arrival, last = record.arrival, record.last
        return Target(
            # Judging asks who a device is, not what it does at the moment: this is asked at every command.
            device=record.shown or self._shown(record),
            tools=record.tools,
            channel=arrival.channel if arrival else None,
            # Of one that is away as well: it may be back by the time that the command leaves.
            roots=last.roots if last else None,
            shares_disk=last.shares_disk if last else False,
        )

    def offered(self, device: str, tool: str) -> Tool | None:
        """See `core.dispatch.command_request.Devices`."""
        return self._addressed(device).tools.get(tool)

    async def schemas_of(self, tool: str, devices: list[str]) -> list[Any]:
        """See `core.dispatch.command_request.Devices`."""
        known: dict[str, Any] = {}
        lacking: list[str] = []
        for name in devices:
            record = self._records.get(name)
            offered = record.tools.get(tool) if record is not None else None
            if offered is not None:
                # A thousand devices have one definition between them.
                known.setdefault(offered.contract.digest, offered.input_schema)
            else:
                lacking.append(name)
        known |= await self._offers.trusted_schemas(tool, lacking)
        if not known:
            named = (record.tools.get(tool) for record in self._records.values())
            known = {found.contract.digest: found.input_schema for found in named if found is not None}
        return list(known.values())

    def channel(self, device: str) -> BasicCommandDispatcher | None:
        """See `core.dispatch.command_request.Devices`."""
        arrival = self._addressed(device).arrival
        return arrival.channel if arrival else None

    async def arrived(self, name: str, arrival: Arrival, still: Callable[[], bool] = lambda: True) -> None:
        """A device has connected: list its tools, pin what is new, block what changed, and call it online.

        Raises:
            QuarterdeckError: its tools cannot be listed or are nonsense, or `still` says that it has gone.
        """
        record = self._record(name)
        overrides = self._policy.overrides
        known = self._records.get
        offered, tools = await self._offers.of(name, arrival, lambda: still() and known(name) is record)
        body = {"channel": arrival.kind, "client": arrival.client}
        body |= {"platform": arrival.platform, "system": arrival.system, "address": arrival.address}
        self._note(Kind.DEVICE_CONNECTED, name, {key: value for key, value in body.items() if value})
        record.offered, record.tools, record.overrides = offered, tools, overrides
        record.arrival = record.last = arrival
        record.clock_offset_ms = arrival.clock_offset_ms
        record.last_heard = now_utc()
        self._set_health(record, record.here, "")

    def addressed(self, name: str, agent: str) -> None:
        """A stock client is addressed as this agent."""
        if record := self._records.get(name):
            record.agent = agent
            self._touched(record)

    async def relist(self, name: str, unavailable: list[Unavailable] | None = None) -> None:
        """List a connected device's tools again; those that changed are blocked until reviewed.

        `unavailable` is what it cannot offer now, where that is known anew.

        Raises:
            DeviceError: it is not connected.
            QuarterdeckError: its tools cannot be listed or are nonsense; what was known of them stays.
        """
        record = self._record(name)
        arrival = record.arrival
        if arrival is None:
            raise DeviceError(f"{name} is {record.health.value}: {record.reason or 'not connected'}.")
        if unavailable is not None and unavailable != arrival.unavailable:
            # Seen at once: listing the tools takes a moment, and may fail.
            arrival = record.arrival = record.last = replace(arrival, unavailable=unavailable)
            self._changed(name)
        overrides = self._policy.overrides
        offered, tools = await self._offers.of(name, arrival, lambda: record.arrival is arrival)
        record.offered, record.tools, record.overrides = offered, tools, overrides
        self._changed(name)

    def lost(self, name: str, channel: BasicCommandDispatcher | None, reason: str, health: Health) -> None:
        """A device has gone. `channel` says which link ended, so that an old one cannot end a newer one."""
        record = self._records.get(name)
        if record is None:
            return
        if channel is not None and record.arrival is not None and record.arrival.channel is not channel:
            return
        # A device may say itself why it goes.
        reason = self._live_secrets.redaction(name).text(reason)
        if record.arrival is not None:
            self._note(Kind.DEVICE_LOST, name, {"reason": reason})
        record.arrival = None
        record.progress.clear()
        if record.health is Health.RECONNECTING and health is Health.RECONNECTING:
            reason = record.reason  # how its process ended says more than that its link did
        self._set_health(record, health, reason)

    def away(self, name: str, health: Health, reason: str) -> None:
        """A device that is not connected stands like this now."""
        record = self._records.get(name)
        if record is not None and record.arrival is None:
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
        if record.health is Health.STALE and record.arrival is not None:
            self._set_health(record, record.here, "")
        self._touched(record)

    def is_stale(self, name: str) -> bool:
        """Whether a connected device is silent for too long."""
        record = self._records.get(name)
        return record is not None and record.health is Health.STALE

    def went_quiet(self, name: str, heard: str, reason: str) -> None:
        """A connected device has not been heard since `heard` (UTC); it can still be asked."""
        record = self._records.get(name)
        if record is None or record.arrival is None or record.health is Health.STALE:
            return
        self._set_health(record, Health.STALE, reason)
        record.since = heard

    def measured(
        self, name: str, cpu: float | None, memory: float | None, clock_offset_ms: float | None
    ) -> None:
        """How loaded a device says it is, in per cent, and how far its clock is ahead."""
        record = self._records.get(name)
        if record is None:
            return
        if cpu is not None and memory is not None:
            record.cpu.append(round(cpu, 1))
            record.memory.append(round(memory, 1))
        if clock_offset_ms is not None:
            record.clock_offset_ms = round(clock_offset_ms, 1)
        self._touched(record)

    def progressed(self, name: str, call_id: str, words: str) -> None:
        """How far a running command has come, in words."""
        record = self._records.get(name)
        if record is not None and call_id in record.running:
            record.progress[call_id] = words[:MOST_WORDS]
            self._touched(record)

    def refused(self, name: str, count: int) -> None:
        """So many attempts have been refused in this device's name."""
        record = self._records.get(name)
        if record is not None:
            record.refused = count
            self._touched(record)

    def began(self, device: str, call_id: str, what: str) -> None:
        """A command is on its way to a device."""
        record = self._records.get(device)
        if record is None:
            return
        record.running[call_id] = what
        if record.health is Health.ONLINE:
            record.health = Health.BUSY
        self._touched(record)

    def ended(
        self,
        device: str,
        call_id: str,
        result: CommandResult,
        glimpse: bool = False,
        whole_screen: bool = True,
    ) -> None:
        """A command has come back, or will not. A `glimpse` is only for the wall.

        A screenshot becomes the device's picture only if it shows the `whole_screen`.
        """
        record = self._records.get(device)
        if record is None:
            return
        record.running.pop(call_id, None)
        record.progress.pop(call_id, None)
        now = now_utc()
        if result.verdict not in _NOT_HEARD:
            record.last_heard = now
        for evidence in result.evidence:
            if evidence.what != "picture" or result.tool_name != "screenshot" or not whole_screen:
                continue
            if glimpse:
                record.glimpse, record.glimpse_at = evidence.blob, record.last_heard
            else:
                record.picture, record.picture_at = evidence.blob, record.last_heard
        if not record.running and record.health is Health.BUSY:
            record.health = Health.ONLINE
        self._touched(record)

    async def review(
        self,
        name: str,
        tool_key: str,
        contract_digest: str,
        actor: str,
        proof: Mapping[str, Any] = MappingProxyType({}),
    ) -> Tool:
        """Trust a tool that changed: its definition, or what its device claims of it.

        `proof` is the operator's signature, as the entry holds it.

        Raises:
            BadInput: no such tool, or it is not the reviewed one any more.
        """
        record, offered = self._defined(name, tool_key)
        self._judge(record)
        tool = record.tools[offered.info.tool_name]
        if tool.contract.digest != contract_digest:
            raise BadInput(
                f"{tool.tool_name} changed again since you looked at it.", ErrorCode.CONTRACT_CHANGED
            )
        known = self._records.get
        await self._offers.accept(name, offered, record.ours, actor, lambda: known(name) is record, proof)
        # It may have been listed otherwise meanwhile.
        self._judge_anew(record)
        self._changed(name)
        return record.tools.get(tool.tool_name) or self._offers.judged(name, offered, record.ours)

    def pinned(self, name: str, tool_key: str) -> str:
        """The digest of the definition that is trusted of a tool; empty where none is.

        Raises:
            BadInput: no such device or tool.
        """
        _, offered = self._defined(name, tool_key)
        return self._offers.pinned(name, offered.info.tool_name)

    def pin_now(self, name: str, tool_key: str) -> str:
        """The row by which a tool would be pinned, were it trusted as it is now (`Pin.row`).

        Raises:
            BadInput: no such device or tool.
        """
        record, offered = self._defined(name, tool_key)
        return self._offers.pin_now(offered, record.ours).row

    def tools_under(self, name: str, overrides: Overrides) -> list[Tool]:
        """What a device offers as it would be held to be with other words of operators on its tools.

        Raises:
            BadInput: there is no such device.
        """
        record = self._record(name)
        return [self._offers.judged(name, one, record.ours, {}, overrides) for one in record.offered.values()]

    async def change(self, name: str, tool_key: str) -> Change:
        """A tool as it was trusted, beside what it is now.

        Raises:
            BadInput: no such device or tool.
        """
        record, offered = self._defined(name, tool_key)
        return await self._offers.change(name, offered, record.ours)

    def refresh(self) -> None:
        """Tell the screens again, as when the policy changed."""
        for name in self._records:
            self._changed(name)

    def close(self) -> None:
        """Stop telling anybody."""
        self._changes.close()

    def _record(self, name: str) -> Record:
        record = self._records.get(name)
        if record is None:
            raise BadInput(
                f"No device is called {name!r}. Devices: {some_names(self._records)}.",
                ErrorCode.UNKNOWN_DEVICE,
            )
        return record

    def _addressed(self, name: str) -> Record:
        """A device that a command is for: also one that was forgotten while the command was on its way."""
        known = self._records.get(name) or self._forgotten.get(name)
        return known or self._record(name)

    def _defined(self, name: str, tool_key: str) -> tuple[Record, Offered]:
        record = self._record(name)
        offered = record.offered.get(tool_key)
        if offered is None:
            raise BadInput(f"{name} has no tool {tool_key}.", ErrorCode.UNKNOWN_TOOL)
        return record, offered

    def _judge(self, record: Record, refreshed: bool = False) -> None:
        """Hold a device's tools against what operators say of them now: an edit counts from the next look on.
        What is shown and what is enforced both come this way, so they are one object."""
        if not refreshed:
            self._policy.refresh()
        if record.overrides is not self._policy.overrides:
            self._judge_anew(record)

    def _judge_anew(self, record: Record) -> None:
        record.tools = self._offers.judged_anew(record.name, record.offered, record.ours, record.tools)
        record.overrides = self._policy.overrides

    def _tell(self, name: str) -> None:
        if name in self._records:
            self._tell_changed(name)

    def _set_health(self, record: Record, health: Health, reason: str) -> None:
        record.set_health(health, reason)
        self._changed(record.name)

    def _note(self, kind: Kind, device: str, body: dict[str, Any]) -> None:
        try:
            self._journal.note(NewEntry(kind=kind, actor="service", device=device, body=body))
        except QuarterdeckError:
            # The journal shows its own trouble; a link's coming and going must not depend on it.
            self._changed(device)

    def _changed(self, name: str) -> None:
        if record := self._records.get(name):
            record.shown = record.profile = None
            self._changes.mark(name)

    def _touched(self, record: Record) -> None:
        """What it does at the moment has changed: whoever addresses it need not know that (`target`)."""
        record.stale = True
        self._changes.mark(record.name)

    def _shown(self, record: Record) -> Device:
        if record.shown is None:
            shown = record.picture_of()
            if record.profile is None:
                record.profile = self._policy.profile_of(shown).value
                shown = shown.model_copy(update={"profile": record.profile})
            record.shown, record.stale = shown, False
        elif record.stale:
            record.shown, record.stale = record.moved(record.shown), False
        return record.shown
