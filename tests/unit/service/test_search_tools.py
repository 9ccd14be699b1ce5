"""The search for tools through the console API, in a real service with devices that dial in."""

from __future__ import annotations

import pytest

from core.errors import BadInput
from core.home import Home
from core.models.devices import Health
from core.models.tools import Effect, Risk
from core.service.console import Console
from core.service.local_console import LocalConsole
from tests.fakes.desk import choose_channel, open_service
from tests.fakes.lab_device import device_when, pair
from tests.fakes.patience import PATIENCE_S
from tests.fakes.remote_device import stands
from tests.fakes.scripted_device import scripted, tool

TOOLS = [tool("poke", "Presses the red button."), tool("peek", "Says what the red button shows.")]


async def test_a_tool_of_a_remote_device_is_found_and_gone_with_its_listing(console: Console):
    url, token = await pair(console, tags=["lab"])
    async with scripted(url, token, "lab-1", features=["tools_changed"]) as device:
        device.tools = TOOLS
        await stands(console, "lab-1", Health.ONLINE)
        hits = await console.devices.search("red button", "name:lab-1")
        assert [(hit.device, hit.tool) for hit in hits] == [("lab-1", "poke"), ("lab-1", "peek")]
        assert hits[0].reasons == ["description: red, button"]
        assert (hits[0].effect, hits[0].risk) == (Effect.UNKNOWN, Risk.HIGH)
        assert [hit.tool for hit in await console.devices.search("poke", "tag:lab")] == ["poke"]
        assert await console.devices.search("poke", "name:lab-1 !tag:lab") == []
        device.tools = [tool("other")]
        await device.say(type="quarterdeck.tools_changed")
        await device_when(console, "device.tool_count == 1")
        assert [hit.tool for hit in await console.devices.search("", "name:lab-1")] == ["other"]


async def test_past_results_count_before_and_after_a_restart_of_the_service(home: Home):
    choose_channel(home, "in-process")

    async def score(console: Console) -> float:
        [hit] = [hit for hit in await console.devices.search("memory") if hit.tool == "get_system_info"]
        return hit.score

    async with open_service(home) as service:
        console = LocalConsole(service, "operator:anna")
        before = await score(console)
        run = await console.runs.call("this-computer", "get_system_info", {"info_type": "memory"})
        await console.runs.wait(run.summary.id, PATIENCE_S)
        after = await score(console)
        assert after > before
    async with open_service(home) as service:
        assert await score(LocalConsole(service, "operator:anna")) == after


async def test_a_malformed_filter_and_too_long_a_query_are_refused(console: Console):
    with pytest.raises(BadInput, match="Column"):
        await console.devices.search("poke", "health:purple")
    with pytest.raises(BadInput, match="at most"):
        await console.devices.search("x" * 501)


async def test_forgetting_a_device_takes_its_tools_out_of_the_search(console: Console):
    url, token = await pair(console)
    async with scripted(url, token, "lab-1") as device:
        device.tools = TOOLS
        await stands(console, "lab-1", Health.ONLINE)
        assert await console.devices.search("poke", "name:lab-1")
        await console.devices.forget("lab-1")
        assert await console.devices.search("poke") == []
