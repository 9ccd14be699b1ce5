"""The fleet: all devices of one home, with their health, tools and channels.

Links and processes report to it; the dispatcher gets its targets from it; screens get coalesced changes.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from core.audit.events import DeviceConnected, DeviceLost, Event
from core.commands.channel import BasicCommandDispatcher
from core.commands.live_secrets import LiveSecrets
from core.commands.request import CommandRequest, Purpose, Target
from core.commands.results import CommandResult, Verdict
from core.debounce import Coalescer
from core.errors import BadInput, DeviceError, ErrorCode, QuarterdeckError
from core.fleet.contracts import ListedTool
from core.fleet.device_state import MOST_WORDS, ConnectionInfo, DeviceIdentity, DeviceState, PersistedState
from core.fleet.models import ContractChange, HealthChange, ToolHit
from core.fleet.tool_catalog import Recorder, ToolCatalog
from core.fleet.tool_pins import Pins
from core.fleet.tool_search import Offer, PastResults, Results, ToolIndex
from core.ids import now_utc
from core.models.devices import UNLISTED, Device, Health, Unavailable
from core.models.tool_lookup import missing_tool
from core.models.tool_names import SCREENSHOT
from core.models.tools import Tool
from core.policy.policy_file import Overrides
from core.policy.policy_store import Policy
from core.similar import meant_or_known
from core.tasks import in_turns

# Re-exported for the modules that connect devices.
__all__ = ["ConnectionInfo", "Fleet", "Recorder"]

FORGOTTEN_KEPT = 1000
# With these verdicts it is not certain that the device answered, so they are no sign of life.
_NOT_HEARD = frozenset({Verdict.UNKNOWN, Verdict.REFUSED})


class Fleet:
    """All devices, by name."""

    def __init__(
        self,
        journal: Recorder,
        policy: Policy,
        pins: Pins,
        tell: Callable[[str], None],
        live_secrets: LiveSecrets,
    ) -> None:
        """`tell` is called with the name of a changed device, at a bounded rate."""
        self._live_secrets = live_secrets
        self._journal = journal
        self._policy = policy
        self._pins = pins
        self._offers = ToolCatalog(journal, pins, lambda: policy.overrides)
        self._tell_changed = tell
        self._records: dict[str, DeviceState] = {}
        # A device may be forgotten while a command for it is in progress: the command then finds it offline
        # instead of unknown.
        self._forgotten: OrderedDict[str, DeviceState] = OrderedDict()
        self._changes: Coalescer[str] = Coalescer(self._tell)
        self._index = ToolIndex()
        # By device and tool. None until the journal's past results are taken over.
        self._results: dict[tuple[str, str], Results] | None = None

    def add(self, name: str, tags: list[str]) -> None:
        """Add a device of this computer before it has connected."""
        self.know(name, DeviceIdentity(tags))

    def know(self, name: str, identity: DeviceIdentity, why_away: str = "") -> None:
        """Add a device, or update its identity. `why_away` is its reason while it is not connected."""
        record = self._records.get(name)
        before = record.identity if record is not None else None
        if record is None:
            record = self._records[name] = DeviceState(name, identity)
        record.identity = identity
        # The reason depends on pairing and direction, not on tags or the production flag.
        same = before and (before.paired, before.direction) == (identity.paired, identity.direction)
        if why_away and record.arrival is None and not (same and identity.paired):
            record.set_health(Health.OFFLINE, why_away)
        self._changed(name)

    async def forget(self, name: str) -> None:
        """Forget a device and its pins; its link must have ended.

        Raises:
            BadInput: there is no device of that name.
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

    def remember(self, name: str, then: PersistedState) -> None:
        """Take over the journal's data on a device that has not connected yet."""
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
        """The changes of a device's health since the service started; oldest first."""
        return list(self._record(name).history)

    def devices(self) -> list[Device]:
        """Every device, by name."""
        return [self._shown(self._records[name]) for name in sorted(self._records)]

    def get(self, name: str) -> Device:
        """One device.

        Raises:
            BadInput: there is no device of that name (code `unknown_device`).
        """
        return self._shown(self._record(name))

    def tools(self, name: str) -> list[Tool]:
        """A device's tools, sorted by name; for an offline device, its last known tools."""
        record = self._record(name)
        self._policy.refresh()
        self._judge(record)
        return sorted(record.tools.values(), key=lambda tool: tool.tool_name)

    @property
    def knows_results(self) -> bool:
        """Whether the past results of tools have been taken over (`remember_results`)."""
        return self._results is not None

    def remember_results(self, results: PastResults) -> None:
        """Take over the journal's past results, by device and tool; the first time only."""
        if self._results is None:
            self._results = dict(results)

    async def search(self, query: str, among: Collection[str] | None, limit: int) -> list[ToolHit]:
        """The tools that fit a query, best first; `among` limits the devices. See `ToolIndex.search`.

        Raises:
            BadInput: the query is too long.
        """
        self._policy.refresh()
        async for record in in_turns(list(self._records.values())):
            self._judge(record)
        await self._index.follow(
            Offer(name, record.identity.tags, record.health, record.tools)
            for name, record in self._records.items()
        )
        return self._index.search(query, among, limit, self._results or {})

    def target(self, device: str) -> Target:
        """See `core.dispatch.interfaces.Devices`."""
        record = self._addressed(device)
        self._judge(record)
        arrival, last = record.arrival, record.last
        return Target(
            # The transient state may be old: the policy does not use it, and this runs for every command.
            device=record.shown or self._shown(record),
            tools=record.tools,
            channel=arrival.channel if arrival else None,
            # Also of an offline device: it may be back before the command is sent.
            roots=last.roots if last else None,
            shares_disk=last.shares_disk if last else False,
        )

    def machine(self, device: str) -> str:
        """The identity of the machine that a device's pairing is bound to; empty if it is not bound.

        Raises:
            BadInput: there is no device of that name.
        """
        return self._record(device).identity.machine.identity

    def offered(self, device: str, tool: str) -> Tool | None:
        """See `core.dispatch.interfaces.Devices`."""
        return self._addressed(device).tools.get(tool)

    def common(self, tool: str, devices: list[str]) -> Tool | None:
        """See `core.dispatch.interfaces.Devices`."""
        first: Tool | None = None
        for name in devices:
            record = self._records.get(name)
            offered = record.tools.get(tool) if record is not None else None
            if offered is None or (first is not None and offered.contract.digest != first.contract.digest):
                return None
            first = first or offered
        return first

    async def schemas_of(self, tool: str, devices: list[str]) -> list[Any]:
        """See `core.dispatch.interfaces.Devices`."""
        known: dict[str, Any] = {}
        lacking: list[str] = []
        for name in devices:
            record = self._records.get(name)
            offered = record.tools.get(tool) if record is not None else None
            if offered is not None:
                # A thousand devices may share one definition.
                known.setdefault(offered.contract.digest, offered.input_schema)
            else:
                lacking.append(name)
        known |= await self._offers.trusted_schemas(tool, lacking)
        if not known:
            named = (record.tools.get(tool) for record in self._records.values())
            known = {found.contract.digest: found.input_schema for found in named if found is not None}
        return list(known.values())

    def channel(self, device: str) -> BasicCommandDispatcher | None:
        """See `core.dispatch.interfaces.Devices`."""
        arrival = self._addressed(device).arrival
        return arrival.channel if arrival else None

    async def arrived(
        self, name: str, arrival: ConnectionInfo, still: Callable[[], bool] = lambda: True
    ) -> None:
        """Introduce a connected device: list its tools, pin new tools, block changed tools, set it online.

        Raises:
            QuarterdeckError: its tools cannot be listed or are invalid, or `still` returns False because the
                link has ended.
        """
        record = self._record(name)
        overrides = self._policy.overrides
        known = self._records.get
        again = record.arrival is not None and record.arrival.channel is arrival.channel
        offered, tools = await self._offers.of(
            name, arrival, lambda: still() and known(name) is record, again=again
        )
        event = DeviceConnected(
            channel=arrival.kind,
            client=arrival.client,
            platform=arrival.platform,
            system=arrival.system,
            address=arrival.address,
            host=arrival.host,
        )
        if not again:
            self._note(name, event)
        record.offered, record.tools, record.overrides = offered, tools, overrides
        record.arrival = record.last = arrival
        record.clock_offset_ms = arrival.clock_offset_ms
        record.last_heard = now_utc()
        self._set_health(record, record.here, "")

    def addressed(self, name: str, agent: str) -> None:
        """Record the agent name by which a stock client is addressed."""
        if record := self._records.get(name):
            record.agent = agent
            self._touched(record)

    async def relist(self, name: str, unavailable: list[Unavailable] | None = None) -> None:
        """List a connected device's tools again; changed tools are blocked until they are reviewed.

        `unavailable` are the tools that the device cannot offer now; None if unchanged.

        Raises:
            DeviceError: it is not connected.
            QuarterdeckError: its tools cannot be listed or are invalid; the known tools stay.
        """
        record = self._record(name)
        arrival = record.arrival
        if arrival is None:
            raise DeviceError(f"{name} is {record.health.value}: {record.reason or 'not connected'}.")
        if unavailable is not None and unavailable != _listed(arrival):
            # Shown at once, because listing the tools takes a moment and may fail.
            arrival = record.arrival = record.last = replace(arrival, unavailable=unavailable)
            self._changed(name)
        overrides = self._policy.overrides
        try:
            offered, tools = await self._offers.of(
                # An operator who asks for the list leaves a trace, also where nothing has changed.
                name,
                arrival,
                lambda: record.arrival is arrival,
                again=unavailable is not None,
            )
        except QuarterdeckError as error:
            if record.arrival is arrival:
                words = f"It could not be read again, so that tools may be missing here: {error.message}"
                row = Unavailable(tool=UNLISTED, reason=words, how_to_fix="Look at the servers that it hosts")
                record.arrival = record.last = replace(arrival, unavailable=[*_listed(arrival), row])
                self._changed(name)
            raise
        if len(_listed(arrival)) < len(arrival.unavailable):
            record.arrival = record.last = replace(arrival, unavailable=_listed(arrival))
        record.offered, record.tools, record.overrides = offered, tools, overrides
        self._changed(name)

    def lost(self, name: str, channel: BasicCommandDispatcher | None, reason: str, health: Health) -> None:
        """Record that a device's link ended. `channel` names the link: an old link cannot end a newer one."""
        record = self._records.get(name)
        if record is None:
            return
        if channel is not None and record.arrival is not None and record.arrival.channel is not channel:
            return
        # The reason may be the device's own text.
        reason = self._live_secrets.redaction(name).text(reason)
        if record.arrival is not None:
            self._note(name, DeviceLost(reason=reason))
        record.arrival = None
        record.progress.clear()
        if record.health is Health.RECONNECTING and health is Health.RECONNECTING:
            reason = record.reason  # the process's end is the more specific reason
        self._set_health(record, health, reason)

    def away(self, name: str, health: Health, reason: str) -> None:
        """Set health and reason of a device that is not connected."""
        record = self._records.get(name)
        if record is not None and record.arrival is None:
            self._set_health(record, health, reason)

    def restarting(self, name: str, restarts: int, reason: str) -> None:
        """Record that the process of this computer's device ended and is being restarted."""
        record = self._record(name)
        record.restarts = restarts
        self._set_health(record, Health.RECONNECTING, reason)

    def heard(self, name: str, round_trip_ms: float | None = None) -> None:
        """Record a sign of life, with the round trip if it was measured."""
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
        """Whether a connected device has been silent for too long."""
        record = self._records.get(name)
        return record is not None and record.health is Health.STALE

    def went_quiet(self, name: str, heard: str, reason: str) -> None:
        """Mark a connected device, last heard at `heard` (UTC), as stale; it still gets commands."""
        record = self._records.get(name)
        if record is None or record.arrival is None or record.health is Health.STALE:
            return
        self._set_health(record, Health.STALE, reason)
        record.since = heard

    def measured(
        self, name: str, cpu: float | None, memory: float | None, clock_offset_ms: float | None
    ) -> None:
        """Record a device's reported load, in per cent, and how far its clock is ahead."""
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
        """Record a running command's progress text."""
        record = self._records.get(name)
        if record is not None and call_id in record.running:
            record.progress[call_id] = words[:MOST_WORDS]
            self._touched(record)

    def refused(self, name: str, count: int) -> None:
        """Set the number of rejected connections in this device's name."""
        record = self._records.get(name)
        if record is not None:
            record.refused = count
            self._touched(record)

    def began(self, device: str, call_id: str, what: str) -> None:
        """Record that a command is being sent to a device."""
        record = self._records.get(device)
        if record is None:
            return
        record.running[call_id] = what
        if record.health is Health.ONLINE:
            record.health = Health.BUSY
        self._touched(record)

    def ended(self, request: CommandRequest, result: CommandResult) -> None:
        """Record the end of a command, answered or not.

        A screenshot of the whole screen becomes the device's picture; one for the device wall only its
        glimpse.
        """
        record = self._records.get(request.device)
        if record is None:
            return
        record.running.pop(request.call_id, None)
        record.progress.pop(request.call_id, None)
        now = now_utc()
        if result.verdict not in _NOT_HEARD:
            record.last_heard = now
            if self._results is not None and request.purpose is Purpose.COMMAND:
                key = (request.device, result.tool_name)
                self._results[key] = self._results.get(key, Results()).after(result.status)
        for evidence in result.evidence:
            is_picture = evidence.what == "picture" and result.tool_name == SCREENSHOT
            if not is_picture or not request.shows_whole_screen:
                continue
            if request.purpose is Purpose.LIVE_VIEW:
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
        """Trust a changed tool: its new definition and its device's new claims.

        `proof` is the operator's signature, in the form of the journal entry.

        Raises:
            BadInput: there is no such tool, or it has changed since the operator reviewed it.
            QuarterdeckError: the review cannot be recorded; the tool is not trusted.
        """
        record, offered = self._defined(name, tool_key)
        self._policy.refresh()
        self._judge(record)
        tool = record.tools[offered.info.tool_name]
        if tool.contract.digest != contract_digest:
            raise BadInput(
                f"{tool.tool_name} changed again since you looked at it.", ErrorCode.CONTRACT_CHANGED
            )
        known = self._records.get
        await self._offers.accept(name, offered, record.ours, actor, lambda: known(name) is record, proof)
        # The device may have listed the tool differently meanwhile.
        self._judge_anew(record)
        self._changed(name)
        return record.tools.get(tool.tool_name) or self._offers.judged(name, offered, record.ours)

    def pinned(self, name: str, tool_key: str) -> str:
        """The digest of a tool's trusted definition; empty if it has none.

        Raises:
            BadInput: no such device or tool.
        """
        _, offered = self._defined(name, tool_key)
        return self._offers.pinned(name, offered.info.tool_name)

    def pin_now(self, name: str, tool_key: str) -> str:
        """The row (`Pin.row`) that would pin a tool as it is now.

        Raises:
            BadInput: no such device or tool.
        """
        record, offered = self._defined(name, tool_key)
        return self._offers.pin_now(offered, record.ours).row

    def tools_under(self, name: str, overrides: Overrides) -> list[Tool]:
        """A device's tools with the contracts that they would have under other overrides.

        Raises:
            BadInput: there is no such device.
        """
        record = self._record(name)
        return [self._offers.judged(name, one, record.ours, {}, overrides) for one in record.offered.values()]

    async def change(self, name: str, tool_key: str) -> ContractChange:
        """A tool's trusted and present definition and claims.

        Raises:
            BadInput: no such device or tool.
        """
        record, offered = self._defined(name, tool_key)
        return await self._offers.change(name, offered, record.ours)

    def refresh(self) -> None:
        """Report all devices as changed, for example after a policy change."""
        for name in self._records:
            self._changed(name)

    def close(self) -> None:
        """Stop reporting changes."""
        self._changes.close()

    def _record(self, name: str) -> DeviceState:
        record = self._records.get(name)
        if record is None:
            raise BadInput(
                f"No device is called {name!r}. {meant_or_known(name, self._records, 'Devices')}.",
                ErrorCode.UNKNOWN_DEVICE,
            )
        return record

    def _addressed(self, name: str) -> DeviceState:
        """The device of a command, even if it was forgotten while the command was in progress."""
        known = self._records.get(name) or self._forgotten.get(name)
        return known or self._record(name)

    def _defined(self, name: str, tool_key: str) -> tuple[DeviceState, ListedTool]:
        record = self._record(name)
        offered = record.offered.get(tool_key)
        if offered is None:
            raise missing_tool(self._shown(record), tool_key)
        return record, offered

    def _judge(self, record: DeviceState) -> None:
        """Judge a device's tools again if the overrides of the policy in force have changed since.

        Display and enforcement both call this, so they always use the same `Tool` objects."""
        if record.overrides is not self._policy.overrides:
            self._judge_anew(record)

    def _judge_anew(self, record: DeviceState) -> None:
        record.tools = self._offers.judged_anew(record.name, record.offered, record.ours, record.tools)
        record.overrides = self._policy.overrides

    def _tell(self, name: str) -> None:
        if name in self._records:
            self._tell_changed(name)

    def _set_health(self, record: DeviceState, health: Health, reason: str) -> None:
        record.set_health(health, reason)
        self._changed(record.name)

    def _note(self, device: str, event: Event) -> None:
        try:
            self._journal.note(event.entry("service", device=device))
        except QuarterdeckError:
            # The journal reports its own errors; connecting and disconnecting must not fail because of them.
            self._changed(device)

    def _changed(self, name: str) -> None:
        if record := self._records.get(name):
            record.shown = record.profile = None
            self._changes.mark(name)

    def _touched(self, record: DeviceState) -> None:
        """Mark the transient state as changed; `shown` is updated later, as `target` does not need it."""
        record.stale = True
        self._changes.mark(record.name)

    def _shown(self, record: DeviceState) -> Device:
        if record.shown is None:
            shown = record.picture_of()
            if record.profile is None:
                record.profile = self._policy.profile_of(shown).value
                shown = shown.model_copy(update={"profile": record.profile})
            record.shown, record.stale = shown, False
        elif record.stale:
            record.shown, record.stale = record.moved(record.shown), False
        return record.shown


def _listed(arrival: ConnectionInfo) -> list[Unavailable]:
    """The tools that the device itself reports as unavailable."""
    return [row for row in arrival.unavailable if row.tool != UNLISTED]
