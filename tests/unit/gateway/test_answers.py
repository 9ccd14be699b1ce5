"""What an agent pays for an answer: what is the same on many devices is said once, what is long is cut."""

from __future__ import annotations

import asyncio
import base64
import io
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, types
from PIL import Image

from core.aip.pairing import decode_pairing
from core.approvals.operator_keys import OperatorKey
from core.fleet.models import DeviceSettings
from core.gateway.answers import LONGEST_EDGE, MOST_CHARACTERS, room_of_each
from core.home import Home
from core.models.devices import Health
from core.policy.agent_models import MOST_A_MINUTE, MOST_WAITING, AgentSettings
from core.service.console import Console
from core.service.local_console import LocalConsoles
from core.service.rpc.server import ControlServer
from core.service.service import Service
from tests.fakes.agents import add_agent
from tests.fakes.desk import approve, deny, next_approval, open_service
from tests.fakes.gateway import HERE, Connect, asked
from tests.fakes.pictures import desktop_png
from tests.fakes.remote_device import make_listening_home, stands
from tests.fakes.scripted_device import ScriptedDevice, scripted, tool

POKE = [{"tool": "poke", "arguments": {}}]
LAB = {"devices": "tag:lab", "commands": POKE}


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return make_listening_home(tmp_path / "home")


@pytest.fixture
async def service(home: Home) -> AsyncIterator[Service]:
    home.device_state.mkdir(parents=True, exist_ok=True)
    async with open_service(home) as service:
        control = ControlServer(LocalConsoles(service), home)
        await control.open()
        yield service
        await control.close()


@asynccontextmanager
async def lab(console: Console, count: int) -> AsyncIterator[list[ScriptedDevice]]:
    """Devices that dial in: lab-01, lab-02, …, with a tool that an operator must approve, and a camera."""
    async with AsyncExitStack() as stack:
        devices = []
        for number in range(1, count + 1):
            name = f"lab-{number:02}"
            pairing = await console.devices.pair(name, DeviceSettings(tags=["lab"]))
            secret = decode_pairing(pairing.string).token
            device = await stack.enter_async_context(scripted(pairing.url, secret, name))
            device.tools = [tool("poke"), tool("screenshot", "Takes a picture.", "data_collection")]
            devices.append(device)
        for device in devices:
            await stands(console, device.name, Health.ONLINE)
        yield devices


async def test_forty_devices_that_wait_alike_are_one_group_at_each_wait(
    connect: Connect, console: Console, key: OperatorKey
):
    token = await add_agent(
        console, key, "many", AgentSettings(waiting=MOST_WAITING, per_minute=MOST_A_MINUTE)
    )
    async with lab(console, 40) as devices, connect(token) as client:
        first = await asked(client, "run_commands", **LAB)
        again = await asked(client, "wait_run", ticket=first["ticket"], seconds=0)
        names = [device.name for device in devices]
        assert again["waiting"] == [{"count": 40, "devices": names, "tool_name": "poke"}]
        assert (again["state"], again["results"]) == ("waiting", [])
        assert "wait_run" in again["next"]
        assert len(json.dumps(again)) / 4 < 250


async def test_what_differs_is_told_apart_by_device_and_by_step(
    connect: Connect, console: Console, token: str, key: OperatorKey
):
    async with lab(console, 3) as devices, connect(token) as client:
        ticket = (await asked(client, "run_commands", devices="tag:lab", commands=POKE * 2))["ticket"]
        await deny(console, await next_approval(console), key, "Not this one.")
        stands_so = await asked(client, "wait_run", ticket=ticket, seconds=0)
        names = {device.name for device in devices}
        [denied] = [one for one in stands_so["results"] if one["error"]["code"] == "denied_by_operator"]
        assert (denied["step"], "Not this one." in denied["error"]["message"]) == (1, True)
        assert "count" not in denied
        waiting = {name for one in stands_so["waiting"] for name in one["devices"]}
        assert waiting == names - set(denied["devices"])
        await client.call_tool("cancel_run", {"ticket": ticket})


