"""Manages the links to remote devices: those that dial in and those that the console dials.

The registry decides which device may connect; the fleet holds what a device offers. `DeviceConnections`
introduces a connected device to the fleet, marks a silent device as `stale`, and reports why a device is
offline.

The last sign of life of a link is a time of the system clock, and that clock can be set while the link
exists: set forward, every device would seem silent; set back, no device ever would. `ClockJumpDetector`
corrects for this with the loop's monotonic clock.

Address translation and firewalls forget a connection over which nothing passed for a while. The next packet
of one end is then dropped or answered by a reset, for ever at the same distance: only a heartbeat that comes
more often helps. So the losses of a device are remembered, and it is said what they have in common.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import MappingProxyType

from core.aip.acceptor import TokenRefused
from core.aip.connector import Connector, ConnectorState, ConnectorStatus, DialAddress
from core.aip.device_link import DeviceLink, LinkEvents
from core.aip.extensions import Progress
from core.aip.limits import LinkLimits
from core.aip.link_events import Heartbeat, LateAnswer, RefusedAttempt
from core.aip.link_server import CAME_BACK
from core.aip.resumable_link import ResumableLink
from core.audit.events import ListeningChanged
from core.backoff import Backoff
from core.commands.channel import WebSocketCommandDispatcher
from core.commands.permit import Gate
from core.errors import BadInput, DeviceError, QuarterdeckError, Refused
from core.fleet.certificates import CertificateRecord, ConsoleCertificates
from core.fleet.device_state import DeviceIdentity
from core.fleet.doctor import Doctor
from core.fleet.fleet import Fleet, Recorder
from core.fleet.known_devices import DEFAULT_AGENT, KnownDevices
from core.fleet.listen_address import ConsoleListener
from core.fleet.models import Check, Listening
from core.fleet.paired_machines import PairedMachines
from core.fleet.registration import StockDevice, arrival_of, is_stock
from core.fleet.rejected_connections import RejectedConnections
from core.fleet.tool_catalog import LISTING_IS_LATE
from core.log import Logger
from core.models.devices import Health, Machine
from core.tasks import TaskGroupOwner, set_within
from core.text import plural
from core.token_bucket import TokenBucket

FLAPS_FROM = 4
"""So many losses within `WITHIN_S` are told."""
WITHIN_S = 120.0
# A link that was idle for less than this was not forgotten: no known device forgets that soon.
_SHORTEST_IDLE_S = 4.0


@dataclass(slots=True)
class LostLinks:
    """The losses of each device in the last `WITHIN_S` seconds, each with how long the link was idle then."""

    _losses: dict[str, deque[tuple[float, float]]] = field(default_factory=dict)

    def lost(self, device: str, idle_s: float, clock: float) -> None:
        """Note that a link was lost by itself, `idle_s` seconds after its last byte; `clock`: the loop's."""
        kept = self._losses.setdefault(device, deque(maxlen=100))
        kept.append((clock, idle_s))
        self._drop_old(kept, clock)

    def forget(self, device: str) -> None:
        """Drop what is known of a device."""
        self._losses.pop(device, None)

    def words(self, device: str, clock: float) -> str:
        """The common trait of a device's losses; empty if they are few."""
        kept = self._losses.get(device)
        if kept is None:
            return ""
        self._drop_old(kept, clock)
        if len(kept) < FLAPS_FROM:
            return ""
        words = f"lost {plural(len(kept), 'time')} in {WITHIN_S / 60:g} minutes"
        idle = [seconds for _, seconds in kept]
        if min(idle) < _SHORTEST_IDLE_S:
            return words
        return (
            f"{words}, each time after {min(idle):.0f} s or more without a byte: something between forgets "
            "idle connections. Set heartbeat_s to less (settings.toml here, or [link] in its device.toml)"
        )

    @staticmethod
    def _drop_old(kept: deque[tuple[float, float]], clock: float) -> None:
        while kept and clock - kept[0][0] > WITHIN_S:
            kept.popleft()


# Our device client sends a heartbeat every `heartbeat_s`; a stock client every two minutes, not configurable.
STOCK_HEARTBEAT_S = 120.0
STOCK_STALE_AFTER_BEATS = 2.5
# A heartbeat that is half an interval late: with the default a pulled cable is told within 15 s.
STALE_AFTER_BEATS = 1.5
# Drift, and its correction by a time server, is smaller than this between two looks.
_JUMP = timedelta(seconds=1)


