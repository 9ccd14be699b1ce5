"""The desk of live pictures: leases, turns, bounds, refusals; everything real but the devices' tools."""

from __future__ import annotations

import asyncio
import base64
import io
from collections import Counter
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from PIL import Image

from core.aip.messages import Command, Result, ResultStatus, ToolInfo
from core.commands.channel import LocalCommandDispatcher
from core.errors import BadInput, Refused
from core.fleet.fleet import ConnectionInfo
from core.home import Home
from core.models.devices import Health
from core.service import live_view
from core.service.api.models import LivePicture, LiveState
from core.service.live_view import LARGE_SLOWER, SMALL, LiveView, Pace, small_parameters
from core.service.local_console import LocalConsole
from tests.fakes.desk import choose_channel, open_service
from tests.fakes.patience import PATIENCE_S
from tests.fakes.rig import Rig, ScriptedTools, open_rig, tool_info
from tests.fakes.signing import signing

LOOK = {"max_width": {"type": "integer"}, "format": {"enum": ["png", "webp"]}}
TOOLS = [tool_info("screenshot", "data_collection", LOOK)]
FAST = Pace(lease=30.0, pause=0.05, gap=0.001, longest_pause=0.4, look=0.02)
ASKS = '[[rule]]\nid = "eyes"\ndecision = "ask"\ntool = "screenshot"\n'


def picture() -> dict[str, Any]:
    out = io.BytesIO()
    Image.new("RGB", (16, 10), "#3d6fe0").save(out, "PNG")
    return {"image": {"media_type": "image/png", "data_base64": base64.b64encode(out.getvalue()).decode()}}


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not condition():  # noqa: ASYNC110  # devices take pictures by themselves here
            await asyncio.sleep(0.005)


class Clock:
    """The clock of the live view, which stands still until a test moves it."""

    def __init__(self) -> None:
        self.now = 1_000.0
        self.read = 0

    def monotonic(self) -> float:
        self.read += 1
        return self.now

    async def is_looked_at(self, times: int = 30) -> None:
        """Wait until the view's loop has looked at it so many times: what was due is begun by then."""
        wanted = self.read + times
        await until(lambda: self.read >= wanted)


class Bay:
    """Devices with a screen each, and the desk that looks at them."""

    def __init__(self, rig: Rig) -> None:
        self.rig = rig
        self.taken: Counter[str] = Counter()
        self.order: list[str] = []
        self.at_once = self.most_at_once = 0
        self.gate = asyncio.Event()
        self.gate.set()
        self.answer: Callable[[str], Any] = lambda name: picture()
        self.journal_problem = ""
        self.tools: dict[str, ScriptedTools] = {}
        self.desk = self.open(FAST)

    def open(self, pace: Pace) -> LiveView:
        rig = self.rig
        return LiveView(rig.dispatcher, rig.fleet, lambda: self.journal_problem, rig.tasks, pace)

    async def add(self, *names: str, infos: list[ToolInfo] | None = None) -> list[str]:
        for name in names:
            self.rig.fleet.add(name, [])
            self.tools[name] = tools = ScriptedTools(TOOLS if infos is None else infos)
            tools.answers["screenshot"] = lambda command, name=name: self._look(name, command)
            await self.connect(name)
        return list(names)

    async def connect(self, name: str) -> None:
        channel = LocalCommandDispatcher(name, self.tools[name], self.rig.dispatcher.gate)
        await self.rig.fleet.arrived(name, ConnectionInfo(channel, "in-process", "linux", "t", "t", [], None))

    async def _look(self, name: str, command: Command) -> Any:
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        self.order.append(name)
        try:
            await self.gate.wait()
        finally:
            self.at_once -= 1
        self.taken[name] += 1
        return self.answer(name)

    def watch(self, *devices: str, client: str = "window", anew: bool = False) -> dict[str, LivePicture]:
        found = self.desk.watch(client, f"operator:{client}", list(devices), anew)
        return {one.device: one for one in found}

    async def more(self, name: str, count: int = 2) -> None:
        """Wait until so many more pictures of a device have come."""
        wanted = self.taken[name] + count
        await until(lambda: self.taken[name] >= wanted)

    async def refused(self) -> int:
        return len([one for one in await self.rig.entries() if one.kind.value == "command_refused"])


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(live_view, "time", clock)
    return clock


