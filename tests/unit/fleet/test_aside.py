"""A device that lists megabytes of tools keeps no other waiting, and leaves no trust when it goes."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from core.aip.contract_digest import definition_of
from core.aip.messages import ToolInfo
from core.audit.entries import Kind
from core.canonical_json import digest_of
from core.errors import DeviceError, ErrorCode, QuarterdeckError
from core.fleet import contracts, tool_catalog
from core.fleet.contracts import judge
from core.fleet.device_state import DeviceIdentity
from core.home import Home
from core.models.tools import Risk
from tests.fakes.rig import DEVICE, USUAL_TOOLS, Rig, ScriptedTools, open_rig, tool_info
from tests.fakes.work import Share, longest_turn, most_calls

HOSTILE = "hostile"
# Of the work that its listing makes, what may be done in one turn of the loop.
MOST_OF_ALL = 0.2
CALLS_FOR_A_TOOL = 400
# Numbers that are written in an unusual way cost most: 1.5 MB of them took a second.
UNUSUAL = [1e22] * 1_000


def large(number: int, words: str = "") -> ToolInfo:
    schema = {"type": "object", "default": UNUSUAL, "description": words}
    return tool_info(f"t{number}").model_copy(update={"input_schema": schema, "meta": {"x": words}})


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home").create()


async def arrives(rig: Rig, infos: list[ToolInfo], still: Any = lambda: True) -> None:
    """The hostile device comes and lists these."""
    from core.commands.channel import LocalCommandDispatcher
    from core.fleet.fleet import ConnectionInfo

    if HOSTILE not in [device.name for device in rig.fleet.devices()]:
        rig.fleet.know(HOSTILE, DeviceIdentity([]))
    channel = LocalCommandDispatcher(HOSTILE, ScriptedTools(infos), rig.dispatcher.gate)
    arrival = ConnectionInfo(channel, "websocket", "linux", "test", "test", [], None, ours=False)
    await rig.fleet.arrived(HOSTILE, arrival, still)


async def answered_while(rig: Rig, work: Any) -> tuple[Share, int]:
    """The longest turn of the loop while something is done, and how often another device was asked."""
    done = asyncio.Event()
    answered = 0

    async def others() -> None:
        nonlocal answered
        while not done.is_set():
            assert (await rig.call("screenshot")).error is None
            answered += 1
            # The scripted device answers within the same turn: somebody else must get one, too.
            await asyncio.sleep(0.004)

    async def doing() -> None:
        try:
            await work
        finally:
            done.set()

    share = await longest_turn(lambda: asyncio.gather(others(), doing()))
    return share, answered


async def test_a_device_that_lists_megabytes_does_not_stop_the_loop(home: Home) -> None:
    async with open_rig(home) as rig:
        share, answered = await answered_while(rig, arrives(rig, [large(n) for n in range(120)]))
        assert share.of_all < MOST_OF_ALL, share
        assert answered > 5
        assert len(rig.fleet.tools(HOSTILE)) == 120


async def test_two_thousand_small_tools_do_not_stop_the_loop(
    home: Home,
) -> None:
    async with open_rig(home) as rig:
        infos = [tool_info(f"t{n}", "action", {"a": {}}) for n in range(1_900)]
        share, _ = await answered_while(rig, arrives(rig, infos))
        assert share.of_all < MOST_OF_ALL, share


async def test_an_operators_word_on_many_tools_is_taken_in_few_steps_for_each(home: Home) -> None:
    async with open_rig(home) as rig:
        await arrives(rig, [tool_info(f"t{n}", "action", {"a": {}}) for n in range(400)])
        rig.use_policy('[[contract]]\ntool = "t*"\nrisk = "medium"\nwhy = "Looked at."\n')
        with most_calls(400 * CALLS_FOR_A_TOOL):
            tools = rig.fleet.tools(HOSTILE)
        assert {tool.contract.risk.value for tool in tools} == {Risk.MEDIUM}
        assert len({tool.contract.digest for tool in tools}) == 400


@pytest.mark.parametrize("infos", [[large(n) for n in range(40)], USUAL_TOOLS], ids=["large", "small"])
async def test_a_device_that_goes_while_it_is_looked_at_leaves_no_trust(
    home: Home, infos: list[ToolInfo]
) -> None:
    async with open_rig(home) as rig:
        before = home.contracts.read_bytes()
        looks = 0

        def still() -> bool:
            nonlocal looks
            looks += 1
            return looks < 2

        with pytest.raises(DeviceError, match="went away") as gone:
            await arrives(rig, infos, still)
        assert gone.value.code is ErrorCode.DEVICE_OFFLINE
        assert home.contracts.read_bytes() == before
        assert rig.fleet.get(HOSTILE).health.value == "offline"
        assert not rig.fleet.tools(HOSTILE)
        pinned = await rig.entries(f"kind:{Kind.CONTRACT_PINNED} device:{HOSTILE}")
        assert pinned == []


async def test_a_device_that_is_forgotten_while_it_is_looked_at_is_a_stranger_when_it_comes_again(
    home: Home,
) -> None:
    async with open_rig(home) as rig:
        looked_at = asyncio.Event()

        def still() -> bool:
            looked_at.set()
            return True

        coming = rig.tasks.spawn("come", arrives(rig, [large(n) for n in range(40)], still))
        await looked_at.wait()
        await rig.fleet.forget(HOSTILE)
        with pytest.raises(DeviceError, match="went away"):
            await coming
        assert HOSTILE not in home.contracts.read_text()
        await arrives(rig, [large(0, "otherwise")])
        assert [tool.changed for tool in rig.fleet.tools(HOSTILE)] == [False]


async def test_the_later_of_two_listings_counts_however_long_the_earlier_takes(home: Home) -> None:
    async with open_rig(home) as rig:
        newer = asyncio.Event()
        slow = rig.tasks.spawn(
            "the old link", arrives(rig, [large(n) for n in range(40)], lambda: not newer.is_set())
        )
        await asyncio.sleep(0)
        await arrives(rig, [tool_info("t0", "data_collection")])
        newer.set()
        with pytest.raises(DeviceError):
            await slow
        assert [(tool.tool_type, tool.changed) for tool in rig.fleet.tools(HOSTILE)] == [
            ("data_collection", False)
        ]


async def test_few_small_tools_need_no_thread(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    async def never(*_: Any) -> Any:
        raise AssertionError("a thread was asked")

    async with open_rig(home) as rig:
        monkeypatch.setattr(tool_catalog.asyncio, "to_thread", never)
        assert await tool_catalog.read_tools(USUAL_TOOLS, asyncio.Lock(), lambda: True)
        monkeypatch.undo()
        assert len(rig.fleet.tools(DEVICE)) == len(USUAL_TOOLS)


def test_the_digest_of_a_contract_is_that_of_its_definition_and_facts_as_ever() -> None:
    for info in (*USUAL_TOOLS, large(1)):
        contract = judge(info)
        facts = contract.model_dump(mode="json", exclude={"digest"})
        assert contract.digest == digest_of({"definition": definition_of(info), "facts": facts})


def test_a_device_with_many_tools_does_not_drive_the_contracts_of_others_out_for_good(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(contracts, "_MOST_CONTRACTS", 10)
    contracts._CONTRACTS.clear()
    strange = contracts.claims_of(USUAL_TOOLS[0], False)
    for number in range(30):
        contracts.contract_of(contracts.read_tool(tool_info(f"t{number}")), strange)
    usual = contracts.read_tool(USUAL_TOOLS[0])
    assert contracts.contract_of(usual, strange) is contracts.contract_of(usual, strange)
    assert len(contracts._CONTRACTS) == 10


class TestWhatADeviceMayFill:
    """Each listing is a few kilobytes on the disk, whatever the device makes of it."""

    @pytest.mark.parametrize("field", ["tool_name", "tool_key"])
    async def test_a_name_of_a_tool_is_no_longer_than_a_name_can_be(self, home: Home, field: str) -> None:
        async with open_rig(home) as rig:
            info = tool_info("x").model_copy(update={field: "x" * 60_000})
            with pytest.raises(QuarterdeckError, match="more than 256 characters") as refused:
                await arrives(rig, [info])
            assert refused.value.code is ErrorCode.TOO_LARGE

    async def test_what_is_blocked_is_noted_once_however_often_it_is_listed(self, home: Home) -> None:
        async with open_rig(home, [tool_info("x")]) as rig:
            for words in ("Other.", "Other.", "Other.", "Still another."):
                rig.tools.infos = [tool_info("x").model_copy(update={"description": words})]
                await rig.fleet.relist(DEVICE)
            noted = await rig.entries(f"kind:{Kind.CONTRACT_CHANGED}")
            assert len(noted) == 2

    async def test_an_entry_names_so_many_changed_tools_and_counts_the_rest(self, home: Home) -> None:
        async with open_rig(home, [tool_info(f"t{n}") for n in range(150)]) as rig:
            rig.tools.infos = [one.model_copy(update={"title": "Other"}) for one in rig.tools.infos]
            await rig.fleet.relist(DEVICE)
            assert all(tool.changed for tool in rig.fleet.tools(DEVICE))
            [noted] = await rig.entries(f"kind:{Kind.CONTRACT_CHANGED}")
            assert (len(noted.body["tools"]), noted.body["more"]) == (tool_catalog.MOST_NAMED, 50)

    async def test_so_much_is_kept_of_what_one_device_says_of_its_tools(
        self, home: Home, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(tool_catalog, "MOST_KEPT", 20_000)
        async with open_rig(home, []) as rig:
            await arrives(rig, [large(n) for n in range(9)])
            [pinned] = await rig.entries(f"kind:{Kind.CONTRACT_PINNED} device:{HOSTILE}")
            assert 0 < len(pinned.blobs) < 9
            assert len(pinned.body["tools"]) == 9