def stale_after_s(link: DeviceLink, limits: LinkLimits) -> float:
    """How many seconds a link may be silent before it is stale."""
    if is_stock(link):
        return STOCK_HEARTBEAT_S * STOCK_STALE_AFTER_BEATS
    return limits.heartbeat_s * STALE_AFTER_BEATS


class ClockJumpDetector:
    """Detects that the system clock was set, and shifts the links' earlier times accordingly."""

    def __init__(self, now: datetime, clock: float) -> None:
        """`now` is the system clock's time, `clock` the loop clock's, in seconds."""
        self._now, self._clock = now, clock

    def look(self, links: Iterable[DeviceLink], now: datetime, clock: float) -> None:
        """Compare both clocks again; if the system clock was set, correct `last_heard` of these links."""
        passed = timedelta(seconds=clock - self._clock)
        moved = now - self._now - passed
        self._now, self._clock = now, clock
        if abs(moved) < _JUMP:
            return
        for link in links:
            # A link that was heard since the last look has a time of the present clock already.
            if not now - passed - _JUMP <= link.last_heard <= now:
                link.last_heard = min(link.last_heard + moved, now)


log = Logger(__name__)

# A device that dials in reconnects within its longest back-off, if it does at all.
COMES_BACK_WITHIN_S = 60.0
LOOK_EVERY_S = 1.0
# Each listing is journalled, so a device that reports changed tools without end is rate-limited.
LISTINGS_AT_ONCE, LISTINGS_PER_S = 8.0, 0.2
# The first and the longest pause before the tools of a device are listed again that did not list them.
LIST_AGAIN_FIRST_S, LIST_AGAIN_LATEST_S = 2.0, 60.0
WAITS = "waits for it to dial in"


@dataclass(slots=True)
class _Live:
    """One link. `introducing` is set while its tools are listed; `listings` limits the rate of listings.

    `introduced`: it was asked for its tools. `wanted` is set when the list is to be read again now.
    """

    link: DeviceLink
    channel: WebSocketCommandDispatcher
    introducing: bool = False
    introduced: bool = False
    wanted: asyncio.Event = field(default_factory=asyncio.Event)
    backoff: Backoff = field(default_factory=lambda: Backoff(LIST_AGAIN_FIRST_S, LIST_AGAIN_LATEST_S))
    listings: TokenBucket = field(default_factory=lambda: TokenBucket(LISTINGS_AT_ONCE, LISTINGS_PER_S))


@dataclass(frozen=True, slots=True)
class _Dialling:
    """A device that the console dials, with its connector and the connector's task."""

    connector: Connector
    running: asyncio.Task[None]


