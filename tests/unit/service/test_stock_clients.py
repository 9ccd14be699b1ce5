"""Stock clients in a real service, over real sockets: their agents, their tools, no risk that they lower."""

from __future__ import annotations

import pytest

from core.fleet.models import DeviceSettings
from core.models.devices import Health
from core.models.tools import Risk
from tests.fakes.lab_device import FEATURES, device_when, pair
from tests.fakes.remote_device import stands
from tests.fakes.scripted_device import scripted, tool
from tests.fakes.stock_client import hardware_agent, stock_client


class TestStockClients:
    async def test_the_configured_agent_is_addressed(self, console):
        url, token = await pair(console, agent="HardwareAgent")
        async with scripted(url, token, "lab-1", ["HardwareAgent"]):
            device = await stands(console, "lab-1", Health.ONLINE)
            assert (device.agent, device.features, device.tool_count) == ("HardwareAgent", [], 1)
            assert device.client == "UFO device client"

    async def test_without_configuration_the_first_agent_that_answers_is_found(self, console):
        url, token = await pair(console)
        async with scripted(url, token, "lab-1", ["LinuxAgent"]):
            assert (await device_when(console, "device.agent")).agent == "LinuxAgent"

    async def test_one_whose_agent_was_found_is_asked_for_its_tools_again_by_that_name(self, console):
        url, token = await pair(console)
        agents = {"HardwareAgent": hardware_agent()}
        async with stock_client(f"{url}?token={token}", "lab-1", agents=agents) as client:
            assert (await device_when(console, "device.agent")).agent == "HardwareAgent"
            before = len(client.heard)
            await console.devices.reconnect("lab-1")
            again = client.heard[before:]
            assert again
            assert {frame["agent_name"] for frame in again} == {"HardwareAgent"}

    async def test_one_that_lacks_the_named_agent_says_so_and_serves_another(self, console):
        url, token = await pair(console, agent="HardwareAgent")
        async with scripted(url, token, "lab-1", ["LinuxAgent"]):
            lost = await stands(console, "lab-1", Health.OFFLINE, reason="of no use yet")
            assert "answers for none of the agents HardwareAgent" in lost.reason
            assert lost.reason.endswith("the MCP server of that agent is not running there.")
            checks = {check.name: check for check in await console.devices.diagnose("lab-1")}
            assert checks["tools"].state == "failed"
            assert "the MCP server of that agent" in checks["tools"].found
            assert "devices reconnect lab-1" in checks["tools"].next
            assert "addressed as HardwareAgent" in checks["protocol"].found
            await console.devices.update("lab-1", DeviceSettings(agent="LinuxAgent"))
            assert (await stands(console, "lab-1", Health.ONLINE)).agent == "LinuxAgent"

    @pytest.mark.parametrize("listed_first", ["action", "data_collection"])
    async def test_a_tool_that_it_lists_under_both_types_is_one_that_acts(self, console, listed_first):
        url, token = await pair(console)
        async with scripted(url, token, "lab-1") as device:
            types = sorted(["action", "data_collection"], reverse=listed_first != "action")
            device.tools = [tool("poke", tool_type=one) for one in types]
            await stands(console, "lab-1", Health.ONLINE)
            [found] = await console.devices.tools("lab-1")
            assert (found.tool_key, found.tool_type) == ("action::poke", "action")

    @pytest.mark.parametrize("metadata", [{}, {"features": FEATURES}])
    async def test_the_same_tool_twice_under_one_type_is_nonsense(self, console, metadata):
        url, token = await pair(console)
        async with scripted(url, token, "lab-1", **metadata) as device:
            device.tools = [tool("poke"), {**tool("poke"), "tool_key": "action::other"}]
            await stands(console, "lab-1", Health.OFFLINE, reason="lists the tool poke twice")

    async def test_one_whose_tools_could_not_be_listed_is_asked_again_at_its_next_heartbeat(self, console):
        url, token = await pair(console)
        async with scripted(url, token, "lab-1") as device:
            device.tools = [tool("poke"), {**tool("poke"), "tool_key": "action::other"}]
            await stands(console, "lab-1", Health.OFFLINE, reason="of no use yet")
            device.tools = [tool("poke")]
            await device.beat()
            heard = (await stands(console, "lab-1", Health.ONLINE)).last_heard
            asked = device.listed
            await device.beat()
            await device_when(console, f"device.last_heard > {heard!r}")
            assert device.listed == asked

    async def test_our_own_client_lists_no_tool_under_two_types(self, console):
        url, token = await pair(console)
        async with scripted(url, token, "lab-1", features=FEATURES) as device:
            device.tools = [tool("poke"), tool("poke", tool_type="data_collection")]
            await stands(console, "lab-1", Health.OFFLINE, reason="lists the tool poke twice")

    async def test_another_agent_is_addressed_as_soon_as_it_is_set(self, console):
        url, token = await pair(console)
        async with scripted(url, token, "lab-1", ["LinuxAgent", "MobileAgent"]) as device:
            await device_when(console, "device.agent == 'LinuxAgent'")
            device.tools = [tool("swipe")]
            await console.devices.update("lab-1", DeviceSettings(agent="MobileAgent"))
            await device_when(console, "device.agent == 'MobileAgent'")
            assert [one.tool_name for one in await console.devices.tools("lab-1")] == ["swipe"]


@pytest.mark.parametrize(("features", "risk"), [({}, Risk.HIGH), ({"features": FEATURES}, Risk.LOW)])
async def test_a_stock_client_does_not_lower_a_risk_by_calling_its_tools_like_ours(console, features, risk):
    url, token = await pair(console)
    async with scripted(url, token, "lab-1", **features) as device:
        device.tools = [{**tool("get_system_info", tool_type="data_collection"), "namespace": "builtin"}]
        await stands(console, "lab-1", Health.ONLINE)
        [found] = await console.devices.tools("lab-1")
        assert found.contract.risk.value is risk
