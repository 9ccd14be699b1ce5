"""What a remote device cannot offer, as it changes: told with `quarterdeck.tools_changed`, and bounded."""

from __future__ import annotations

import re
from typing import Any

import pytest

from core.errors import BadInput
from core.fleet.registration import MOST_UNAVAILABLE, MOST_WORDS
from core.models.devices import Health
from core.service.console import Console
from tests.fakes.lab_device import FEATURES, device_when, pair
from tests.fakes.patience import PATIENCE_S
from tests.fakes.remote_device import stands
from tests.fakes.scripted_device import scripted, tool

ROW = {"tool": "files", "reason": "MCP server: It ended", "how_to_fix": "Start it by hand"}


async def test_a_server_that_fails_after_the_registration_is_seen_and_so_is_that_it_came_back(
    console: Console,
):
    url, token = await pair(console)
    async with scripted(url, token, "lab-1", features=FEATURES) as device:
        assert (await stands(console, "lab-1", Health.ONLINE)).unavailable == []
        await device.say(type="quarterdeck.tools_changed", unavailable=[ROW])
        [row] = (await device_when(console, "device.unavailable")).unavailable
        assert row.model_dump() == ROW
        # As an earlier version says it: nothing is known anew, so what was told stays.
        device.tools = [tool("poke"), tool("prod")]
        await device.say(type="quarterdeck.tools_changed")
        assert (await device_when(console, "device.tool_count == 2")).unavailable == [row]
        await device.say(type="quarterdeck.tools_changed", unavailable=[])
        await device_when(console, "not device.unavailable")


async def test_who_names_a_tool_that_is_not_offered_is_told_the_reason(console: Console):
    url, token = await pair(console)
    async with scripted(url, token, "lab-1", features=FEATURES) as device:
        await stands(console, "lab-1", Health.ONLINE)
        await device.say(type="quarterdeck.tools_changed", unavailable=[ROW])
        await device_when(console, "device.unavailable")
        words = "lab-1 does not offer files: MCP server: It ended. Start it by hand."
        with pytest.raises(BadInput, match=re.escape(words)):
            await console.devices.describe("lab-1", "files")
        run = await console.runs.call("lab-1", "files", {})
        [cell] = (await console.runs.wait(run.summary.id, PATIENCE_S)).cells
        assert cell.result is not None
        assert cell.result.error is not None
        assert cell.result.error.message == words


@pytest.mark.parametrize(
    "rows",
    [
        [{**ROW, "reason": "x" * 10_000}] * 500,
        [*([{"tool": 7, "reason": None}] * 100), ROW],
    ],
)
async def test_a_device_that_says_too_much_fills_nothing(console: Console, rows: list[dict[str, Any]]):
    url, token = await pair(console)
    async with scripted(url, token, "lab-1", features=FEATURES) as device:
        await stands(console, "lab-1", Health.ONLINE)
        await device.say(type="quarterdeck.tools_changed", unavailable=rows)
        device.tools = [tool("poke"), tool("prod")]
        await device.say(type="quarterdeck.tools_changed")
        found = (await device_when(console, "device.tool_count == 2")).unavailable
        assert len(found) <= MOST_UNAVAILABLE
        assert all(len(row.reason) <= MOST_WORDS for row in found)


async def listings(console: Console) -> list[str]:
    """The kinds of the journal's entries of a listing or a connection of the device, oldest first."""
    page = await console.journal.entries("device:lab-1", limit=200)
    kinds = [entry.kind for entry in page.entries if entry.tool == "list_tools"]
    return sorted(kinds + [entry.kind for entry in page.entries if entry.kind == "device_connected"])


async def test_a_listing_that_changes_nothing_that_was_pinned_is_in_the_journal_once(console: Console):
    url, token = await pair(console)
    async with scripted(url, token, "lab-1", features=FEATURES) as device:
        await stands(console, "lab-1", Health.ONLINE)
        at_first = ["command_sent", "device_connected", "result_recorded"]
        assert await listings(console) == at_first
        both = [tool("poke"), tool("prod")]
        for count, offered in ((2, both), (1, both[:1]), (2, both), (1, both[1:]), (2, both)):
            device.tools = offered
            await device.say(type="quarterdeck.tools_changed")
            await device_when(console, f"device.tool_count == {count}")
        # The first of these had a tool that was new.
        again = ["command_sent", "result_recorded"]
        assert await listings(console) == sorted(at_first + again)
        # A tool that is another now is blocked, and the listing that said so is kept.
        device.tools = [tool("poke", description="Pokes twice."), tool("prod")]
        await device.say(type="quarterdeck.tools_changed")
        await device_when(console, "device.changed_tools")
        assert await listings(console) == sorted(at_first + again * 2)