@pytest.fixture
async def bay(home: Home) -> AsyncIterator[Bay]:
    async with open_rig(home) as rig:
        yield Bay(rig)


async def test_watched_devices_are_pictured_again_and_again_and_no_run_is_made(bay: Bay) -> None:
    await bay.add("a", "b")
    assert bay.watch("a")["a"].state is LiveState.WAITING
    await bay.more("a", 3)
    assert bay.watch("a")["a"].state is LiveState.LIVE
    assert not bay.taken["b"]
    device = bay.rig.fleet.get("a")
    assert device.glimpse
    assert device.picture is None
    entries = await bay.rig.entries("device:a")
    kinds = {one.kind.value for one in entries}
    assert {"command_prepared", "command_decided", "command_sent", "result_recorded"} <= kinds
    assert {one.run for one in entries} == {None}
    assert {one.actor for one in entries if one.kind.value == "command_prepared"} == {"operator:window"}
    assert bay.tools["a"].seen[0].parameters == SMALL


async def test_a_lease_that_nobody_renews_ends_and_so_does_one_that_is_let_go(bay: Bay) -> None:
    await bay.add("a", "b")
    bay.desk = bay.open(Pace(lease=0.3, pause=0.02, look=0.02))
    bay.watch("a")
    await until(lambda: not any("live pictures" in name for name in bay.rig.tasks.names))
    assert bay.taken["a"]
    bay.desk = bay.open(FAST)
    for end in (lambda: bay.watch(), lambda: bay.desk.let_go("window")):
        bay.watch("b")
        await bay.more("b")
        end()
        await until(lambda: not any("live" in name for name in bay.rig.tasks.names))
        count = bay.taken["b"]
        await asyncio.sleep(0.15)
        assert bay.taken["b"] == count


async def test_at_most_four_at_once_and_everybody_has_a_turn_before_anybody_has_two_more(bay: Bay) -> None:
    names = await bay.add(*[f"d{number:02d}" for number in range(30)])
    # Everybody is always due.
    bay.desk = bay.open(Pace(pause=0.0, gap=0.0, look=0.02))
    bay.gate.clear()
    bay.watch(*names[:20])
    bay.watch(*names[10:], client="other")
    await until(lambda: bay.at_once == 4)
    await asyncio.sleep(0.1)
    assert bay.most_at_once == 4
    bay.gate.set()
    await until(lambda: len(bay.order) >= 3 * len(names))
    assert bay.most_at_once == 4
    seen: Counter[str] = Counter()
    for name in bay.order[: 3 * len(names)]:
        seen[name] += 1
        assert max(seen.values()) - min(seen[other] for other in names) <= 2


async def test_a_device_rests_between_two_pictures(bay: Bay, clock: Clock) -> None:
    await bay.add("a")
    bay.desk = bay.open(Pace(pause=3.0, look=0.002))
    bay.watch("a")
    await bay.more("a", 1)
    # Its rest begins when it has been recorded.
    await clock.is_looked_at()
    # Neither another wish nor a switch that is turned off and on makes it come sooner.
    bay.watch()
    bay.watch("a", anew=True)
    clock.now += 2.9
    await clock.is_looked_at()
    assert bay.taken["a"] == 1
    clock.now += 0.2
    await bay.more("a", 1)


async def test_however_many_wait_pictures_are_taken_at_one_pace(bay: Bay, clock: Clock) -> None:
    names = await bay.add(*[f"d{number:02d}" for number in range(30)])
    bay.desk = bay.open(Pace(gap=0.01, pause=0.0, look=0.002))
    bay.watch(*names)
    for count in range(1, 6):
        await until(lambda count=count: len(bay.order) >= count)
        clock.now += 0.009
        await clock.is_looked_at()
        assert len(bay.order) == count
        clock.now += 0.002
    with pytest.raises(BadInput, match="At most 120"):
        bay.watch(*[f"d{number}" for number in range(121)])


