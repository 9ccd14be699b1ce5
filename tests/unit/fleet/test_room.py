"""A device that makes up new tools without end fills neither the disk nor the memory of the console."""

from __future__ import annotations

import pytest

from core.errors import ErrorCode, QuarterdeckError
from core.fleet import tool_catalog
from core.fleet.doctor import Doctor
from core.home import Home
from tests.fakes.rig import DEVICE, USUAL_TOOLS, Rig, open_rig, tool_info

ROOM = len(USUAL_TOOLS) + 2


@pytest.fixture(autouse=True)
def little_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tool_catalog, "MOST_PINNED", ROOM)


async def list_again(rig: Rig, *names: str) -> None:
    rig.tools.infos = [*USUAL_TOOLS, *(tool_info(name, "data_collection") for name in names)]
    await rig.fleet.relist(DEVICE)


async def test_so_many_names_and_no_more_are_ever_pinned(home: Home) -> None:
    async with open_rig(home) as rig:
        await list_again(rig, "first")
        await list_again(rig, "second")
        pinned = home.contracts.read_bytes()
        for turn in range(3):
            with pytest.raises(QuarterdeckError, match="different tools") as refused:
                await list_again(rig, f"more_{turn}")
            assert refused.value.code is ErrorCode.TOO_LARGE
        assert home.contracts.read_bytes() == pinned
        # What was known stays, and goes on.
        assert {tool.tool_name for tool in rig.fleet.tools(DEVICE)} >= {"second", "screenshot"}
        assert (await rig.call("screenshot")).error is None


async def test_names_that_were_there_before_need_no_room(home: Home) -> None:
    async with open_rig(home) as rig:
        for names in (("first", "second"), ("first",), ("second",), ("first", "second")):
            await list_again(rig, *names)
        assert {"first", "second"} <= {tool.tool_name for tool in rig.fleet.tools(DEVICE)}


class NoDevices:
    """A registry of paired devices that has none: what is examined is this computer."""

    def find(self, name: str) -> None:
        """The pairing of a device."""


async def test_a_list_that_cannot_be_read_again_is_named_until_it_can(home: Home) -> None:
    async with open_rig(home) as rig:
        await list_again(rig, "first")
        with pytest.raises(QuarterdeckError):
            await list_again(rig, "second", "third")
        device = rig.fleet.get(DEVICE)
        [row] = device.unavailable
        assert row.tool == "list of tools"
        assert "different tools" in row.reason
        examined = await Doctor(NoDevices(), None, None).examine(device, None)  # type: ignore[arg-type]
        [check] = [check for check in examined if check.name == "tools"]
        assert "could not be read again" in check.found
        await list_again(rig, "first")
        assert rig.fleet.get(DEVICE).unavailable == []
