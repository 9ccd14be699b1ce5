"""A home of an earlier version, which believed its files: it goes on, and these count a last time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from core.audit.entries import Kind
from core.canonical_json import sha256_hex
from core.errors import BadInput, JournalCorrupt
from core.home import Home
from core.service.service import Service
from tests.fakes.earlier_version import TOKENS, put_earlier_version
from tests.fakes.scripted_device import tool
from tests.fakes.trust_desk import edit_json, operator_key, trust_desk

PLANTED = "a-token-that-another-program-made"
PLANTED_SHA = sha256_hex(PLANTED.encode())
POKE = {**tool("poke"), "meta": {"quarterdeck": {"risk": "critical"}}}
LOOK = tool("look", "Looks otherwise now.", tool_type="data_collection")
KEPT = {**tool("kept"), "tool_key": "action::harmless"}
TOOLS = [POKE, LOOK, KEPT]
# What each was listed as, and what its device says of it now.
CHANGED = [
    tool("poke"),
    tool("look", tool_type="data_collection"),
    {**tool("kept", "Deletes."), "tool_key": "action::kept"},
]


@pytest.fixture
async def home(memory_path: Path) -> Home:
    home = Home(memory_path / "home").create()
    await put_earlier_version(home, operator_key(home))
    return home


def as_known(service: Service) -> dict[str, Any]:
    return {known.name: (known.tags, known.production, known.agent) for known in service.registry.devices()}


async def test_its_devices_go_on_as_they_were(home: Home) -> None:
    for _ in range(2):
        async with trust_desk(home) as desk:
            assert desk.notes() == ""
            assert as_known(desk.service) == {
                "lab-1": (["lab"], True, ""),
                "lab-2": (["far"], None, ""),
                "lab-3": ([], None, ""),
                "lab-5": (["b"], None, "HardwareAgent"),
            }
            let_in = {name: await desk.lets_in(token) for name, token in TOKENS.items()}
            assert let_in == {"lab-1": True, "lab-2": False, "lab-3": False, "lab-4": False, "lab-5": True}
            assert desk.service.registry.dial_token("lab-2") == TOKENS["lab-2"]


async def test_its_tools_are_trusted_as_they_were_and_no_otherwise(home: Home) -> None:
    for _ in range(2):
        async with trust_desk(home) as desk:
            async with desk.online("lab-1", TOKENS["lab-1"], TOOLS):
                assert await desk.tools("lab-1") == {"poke": False, "look": False, "kept": False}
            async with desk.online("lab-1", TOKENS["lab-1"], CHANGED):
                assert await desk.tools("lab-1") == {"poke": True, "look": True, "kept": True}


async def test_it_is_taken_over_once_and_the_journal_says_what(home: Home) -> None:
    for _ in range(2):
        async with trust_desk(home) as desk:
            entries = await desk.entries(f"kind:{Kind.TRUST_ADOPTED}")
            assert [entry.device for entry in entries] == ["lab-1", "lab-2", "lab-3", "lab-5", None]
            assert entries[-1].body == {"devices": 4, "tools": 3}
            assert set(entries[0].body["pins"]) == {"poke", "look", "kept"}


@pytest.mark.parametrize("first", [True, False], ids=["before it is taken over", "afterwards"])
@pytest.mark.parametrize("removed", [True, False])
async def test_without_its_contracts_no_tool_is_trusted_anew(home: Home, first: bool, removed: bool) -> None:
    if not first:
        async with trust_desk(home):
            pass
    if removed:
        home.contracts.unlink()
    else:
        rows = json.loads(home.contracts.read_text())
        rows["devices"] = {"lab-1": {"planted": rows["devices"]["lab-1"]["poke"]}}
        home.contracts.write_text(json.dumps(rows))
    async with trust_desk(home) as desk:
        async with desk.online("lab-1", TOKENS["lab-1"], TOOLS):
            assert await desk.tools("lab-1") == {"poke": False, "look": False, "kept": False}
        async with desk.online("lab-1", TOKENS["lab-1"], CHANGED):
            assert await desk.tools("lab-1") == {"poke": True, "look": True, "kept": True}


@pytest.mark.parametrize("first", [True, False], ids=["before it is taken over", "afterwards"])
async def test_a_device_that_was_never_paired_is_not_taken_over(home: Home, first: bool) -> None:
    if not first:
        async with trust_desk(home):
            pass
    # lab-4 was forgotten.
    edit_json(home.devices, lab_9={"token_sha256": PLANTED_SHA})
    edit_json(home.devices, lab_4={"token_sha256": sha256_hex(TOKENS["lab-4"].encode())})
    async with trust_desk(home) as desk:
        assert not await desk.lets_in(PLANTED)
        assert not await desk.lets_in(TOKENS["lab-4"])
        assert await desk.lets_in(TOKENS["lab-1"])
        assert "lab-4, lab-9" in desk.notes()


async def test_once_it_is_taken_over_its_file_counts_no_more(home: Home) -> None:
    async with trust_desk(home) as desk:
        before = as_known(desk.service)
    edit_json(
        home.devices,
        lab_1={"token_sha256": PLANTED_SHA, "tags": ["free"], "production": None},
        lab_2={"url": "ws://127.0.0.1:10/ws"},
        lab_3={"revoked_at": None},
        lab_5=None,
    )
    async with trust_desk(home) as desk:
        assert as_known(desk.service) == before
        assert not await desk.lets_in(PLANTED)
        assert not await desk.lets_in(TOKENS["lab-3"])
        assert await desk.lets_in(TOKENS["lab-1"])
        assert await desk.lets_in(TOKENS["lab-5"])
        assert "lab-1, lab-2, lab-3" in desk.notes()


async def test_a_revocation_holds_that_the_file_or_the_journal_alone_has(home: Home) -> None:
    edit_json(home.devices, lab_1={"revoked_at": "2026-11-23T00:00:00.000000Z"}, lab_3={"revoked_at": None})
    async with trust_desk(home) as desk:
        assert not await desk.lets_in(TOKENS["lab-1"])
        assert not await desk.lets_in(TOKENS["lab-3"])


async def test_a_device_that_is_dialled_elsewhere_by_the_file_is_not_taken_over(home: Home) -> None:
    edit_json(home.devices, lab_2={"url": "ws://127.0.0.1:10/ws"})
    async with trust_desk(home) as desk:
        assert desk.service.registry.find("lab-2") is None
        assert "lab-2" in desk.notes()


async def test_a_token_for_dialling_that_is_exchanged_afterwards_is_not_shown(home: Home) -> None:
    async with trust_desk(home):
        pass
    (home.dial_tokens / "lab-2.token").write_text(PLANTED)
    async with trust_desk(home) as desk:
        with pytest.raises(BadInput, match="pair it again"):
            desk.service.registry.dial_token("lab-2")


async def test_a_damaged_list_of_devices_is_named_before_it_is_needed_no_more(home: Home) -> None:
    whole = home.devices.read_text()
    home.devices.write_text(whole[:50])
    with pytest.raises(JournalCorrupt, match=r"devices\.json"):
        await Service.open(home)
    home.devices.write_text(whole)
    async with trust_desk(home) as desk:
        assert await desk.lets_in(TOKENS["lab-1"])
    home.devices.write_text(whole[:50])
    async with trust_desk(home) as desk:
        assert await desk.lets_in(TOKENS["lab-1"])


async def test_what_it_trusted_is_revoked_paired_and_reviewed_as_anything_else(home: Home) -> None:
    async with trust_desk(home) as desk:
        token = await desk.pair("lab-1")
        await desk.console.devices.revoke("lab-5")
        async with desk.online("lab-1", token, [KEPT, tool("look", tool_type="data_collection")]):
            changed = [found for found in await desk.console.devices.tools("lab-1") if found.changed]
            assert [found.tool_name for found in changed] == ["look"]
            await desk.review("lab-1", changed[0])
    async with trust_desk(home) as desk:
        assert not await desk.lets_in(TOKENS["lab-1"])
        assert not await desk.lets_in(TOKENS["lab-5"])
        assert desk.service.registry.get("lab-1").tags == ["lab"]
        async with desk.online("lab-1", token, [KEPT, tool("look", tool_type="data_collection")]):
            assert await desk.tools("lab-1") == {"kept": False, "look": False}