class DeviceConnections:
    """The links of all remote devices: `start` opens them, `close` ends them."""

    def __init__(
        self,
        fleet: Fleet,
        registry: KnownDevices,
        gate: Gate,
        journal: Recorder,
        tls: Path,
        tasks: TaskGroupOwner,
        on_progress: Callable[[str, Progress], None],
        on_late: Callable[[str, LateAnswer], None],
        machines: Mapping[str, Machine] = MappingProxyType({}),
        certificates: CertificateRecord | None = None,
        limits: LinkLimits = LinkLimits(),
        *,
        on_introduced: Callable[[str], None] = lambda name: None,
        on_disconnected: Callable[[str], None] = lambda name: None,
    ) -> None:
        """`machines` are those that the journal has bound pairings to, `certificates` what it has of those.

        `on_introduced` gets the name of each device that has connected, once it was asked for its tools, and
        `on_disconnected` that of a device whose name another machine may have from now on.
        `on_progress` gets a device's name and its progress report on a call; `on_late` its name and an
        answer that came after the console had given up on the call."""
        self._fleet = fleet
        self._registry = registry
        self._gate = gate
        self._tasks = tasks
        self._tell_progress = on_progress
        self._limits = limits
        self._on_introduced = on_introduced
        self._on_disconnected = on_disconnected
        self._live: dict[str, _Live] = {}
        # A device's previous link: answers that it still owes may come over the next link.
        self._previous: dict[str, DeviceLink] = {}
        self._connectors: dict[str, _Dialling] = {}
        # When a device that dials in was lost, by the loop's clock.
        self._lost_at: dict[str, float] = {}
        self._resumable: dict[str, ResumableLink] = {}
        self._ending = False
        self._journal = journal
        self.refusals = RejectedConnections(
            journal.note, lambda name: registry.find(name) is not None, fleet.refused
        )
        self.machines = PairedMachines(machines, journal.note_late, self._machines_changed)
        self._events = LinkEvents(
            admit=self.machines.admit,
            on_connected=self._connected,
            on_lost=self._lost,
            on_refused=self.refused,
            on_late=lambda link, late: on_late(link.name, late),
            on_progress=self._progress,
            on_heartbeat=self._heartbeat,
            on_tools_changed=lambda link: self._introduce_soon(link.name),
        )
        self._listener = ConsoleListener(self._authorise, self._events, tls, limits)
        record = CertificateRecord() if certificates is None else certificates
        self.certificates = ConsoleCertificates(
            tls, record, registry, journal.note_late, lambda: self._listener.fingerprint
        )
        # Devices whose reason says that they do not accept this console's certificate.
        self._other_certificate: set[str] = set()
        self._losses = LostLinks()
        self._doctor = Doctor(
            self._registry,
            self.refusals,
            self.listening,
            other_certificate=self.certificates.why_not_accepted,
            flaps=self._flaps,
        )

    async def start(self, address: str) -> None:
        """Show every known device, listen at `host:port`, and dial the devices that listen.

        An address that cannot be bound does not prevent the start: `listening` reports the problem.
        """
        for known in self._registry.devices():
            self.know(known.name)
        try:
            self.certificates.complete()
        except BadInput as error:
            log.error("this console shows its earlier certificate", problem=error.message)
        await self._listener.start(address)
        self.tell_certificates()
        if warning := self.certificates.warning():
            log.warning("devices cannot connect", problem=warning)
        self._try_again_if_taken()
        for known in self._registry.devices():
            self.dial(known.name)
        self._tasks.spawn("look after the links", self._look_after())

    def listening(self) -> Listening:
        """The address at which devices dial in, or why they cannot."""
        status = self._listener.status(self.refusals.total)
        return status.model_copy(update={"warning": self.certificates.warning()})

    async def announce_certificate(self) -> None:
        """Announce the next certificate to every connected device that has not taken it."""
        await self.certificates.announce([live.link for live in self._live.values()])

    async def switch_certificate(self, fingerprint: str) -> None:
        """Show the next certificate from now on, once the journal has it; ends the links.

        Raises:
            BadInput: its files cannot be used; the next start of the service tries again.
        """
        identity = await asyncio.to_thread(self.certificates.switch, fingerprint)
        await self._listener.show(identity, "this console shows its next certificate")
        self.tell_certificates()

    def tell_certificates(self) -> None:
        """Say of each device that is away whether it does not accept this console's certificate."""
        for known in self._registry.devices():
            self._tell_certificate(known.name)

    def _tell_certificate(self, name: str) -> None:
        if why := self.certificates.why_not_accepted(name):
            self._other_certificate.add(name)
            self._fleet.away(name, Health.OFFLINE, why)
        elif name in self._other_certificate:
            self._other_certificate.discard(name)
            self._fleet.away(name, Health.OFFLINE, WAITS)

    async def listen(self, address: str) -> Listening:
        """Listen at another address; devices that dialled in must reconnect.

        Raises:
            BadInput: the address cannot be bound; the console listens at the previous address again.
        """
        try:
            await self._listener.move(address)
        except BadInput:
            # Another program may have taken the previous address while it was released.
            self._try_again_if_taken()
            raise
        return self.listening()

    async def check_listening(self, address: str) -> None:
        """Raise `BadInput` if `listen` would; changes nothing."""
        await self._listener.check(address)

    def _try_again_if_taken(self) -> None:
        """If the address is taken, retry until it is free; journals one entry, not one per attempt."""
        if not self._listener.taken or self._listener.trying:
            return
        listening = self.listening()
        changed = ListeningChanged(from_="", to=listening.address, problem=listening.problem)
        self._note_listening(changed)
        self._tasks.spawn("listen when the port is free", self._listener.keep_trying(self._listens_at_last))

    def _listens_at_last(self, address: str) -> None:
        self._note_listening(ListeningChanged(from_="", to=address))

    def _note_listening(self, event: ListeningChanged) -> None:
        try:
            self._journal.note(event.entry("service"))
        except QuarterdeckError as error:
            log.error("where it is listened could not be recorded", error=error.message, **event.body())

    def link(self, name: str) -> DeviceLink | None:
        """The present link of a device."""
        live = self._live.get(name)
        return live.link if live is not None else None

    def know(self, name: str) -> None:
        """Show a device in the fleet as the registry describes it."""
        known = self._registry.get(name)
        identity = DeviceIdentity(
            tags=known.tags,
            production=known.production,
            direction=known.direction,
            address=known.url,
            agent=known.agent,
            paired=known.paired,
            machine=self.machines.of(name),
            other_machine=self.machines.other_of(name),
        )
        why = "revoked" if not known.paired else WAITS if known.direction == "in" else "not dialled yet"
        self._fleet.know(name, identity, why)
        self._tell_certificate(name)

    def forget(self, name: str) -> None:
        """Drop all data about a device; its link has ended."""
        self._lost_at.pop(name, None)
        self._previous.pop(name, None)
        self._other_certificate.discard(name)
        self._losses.forget(name)
        self.refusals.forget(name)
        self.machines.forget(name)

    def _machines_changed(self, name: str) -> None:
        """Show a device's machines; while another machine is held and the device is away, that is why."""
        if self._registry.find(name) is None:
            return
        self.know(name)
        if why := self.machines.why_held(name):
            self._fleet.away(name, Health.OFFLINE, why)

    async def accept_machine(self, name: str, machine: Machine, why: str) -> None:
        """Let another machine use a pairing from now on, once the journal has the operator's signature."""
        self.machines.accept(name, machine)
        # Calls of the earlier machine are not asked of this one.
        await self.disconnect(name, why)
        self._fleet.away(name, Health.OFFLINE, why)
        self.dial(name)

    def dial(self, name: str) -> None:
        """Start dialling a device that listens; it is dialled again whenever its link ends."""
        known = self._registry.find(name)
        if known is None or known.direction != "out" or not known.paired or name in self._connectors:
            return
        try:
            token = self._registry.dial_token(name)
            connector = Connector(
                DialAddress(name, known.url, token, known.fingerprint),
                self._events,
                lambda status: self._on_connector(name, status),
                agent_name=known.agent or DEFAULT_AGENT,
                limits=self._limits,
            )
        except BadInput as error:
            # A device that cannot be dialled must not affect other devices or the service.
            self._fleet.away(name, Health.OFFLINE, error.message)
            return
        running = self._tasks.spawn(f"dial {name}", connector.run())
        self._connectors[name] = _Dialling(connector, running)

    async def disconnect(self, name: str, why: str) -> None:
        """End a device's link and stop dialling it; `why` is shown to operators."""
        self._lost_at.pop(name, None)
        # The next device of this name may be another machine: it must not be asked about this device's calls.
        self._on_disconnected(name)
        resumable = self._resumable.pop(name, None)
        if resumable is not None:
            resumable.close(why)
        live = self._live.get(name)
        if live is not None:
            await live.link.close(why)
        self._previous.pop(name, None)
        dialling = self._connectors.pop(name, None)
        if dialling is not None:
            await self._stop(dialling)

    async def reconnect(self, name: str) -> None:
        """Dial a device now, or list the tools of a connected device again.

        Raises:
            DeviceError: the device was revoked, or it dials in itself and is not connected.
            BadInput: there is no such device.
        """
        live, dialling = self._live.get(name), self._connectors.get(name)
        if live is not None:
            await self._introduce(live)
        elif dialling is not None:
            dialling.connector.retry_now()
        else:
            known = self._registry.get(name)
            if not known.paired:
                raise DeviceError(f"{name} was revoked; pair it again.")
            if known.direction == "out":
                self.dial(name)
            else:
                raise DeviceError(f"{name} dials in by itself: start its client, or ask the doctor.")

    def introduce_again(self, name: str) -> None:
        """Address a connected device by the agent that the registry names now, and list its tools again."""
        live, resumable = self._live.get(name), self._resumable.get(name)
        if live is not None and resumable is not None:
            live.channel = self._channel(live.link, resumable)
            self._introduce_soon(name)

    async def doctor(self, name: str) -> list[Check]:
        """Run the doctor's checks on why a device cannot be reached."""
        live = self._live.get(name)
        return await self._doctor.examine(self._fleet.get(name), live.link if live else None)

    async def close(self) -> None:
        """End every link and stop listening."""
        self._ending = True
        for resumable in self._resumable.values():
            # Calls that wait for a lost device end now, as unknown; the next service asks about them.
            resumable.close("the console ends")
        connectors, self._connectors = self._connectors, {}
        # Concurrently: each hanging connector takes its whole timeout.
        await asyncio.gather(*map(self._stop, connectors.values()))
        await self._listener.close()
        self.refusals.flush()

    def _authorise(self, token: str | None) -> str | None:
        known = self._registry.owner_of(token)
        if known is None:
            return None
        if not known.paired:
            # `owner_of` may just have found that its pairing is not signed.
            self.know(known.name)
            raise TokenRefused("the token was revoked.", known.name)
        return known.name

    def _connected(self, link: DeviceLink) -> None:
        if not self._still_trusted(link):
            self.refusals.add(link.peer, link.name, "its token was replaced or revoked while it registered")
            self._tasks.spawn(f"end the link of {link.name}", link.close("it was revoked"))
            return
        try:
            # Again: the pairing may have been bound to another machine while this one registered.
            self.machines.admit(link.name, link.metadata)
        except Refused as error:
            self.refusals.add(link.peer, link.name, error.message)
            self._tasks.spawn(f"end the link of {link.name}", link.close(error.message))
            return
        known = self._registry.get(link.name)
        self.machines.bind(link.name, link.metadata, known.paired_at)
        self.certificates.connected(link, known)
        self._tasks.spawn(f"tell {link.name} the certificate", self.certificates.announce([link]))
        resumable = self._resumable.setdefault(link.name, ResumableLink(link.name))
        resumable.attach(link)
        if previous := self._previous.pop(link.name, None):
            link.follow(previous)
        live = self._live[link.name] = _Live(link, self._channel(link, resumable))
        self._lost_at.pop(link.name, None)
        self._tasks.spawn(f"introduce {link.name}", self._introduce(live))

    def _channel(self, link: DeviceLink, resumable: ResumableLink) -> WebSocketCommandDispatcher:
        if not is_stock(link):
            return WebSocketCommandDispatcher(link.name, resumable, self._gate)
        known = self._registry.find(link.name)
        return StockDevice(link, known.agent if known else "", resumable, self._gate)

    def _still_trusted(self, link: DeviceLink) -> bool:
        """Whether the link is still authorised: the device may have been revoked while it registered."""
        known = self._registry.find(link.name)
        if known is None or not known.paired or known.direction != link.direction:
            return False
        # Compare this connection's own token: another connection may have shown a newer token since.
        return link.direction == "out" or link.token_sha256 == known.token_sha256

    def _introduce_soon(self, name: str) -> None:
        live = self._live.get(name)
        if live is not None:
            self._tasks.spawn(f"list the tools of {name} again", self._introduce(live))

    async def _introduce(self, live: _Live) -> None:
        """List a device's tools; requests that come meanwhile cause one further listing in all."""
        live.wanted.set()
        if live.introducing:
            return
        live.introducing = True
        try:
            while live.wanted.is_set() and self._is_live(live):
                if not live.listings.spend():
                    await asyncio.sleep(1 / LISTINGS_PER_S)
                live.wanted.clear()
                listed = await self._introduce_once(live)
                if not live.introduced:
                    live.introduced = True
                    self._on_introduced(live.link.name)
                # The heartbeats of a stock device cause its next listing.
                if not listed and not is_stock(live.link) and self._is_live(live):
                    self._tasks.spawn(
                        f"list the tools of {live.link.name} later", self._introduce_later(live)
                    )
        finally:
            live.introducing = False

    async def _introduce_later(self, live: _Live) -> None:
        """List a device's tools again after a pause, unless that was wanted meanwhile."""
        live.backoff.fail()
        if not await set_within(live.wanted, live.backoff.wait()) and self._is_live(live):
            await self._introduce(live)

    def _is_live(self, live: _Live) -> bool:
        return self._live.get(live.link.name) is live

    def _is_late(self, live: _Live) -> None:
        if self._is_live(live) and self._fleet.channel(live.link.name) is None:
            self._of_no_use(live, f"its list of tools is awaited for more than {LISTING_IS_LATE:g} s")

    def _of_no_use(self, live: _Live, why: str) -> None:
        if self._is_live(live):
            reason = f"connected, but of no use yet: {why}"
            self._fleet.lost(live.link.name, None, reason, Health.OFFLINE)

    async def _introduce_once(self, live: _Live) -> bool:
        """List a device's tools once; false if that failed."""
        link = live.link
        late = asyncio.get_running_loop().call_later(LISTING_IS_LATE, self._is_late, live)
        try:
            arrival = arrival_of(link, live.channel)
            await self._fleet.arrived(link.name, arrival, lambda: self._is_live(live))
        except QuarterdeckError as error:
            log.warning("a device could not be taken in", device=link.name, problem=error.message)
            self._of_no_use(live, error.message)
            return False
        finally:
            late.cancel()
        live.backoff.reset()
        if is_stock(link):
            self._fleet.addressed(link.name, link.agent_name)
        return True

    def _lost(self, link: DeviceLink, reason: str) -> None:
        live = self._live.get(link.name)
        if live is None or live.link is not link:
            return
        del self._live[link.name]
        self._previous[link.name] = link
        if resumable := self._resumable.get(link.name):
            resumable.detach(link, reason)
        known = self._registry.find(link.name)
        comes_back = known is not None and known.paired and not self._ending
        health = Health.RECONNECTING if comes_back else Health.OFFLINE
        if known is not None and comes_back and known.direction == "in":
            self._lost_at[link.name] = asyncio.get_running_loop().time()
        if comes_back and (link.broke or reason == CAME_BACK):
            idle_s = max(0.0, (datetime.now(UTC) - link.last_heard).total_seconds())
            self._losses.lost(link.name, idle_s, asyncio.get_running_loop().time())
        if flaps := self._flaps(link.name):
            log.warning("a link flaps", device=link.name, problem=flaps)
            reason = f"{reason}; {flaps}"
        self._fleet.lost(link.name, live.channel, reason, health)

    def _flaps(self, name: str) -> str:
        """The common trait of the losses of a device's links; empty if they are few."""
        return self._losses.words(name, asyncio.get_running_loop().time())

    def _on_connector(self, name: str, status: ConnectorStatus) -> None:
        if status.state is not ConnectorState.WAITING or name not in self._connectors:
            return
        reason = f"{status.reason}; attempt {status.attempt + 1} in {status.wait_s:.0f} s"
        self._fleet.away(name, Health.RECONNECTING, reason)

    async def _stop(self, dialling: _Dialling) -> None:
        dialling.connector.stop()
        await asyncio.wait({dialling.running}, timeout=self._limits.close_s + 1)

    def refused(self, attempt: RefusedAttempt) -> None:
        """Record a rejected connection, of this listener or of this computer's own."""
        self.refusals.add(attempt.peer, attempt.name, attempt.reason)

    def _progress(self, link: DeviceLink, progress: Progress) -> None:
        self._tell_progress(link.name, progress)

    def _heartbeat(self, link: DeviceLink, beat: Heartbeat) -> None:
        metrics = beat.metrics
        self._fleet.heard(link.name, link.latency_s * 1000 or None)
        if is_stock(link) and self._fleet.channel(link.name) is None:
            self._introduce_soon(link.name)  # Its agent may answer by now.
        self._fleet.measured(
            link.name,
            metrics.cpu_percent if metrics else None,
            metrics.memory_percent if metrics else None,
            beat.clock_offset_ms,
        )

    async def _look_after(self) -> None:
        """Detect devices that fall silent and devices that do not come back, of which no event reports."""
        loop = asyncio.get_running_loop()
        clocks = ClockJumpDetector(datetime.now(UTC), loop.time())
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            now, clock = datetime.now(UTC), loop.time()
            clocks.look([live.link for live in self._live.values()], now, clock)
            self.look(now, clock)

    def look(self, now: datetime, clock: float) -> None:
        """Mark devices that are stale or have not come back at `now` (`clock` by the loop's clock)."""
        for name, live in self._live.items():
            heard, patience_s = live.link.last_heard, stale_after_s(live.link, self._limits)
            if now - heard > timedelta(seconds=patience_s):
                stamp = heard.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
                self._fleet.went_quiet(name, stamp, f"connected, but nothing was heard for {patience_s:g} s")
            elif self._fleet.is_stale(name):
                self._fleet.heard(name)
        for name in [name for name, gone in self._lost_at.items() if clock - gone > COMES_BACK_WITHIN_S]:
            del self._lost_at[name]
            why = self.certificates.why_not_accepted(name) or self._fleet.get(name).reason
            self._fleet.away(name, Health.OFFLINE, why)
