"""What a crash left open is closed once, and nothing is said of it that is not known."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from core.audit.entries import Entry, Kind, NewEntry
from core.audit.journal import PAGE, Journal
from core.batch.models import Batch, CellState, RunState
from core.batch.run_history import rebuild_run
from core.commands.results import Basis, CommandResult, Verdict
from core.errors import ErrorCode
from core.models.tools import Effect
from core.service.recovery import Recovered, recover
from tests.fakes.policy_calls import judged

KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
BATCH = Batch.model_validate({"name": "test", "steps": [{"id": "s", "tool": "t"}]})
BODY = {"batch": BATCH.model_dump(mode="json", by_alias=True), "kind": "batch", "devices": ["one"]}
DONE = {
    "result": {
        "call_id": "c-1",
        "device": "one",
        "tool_name": "t",
        "status": "success",
        "verdict": "unverified",
        "basis": "device_claim",
    }
}


@pytest.fixture
async def journal(tmp_path: Path) -> AsyncIterator[Journal]:
    opened = await Journal.open(tmp_path, KEY, "test")
    await opened.append(NewEntry(kind=Kind.SERVICE_STARTED, actor="service"))
    yield opened
    await opened.close()


def new(kind: Kind, run: str, call: str | None = None, /, **body: Any) -> NewEntry:
    return NewEntry(
        kind=kind,
        actor="service",
        run=run,
        step="s" if call else None,
        device="one" if call else None,
        call_id=call,
        tool="t" if call else None,
        body=body,
    )


def way(tool_type: str = "action", run: str = "r-0001", call: str = "c-1") -> list[NewEntry]:
    """A command's whole way with an approval; cut anywhere it is what a crash leaves."""
    approval = {"approval": f"a-{call}"}
    return [
        new(Kind.RUN_STARTED, run, **BODY),
        new(Kind.COMMAND_PREPARED, run, call, tool_type=tool_type),
        new(Kind.APPROVAL_REQUESTED, run, call, **approval),
        new(Kind.APPROVAL_GIVEN, run, call, **approval),
        new(Kind.INTENT_RECORDED, run, call),
        new(Kind.COMMAND_SENT, run, call),
        new(Kind.RESULT_RECORDED, run, call, **DONE),
        new(Kind.RUN_FINISHED, run, state="done"),
    ]


def decided(effect: str, entries: list[NewEntry]) -> list[NewEntry]:
    """The same way with what the policy said of it, its contract's effect above all."""
    decision = judged("").model_copy(update={"effect": Effect(effect)}).model_dump(mode="json")
    return [*entries[:2], new(Kind.COMMAND_DECIDED, "r-0001", "c-1", decision=decision), *entries[2:]]


async def added(journal: Journal) -> tuple[Recovered, list[Entry]]:
    before = journal.state.entries
    recovered = await recover(journal)
    return recovered, (await journal.query("", after=before, limit=PAGE)).entries


UNKNOWN, CANCELLED = "unknown", "cancelled"
CUTS = [
    (1, [Kind.RUN_FINISHED], RunState.INTERRUPTED, None),
    (2, [Kind.COMMAND_REFUSED, Kind.RUN_FINISHED], RunState.INTERRUPTED, CANCELLED),
    (3, [Kind.APPROVAL_EXPIRED, Kind.COMMAND_REFUSED, Kind.RUN_FINISHED], RunState.INTERRUPTED, CANCELLED),
    (4, [Kind.COMMAND_REFUSED, Kind.RUN_FINISHED], RunState.INTERRUPTED, CANCELLED),
    # From the durable intent on nobody can say that it did not leave.
    (5, [Kind.RESULT_RECORDED, Kind.RUN_FINISHED], RunState.UNKNOWN, UNKNOWN),
    (6, [Kind.RESULT_RECORDED, Kind.RUN_FINISHED], RunState.UNKNOWN, UNKNOWN),
    (7, [Kind.RUN_FINISHED], RunState.INTERRUPTED, None),
    (8, [], None, None),
]


@pytest.mark.parametrize(("cut", "kinds", "state", "verdict"), CUTS, ids=[str(one[0]) for one in CUTS])
async def test_a_command_cut_at_any_point_is_closed_as_what_is_known_of_it(
    journal, cut, kinds, state, verdict
):
    await journal.append_many(way()[:cut])
    recovered, closed = await added(journal)
    assert [entry.kind for entry in closed] == kinds
    assert recovered.runs == (state is not None)
    assert recovered.unknown == (verdict == UNKNOWN)
    assert recovered.approvals == (Kind.APPROVAL_EXPIRED in kinds)
    if state is not None:
        assert closed[-1].body["state"] == state
    ends = [entry for entry in closed if "result" in entry.body]
    assert [entry.verdict for entry in ends] == ([verdict] if verdict else [])
    for entry in ends:
        result = CommandResult.model_validate(entry.body["result"])
        assert (result.call_id, result.device, result.tool_name) == ("c-1", "one", "t")
        unknown = verdict == UNKNOWN
        assert result.basis is (Basis.NO_ANSWER if unknown else Basis.NOTHING_SENT)
        assert result.error
        assert result.error.code is (ErrorCode.OUTCOME_UNKNOWN if unknown else ErrorCode.CANCELLED)