async def test_what_the_policy_asks_about_is_refused_once_and_goes_on_when_the_policy_changed(
    bay: Bay,
) -> None:
    await bay.add("a", "b")
    bay.rig.use_policy(ASKS + 'device = "a"\n')
    bay.watch("a", "b")
    await bay.more("b", 4)
    stands = bay.watch("a", "b")
    assert stands["a"].state is LiveState.REFUSED
    assert "needs approval" in stands["a"].why
    await bay.more("b", 4)
    assert (bay.taken["a"], await bay.refused()) == (0, 1)
    # Scrolled away and back, it is still refused; turned on anew, it is asked once more.
    bay.watch("b")
    bay.watch("a", "b")
    await bay.more("b")
    assert await bay.refused() == 1
    bay.watch("a", "b", anew=True)
    await bay.more("b", 3)
    assert await bay.refused() == 2
    bay.rig.use_policy(None)
    bay.watch("a", "b")
    await bay.more("a")
    assert bay.watch("a")["a"].state is LiveState.LIVE


async def test_what_the_device_refuses_is_not_tried_again_on_this_link(bay: Bay) -> None:
    await bay.add("a", "b")
    await bay.add("c", infos=[])
    broken = Result(status=ResultStatus.FAILURE, error="tool_failed: The display cannot be opened")
    bay.answer = lambda name: broken if name == "a" else picture()
    bay.watch("a", "b", "c")
    await bay.more("b", 4)
    stands = bay.watch("a", "b", "c")
    assert [one.state.value for one in stands.values()] == ["refused", "live", "refused"]
    assert "display" in stands["a"].why
    assert stands["c"].why == "no screenshot tool"
    await bay.more("b", 3)
    assert bay.taken["a"] == 1
    bay.answer = lambda name: picture()
    await bay.connect("a")
    bay.watch("a", "b", "c")
    await bay.more("a")


async def test_a_device_that_is_away_is_not_asked_and_begins_by_itself_when_it_is_back(bay: Bay) -> None:
    await bay.add("a")
    bay.rig.fleet.lost("a", None, "The line was cut.", Health.RECONNECTING)
    stands = bay.watch("a", "nobody")
    assert stands["a"].state is LiveState.WAITING
    assert "reconnecting: The line was cut" in stands["a"].why
    assert "nobody" in stands["nobody"].why
    await asyncio.sleep(0.1)
    assert not await bay.refused()
    await bay.connect("a")
    await bay.more("a")
    bay.gate.clear()
    await until(lambda: bay.at_once)
    bay.rig.fleet.went_quiet("a", "2026-01-01T00:00:00Z", "No heartbeat.")
    bay.gate.set()
    await until(lambda: not bay.at_once)
    count = bay.taken["a"]
    await asyncio.sleep(0.15)
    assert "stale: No heartbeat" in bay.watch("a")["a"].why
    assert bay.taken["a"] == count
    bay.rig.fleet.heard("a")
    await bay.more("a")


async def test_one_that_never_answers_is_asked_more_and_more_seldom(bay: Bay, clock: Clock) -> None:
    await bay.add("a")
    bay.desk = bay.open(Pace(lease=1_000.0, pause=1.0, longest_pause=8.0, look=0.002))
    lost = Result(status=ResultStatus.FAILURE, error="timeout: It took too long")
    bay.answer = lambda name: lost
    bay.watch("a")
    for count, pause in enumerate((2.0, 4.0, 8.0, 8.0), 1):
        await until(lambda count=count: bay.taken["a"] >= count)
        await clock.is_looked_at()
        clock.now += pause - 0.1
        await clock.is_looked_at()
        assert bay.taken["a"] == count
        clock.now += 0.2
    assert bay.watch("a")["a"].state is LiveState.WAITING
    assert bay.watch("a")["a"].why


