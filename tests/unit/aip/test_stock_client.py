"""A stock UFO device client, unmodified, and its quirks taken for what they are."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from core.aip.device_link import DeviceLink
from core.aip.limits import LinkLimits
from core.aip.messages import Command, ResultStatus
from core.aip.tool_discovery import QUESTION_S, SEARCH_S, STOCK_AGENTS, list_tools, probe_agents
from core.errors import DeviceError, ErrorCode, Refused
from tests.fakes.aip_house import House, fails, look, running_house, soon
from tests.fakes.patience import PATIENCE_S
from tests.fakes.stock_client import (
    API_KEY,
    Server,
    StockClient,
    StockTool,
    hardware_agent,
    linux_agent,
    read_sensor,
    stock_client,
)


@pytest.fixture
async def house() -> AsyncIterator[House]:
    async with running_house() as built:
        yield built


@asynccontextmanager
async def stock(house: House, **more: Any) -> AsyncIterator[tuple[StockClient, DeviceLink]]:
    options = {"pause_s": 0.001, **more}
    async with stock_client(f"{house.server.url}?token=token-one", "d1", **options) as client:
        yield client, await soon(house.connected.get())


def run(command: str, key: str = API_KEY, call_id: str = "c1", **more: Any) -> Command:
    parameters = {"command": command, "api_key": key, **more}
    return Command(tool_name="execute_command", tool_type="action", parameters=parameters, call_id=call_id)


def press(seconds: float, call_id: str = "c1") -> Command:
    return Command(
        tool_name="press_button", tool_type="action", parameters={"seconds": seconds}, call_id=call_id
    )


async def test_it_registers_by_the_token_in_its_address_and_is_sent_plain_aip(house: House) -> None:
    async with stock(house) as (client, link):
        await soon(client.registered.wait())
        assert link.features == frozenset()
        assert link.metadata["system_info"]["hostname"] == "bench"
        await soon(house.send(link, run("echo hi")))
        await soon(house.send(link, run("echo hi").model_copy(update={"quarterdeck": {"digest": "x"}})))
        ack, *commands = client.heard
        assert (ack["type"], ack["status"], ack["result"]) == ("heartbeat", "ok", None)
        assert all("quarterdeck" not in str(frame) for frame in client.heard)
        # The very fields that a stock server writes, in its order.
        fields = "type status user_request agent_name process_name root_name actions messages error"
        fields += " session_id task_name timestamp response_id result"
        assert [" ".join(frame) for frame in client.heard] == [fields] * 3
        assert list(commands[0]["actions"][0]) == ["tool_name", "parameters", "tool_type", "call_id"]


def asked(client: StockClient) -> list[tuple[str, int]]:
    """The command frames that a client has heard: whom each addresses, and how many actions it has."""
    frames = [frame for frame in client.heard if frame["type"] == "command"]
    return [(frame["agent_name"], len(frame["actions"])) for frame in frames]


async def test_its_agent_is_found_by_asking_each_likely_one(house: House) -> None:
    async with stock(house, agents={"HardwareAgent": hardware_agent()}) as (client, link):
        agent, tools = await probe_agents(link, question_s=0.3)
        assert agent == link.agent_name == "HardwareAgent"
        names, types = ("read_sensor", "press_button"), ("data_collection", "action")
        assert {tool.tool_key for tool in tools} == {f"{kind}::{name}" for kind in types for name in names}
        assert set(client.dropped) == {"unknown agent"}


async def test_it_is_asked_one_thing_at_a_time_and_acknowledged_before(house: House) -> None:
    async with stock(house, agents={"HardwareAgent": hardware_agent()}) as (client, link):
        await probe_agents(link, question_s=0.3)
        assert client.heard[0]["type"] == "heartbeat"
        # A frame of no actions is answered by whatever client, once it is done with the question before.
        silence = [("LinuxAgent", 1), ("LinuxAgent", 0)]
        assert asked(client) == [*silence, *silence, ("HardwareAgent", 1)]


async def test_an_agent_that_has_data_collection_only_is_found_too(house: House) -> None:
    reads = Server("Only", {"read_sensor": StockTool(read_sensor, {})})
    async with stock(house, agents={"LinuxAgent": {"data_collection": reads}}) as (_, link):
        agent, tools = await probe_agents(link, ["LinuxAgent"], 0.3)
        assert (agent, [tool.tool_name for tool in tools]) == ("LinuxAgent", ["read_sensor"])


async def test_an_agent_without_tools_is_found_and_its_null_is_an_empty_list(house: House) -> None:
    async with stock(house, agents={"LinuxAgent": {"action": Server("Empty", {})}}) as (_, link):
        assert await probe_agents(link, question_s=0.5) == ("LinuxAgent", [])


async def test_a_device_with_no_known_agent_says_so_and_keeps_its_link(house: House) -> None:
    async with stock(house, agents={"OtherAgent": linux_agent()}) as (_, link):
        with pytest.raises(DeviceError, match="none of the agents LinuxAgent, HostAgent"):
            await probe_agents(link, ["LinuxAgent", "HostAgent"], 0.05)
        link.agent_name = "OtherAgent"
        assert len(await list_tools(link, 5)) == 2


async def test_that_none_of_the_stock_agents_is_there_is_known_after_two_questions_for_each(
    house: House,
) -> None:
    async with stock(house, agents={"OtherAgent": linux_agent()}, pause_s=0.01) as (client, link):
        with pytest.raises(DeviceError, match="none of the agents") as caught:
            await probe_agents(link, question_s=0.1)
        assert caught.value.code is ErrorCode.PROTOCOL_ERROR
        assert len(client.dropped) == 2 * len(STOCK_AGENTS)
    assert 2 * len(STOCK_AGENTS) * QUESTION_S <= SEARCH_S == 8


async def test_an_agent_that_is_slow_to_start_is_found_and_nobody_is_asked_in_its_place(house: House) -> None:
    both = {"LinuxAgent": linux_agent(), "HardwareAgent": hardware_agent()}
    async with stock(house, agents=both, start_s=0.4) as (client, link):
        agent, tools = await probe_agents(link, question_s=0.1)
        assert (agent, link.agent_name, len(tools)) == ("LinuxAgent", "LinuxAgent", 2)
        assert {name for name, _ in asked(client)} == {"LinuxAgent"}


async def test_a_device_that_answers_every_question_late_is_found_and_its_data_too(house: House) -> None:
    reads = {"data_collection": Server("Only", {"read_sensor": StockTool(read_sensor, {})})}
    async with stock(house, agents={"HostAgent": reads}, pause_s=0.3) as (_, link):
        agent, tools = await probe_agents(link, ["LinuxAgent", "HostAgent"], 0.05)
        assert (agent, [tool.tool_name for tool in tools]) == ("HostAgent", ["read_sensor"])
        # What the console itself asked is no command, so nobody is told that it was answered late.
        assert house.late.empty()


async def test_a_device_that_is_still_at_work_is_waited_for(house: House) -> None:
    async with stock(house, agents={"HardwareAgent": hardware_agent()}) as (client, link):
        link.agent_name = "HardwareAgent"
        napping = house.send(link, press(0.5), timeout=0.05)
        await fails(napping, ErrorCode.OUTCOME_UNKNOWN)
        assert (await probe_agents(link, ["HardwareAgent", "LinuxAgent"], 0.1))[0] == "HardwareAgent"
        assert {name for name, _ in asked(client)} == {"HardwareAgent"}


async def test_a_device_that_hangs_is_not_said_to_lack_an_agent(house: House) -> None:
    async with stock(house, agents={"HardwareAgent": hardware_agent()}) as (client, link):
        link.agent_name = "HardwareAgent"
        await fails(house.send(link, press(60), timeout=0.05), ErrorCode.OUTCOME_UNKNOWN)
        with pytest.raises(DeviceError, match=r"silent for 0.3 s: it is still at work") as caught:
            await probe_agents(link, question_s=0.1, search_s=0.3)
        assert (caught.value.code, link.agent_name) == (ErrorCode.TIMEOUT, "HardwareAgent")
        assert client.ran == ["press_button"]


async def test_the_search_is_over_when_the_link_is(house: House) -> None:
    async with stock(house, agents={}) as (_, link):
        searching = house.tasks.spawn("search", probe_agents(link, question_s=60))
        await asyncio.sleep(0)  # lets it ask its first question
        await link.close("cut")
        with pytest.raises(DeviceError, match="cut"):
            await soon(searching)


async def test_commands_run_and_what_they_return_comes_as_it_is(house: House) -> None:
    async with stock(house) as (_, link):
        [ok] = await soon(house.send(link, run("echo hi")))
        [refused] = await soon(house.send(link, run("echo hi", "wrong")))
        [bad] = await soon(house.send(link, run("test 1 = 2")))
        assert ok.result == {"success": True, "exit_code": 0, "stdout": "hi\n", "stderr": ""}
        assert (refused.status, refused.result["success"]) == (ResultStatus.SUCCESS, False)
        assert (bad.status, bad.result["exit_code"]) == (ResultStatus.SUCCESS, 1)


async def test_falsy_values_arrive_as_null(house: House) -> None:
    async with stock(house, agents={"LinuxAgent": hardware_agent()}) as (_, link):
        [pressed] = await soon(house.send(link, press(0)))
        assert (pressed.status, pressed.result) == (ResultStatus.SUCCESS, None)


async def test_after_a_failure_the_rest_is_skipped(house: House) -> None:
    async with stock(house) as (client, link):
        missing = Command(tool_name="execute_command", tool_type="action", parameters={}, call_id="c2")
        results = await soon(house.send(link, run("echo a"), missing, run("echo b", call_id="c3")))
        assert [result.status.value for result in results] == ["success", "failure", "skipped"]
        assert client.ran == ["execute_command", "execute_command"]


@pytest.mark.parametrize(
    "silence",
    [
        Command(tool_name="no_such_tool", tool_type="action", call_id="c1"),
        Command(tool_name="read_sensor", tool_type="data_collection", call_id="c1"),
        Command(tool_name="list_tools", tool_type="action", parameters={"bogus": 1}, call_id="c1"),
        Command(tool_name="list_tools", tool_type="data_collection", call_id="c1"),
        Command(tool_name="list_tools", tool_type="action", parameters={"remove_meta": False}, call_id="c1"),
    ],
)
async def test_silence_becomes_an_unknown_outcome_by_our_deadline_and_the_queue_goes_on(
    house: House, silence: Command
) -> None:
    async with stock(house) as (client, link):
        silent = house.send(link, silence, timeout=0.1)
        waiting = house.send(link, run("echo next"), timeout=20)
        await fails(silent, ErrorCode.OUTCOME_UNKNOWN)
        assert (await soon(waiting))[0].result["stdout"] == "next\n"
        assert len(client.dropped) == 1
        assert link.waiting == 0


async def test_it_is_sent_one_frame_at_a_time_and_each_deadline_begins_with_its_sending(
    house: House,
) -> None:
    async with stock(house, agents={"LinuxAgent": hardware_agent()}) as (client, link):
        # Each takes 0.1 s of its 1 s; in one heap the last would have none left.
        sendings = [house.send(link, press(0.1, f"c{index}"), timeout=1) for index in range(11)]
        await soon(client.running.wait())
        assert len([frame for frame in client.heard if frame["type"] == "command"]) == 1
        assert link.waiting == 11
        for index, sending in enumerate(sendings):
            assert (await soon(sending))[0].call_id == f"c{index}"


async def test_who_waits_too_long_for_its_turn_is_told_that_nothing_was_sent() -> None:
    limits = LinkLimits(queue_s=0.1, queue_most=1)
    async with (
        running_house(limits) as house,
        stock(house, agents={"LinuxAgent": hardware_agent()}) as (client, link),
    ):
        long = house.send(link, press(0.5, "long"))
        await soon(client.running.wait())
        waits = house.send(link, press(0, "waits"))
        await asyncio.sleep(0)  # lets it take its place in the queue
        one_too_many = house.send(link, press(0, "more"))
        for refused in (one_too_many, waits):
            with pytest.raises(Refused, match="nothing was sent") as caught:
                await soon(refused)
            assert caught.value.code is ErrorCode.TIMEOUT
        assert (await soon(long))[0].call_id == "long"
        assert client.ran == ["press_button"]


async def test_what_waits_when_the_link_ends_was_never_sent(house: House) -> None:
    async with stock(house, agents={"LinuxAgent": hardware_agent()}) as (client, link):
        began = house.send(link, press(0.3, "began"))
        await soon(client.running.wait())
        waits = house.send(link, press(0, "waits"))
        await asyncio.sleep(0)
        await link.close("cut")
        await fails(began, ErrorCode.OUTCOME_UNKNOWN)
        await fails(waits, ErrorCode.DEVICE_OFFLINE)


async def test_a_late_answer_is_reported_as_late(house: House) -> None:
    async with stock(house, agents={"LinuxAgent": hardware_agent()}) as (_, link):
        await fails(house.send(link, press(0.2), timeout=0.05), ErrorCode.OUTCOME_UNKNOWN)
        assert (await soon(house.late.get())).call_ids == ("c1",)
        assert (await soon(house.send(link, press(0, "c2"))))[0].call_id == "c2"


async def test_its_heartbeats_are_answered(house: House) -> None:
    async with stock(house, heartbeat_s=0.05) as (client, _):
        beat = await soon(house.beats.get())
        assert beat.metrics is None
        assert abs(beat.clock_offset_ms) < 1000
        async with asyncio.timeout(PATIENCE_S):
            while len(client.heard) < 2:
                await house.beats.get()
        assert client.heard[1]["type"] == "heartbeat"


async def test_it_is_never_asked_to_cancel_nor_what_became_of_a_call(house: House) -> None:
    async with stock(house, agents={"LinuxAgent": hardware_agent()}) as (client, link):
        running = house.send(link, press(0.1))
        await soon(client.running.wait())
        assert await link.cancel("c1") is False
        with pytest.raises(DeviceError, match="keeps no results"):
            await link.recall(["c1"], 1)
        await soon(running)
        assert len([frame for frame in client.heard if frame["type"] == "command"]) == 1


async def test_a_look_at_a_stock_device_is_one_action_for_one_frame(house: House) -> None:
    async with stock(house) as (client, link):
        await fails(house.send(link, look(), timeout=0.1), ErrorCode.OUTCOME_UNKNOWN)
        [frame] = [frame for frame in client.heard if frame["type"] == "command"]
        assert len(frame["actions"]) == 1
