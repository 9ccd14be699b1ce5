"""The sent is in the journal first, what came of it afterwards, also with a full disk; secrets never."""

from __future__ import annotations

import asyncio

import pytest

from core.aip.messages import ResultStatus
from core.approvals.models import ApprovalState
from core.approvals.operator_keys import statement_for
from core.audit.entries import Entry, Kind, NewEntry
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
        note_all = rig.disk.note_all

        def full(entries: list[NewEntry]) -> None:
            if any(one.kind is Kind.COMMAND_SENT for one in entries):
                raise JournalUnavailable("The disk is full.")
            note_all(entries)

        rig.disk.note_all = full
        result = await rig.call("get_system_info", info_type="cpu")
        assert result.basis is Basis.NOTHING_SENT
        kinds = [one.kind for one in await rig.entries(f"call:{result.call_id}")]
        assert Kind.COMMAND_SENT not in kinds
        assert Kind.RESULT_RECORDED in kinds
        assert not rig.tools.seen
