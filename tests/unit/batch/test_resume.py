"""What a run that resumes another takes over, repeats, and refuses."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from core.audit.entries import Kind
from core.batch.live_run import LiveRun, settled
from core.batch.models import Batch, CellState, Run, RunState
from core.batch.resume import check_resumable, remainder_of
from core.batch.run_history import rebuild_run
from core.batch.runs import Resumption
from core.commitments import stand_in
from core.errors import Refused
from tests.fakes.patience import PATIENCE_S
from tests.fakes.scripted_runs import House, open_house

DONE, FAILED, SKIPPED, UNKNOWN = CellState.DONE, CellState.FAILED, CellState.SKIPPED, CellState.UNKNOWN
STEPS: list[Any] = [
    {"id": "a", "tool": "t"},
    {"parallel": [{"id": "b", "tool": "t"}, {"id": "c", "tool": "t"}]},
    {"id": "d", "tool": "t", "recover": [{"id": "e", "tool": "t"}]},
]


@pytest.fixture
async def house() -> AsyncIterator[House]:
    opened = open_house()
    yield opened
    await opened.close()


async def played(house: House, script: dict[tuple[str, str], str], **more: Any) -> LiveRun:
    """A run on two devices that ended as the script says."""
    house.dispatcher.script |= script
    batch = Batch.model_validate({"name": "test", "steps": STEPS, **more})
    run = await house.runs.start(batch, (("one", "two"),), "operator:anna", "batch")
    async with asyncio.timeout(PATIENCE_S):
        await run.ended.wait()
    house.dispatcher.script.clear()
    house.dispatcher.begun.clear()
    return run


def read_back(house: House, run: LiveRun) -> Run:
    """The run as the journal tells of it."""
    return rebuild_run([entry for entry in house.journal.entries if entry.run == run.id])


async def resumed(house: House, run: LiveRun) -> LiveRun:
    before = read_back(house, run)
    remainder = remainder_of(before)
    check_resumable(before, remainder)
    resumption = Resumption(run.id, remainder.carried)
    live = await house.runs.start(
        before.batch, (tuple(before.summary.devices),), "operator:ben", "batch", resumption=resumption
    )
    async with asyncio.timeout(PATIENCE_S):
        await live.ended.wait()
    return live


async def test_each_device_goes_on_at_the_step_that_failed_there_and_nothing_done_is_repeated(house):
    run = await played(house, {("one", "b"): "failed"})
    live = await resumed(house, run)
    assert house.dispatcher.begun == [("one", "b"), ("one", "d")]
    assert live.end is RunState.DONE
    assert (live.cells["one", "a"].state, live.cells["one", "a"].carried_from) == (DONE, run.id)
    assert live.cells["one", "b"].carried_from == ""
    assert live.devices == run.devices
    assert live.actor == "operator:ben"


async def test_what_is_carried_keeps_the_run_that_did_it_over_many_resumptions(house):
    first = await played(house, {("one", "d"): "refused"})
    house.dispatcher.script = {("one", "d"): "refused"}
    second = await resumed(house, first)
    house.dispatcher.script.clear()
    third = await resumed(house, second)
    assert third.cells["one", "a"].carried_from == first.id
    assert (first.resumed_by, second.resumes, third.resumes) == (second.id, first.id, second.id)


async def test_the_journal_alone_tells_of_both_runs_what_they_were(house):
    run = await played(house, {("one", "b"): "failed", ("two", "a"): "offline"})
    live = await resumed(house, run)
    times = {"cells": {"__all__": {"started_at", "ended_at"}}, "summary": {"started_at", "ended_at"}}
    for each in (run, live):
        assert read_back(house, each).model_dump(exclude=times) == each.whole().model_dump(exclude=times)
    assert [entry.run for entry in house.journal.entries if entry.kind is Kind.RUN_RESUMED] == [run.id]


async def test_of_two_who_resume_one_run_the_second_is_refused_and_runs_nothing(house):
    run = await played(house, {("one", "a"): "failed"})
    before = read_back(house, run)
    remainder = remainder_of(before)
    resumption = Resumption(run.id, remainder.carried)
    ask = [
        house.runs.start(before.batch, (("one", "two"),), "operator:ben", "batch", resumption=resumption)
        for _ in range(2)
    ]
    first, second = await asyncio.gather(*ask, return_exceptions=True)
    assert isinstance(first, LiveRun)
    assert isinstance(second, Refused)
    assert f"{run.id} was resumed already, as {first.id}" in second.message
    async with asyncio.timeout(PATIENCE_S):
        await first.ended.wait()
    with pytest.raises(Refused, match="was resumed already"):
        check_resumable(read_back(house, run), remainder)


async def test_an_unknown_outcome_needs_an_operator_s_word_first(house):
    run = await played(house, {("one", "a"): "unknown"})
    before = read_back(house, run)
    with pytest.raises(Refused, match="Whether a on one happened is unknown"):
        check_resumable(before, remainder_of(before))
    for done, begun in ((True, ["b", "c", "d"]), (False, ["a", "b", "c", "d"])):
        cells = [
            cell.model_copy(update=settled(done=done, by="operator:anna")) if cell.state is UNKNOWN else cell
            for cell in before.cells
        ]
        remainder = remainder_of(before.model_copy(update={"cells": cells}))
        assert remainder.first == {"one": begun[:1] if not done else ["b", "c"]}
        assert (("one", "a") in remainder.carried) is done


async def test_a_step_done_by_hand_is_not_repeated_and_says_whose_word_it_is(house):
    run = await played(house, {("one", "d"): "failed", ("one", "e"): "failed"})
    cell = run.cells["one", "d"].model().model_copy(update=settled(done=True, by="operator:anna"))
    assert (cell.state, cell.settled, cell.note) == (DONE, "done", "Done by hand, says operator:anna.")
    whole = read_back(house, run)
    cells = [cell if (old.device, old.step) == ("one", "d") else old for old in whole.cells]
    remainder = remainder_of(whole.model_copy(update={"cells": cells}))
    with pytest.raises(Refused, match="left to do"):
        check_resumable(whole, remainder)


async def test_what_is_left_is_named_by_device_and_step(house):
    run = await played(house, {("one", "b"): "failed", ("one", "c"): "failed", ("two", "d"): "refused"})
    remainder = remainder_of(read_back(house, run))
    assert remainder.first == {"one": ["b", "c"], "two": ["d"]}
    assert remainder.steps == ["b", "c", "d"]


async def test_a_run_that_goes_on_or_has_nothing_left_cannot_be_resumed(house):
    run = await played(house, {})
    before = read_back(house, run)
    with pytest.raises(Refused, match=f"Nothing of {run.id} is left to do"):
        check_resumable(before, remainder_of(before))
    summary = before.summary.model_copy(update={"state": RunState.RUNNING})
    with pytest.raises(Refused, match="has not ended"):
        check_resumable(before.model_copy(update={"summary": summary}), remainder_of(before))


async def test_a_batch_with_secret_arguments_cannot_be_resumed_as_they_are_not_stored(house):
    run = await played(house, {("one", "a"): "failed"})
    before = read_back(house, run)
    [first, *rest] = before.batch.steps
    secret = first.model_copy(update={"parameters": {"password": stand_in(bytes(32), "hunter2")}})
    batch = before.batch.model_copy(update={"steps": [secret, *rest]})
    changed = before.model_copy(update={"batch": batch})
    with pytest.raises(Refused, match="The arguments of a are secret"):
        check_resumable(changed, remainder_of(changed))


async def test_a_run_that_a_crash_cut_is_resumed_where_it_was(house):
    run = await played(house, {("one", "b"): "failed"})
    entries = [entry for entry in house.journal.entries if entry.run == run.id]
    at = next(index for index, entry in enumerate(entries) if entry.device == "two" and entry.step == "b")
    cut = rebuild_run(entries[:at])
    remainder = remainder_of(cut)
    assert cut.summary.state is RunState.INTERRUPTED
    assert "two" in remainder.first
    assert ("two", "a") in remainder.carried