async def test_stop_all_stops_it_cancels_what_is_on_a_device_and_resume_lets_it_go_on(bay: Bay) -> None:
    await bay.add("a")
    bay.gate.clear()
    bay.watch("a")
    await until(lambda: bay.at_once)
    bay.rig.dispatcher.stop("Everything was stopped.")
    bay.desk.cancel()
    await until(lambda: bay.tools["a"].cancelled)
    bay.gate.set()
    await until(lambda: not bay.at_once)
    count = bay.taken["a"]
    await asyncio.sleep(0.15)
    assert bay.taken["a"] == count
    assert not await bay.refused()
    assert bay.watch("a")["a"].why == "Everything was stopped."
    bay.rig.dispatcher.resume()
    await bay.more("a")


async def test_without_a_journal_nothing_is_taken(bay: Bay) -> None:
    await bay.add("a")
    bay.journal_problem = "The disk is full."
    assert bay.watch("a")["a"].why == "The disk is full."
    await asyncio.sleep(0.1)
    assert not bay.taken["a"]
    # Full, but not seen so yet: the dispatcher refuses, and the desk goes on trying.
    bay.journal_problem, bay.rig.disk.broken = "", True
    await asyncio.sleep(0.1)
    assert not bay.taken["a"]
    bay.rig.disk.broken = False
    await bay.more("a")


async def test_closing_ends_it_at_once(bay: Bay) -> None:
    await bay.add("a")
    bay.watch("a")
    await bay.more("a")
    await bay.desk.close()
    count = bay.taken["a"]
    bay.watch("a")
    await asyncio.sleep(0.1)
    assert bay.taken["a"] == count


async def test_a_device_that_sends_large_pictures_is_looked_at_more_seldom(bay: Bay) -> None:
    await bay.add("small")
    await bay.add("large", infos=[tool_info("screenshot", "data_collection", {})])
    bay.watch("small", "large")
    slots = bay.desk._turns
    await until(lambda: bool(slots.get("small") and slots.get("large")))
    await until(lambda: slots["small"].ended > 0 and slots["large"].ended > 0)
    pauses = {name: slot.due - slot.ended for name, slot in slots.items()}
    assert pauses["large"] == pytest.approx(LARGE_SLOWER * pauses["small"])


async def test_through_the_door_stop_all_reaches_a_picture_under_way_and_whoever_leaves_ends_the_lease(
    home: Home,
) -> None:
    choose_channel(home, "in-process")
    home.device_state.mkdir(parents=True, exist_ok=True)
    async with open_service(home) as service:
        tools, asked, gate = ScriptedTools(TOOLS), asyncio.Event(), asyncio.Event()

        async def look(command: Command) -> Any:
            asked.set()
            await gate.wait()
            return picture()

        tools.answers["screenshot"] = look
        service.fleet.add("desk", [])
        channel = LocalCommandDispatcher("desk", tools, service.dispatcher.gate)
        await service.fleet.arrived(
            "desk", ConnectionInfo(channel, "in-process", "linux", "t", "t", [], None)
        )
        console, other = (
            signing(LocalConsole(service, "operator:anna"), service.home),
            signing(LocalConsole(service, "operator:ben"), service.home),
        )
        await console.devices.watch(["desk"])
        await other.devices.watch(["desk"])
        await asyncio.wait_for(asked.wait(), PATIENCE_S)
        assert "1 command was on a device" in await console.service.stop_all()
        await until(lambda: tools.cancelled)
        gate.set()
        [stands] = await console.devices.watch(["desk"])
        assert "Everything was stopped" in stands.why
        await console.close()
        assert any("live pictures" in name for name in service.tasks.names)
        await other.close()
        await until(lambda: not any("live pictures" in name for name in service.tasks.names))
        with pytest.raises(Refused):
            await LocalConsole(service, "agent:claude").devices.watch(["desk"])


@pytest.mark.parametrize(
    ("properties", "passed"),
    [
        (LOOK, SMALL),
        ({}, {}),
        ({"max_width": {"type": "integer"}}, {"max_width": SMALL["max_width"]}),
        ({"format": {"enum": ["png"]}, "region": {"type": "string"}}, {}),
    ],
)
async def test_only_what_the_tool_knows_is_passed(bay: Bay, properties: Any, passed: Any) -> None:
    await bay.add("a", infos=[tool_info("screenshot", "data_collection", properties)])
    assert small_parameters(bay.rig.fleet.target("a").tools["screenshot"]) == passed
