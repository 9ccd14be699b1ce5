"""Live pictures: keeps small screenshots of devices fresh while a client's lease on them lasts.

Each picture is an ordinary observation through the dispatcher, judged by the policy and recorded in the
journal, but it is a glimpse: no approval card and no comparison uses it. The device whose last attempt ended
longest ago is next.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

from core.commands.channel import BasicCommandDispatcher
from core.commands.request import CommandRequest, Purpose, Target
from core.commands.results import CommandResult, Verdict
from core.errors import BadInput, ErrorCode, QuarterdeckError
from core.models.devices import Device, Health
from core.models.tool_names import SCREENSHOT
from core.models.tools import Tool
from core.policy.models import Answer, Decision
from core.service.api.models import LivePicture, LiveState
from core.tasks import TaskGroupOwner, set_within

NO_TOOL = "no screenshot tool"
# Large enough for the largest tile, and half the bytes of a 640-pixel JPEG: the journal keeps every picture.
SMALL = {"max_width": 480, "format": "webp"}
# Enough for all tiles of a large screen. The load depends on `Pace` alone, not on the number of devices.
MOST_DEVICES = 120
# Factor on the pause of a device that cannot send small pictures: each may be a megabyte.
LARGE_SLOWER = 5
PICTURE_TIMEOUT = 20.0

# Temporary errors: the next attempt may succeed, so that the device stays in turn.
_PASSING = frozenset(
    {
        ErrorCode.DEVICE_OFFLINE,
        ErrorCode.STOPPED,
        ErrorCode.CANCELLED,
        ErrorCode.JOURNAL_UNAVAILABLE,
        ErrorCode.TIMEOUT,
        ErrorCode.OUTCOME_UNKNOWN,
    }
)
_HERE = (Health.ONLINE, Health.BUSY)


@dataclass(frozen=True, slots=True)
class Pace:
    """Intervals in seconds. `pause`: between two pictures of a device; `gap`: between any two pictures.

    `lease`: how long one `watch` lasts. `look`: how often the loop checks whether a device has reconnected or
    a stop is over. `fresh`: the maximum age of a picture that counts as live. `longest_pause`: the limit of
    `pause` after repeated failures. `at_once`: the number of pictures that are taken at the same time.
    """

    lease: float = 15.0
    pause: float = 2.0
    gap: float = 0.05
    fresh: float = 30.0
    longest_pause: float = 60.0
    look: float = 0.5
    at_once: int = 4


class Dispatches(Protocol):
    """The part of the dispatcher that live pictures use."""

    @property
    def stopped(self) -> str: ...
    async def dispatch(self, order: CommandRequest) -> CommandResult: ...
    async def cancel(self, call_id: str) -> bool: ...
    def explain(self, device: str, tool: str, parameters: dict[str, Any], actor: str) -> Decision: ...


class Devices(Protocol):
    """The part of the fleet that live pictures use."""

    def get(self, name: str) -> Device: ...
    def target(self, device: str) -> Target: ...


@dataclass(frozen=True, slots=True)
class _Refusal:
    """Why a device sends no picture, and on which link. `by_policy`: valid until the policy allows it."""

    why: str
    link: BasicCommandDispatcher | None
    by_policy: bool


@dataclass(slots=True)
class _Lease:
    """One client's request. Refusals outlast the lease: scrolling away and back repeats no refused call."""

    actor: str
    devices: tuple[str, ...] = ()
    until: float = -math.inf
    refused: dict[str, _Refusal] = field(default_factory=dict)


@dataclass(slots=True)
class _Slot:
    """A device's schedule, in seconds of `time.monotonic`.

    `ended`: end of its last attempt. `due`: earliest start of the next. `came`: arrival of its last picture.
    `missed`: attempts since then that timed out or whose outcome is unknown. `why`: the last error.
    """

    ended: float = -math.inf
    due: float = -math.inf
    came: float = -math.inf
    missed: int = 0
    why: str = ""


