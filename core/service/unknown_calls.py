"""Asks devices again about the calls whose outcome is unknown: when a device is back, and when a run resumes.

sent, no answer ─► unknown ─► its device is there ─► recall ─┬─ done        its late answer tells the outcome
                                                             ├─ running     asked again, ever more seldom
                                                             └─ never seen  it refuses the call from now on
A recall only reads: no command is sent for it. Calls of an earlier service are restored from the journal.
A device keeps what it knows for `RESULTS_KEPT_S`; older calls are not asked about. Nor are those that were
sent before the device was paired again or another machine was accepted as it: that machine never had them.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from core.aip.device_link import DeviceLink
from core.aip.extensions import FEATURE_RECALL, RESULTS_KEPT_S
from core.aip.recall import late_answers
from core.aip.resumable_link import RECALL_TIMEOUT
from core.audit.entries import Kind
from core.audit.journal import Journal
from core.dispatch.late_results import LateResults
from core.errors import DeviceError
from core.log import Logger
from core.tasks import TaskGroupOwner, set_within

log = Logger(__name__)

# Calls that are remembered, the newest; devices that are asked at the same time, each for one call at a time.
MOST_REMEMBERED = 10_000
MOST_ASKED_AT_ONCE = 16
# Seconds between two questions about a call that still runs, or that became unknown while its link lives: the
# device may answer it by itself.
FIRST_PAUSE = 1.0
LONGEST_PAUSE = 60.0
# How long a resumed run waits for what the devices say.
RESUME_WAITS = 15.0
# After these, another machine may have a device's name.
_NEW_MACHINE = ",".join((Kind.DEVICE_PAIRED, Kind.DEVICE_BOUND, Kind.DEVICE_REVOKED, Kind.DEVICE_FORGOTTEN))

LinkOf = Callable[[str], DeviceLink | None]


@dataclass(slots=True)
class _Device:
    """The calls of one device whose outcome is unknown, oldest first.

    `running` are those that it says still run. `awaited` are those whose answer to a recall is late, with the
    link over which it may still come. `turn` is held while the device is asked, `now` ends a pause between
    two questions.
    """

    calls: OrderedDict[str, None] = field(default_factory=OrderedDict)
    running: set[str] = field(default_factory=set)
    awaited: dict[str, DeviceLink] = field(default_factory=dict)
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    now: asyncio.Event = field(default_factory=asyncio.Event)
    asking: asyncio.Task[None] | None = None

    def to_ask(self, link: DeviceLink) -> list[str]:
        """The calls to ask about over this link."""
        return [call_id for call_id in self.calls if self.awaited.get(call_id) is not link]


class UnknownCalls:
    """The calls whose outcome is unknown, by device, and what is asked about them."""

    def __init__(self, tasks: TaskGroupOwner) -> None:
        self._tasks = tasks
        self._devices: dict[str, _Device] = {}
        # Every remembered call with its device, oldest first.
        self._device_of: OrderedDict[str, str] = OrderedDict()
        self._earlier: set[str] = set()
        self._link_of: LinkOf = lambda device: None
        self._late: LateResults | None = None
        self._slots = asyncio.Semaphore(MOST_ASKED_AT_ONCE)

    def begin(self, link_of: LinkOf, late: LateResults) -> None:
        """Ask over these links from now on, and give the answers to `late`."""
        self._link_of, self._late = link_of, late

    def __len__(self) -> int:
        return len(self._device_of)

    def of(self, device: str) -> list[str]:
        """The calls of a device whose outcome is unknown and which it can be asked about, oldest first."""
        record = self._devices.get(device)
        return [] if record is None else list(record.calls)

    def is_running(self, call_id: str) -> bool:
        """Whether the device said, when it was asked last, that this call still runs."""
        record = self._devices.get(self._device_of.get(call_id, ""))
        return record is not None and call_id in record.running

    def from_earlier_service(self, call_id: str) -> bool:
        """Whether a call was sent before this service started."""
        return call_id in self._earlier

    def add(self, device: str, call_id: str) -> None:
        """Remember a call that ended as unknown; if its link lives, the device is asked in a while."""
        self._remember(device, call_id)
        self._ask_soon(device, FIRST_PAUSE)

    def answered(self, call_id: str) -> None:
        """Forget a call that its device has answered."""
        device = self._device_of.pop(call_id, None)
        self._earlier.discard(call_id)
        if device is not None and (record := self._devices.get(device)) is not None:
            record.calls.pop(call_id, None)
            record.running.discard(call_id)
            record.awaited.pop(call_id, None)

    def forget(self, device: str) -> None:
        """Forget the calls of a device whose name another machine may have from now on."""
        for call_id in self.of(device):
            self.answered(call_id)

    def connected(self, device: str) -> None:
        """A device has connected and was introduced: ask it now."""
        self._ask_soon(device, 0.0)

    async def ask(self, devices: Iterable[str], within: float = RESUME_WAITS) -> None:
        """Ask these devices now, as far as they are connected, and wait at most so many seconds."""
        rounds = [
            self._tasks.spawn(f"ask {device} again", self._round(device))
            for device in devices
            if self.of(device) and self._askable(device) is not None
        ]
        if rounds:
            await asyncio.wait(rounds, timeout=within)

    def why_unknown(self, device: str, call_id: str) -> str:
        """Why a call's outcome is still unknown, in words."""
        link = self._link_of(device)
        if call_id not in self._device_of:
            return "the device does not know"
        if link is None or not link.is_open:
            return "the device is not connected, and is asked when it is back"
        if FEATURE_RECALL not in link.features:
            return "the device's client keeps no results"
        if self.is_running(call_id):
            return "the device says that it still runs"
        return "the device has not answered yet"

    async def restore(self, journal: Journal) -> None:
        """Remember the calls that ended as unknown under earlier services, the newest of them.

        Raises:
            JournalError: the journal cannot be read.
        """
        since = (datetime.now(UTC) - timedelta(seconds=RESULTS_KEPT_S)).strftime("%Y-%m-%dT%H:%M:%SZ")
        late = f"kind:{Kind.LATE_ANSWER_RECEIVED} since:{since}"
        answered = {entry.call_id async for entry in journal.newest(late, MOST_REMEMBERED)}
        machines: dict[str, int] = {}
        async for entry in journal.newest(f"kind:{_NEW_MACHINE} since:{since}", MOST_REMEMBERED):
            machines.setdefault(entry.device or "", entry.seq)
        found: list[tuple[str, str]] = []
        unknown = f"kind:{Kind.RESULT_RECORDED} verdict:unknown since:{since} !glimpse"
        async for entry in journal.newest(unknown, MOST_REMEMBERED):
            if not entry.call_id or not entry.device or entry.call_id in answered:
                continue
            if entry.seq > machines.get(entry.device, 0):
                found.append((entry.device, entry.call_id))
        for device, call_id in reversed(found):
            self._remember(device, call_id)
            self._earlier.add(call_id)
        if found:
            log.info("calls with an unknown outcome are asked about", calls=len(found))

    def _remember(self, device: str, call_id: str) -> None:
        self._devices.setdefault(device, _Device()).calls[call_id] = None
        self._device_of[call_id] = device
        while len(self._device_of) > MOST_REMEMBERED:
            self.answered(next(iter(self._device_of)))

    def _askable(self, device: str) -> DeviceLink | None:
        """The link over which a device can be asked now, if there is one."""
        link = self._link_of(device)
        return link if link is not None and link.is_open and FEATURE_RECALL in link.features else None

    def _ask_soon(self, device: str, pause: float) -> None:
        record = self._devices.get(device)
        if record is None or not record.calls or self._askable(device) is None:
            return
        if not pause:
            record.now.set()
        if record.asking is None or record.asking.done():
            record.asking = self._tasks.spawn(f"ask {device} again", self._keep_asking(device, record))

    async def _keep_asking(self, device: str, record: _Device) -> None:
        """Ask a device until it has answered for each of its calls, or its link is lost."""
        pause = FIRST_PAUSE
        while (link := self._askable(device)) is not None and record.to_ask(link):
            await set_within(record.now, pause)
            pause = FIRST_PAUSE if record.now.is_set() else min(pause * 2, LONGEST_PAUSE)
            record.now.clear()
            await self._round(device)

    async def _round(self, device: str) -> None:
        """Ask a device once about each of its calls, one after another."""
        record = self._devices[device]
        async with record.turn, self._slots:
            link = self._askable(device)
            for call_id in record.to_ask(link) if link is not None else ():
                if call_id not in record.calls:
                    continue
                if link is None or not link.is_open:
                    return
                record.awaited[call_id] = link
                try:
                    await self._ask_about(device, link, record, call_id)
                except DeviceError as error:
                    # What comes after this is taken as a late answer.
                    log.warning("not recalled", device=device, call=call_id, reason=error.message)

    async def _ask_about(self, device: str, link: DeviceLink, record: _Device, call_id: str) -> None:
        told = await link.recall([call_id], RECALL_TIMEOUT)
        record.awaited.pop(call_id, None)
        if told[call_id].state == "running":
            record.running.add(call_id)
        # Another machine may have the device's name by now, or the device may have answered by itself.
        if self._late is None or self._link_of(device) is not link or call_id not in record.calls:
            return
        for late in late_answers(told):
            await self._late.record(device, late)
