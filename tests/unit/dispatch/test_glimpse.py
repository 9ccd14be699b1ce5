"""A live wall's pictures never become what an approval rests on, nor a picture of the device."""

from __future__ import annotations

import asyncio
import base64
import io
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from PIL import Image, ImageDraw

from core.aip.messages import Command
from core.approvals.operator_keys import statement_for
from core.commands.request import CommandRequest, Purpose
from core.commands.results import CommandResult
from core.errors import ErrorCode
from core.home import Home
from core.models.devices import Health
from core.models.tools import Risk
from core.policy.grants import GrantTerms, exact_arguments
from core.service.device_history import remembered_devices
from tests.fakes.patience import PATIENCE_S
from tests.fakes.rig import DEVICE, TEXT, Rig, open_rig, tool_info

NUMBER = {"type": "number"}
TOOLS = [
    tool_info("screenshot", "data_collection", {"max_width": NUMBER, "region": {}}),
    tool_info("click_point", "action", {"x": NUMBER, "y": NUMBER, "observation": TEXT}),
    tool_info("click_element", "action", {"control_id": TEXT}),
    tool_info("get_ui_tree", "data_collection", {"process_name": TEXT, "depth": NUMBER, "max_nodes": NUMBER}),
]


class Screen:
    """A button with a label; whoever wants a small picture gets one."""

    label = "Save"
    taken = 0

    def __call__(self, command: Command) -> Any:
        self.taken += 1
        image = Image.new("RGB", (400, 300), "#20242c")
        draw = ImageDraw.Draw(image)
        draw.rectangle((100, 80, 180, 110), "#3d6fe0")
        draw.text((120, 88), self.label, "#ffffff", font_size=14)
        width = int((command.parameters or {}).get("max_width", 400))
        image = image.resize((width, width * 300 // 400))
        out = io.BytesIO()
        image.save(out, "PNG")
        packed = base64.b64encode(out.getvalue()).decode()
        return {
            "image": {"media_type": "image/png", "data_base64": packed},
            "scale": width / 400,
            "observation": f"ref-{self.taken}",
        }

    def tree(self, command: Command) -> Any:
        box = {"x": 100, "y": 80, "width": 80, "height": 30}
        return {"tree": [{"id": "7", "name": self.label, "box": box, "children": []}], "truncated": False}


@pytest.fixture
def screen() -> Screen:
    return Screen()


@pytest.fixture
async def rig(home: Home, screen: Screen) -> AsyncIterator[Rig]:
    async with open_rig(home, TOOLS) as rig:
        rig.tools.answers["screenshot"] = screen
        rig.tools.answers["get_ui_tree"] = screen.tree
        yield rig


async def glimpse(rig: Rig) -> CommandResult:
    """What a live wall does, as the very operator who approves."""
    order = CommandRequest(
        DEVICE, "screenshot", {"max_width": 80}, "operator:anna", purpose=Purpose.LIVE_VIEW
    )
    return await rig.dispatcher.dispatch(order)


async def test_a_glimpse_is_the_walls_picture_and_nobody_elses(rig: Rig) -> None:
    full = await rig.call("screenshot")
    small = await glimpse(rig)
    device = rig.fleet.get(DEVICE)
    assert device.picture == full.evidence[0].blob
    assert device.glimpse == small.evidence[0].blob != device.picture
    assert device.glimpse_at is not None


async def test_a_target_that_changed_under_a_live_wall_is_held_against_the_full_picture(
    rig: Rig, screen: Screen
) -> None:
    await rig.call("screenshot")
    await glimpse(rig)
    call = rig.start("click_element", control_id="7")
    waiting = await asyncio.wait_for(rig.asked.get(), PATIENCE_S)
    view = await rig.dispatcher.cards.shown(waiting.request.digest, renew=False)
    assert view is not None
    assert view.picture is not None
    screen.label = "Sell"
    # The newest thing that the operator "looked at" shows the changed target already.
    await glimpse(rig)
    await rig.approvals.decide(rig.key.sign(statement_for(waiting, "approve", "anna")))
    result = await call
    assert result.error is not None
    assert result.error.code is ErrorCode.STALE_OBSERVATION
    assert result.evidence[0].blob == view.picture.blob
    assert "click_element" not in [one.tool_name for one in rig.tools.seen]


async def test_an_unchanged_target_is_pressed_although_the_wall_is_live(rig: Rig) -> None:
    await rig.call("screenshot")
    await glimpse(rig)
    call = rig.start("click_element", control_id="7")
    waiting = await asyncio.wait_for(rig.asked.get(), PATIENCE_S)
    await glimpse(rig)
    await rig.approvals.decide(rig.key.sign(statement_for(waiting, "approve", "anna")))
    assert (await call).error is None


async def test_a_click_cannot_be_aimed_at_a_glimpse(rig: Rig) -> None:
    small = await glimpse(rig)
    call = rig.start("click_point", x=30, y=20, observation=small.result["observation"])
    waiting = await asyncio.wait_for(rig.asked.get(), PATIENCE_S)
    await rig.approvals.decide(rig.key.sign(statement_for(waiting, "approve", "anna")))
    result = await call
    assert result.error is not None
    assert result.error.code is ErrorCode.STALE_OBSERVATION


async def test_a_query_can_leave_glimpses_out_with_all_their_entries(rig: Rig) -> None:
    full = await rig.call("screenshot")
    await glimpse(rig)
    calls = {entry.call_id for entry in await rig.entries("tool:screenshot")}
    assert len(calls) == 2
    assert {entry.call_id for entry in await rig.entries("tool:screenshot !glimpse")} == {full.call_id}


async def test_after_a_restart_the_picture_is_the_full_one_again(rig: Rig) -> None:
    full = await rig.call("screenshot")
    await glimpse(rig)
    await rig.journal.settle()
    then = (await remembered_devices(rig.journal, {DEVICE}))[DEVICE]
    assert then.picture == full.evidence[0].blob


PARTS = [{"x": 0, "y": 0, "width": 40, "height": 30}, "window:7"]


@pytest.mark.parametrize("part", PARTS)
async def test_a_part_of_the_screen_is_not_the_devices_picture(rig: Rig, part: object) -> None:
    full = await rig.call("screenshot", region="fullscreen")
    later = await rig.call("screenshot", region=part, max_width=40)
    assert later.evidence[0].blob != full.evidence[0].blob
    assert rig.fleet.get(DEVICE).picture == full.evidence[0].blob
    await rig.journal.settle()
    then = (await remembered_devices(rig.journal, {DEVICE}))[DEVICE]
    assert then.picture == full.evidence[0].blob
    assert then.picture_at == (await rig.entries(f"kind:result_recorded call:{full.call_id}"))[0].time


async def test_a_device_of_which_only_a_part_was_seen_has_no_picture(rig: Rig) -> None:
    await rig.call("screenshot", region=PARTS[0])
    assert rig.fleet.get(DEVICE).picture is None
    await rig.journal.settle()
    then = await remembered_devices(rig.journal, {DEVICE})
    assert DEVICE not in then or then[DEVICE].picture is None


async def test_a_device_that_is_looked_at_is_not_called_busy(rig: Rig, screen: Screen) -> None:
    asked, seen = asyncio.Event(), asyncio.Event()

    async def slow(command: Command) -> Any:
        asked.set()
        await seen.wait()
        return screen(command)

    rig.tools.answers["screenshot"] = slow
    looking = rig.tasks.spawn("glimpse", glimpse(rig))
    await asyncio.wait_for(asked.wait(), PATIENCE_S)
    device = rig.fleet.get(DEVICE)
    seen.set()
    await looking
    assert (device.health, device.doing) == (Health.ONLINE, "")


async def test_a_live_wall_uses_up_no_grant_that_was_given_for_pictures(rig: Rig) -> None:
    rig.use_policy(
        '[[contract]]\ntool = "screenshot"\nrisk = "medium"\nwhy = "Screens here show what is private."\n'
    )
    tool = next(one for one in rig.fleet.tools(DEVICE) if one.tool_name == "screenshot")
    terms = GrantTerms(
        id="g-pictures",
        approval="a-1",
        author="anna",
        devices=[DEVICE],
        tool_key=tool.tool_key,
        contract=tool.contract.digest,
        actors=["operator:anna"],
        arguments=exact_arguments({"max_width": 80}),
        risk=Risk.MEDIUM,
        uses=1,
        expires=(datetime.now(UTC) + timedelta(hours=1)).isoformat(),
    )
    rig.policy.grants.add(terms)
    refused = await glimpse(rig)
    assert refused.error is not None
    assert rig.policy.grants.get("g-pictures").used == 0
    # What it was given for still goes.
    assert (await rig.call("screenshot", max_width=80)).error is None
    assert rig.policy.grants.get("g-pictures").used == 1