class LiveView:
    """The live pictures of a service, shared by all its clients."""

    def __init__(
        self,
        dispatcher: Dispatches,
        devices: Devices,
        journal_problem: Callable[[], str],
        tasks: TaskGroupOwner,
        pace: Pace | None = None,
    ) -> None:
        """`journal_problem` returns why the journal cannot be written, or an empty string."""
        self._dispatcher = dispatcher
        self._devices = devices
        self._journal_problem = journal_problem
        self._tasks = tasks
        self._pace = pace or Pace()
        self._wishes: dict[str, _Lease] = {}
        self._turns: dict[str, _Slot] = {}
        self._under_way: dict[str, str] = {}
        self._changed = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._loop: asyncio.Task[None] | None = None
        self._closed = False
        self._next_at = -math.inf

    def watch(self, client: str, actor: str, devices: list[str], anew: bool = False) -> list[LivePicture]:
        """Replace this client's devices by these and renew its lease; returns the state of each device.

        `anew` discards earlier refusals, so that refused devices are tried again.

        Raises:
            BadInput: too many devices.
        """
        if len(devices) > MOST_DEVICES:
            raise BadInput(f"At most {MOST_DEVICES} devices are watched at once; these are {len(devices)}.")
        wish = self._wishes.setdefault(client, _Lease(actor))
        if anew:
            # A new dict: a picture still being taken records its refusal in the old dict, which is discarded.
            wish.refused = {}
        wish.devices = tuple(dict.fromkeys(devices))
        wish.until = time.monotonic() + self._pace.lease
        self._judge_again(wish)
        self._changed.set()
        if self._wanted() and (self._loop is None or self._loop.done()):
            self._loop = self._tasks.spawn("live pictures", self._go_on())
        return [self._standing(wish, device) for device in wish.devices]

    def let_go(self, client: str) -> None:
        """End the lease of a client that has disconnected."""
        self._wishes.pop(client, None)
        self._changed.set()

    def cancel(self) -> None:
        """Ask the devices to cancel the pictures that they are taking; leases stay valid."""
        for device, call_id in self._under_way.items():
            self._tasks.spawn(f"cancel the live picture of {device}", self._cancel(call_id))

    async def _cancel(self, call_id: str) -> None:
        # If the link is gone, the picture's own dispatch reports the outcome.
        with contextlib.suppress(QuarterdeckError):
            await self._dispatcher.cancel(call_id)

    async def close(self, within: float = 1.0) -> None:
        """Take no more pictures; waits up to `within` seconds for those that are being taken."""
        self._closed = True
        self._wishes.clear()
        self._changed.set()
        await set_within(self._idle, within)

    # Scheduling

    async def _go_on(self) -> None:
        while wanted := self._wanted():
            self._changed.clear()
            wait = self._pace.look
            if not self._dispatcher.stopped and not self._journal_problem():
                wait = self._begin(wanted, time.monotonic())
            await set_within(self._changed, wait)

    def _wanted(self) -> dict[str, list[_Lease]]:
        """The devices of all valid leases, each with the requests for it."""
        now = time.monotonic()
        wanted: dict[str, list[_Lease]] = {}
        for wish in () if self._closed else self._wishes.values():
            for device in wish.devices if wish.until > now else ():
                wanted.setdefault(device, []).append(wish)
        return wanted

    def _begin(self, wanted: dict[str, list[_Lease]], now: float) -> float:
        """Start at most one picture that is due; returns the seconds to wait if no event comes earlier."""
        if len(self._under_way) >= self._pace.at_once:
            return self._pace.look
        if (early := self._next_at - now) > 0:
            return early
        resting = self._under_way.keys()
        due = [device for device in wanted if device not in resting and self._turn(device).due <= now]
        due.sort(key=lambda device: self._turn(device).ended)
        for device in due:
            asker = next((wish for wish in wanted[device] if device not in wish.refused), None)
            if asker is not None and not self._away(device):
                self._next_at = now + self._pace.gap
                self._start(device, asker)
                return self._pace.gap
        return self._pace.look

    def _start(self, device: str, asker: _Lease) -> None:
        order = CommandRequest(
            device,
            SCREENSHOT,
            self._parameters(device),
            asker.actor,
            timeout=PICTURE_TIMEOUT,
            purpose=Purpose.LIVE_VIEW,
            cancelled=partial(self._unwanted, device),
        )
        self._under_way[device] = order.call_id
        self._idle.clear()
        self._tasks.spawn(f"live picture of {device}", self._take(order, asker.refused))

    def _unwanted(self, device: str) -> bool:
        now = time.monotonic()
        lasting = (wish for wish in self._wishes.values() if wish.until > now)
        return self._closed or not any(device in wish.devices for wish in lasting)

    def _turn(self, device: str) -> _Slot:
        """The device's schedule. A lookup stores nothing, so that unknown names use no memory."""
        return self._turns.get(device) or _Slot()

    def _parameters(self, device: str) -> dict[str, Any]:
        """The arguments for the smallest picture that this device's tool can make."""
        tool = self._target(device).tools.get(SCREENSHOT)
        return small_parameters(tool) if tool is not None else {}

    def _away(self, device: str) -> str:
        """Why a device cannot be asked now, or an empty string. It is tried again once it is back."""
        try:
            known = self._target(device).device
        except BadInput as error:
            return error.message
        if known.health in _HERE:
            return ""
        return f"{device} is {known.health.value}: {known.reason or 'not connected'}"

    def _target(self, device: str) -> Target:
        return self._devices.target(device)

    # Taking a picture

    async def _take(self, order: CommandRequest, refused: dict[str, _Refusal]) -> None:
        turn = self._turns.setdefault(order.device, _Slot())
        try:
            result = await self._dispatcher.dispatch(order)
            self._note(order, refused, turn, result)
        finally:
            del self._under_way[order.device]
            if not self._under_way:
                self._idle.set()
            turn.ended = time.monotonic()
            pause = self._pace.pause * 2 ** min(turn.missed, 10)
            if "max_width" not in order.parameters:
                pause *= LARGE_SLOWER
            turn.due = turn.ended + min(pause, self._pace.longest_pause)
            self._changed.set()

    def _note(
        self, order: CommandRequest, refused: dict[str, _Refusal], turn: _Slot, result: CommandResult
    ) -> None:
        if result.error is None and any(one.what == "picture" for one in result.evidence):
            turn.came, turn.missed, turn.why = time.monotonic(), 0, ""
            return
        error = result.error
        why = error.message if error is not None else f"{order.device} sent no picture."
        if error is not None and error.code is ErrorCode.UNKNOWN_TOOL:
            # The tile already names the device, and fits few words.
            why = NO_TOOL
        if error is not None and (error.code in _PASSING or result.verdict is Verdict.UNKNOWN):
            turn.why = why
            # Only these lengthen the pause: a stop or a disconnect is checked before the next attempt anyway.
            turn.missed += error.code in (ErrorCode.TIMEOUT, ErrorCode.OUTCOME_UNKNOWN)
            return
        link = self._link(order.device)
        refused[order.device] = _Refusal(why, link, not self._allowed(order.device, order.actor))

    def _link(self, device: str) -> BasicCommandDispatcher | None:
        try:
            return self._target(device).channel
        except BadInput:
            return None

    def _allowed(self, device: str, actor: str) -> bool:
        """Whether the policy allows a picture without approval; this check is not recorded."""
        try:
            decision = self._dispatcher.explain(device, SCREENSHOT, self._parameters(device), actor)
        except QuarterdeckError:
            return False
        return decision.answer is Answer.ALLOW

    def _judge_again(self, wish: _Lease) -> None:
        """Discard refusals that no longer hold: the policy allows the call now, or the link is new."""
        for device in wish.devices:
            refusal = wish.refused.get(device)
            if refusal is None:
                continue
            link = self._link(device)
            new = link is not None and link is not refusal.link
            if self._allowed(device, wish.actor) if refusal.by_policy else new:
                del wish.refused[device]

    # State

    def _standing(self, wish: _Lease, device: str) -> LivePicture:
        if (refusal := wish.refused.get(device)) is not None:
            return LivePicture(device=device, state=LiveState.REFUSED, why=refusal.why)
        turn = self._turn(device)
        why = self._waits_for(device) or turn.why
        live = not why and turn.came > time.monotonic() - self._pace.fresh
        return LivePicture(device=device, state=LiveState.LIVE if live else LiveState.WAITING, why=why)

    def _waits_for(self, device: str) -> str:
        return self._dispatcher.stopped or self._journal_problem() or self._away(device)


def small_parameters(tool: Tool) -> dict[str, Any]:
    """The parameters of `SMALL` that the tool's schema knows; stock clients send pictures in full size."""
    known = tool.input_schema.get("properties")
    found: dict[str, Any] = {}
    for name, value in SMALL.items() if isinstance(known, dict) else ():
        schema = known.get(name) if isinstance(known, dict) else None
        if isinstance(schema, dict) and value in schema.get("enum", [value]):
            found[name] = value
    return found