async def test_a_request_that_one_of_two_operators_had_approved_is_closed(journal):
    answer = {"approval": "a-c-1", "signed": {}, "took_s": 1.0, "of": 2}
    await journal.append_many([*way()[:3], new(Kind.APPROVAL_GIVEN, "r-0001", "c-1", **answer, number=1)])
    recovered, closed = await added(journal)
    assert recovered.approvals == 1
    assert [entry.body["approval"] for entry in closed if entry.kind is Kind.APPROVAL_EXPIRED] == ["a-c-1"]
    assert (await added(journal))[1] == []


async def test_a_request_that_an_operator_had_edited_is_over_and_not_closed_again(journal):
    edited = new(Kind.APPROVAL_EDITED, "r-0001", "c-1", approval="a-c-1", digest="d", before={}, after={})
    await journal.append_many([*way()[:3], edited])
    recovered, closed = await added(journal)
    assert recovered.approvals == 0
    assert Kind.APPROVAL_EXPIRED not in [entry.kind for entry in closed]


@pytest.mark.parametrize("cut", range(1, 9))
async def test_the_run_reads_as_ended_and_recovering_again_adds_nothing(journal, cut):
    await journal.append_many(way()[:cut])
    await recover(journal)
    assert (await added(journal))[1] == []
    run = rebuild_run(await journal.entries_of_run("r-0001"))
    assert run.summary.state.ended
    expected = {1: CellState.NOT_STARTED, 5: CellState.UNKNOWN, 6: CellState.UNKNOWN}
    fallback = CellState.DONE if cut >= 7 else CellState.CANCELLED
    assert run.cells[0].state is expected.get(cut, fallback)


async def test_a_read_whose_answer_was_lost_is_a_failure_that_may_be_tried_again(journal):
    await journal.append_many(decided("observe", way("data_collection"))[:7])
    recovered, closed = await added(journal)
    assert recovered == Recovered(runs=1, unknown=0, approvals=0)
    result = CommandResult.model_validate(closed[0].body["result"])
    assert result.verdict is Verdict.UNKNOWN
    assert result.error
    assert result.error.code is ErrorCode.TIMEOUT
    run = rebuild_run(await journal.entries_of_run("r-0001"))
    assert run.cells[0].state is CellState.FAILED
    assert run.summary.state is RunState.INTERRUPTED


@pytest.mark.parametrize("effect", ["unknown", "change", "destroy"])
async def test_a_change_that_its_server_calls_a_look_is_unknown_once_its_answer_is_lost(journal, effect):
    await journal.append_many(decided(effect, way("data_collection"))[:7])
    recovered, closed = await added(journal)
    assert recovered.unknown == 1
    result = CommandResult.model_validate(closed[0].body["result"])
    assert result.verdict is Verdict.UNKNOWN
    assert result.error
    assert result.error.code is ErrorCode.OUTCOME_UNKNOWN
    assert rebuild_run(await journal.entries_of_run("r-0001")).cells[0].state is CellState.UNKNOWN


async def test_a_service_that_ended_in_order_left_nothing_to_close(journal):
    await journal.append_many(way()[:6])
    await journal.append(NewEntry(kind=Kind.SERVICE_STOPPED, actor="service"))
    assert await added(journal) == (Recovered(), [])


async def test_what_an_earlier_service_left_is_not_looked_at_again(journal):
    await journal.append_many(way()[:6])
    await recover(journal)
    await journal.append(NewEntry(kind=Kind.SERVICE_STARTED, actor="service"))
    await journal.append_many(way(run="r-0002", call="c-2")[:3])
    recovered, closed = await added(journal)
    assert recovered == Recovered(runs=1, unknown=0, approvals=1)
    assert {entry.run for entry in closed} == {"r-0002"}


async def test_a_crash_in_the_middle_of_recovering_is_finished_by_the_next_one(journal):
    await journal.append_many(way()[:6])
    # The first of what recovering writes is there, the rest is not.
    await journal.append(new(Kind.RESULT_RECORDED, "r-0001", "c-1", **DONE))
    _, closed = await added(journal)
    assert [entry.kind for entry in closed] == [Kind.RUN_FINISHED]


async def test_a_call_without_a_run_is_closed_too(journal):
    alone = [replace(one, run=None, step=None) for one in way()[1:6]]
    await journal.append_many(alone)
    recovered, closed = await added(journal)
    assert recovered == Recovered(runs=0, unknown=1, approvals=0)
    assert [entry.verdict for entry in closed] == [UNKNOWN]


async def test_more_than_a_page_of_open_commands_is_closed_to_the_last(journal):
    count = PAGE + 20
    ways = (way(run=f"r-{number:04d}", call=f"c-{number}")[:5] for number in range(count))
    await journal.append_many([entry for one in ways for entry in one])
    recovered, closed = await added(journal)
    assert recovered == Recovered(runs=count, unknown=count, approvals=0)
    report = await journal.verify()
    assert report.ok
    assert len(closed) == PAGE
    assert journal.state.entries == 1 + 5 * count + 2 * count


async def test_an_empty_journal_has_nothing_to_close(tmp_path):
    opened = await Journal.open(tmp_path, KEY, "test")
    assert await added(opened) == (Recovered(), [])
    await opened.close()
