"""What a tool was when it was trusted is what the journal says: attacks on `contracts.json` and on it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from core.aip.messages import ToolInfo
from core.audit.entries import Kind, NewEntry
from core.canonical_json import digest_of
from core.errors import ErrorCode, JournalCorrupt, Refused
from core.fleet.contracts import definition_of
from core.home import Home
from core.service.service import Service
from tests.fakes.full_disk import full_disk_for
from tests.fakes.patience import PATIENCE_S
from tests.fakes.scripted_device import tool
from tests.fakes.trust_desk import TrustDesk, trust_desk, write_journal

POKE = tool("poke")
OTHERWISE = tool("poke", "Deletes what it is given.")


@pytest.fixture
def home(memory_path: Path) -> Home:
    return Home(memory_path / "home").create()


async def first_seen(home: Home, *tools: dict[str, Any]) -> str:
    """Pair lab-1 and let it list its tools once; gives its token."""
    async with trust_desk(home) as desk:
        token = await desk.pair("lab-1")
        async with desk.online("lab-1", token, list(tools or (POKE,))):
            pass
    return token


async def is_blocked(desk: TrustDesk, token: str, listed: dict[str, Any]) -> bool:
    """Whether a tool cannot be called, as it is listed now; of one that is blocked, no call is sent."""
    async with desk.online("lab-1", token, [listed]) as device:
        [found] = await desk.console.devices.tools("lab-1")
        if not found.changed:
            return False
        run = await desk.console.runs.call("lab-1", found.tool_name, {})
        [cell] = (await desk.console.runs.wait(run.summary.id, PATIENCE_S)).cells
        assert cell.result is not None
        assert cell.result.error is not None
        assert cell.result.error.code is ErrorCode.CONTRACT_CHANGED
        assert device.commands.empty()
        return True


def row_of(listed: dict[str, Any], claims: str = "unrated ours") -> str:
    return f"{digest_of(definition_of(ToolInfo.model_validate(listed)))} {claims}"


def with_row(path: Path, name: str, row: str) -> None:
    data = json.loads(path.read_text())
    data["devices"].setdefault("lab-1", {})[name] = row
    path.write_text(json.dumps(data))


def removed(path: Path) -> None:
    path.unlink()


def emptied(path: Path) -> None:
    path.write_text('{"format": "quarterdeck.contracts/3", "devices": {}}')


def edited(path: Path) -> None:
    with_row(path, "poke", row_of(OTHERWISE))


def of_an_earlier_format(path: Path) -> None:
    path.write_text(json.dumps({"lab-1": {"action::poke": row_of(OTHERWISE).split()[0]}}))


def cut(path: Path) -> None:
    path.write_text(path.read_text()[:60])


def odd(path: Path) -> None:
    path.write_text('{"devices": {"lab-1": {"poke": "no pin \\ud800"}, "\\u202e\\ud800": {"x": 1}}}')


def odd_names(path: Path) -> None:
    path.write_text(json.dumps({"devices": {"\ud800\u202e\n": {"x": row_of(POKE)}}}))


def endless_brackets(path: Path) -> None:
    path.write_text("[" * 100_000)


def far_too_large(path: Path) -> None:
    with path.open("w") as file:
        file.truncate(1 << 40)


def a_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path, 0o600)


def a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def writable_by_all(path: Path) -> None:
    edited(path)
    path.chmod(0o666)


DAMAGES: list[Callable[[Path], None]] = [
    removed,
    emptied,
    edited,
    of_an_earlier_format,
    cut,
    odd,
    odd_names,
    endless_brackets,
    far_too_large,
    a_pipe,
    a_folder,
    writable_by_all,
]


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
async def test_whatever_becomes_of_the_copy_a_tool_that_is_defined_otherwise_is_blocked(
    home: Home, damage: Callable[[Path], None]
) -> None:
    token = await first_seen(home)
    whole = home.contracts.read_text()
    damage(home.contracts)
    async with trust_desk(home) as desk:
        assert "contracts.json" in desk.notes() or damage is emptied
        assert await is_blocked(desk, token, OTHERWISE)
        assert not await is_blocked(desk, token, POKE)
    if damage is not a_folder:
        assert home.contracts.read_text() == whole
        assert home.contracts.stat().st_mode & 0o777 == 0o600


async def test_an_old_copy_does_not_bring_back_what_a_review_has_replaced(home: Home) -> None:
    token = await first_seen(home)
    old = home.contracts.read_text()
    async with trust_desk(home) as desk, desk.online("lab-1", token, [OTHERWISE]):
        [found] = await desk.console.devices.tools("lab-1")
        assert not (await desk.review("lab-1", found)).changed
    home.contracts.write_text(old)
    async with trust_desk(home) as desk:
        assert not await is_blocked(desk, token, OTHERWISE)
        assert await is_blocked(desk, token, POKE)


async def test_a_pin_that_another_program_plants_neither_trusts_nor_blocks(home: Home) -> None:
    token = await first_seen(home)
    with_row(home.contracts, "later", row_of(tool("later", "Planted.")))
    async with trust_desk(home) as desk:
        assert "lab-1" in desk.notes()
        later = tool("later")
        async with desk.online("lab-1", token, [POKE, later]):
            assert await desk.tools("lab-1") == {"poke": False, "later": False}
        [entry] = (await desk.entries("kind:contract_pinned device:lab-1"))[-1:]
        assert entry.body["pins"] == {"later": row_of(later)}
        async with desk.online("lab-1", token, [POKE, tool("later", "Planted.")]):
            assert await desk.tools("lab-1") == {"poke": False, "later": True}


async def test_a_device_that_was_forgotten_is_a_stranger_also_after_a_restart(home: Home) -> None:
    await first_seen(home)
    old = home.contracts.read_text()
    async with trust_desk(home) as desk:
        await desk.console.devices.forget("lab-1")
        token = await desk.pair("lab-1")
    home.contracts.write_text(old)
    async with trust_desk(home) as desk:
        assert not await is_blocked(desk, token, OTHERWISE)
        assert await is_blocked(desk, token, POKE)


async def test_a_revoked_device_that_is_paired_anew_is_held_to_what_it_was(home: Home) -> None:
    await first_seen(home)
    async with trust_desk(home) as desk:
        await desk.console.devices.revoke("lab-1")
        token = await desk.pair("lab-1")
        assert await is_blocked(desk, token, OTHERWISE)
    async with trust_desk(home) as desk:
        assert await is_blocked(desk, token, OTHERWISE)


async def test_what_a_device_claimed_outlives_the_service_and_the_copy(home: Home) -> None:
    critical = {**POKE, "meta": {"quarterdeck": {"risk": "critical"}}}
    token = await first_seen(home)
    async with trust_desk(home) as desk, desk.online("lab-1", token, [critical]):
        assert await desk.tools("lab-1") == {"poke": False}
    with_row(home.contracts, "poke", row_of(POKE, "low ours"))
    async with trust_desk(home) as desk:
        assert await is_blocked(desk, token, POKE)
        assert not await is_blocked(desk, token, critical)


async def test_the_copy_has_no_say_in_whether_a_pin_counts(home: Home) -> None:
    """It could not be written at all, in two services."""
    with full_disk_for(home.contracts):
        token = await first_seen(home)
        assert not home.contracts.exists()
        async with trust_desk(home) as desk:
            assert await is_blocked(desk, token, OTHERWISE)
    async with trust_desk(home) as desk:
        assert await is_blocked(desk, token, OTHERWISE)
    assert row_of(POKE) in home.contracts.read_text()


class TestAReviewIsSigned:
    async def test_without_a_signature_a_changed_tool_stays_blocked(self, home: Home) -> None:
        token = await first_seen(home)
        async with trust_desk(home) as desk, desk.online("lab-1", token, [OTHERWISE]):
            [found] = await desk.console.devices.tools("lab-1")
            with pytest.raises(Refused) as caught:
                await desk.console.devices.review_tool("lab-1", found.tool_key, found.contract.digest)
            assert caught.value.code is ErrorCode.SIGNATURE_REQUIRED
            assert await desk.tools("lab-1") == {"poke": True}

    async def test_the_signature_is_over_exactly_the_pin_that_the_journal_has(self, home: Home) -> None:
        token = await first_seen(home)
        async with trust_desk(home) as desk:
            async with desk.online("lab-1", token, [OTHERWISE]):
                [found] = await desk.console.devices.tools("lab-1")
                await desk.review("lab-1", found)
            [entry] = (await desk.entries("kind:contract_pinned device:lab-1"))[-1:]
            change = entry.body["signed"]["statement"]["change"]
            assert change["subject"] == "lab-1/action::poke"
            assert change["after"]["pin"] == entry.body["pins"]["poke"] == row_of(OTHERWISE)
        async with trust_desk(home) as desk:
            assert not await is_blocked(desk, token, OTHERWISE)

    @pytest.mark.parametrize("forged", ["no signature", "another pin", "another tool", "another device"])
    async def test_in_a_journal_that_was_added_to_no_other_review_counts(
        self, home: Home, forged: str
    ) -> None:
        token = await first_seen(home)
        async with trust_desk(home) as desk:
            async with desk.online("lab-1", token, [OTHERWISE]):
                [found] = await desk.console.devices.tools("lab-1")
                await desk.review("lab-1", found)
            [entry] = (await desk.entries("kind:contract_pinned device:lab-1"))[-1:]
        third = tool("poke", "A third thing.")
        device, listed = "lab-1", third
        body = {**entry.body, "pins": {"poke": row_of(third)}}
        if forged == "no signature":
            del body["signed"]
        elif forged == "another tool":
            listed = tool("poke", "A third thing.")
            body = {**entry.body, "pins": {"poke": row_of(third)}, "tools": {"action::other": "0" * 64}}
        elif forged == "another device":
            device = "lab-2"
        planted = NewEntry(kind=Kind.CONTRACT_PINNED, actor="operator:anna", device=device, body=body)
        await write_journal(home, planted)
        async with trust_desk(home) as desk:
            assert await is_blocked(desk, token, listed)
            assert not await is_blocked(desk, token, OTHERWISE)
            assert "without a valid signature" in desk.notes()

    @pytest.mark.parametrize("row", [row_of(OTHERWISE, "critical ours"), row_of(POKE, "unrated ours")])
    async def test_what_is_not_reviewed_replaces_nothing_and_lowers_no_claim(
        self, home: Home, row: str
    ) -> None:
        critical = {**POKE, "meta": {"quarterdeck": {"risk": "critical"}}}
        token = await first_seen(home)
        async with trust_desk(home) as desk, desk.online("lab-1", token, [critical]):
            pass
        body = {"tools": {}, "claims": {}, "ours": True, "pins": {"poke": row}}
        await write_journal(
            home, NewEntry(kind=Kind.CONTRACT_PINNED, actor="service", device="lab-1", body=body)
        )
        async with trust_desk(home) as desk:
            assert await is_blocked(desk, token, OTHERWISE)
            assert await is_blocked(desk, token, POKE)
            assert not await is_blocked(desk, token, critical)

    @pytest.mark.parametrize("row", ["x", "", 7, None, f"{'0' * 64} free ours", f"{'0' * 63}G high ours"])
    async def test_what_is_no_pin_is_nothing_that_a_service_wrote(self, home: Home, row: object) -> None:
        await first_seen(home)
        body = {"tools": {}, "claims": {}, "ours": True, "pins": {"poke": row}}
        await write_journal(
            home, NewEntry(kind=Kind.CONTRACT_PINNED, actor="service", device="lab-1", body=body)
        )
        with pytest.raises(JournalCorrupt, match="Entry"):
            await Service.open(home)


async def test_a_device_that_makes_up_names_is_read_back_whole_and_gets_no_more(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("core.fleet.tool_catalog.MOST_PINNED", 60)
    made_up = [tool(f"made_up_{number}") for number in range(60)]
    token = await first_seen(home, *made_up)
    home.contracts.unlink()
    async with trust_desk(home) as desk:
        async with desk.online("lab-1", token, made_up):
            assert len(await desk.tools("lab-1")) == 60
            assert not any((await desk.tools("lab-1")).values())
        assert len(desk.service._pins.names("lab-1")) == 60
        refused = await desk.entries("kind:contract_pinned device:lab-1")
        assert len(refused) == 1
