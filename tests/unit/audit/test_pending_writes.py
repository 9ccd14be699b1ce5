"""What has happened is journalled, also while the disk is away, and also what no entry can hold."""

from __future__ import annotations

import asyncio

import pytest

from core.audit import pending_writes
from core.audit.encode import MAX_ENTRY_BYTES
from core.audit.entries import Entry, Kind, NewEntry
from core.commands.results import Basis, Verdict
from core.errors import ErrorCode
from core.home import Home
from tests.fakes.patience import PATIENCE_S
from tests.fakes.rig import Rig, open_rig

RECORDED = Kind.RESULT_RECORDED
# Names of members are kept as they are, whereas long texts go into blobs.
HUGE = {"k" * (MAX_ENTRY_BYTES + 1): 1}


async def test_an_answer_that_no_entry_can_hold_is_a_bad_result_and_journalled(home: Home) -> None:
    async with open_rig(home) as rig:
        rig.tools.answers["get_system_info"] = lambda command: HUGE
        result = await rig.call("get_system_info", info_type="memory")
        assert result.error is not None
        assert result.error.code is ErrorCode.BAD_RESULT
        assert (result.verdict, result.basis) == (Verdict.UNKNOWN, Basis.UNUSABLE_ANSWER)
        assert result.result is None
        [entry] = [one for one in await rig.entries(f"call:{result.call_id}") if one.kind is RECORDED]
        assert entry.body["result"]["error"]["code"] == "bad_result"
        rig.tools.answers["get_system_info"] = lambda command: {"free": 1}
        assert (await rig.call("get_system_info", info_type="memory")).error is None


def numbered(*numbers: int) -> list[NewEntry]:
    return [NewEntry(kind=RECORDED, actor="service", call_id="c-1", body={"n": number}) for number in numbers]


def keep_pending(rig: Rig, *numbers: int) -> None:
    """Note entries while the disk is away; it is back then, and they still wait."""
    rig.disk.broken = True
    rig.disk.note_late(numbered(*numbers))
    rig.disk.broken = False


async def recorded(rig: Rig) -> list[int]:
    return [entry.body["n"] for entry in await rig.entries("call:c-1")]


async def test_an_entry_is_written_at_once_while_the_journal_can_be_written(home: Home) -> None:
    async with open_rig(home) as rig:
        rig.disk.note_late(numbered(1, 2))
        assert await recorded(rig) == [1, 2]


async def test_entries_wait_for_the_disk_and_are_written_in_order_without_being_asked(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pending_writes, "TRY_AGAIN", 0.001)
    async with open_rig(home) as rig:
        rig.disk.broken = True
        rig.disk.note_late(numbered(1, 2))
        assert not await rig.disk.pending.flush()
        written = asyncio.Event()
        rig.journal.watch(written.set)
        rig.disk.broken = False
        # What is noted while others still wait does not overtake them.
        rig.disk.note_late(numbered(3))
        await asyncio.wait_for(written.wait(), PATIENCE_S)
        assert await recorded(rig) == [1, 2, 3]
        assert await rig.disk.pending.flush()


async def test_what_is_being_flushed_is_not_written_twice(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pending_writes, "TRY_AGAIN", 0.0)
    async with open_rig(home) as rig:
        keep_pending(rig, 1, 2)
        append_many = rig.journal.append_many

        async def slow(entries: list[NewEntry]) -> list[Entry]:
            # The timer fires several times while the disk works.
            for _ in range(10):
                await asyncio.sleep(0)
            return await append_many(entries)

        monkeypatch.setattr(rig.journal, "append_many", slow)
        assert await rig.disk.pending.flush()
        monkeypatch.undo()
        assert await recorded(rig) == [1, 2]


async def test_what_comes_while_others_are_written_is_written_too(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_rig(home) as rig:
        keep_pending(rig, 1, 2)
        append_many = rig.journal.append_many

        async def one_comes_meanwhile(entries: list[NewEntry]) -> list[Entry]:
            written = await append_many(entries)
            rig.disk.note_late(numbered(3))
            return written

        monkeypatch.setattr(rig.journal, "append_many", one_comes_meanwhile)
        assert not await rig.disk.pending.flush()
        monkeypatch.undo()
        assert await rig.disk.pending.flush()
        assert await recorded(rig) == [1, 2, 3]


async def test_what_no_entry_can_hold_blocks_no_other_entry_that_waits(home: Home) -> None:
    async with open_rig(home) as rig:
        rig.disk.broken = True
        huge = NewEntry(kind=RECORDED, actor="service", call_id="c-1", body=HUGE)
        rig.disk.note_late([*numbered(1), huge, *numbered(2)])
        rig.disk.broken = False
        assert await rig.disk.pending.flush()
        bodies = [entry.body for entry in await rig.entries("call:c-1")]
        assert [bodies[0], bodies[2]] == [{"n": 1}, {"n": 2}]
        assert "allowed" in bodies[1]["not_kept"]
