"""The sent is in the journal first, what came of it afterwards, also with a full disk; secrets never."""

from __future__ import annotations

import asyncio
import errno
import os

import pytest

from core.aip.messages import ResultStatus
from core.approvals.models import ApprovalState
from core.approvals.operator_keys import statement_for
from core.audit.encode import decode
from core.audit.entries import Entry, Kind, NewEntry
from core.audit.spool import SPOOL, read_records
from core.commands.results import Basis
from core.errors import ErrorCode, JournalUnavailable
from core.home import Home
from tests.fakes.awaited import entries_when
from tests.fakes.patience import PATIENCE_S
from tests.fakes.rig import TEXT, Rig, open_rig, tool_info


async def test_an_action_is_durable_in_the_journal_before_the_device_sees_it(home: Home):
    home.policy.write_text('profile = "trusted"\n')
    async with open_rig(home) as rig:
        found: list[Kind] = []

        def look(command):
            found.extend(rig.on_disk(command.call_id))
            return {"ok": True}

        rig.tools.answers["write_file"] = look
        await rig.call("write_file", file_path="/tmp/x", content="")
        assert Kind.INTENT_RECORDED in found


async def test_a_tool_that_only_calls_itself_reading_is_durable_before_its_device_sees_it(home: Home):
    home.policy.write_text('[[rule]]\nid = "all"\ndecision = "allow"\ntool = "peek"\nrisk = ">=low"\n')
    async with open_rig(home, [tool_info("peek", "data_collection", namespace="web")]) as rig:
        found: list[Kind] = []

        def look(command):
            found.extend(rig.on_disk(command.call_id))
            return {"ok": True}

        rig.tools.answers["peek"] = look
        assert (await rig.call("peek")).error is None
        assert Kind.INTENT_RECORDED in found


@pytest.mark.parametrize(
    ("tool", "parameters"),
    [("write_file", {"file_path": "/tmp/x", "content": "x"}), ("screenshot", {})],
)
async def test_while_the_journal_cannot_be_written_nothing_is_sent(
    home: Home, tool: str, parameters: dict[str, str]
):
    home.policy.write_text('profile = "trusted"\n')
    async with open_rig(home) as rig:
        rig.disk.broken = True
        result = await rig.call(tool, **parameters)
        assert result.error
        assert result.error.code is ErrorCode.JOURNAL_UNAVAILABLE
        assert rig.tools.seen == []
        rig.disk.broken = False
        assert (await rig.call(tool, **parameters)).status is ResultStatus.SUCCESS


async def test_an_outcome_that_could_not_be_written_is_written_when_the_journal_is_back(home: Home):
    home.policy.write_text('profile = "trusted"\n')
    async with open_rig(home) as rig:

        def fill_the_disk(command):
            rig.disk.broken = True
            return {"ok": True}

        rig.tools.answers["write_file"] = fill_the_disk
        result = await rig.call("write_file", file_path="/tmp/x", content="")
        assert result.status is ResultStatus.SUCCESS
        rig.disk.broken = False
        await entries_when(rig.journal, f"call:{result.call_id} kind:{Kind.RESULT_RECORDED}")
        kinds = [one.kind for one in await rig.entries() if one.call_id == result.call_id]
        assert kinds[-1] is Kind.RESULT_RECORDED


async def test_secrets_reach_neither_the_card_nor_any_file_of_the_home(home: Home):
    secret = "correct horse battery staple"
    login = tool_info(
        "login",
        "action",
        {
            "user": TEXT,
            "word": {"type": "string", "format": "password"},
            "more": {"type": "object", "properties": {"x": {"type": "string", "writeOnly": True}}},
            "api_key": TEXT,
        },
    )
    async with open_rig(home, [login]) as rig:
        task = rig.start("login", user="anna", word=secret, more={"x": secret}, api_key=secret)
        approval = await asyncio.wait_for(rig.asked.get(), PATIENCE_S)
        assert secret not in approval.model_dump_json()
        assert approval.request.parameters["user"] == "anna"
        await rig.approvals.decide(_signed(rig, approval))
        assert (await task).status is ResultStatus.SUCCESS
        assert rig.tools.seen[0].parameters["word"] == secret
        broken = await rig.call("login", word=5, api_key=secret)
        assert secret not in broken.model_dump_json()
        await rig.entries()
    for path in home.path.rglob("*"):
        if path.is_file():
            assert secret.encode() not in path.read_bytes(), path


def _signed(rig: Rig, approval):
    return rig.key.sign(statement_for(approval, "approve", "anna", ""))


async def test_an_approval_counts_once_it_is_on_the_disk_and_not_before(home: Home):
    async with open_rig(home) as rig:
        begun, release = asyncio.Event(), asyncio.Event()
        append = rig.disk.append

        async def slow(entry: NewEntry) -> Entry:
            begun.set()
            await release.wait()
            return await append(entry)

        rig.disk.append = slow
        task = rig.start("shell_execute", command="rm -rf build")
        approval = await asyncio.wait_for(rig.asked.get(), PATIENCE_S)
        deciding = rig.tasks.spawn("decide", rig.approvals.decide(_signed(rig, approval)))
        await asyncio.wait_for(begun.wait(), PATIENCE_S)
        assert (rig.approvals.get(approval.id).state, task.done()) == (ApprovalState.WAITING, False)
        release.set()
        await deciding
        assert Kind.APPROVAL_GIVEN in rig.on_disk(approval.request.call_id)
        assert (await task).error is None