async def test_a_picture_comes_with_the_call_that_takes_it_and_no_other_does(
    connect: Connect, console: Console, token: str, key: OperatorKey
):
    large = base64.b64encode(desktop_png("lab-01", size=(1920, 1080))).decode()
    command = [{"tool": "screenshot", "arguments": {}}]
    async with lab(console, 1) as [device], connect(token) as client, asyncio.TaskGroup() as group:
        ticket = (await asked(client, "run_commands", devices="lab-01", commands=command))["ticket"]
        await approve(console, await next_approval(console), key)
        call = group.create_task(client.call_tool("wait_run", {"ticket": ticket, "seconds": 60}))
        await device.answer(await device.command(), {"media_type": "image/png", "data_base64": large})
        answer = await call
        text, picture = answer.content
        assert isinstance(text, types.TextContent)
        assert isinstance(picture, types.ImageContent)
        with Image.open(io.BytesIO(base64.b64decode(picture.data))) as image:
            assert max(image.size) == LONGEST_EDGE
        assert answer.structured_content["results"][0]["evidence"] == 1
        # A wait for a run that has ended gives it again: its answer may have been lost.
        waited = await client.call_tool("wait_run", {"ticket": ticket})
        assert waited.content[1] == picture


async def test_a_long_list_is_cut_between_its_elements_and_all_of_it_is_a_resource(
    connect: Connect, token: str, tmp_path: Path
):
    folder = tmp_path / "files"
    folder.mkdir()
    for number in range(900):
        (folder / f"file-{number:04}").touch()
    command = [{"tool": "list_directory", "arguments": {"path": str(folder)}}]
    async with connect(token) as client:
        done = await asked(client, "run_commands", devices=HERE, commands=command)
        [outcome] = done["results"]
        [(name, kept)] = [(name, part) for name, part in outcome["result"].items() if isinstance(part, list)]
        assert all(isinstance(element, dict) and element["name"] for element in kept)
        assert outcome["left_out"] == [f"result.{name}: the first {len(kept):,} of 900 elements"]
        assert len(json.dumps(outcome["result"])) < 1.2 * MOST_CHARACTERS
        whole = await _resource(client, outcome["whole"]["resource"])
        assert whole["result"][name][: len(kept)] == kept
        assert len(whole["result"][name]) == 900
        # The same for clients that read no resources.
        item, text, offset = outcome["whole"]["get_evidence_item"], "", 0
        while offset is not None:
            part = await asked(client, "get_evidence", ticket=done["ticket"], item=item, offset=offset)
            text, offset = text + part["text"], part.get("next_offset")
        assert json.loads(text) == whole["result"]
        assert len(text) == outcome["whole"]["characters"]


async def test_a_result_of_another_agent_is_no_resource(connect: Connect, token: str):
    async with connect(token) as client:
        for uri in ("result/t-AAAA/x", "result/x", "result/"):
            with pytest.raises(Exception, match=r"ticket"):
                await client.read_resource(f"quarterdeck://{uri}")


def test_many_long_results_share_the_room_of_an_answer():
    assert room_of_each(0) == room_of_each(1) == MOST_CHARACTERS
    assert room_of_each(10) == 4_000
    assert room_of_each(5_000) == room_of_each(10_000) == 400


async def test_a_tool_is_described_by_what_it_reaches_and_not_by_how_people_repair_it(
    connect: Connect, token: str
):
    async with connect(token) as client:
        shell = (await asked(client, "describe_tool", device=HERE, tool="shell_execute"))["tool"]
        look = (await asked(client, "describe_tool", device=HERE, tool="get_system_info"))["tool"]
    assert set(shell["scope"]) == {"network", "files", "processes"}
    assert "scope" not in look
    assert "quarterdeck " not in json.dumps([shell, look])


async def _resource(client: Client, uri: str) -> dict[str, Any]:
    [content] = (await client.read_resource(uri)).contents
    value: dict[str, Any] = json.loads(content.text)
    return value