async def test_what_could_not_leave_for_the_disk_is_never_written_as_sent(home: Home):
    async with open_rig(home) as rig:
        noted = rig.disk.noted

        async def full(entries: list[NewEntry]) -> None:
            if any(one.kind is Kind.COMMAND_SENT for one in entries):
                raise JournalUnavailable("The disk is full.")
            await noted(entries)

        rig.disk.noted = full
        result = await rig.call("get_system_info", info_type="cpu")
        assert result.basis is Basis.NOTHING_SENT
        kinds = [one.kind for one in await rig.entries(f"call:{result.call_id}")]
        assert kinds == [Kind.COMMAND_PREPARED, Kind.COMMAND_DECIDED, Kind.COMMAND_REFUSED]
        assert not rig.tools.seen


async def test_an_action_that_could_not_be_written_as_sent_does_not_leave(home: Home):
    home.policy.write_text('profile = "trusted"\n')
    async with open_rig(home) as rig:
        note_all = rig.disk.note_all

        def full(entries: list[NewEntry]) -> None:
            if any(one.kind is Kind.COMMAND_SENT for one in entries):
                raise JournalUnavailable("The disk is full.")
            note_all(entries)

        rig.disk.note_all = full
        result = await rig.call("write_file", file_path="/tmp/x", content="x")
        assert result.basis is Basis.NOTHING_SENT
        kinds = [one.kind for one in await rig.entries(f"call:{result.call_id}")]
        assert kinds[-2:] == [Kind.INTENT_RECORDED, Kind.RESULT_RECORDED]
        assert not rig.tools.seen


async def test_a_write_that_fails_lets_none_of_the_commands_of_its_turn_leave(
    home: Home, monkeypatch: pytest.MonkeyPatch
):
    write, writes = os.write, 0

    def torn(descriptor: int, data: bytes) -> int:
        nonlocal writes
        if b'"kind":"command_sent"' not in data:
            return write(descriptor, data)
        writes += 1
        # The middle of the third command's entries is as far as the disk goes.
        return write(descriptor, data[: len(data) // 2]) if writes == 1 else write(descriptor, data)

    async with open_rig(home) as rig:
        monkeypatch.setattr(os, "write", torn)
        together = [rig.start("get_system_info", info_type=f"cpu {number}") for number in range(5)]
        results = await asyncio.gather(*together)
        assert writes == 1, "the commands were not noted in one write"
        assert {result.error and result.error.code for result in results} == {ErrorCode.JOURNAL_UNAVAILABLE}
        assert rig.tools.seen == []
        assert await rig.entries(f"tool:get_system_info kind:{Kind.COMMAND_SENT}") == []
        assert (await rig.call("get_system_info", info_type="cpu")).error is None


async def test_a_command_is_noted_when_its_device_gets_it_and_its_outcome_before_it_is_told(home: Home):
    async with open_rig(home) as rig:
        seen: list[int] = []

        def spooled(kind: Kind) -> int:
            records = read_records((home.path / SPOOL).read_bytes(), None).records
            entries = [decode(record.parts.with_seq(1)) for record in records]
            return sum(one.tool == "get_system_info" and one.kind is kind for one in entries)

        def look(command):
            seen.append(spooled(Kind.COMMAND_SENT))
            return {"ok": True}

        rig.tools.answers["get_system_info"] = look
        await rig.call("get_system_info", info_type="cpu")
        assert (seen, spooled(Kind.RESULT_RECORDED)) == ([1], 1)


async def test_a_read_that_is_stopped_after_its_note_does_not_leave_and_its_outcome_says_so(home: Home):
    async with open_rig(home) as rig:
        noted = rig.disk.noted

        async def stop(entries: list[NewEntry]) -> None:
            await noted(entries)
            rig.dispatcher.stop("Stopped by anna.")

        rig.disk.noted = stop
        result = await rig.call("get_system_info", info_type="cpu")
        assert rig.tools.seen == []
        assert (result.basis, result.error and result.error.code) == (Basis.NOTHING_SENT, ErrorCode.STOPPED)
        kinds = [one.kind for one in await rig.entries(f"call:{result.call_id}")]
        assert kinds[-2:] == [Kind.COMMAND_SENT, Kind.RESULT_RECORDED]


async def test_outcomes_of_a_turn_that_could_not_be_written_are_written_in_order_when_they_can_be(
    home: Home, monkeypatch: pytest.MonkeyPatch
):
    write = os.write
    async with open_rig(home) as rig:

        def full(descriptor: int, data: bytes) -> int:
            if b'"kind":"result_recorded"' in data:
                raise OSError(errno.ENOSPC, "No space left on device")
            return write(descriptor, data)

        monkeypatch.setattr(os, "write", full)
        results = await asyncio.gather(*(rig.call("get_system_info", info_type=f"{n}") for n in range(3)))
        assert [result.status for result in results] == [ResultStatus.SUCCESS] * 3
        assert rig.journal.has_late
        monkeypatch.setattr(os, "write", write)
        assert await rig.journal.flush_late()
        ended = await rig.entries(f"tool:get_system_info kind:{Kind.RESULT_RECORDED}")
        assert [one.call_id for one in ended] == [result.call_id for result in results]
