"""Runs: order, groups, failures, cancelling, how many devices at once, and a journal that is away."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from core.audit.entries import Kind
from core.batch.live_run import LiveRun
from core.batch.models import Batch, CellState, RunState
from core.batch.runs import KEPT_IN_MEMORY
from core.errors import JournalUnavailable
from tests.fakes.patience import PATIENCE_S
from tests.fakes.scripted_runs import House, open_house

STEPS = [{"id": "a", "tool": "t"}, {"id": "b", "tool": "t"}, {"id": "c", "tool": "t"}]
GROUP = [{"id": "a", "tool": "t"}, {"parallel": STEPS[1:]}, {"id": "d", "tool": "t"}]


@pytest.fixture
async def house() -> AsyncIterator[House]:
    opened = open_house()
    yield opened
    await opened.close()


def batch(steps: list[Any], **more: Any) -> Batch:
    return Batch.model_validate({"name": "test", "steps": steps, **more})


async def start(house: House, steps: list[Any], devices: list[str] | None = None, **more: Any) -> LiveRun:
    return await house.runs.start(
        batch(steps, **more), (tuple(devices or ["one"]),), "operator:anna", "batch"
    )


async def ended(run: LiveRun) -> LiveRun:
    async with asyncio.timeout(PATIENCE_S):
        await run.ended.wait()
    return run


def states(run: LiveRun, device: str = "one") -> dict[str, CellState]:
    return {step: cell.state for (where, step), cell in run.cells.items() if where == device}


async def test_steps_run_one_after_another_in_the_order_they_are_written(house):
    run = await ended(await start(house, STEPS))
    assert house.dispatcher.begun == [("one", "a"), ("one", "b"), ("one", "c")]
    assert house.dispatcher.most == 1
    assert run.end is RunState.DONE
    assert house.journal.kinds()[0] is Kind.RUN_STARTED
    assert house.journal.kinds()[-1] is Kind.RUN_FINISHED


async def test_a_group_runs_at_the_same_time_and_what_follows_waits_for_all_of_it(house):
    gate = house.dispatcher.gates["one", "b"] = asyncio.Event()
    run = await start(house, GROUP)
    await house.dispatcher.until_begun("one", "c")
    await house.dispatcher.until_begun("one", "b")
    assert house.dispatcher.most == 2
    assert ("one", "d") not in house.dispatcher.begun
    gate.set()
    assert set(states(await ended(run)).values()) == {CellState.DONE}


@pytest.mark.parametrize("end", ["failed", "unknown", "refused", "no_such_tool", "offline", "cancelled"])
async def test_after_a_step_that_did_not_succeed_nothing_more_starts_on_that_device(house, end):
    house.dispatcher.script["one", "a"] = end
    run = await ended(await start(house, STEPS, ["one", "two"]))
    assert [states(run)[step] for step in "bc"] == [CellState.NOT_STARTED] * 2
    assert run.cells["one", "b"].note == "an earlier step did not succeed"
    assert set(states(run, "two").values()) == {CellState.DONE}
    assert house.journal.kinds(device="one").count(Kind.STEP_SKIPPED) == 2


async def test_where_the_batch_goes_on_after_failures_every_step_is_tried(house):
    house.dispatcher.script["one", "a"] = "failed"
    run = await ended(await start(house, STEPS, on_failure="continue"))
    assert states(run) == {"a": CellState.FAILED, "b": CellState.DONE, "c": CellState.DONE}
    assert run.end is RunState.FAILED


async def test_a_failure_inside_a_group_stops_after_the_group_not_inside_it(house):
    house.dispatcher.script["one", "b"] = "failed"
    run = await ended(await start(house, GROUP))
    assert states(run) == {
        "a": CellState.DONE,
        "b": CellState.FAILED,
        "c": CellState.DONE,
        "d": CellState.NOT_STARTED,
    }


async def test_a_step_that_is_switched_off_is_skipped_and_fails_nothing(house):
    off = [{"id": "off", "tool": "t", "enabled": False}]
    run = await ended(await start(house, [*off, STEPS[0], {"parallel": [{**off[0], "id": "off2"}]}]))
    assert states(run) == {"off": CellState.SKIPPED, "a": CellState.DONE, "off2": CellState.SKIPPED}
    assert house.dispatcher.begun == [("one", "a")]
    assert run.end is RunState.DONE


async def test_two_hundred_devices_are_never_more_at_once_than_the_batch_allows(house):
    devices = [f"d-{number:03d}" for number in range(200)]
    run = await ended(await start(house, STEPS, devices, rollout={"parallel": 7}))
    assert house.dispatcher.most == 7
    assert len(house.dispatcher.begun) == 600
    assert run.summary().counts == {CellState.DONE: 600}
    first = [device for device, step in house.dispatcher.begun if step == "a"]
    assert first == devices


async def test_a_device_that_fails_does_not_hold_up_the_others(house):
    devices = [f"d-{number}" for number in range(6)]
    house.dispatcher.script |= {(device, "a"): "unknown" for device in devices[::2]}
    run = await ended(await start(house, STEPS, devices, rollout={"parallel": 2}))
    assert run.summary().counts == {
        CellState.UNKNOWN: 3,
        CellState.NOT_STARTED: 6,
        CellState.DONE: 9,
    }
    assert run.end is RunState.UNKNOWN


class TestCancel:
    async def test_what_runs_is_asked_to_cancel_once_and_nothing_else_starts(self, house):
        gate = house.dispatcher.gates["one", "a"] = asyncio.Event()
        run = await start(house, STEPS, ["one", "two"], rollout={"parallel": 1})
        await house.dispatcher.until_begun("one", "a")
        await house.runs.cancel(run, "operator:anna")
        await house.runs.cancel(run, "operator:anna")
        assert states(run)["a"] is CellState.CANCEL_ASKED
        house.dispatcher.script["one", "a"] = "cancelled"
        gate.set()
        await ended(run)
        assert house.dispatcher.cancelled == [run.cells["one", "a"].call_id]
        assert states(run)["a"] is CellState.CANCELLED
        assert set(states(run, "two").values()) == {CellState.NOT_STARTED}
        assert run.cells["two", "a"].note == "cancelled"
        assert run.end is RunState.CANCELLED
        assert house.journal.kinds().count(Kind.RUN_CANCEL_ASKED) == 1

    async def test_a_device_that_does_it_all_the_same_is_said_to_have_done_it(self, house):
        gate = house.dispatcher.gates["one", "a"] = asyncio.Event()
        run = await start(house, STEPS)
        await house.dispatcher.until_begun("one", "a")
        await house.runs.cancel(run, "operator:anna")
        gate.set()
        await ended(run)
        assert states(run) == {
            "a": CellState.DONE,
            "b": CellState.NOT_STARTED,
            "c": CellState.NOT_STARTED,
        }
        assert run.end is RunState.CANCELLED

    async def test_what_waits_for_approval_ends_with_the_request_that_is_withdrawn(self, house):
        gate = house.dispatcher.gates["one", "a"] = asyncio.Event()
        house.dispatcher.script["one", "a"] = "withdrawn"
        run = await start(house, STEPS)
        await house.dispatcher.until_begun("one", "a")
        assert run.summary().state is RunState.WAITING
        await house.runs.cancel(run, "operator:anna")
        assert house.dispatcher.cancelled == []
        gate.set()
        await ended(run)
        assert states(run)["a"] is CellState.CANCELLED
        assert Kind.COMMAND_SENT not in house.journal.kinds()

    async def test_a_run_that_has_ended_cannot_be_cancelled_any_more(self, house):
        run = await ended(await start(house, STEPS))
        await house.runs.cancel(run, "operator:anna")
        assert run.end is RunState.DONE
        assert Kind.RUN_CANCEL_ASKED not in house.journal.kinds()


class TestJournalAway:
    async def test_a_run_whose_start_cannot_be_recorded_is_not_started(self, house):
        house.journal.broken = True
        with pytest.raises(JournalUnavailable):
            await start(house, STEPS)
        assert house.dispatcher.begun == []
        assert house.runs.active == []
        assert house.summaries == []

    async def test_an_end_that_cannot_be_recorded_now_is_recorded_later(self, house):
        house.dispatcher.on_begin = lambda: setattr(house.journal, "broken", True)
        await ended(await start(house, STEPS[:1]))
        assert [entry.kind for entry in house.journal.late] == [Kind.RUN_FINISHED]


class TestMemory:
    async def test_ended_runs_are_forgotten_oldest_first_and_running_ones_never(self, house):
        house.dispatcher.gates["slow", "a"] = asyncio.Event()
        slow = await start(house, STEPS[:1], ["slow"])
        for _ in range(KEPT_IN_MEMORY + 5):
            await ended(await start(house, STEPS[:1]))
        await start(house, STEPS[:1])
        assert house.runs.find(slow.id) is slow
        assert house.runs.find("r-0002") is None
        assert len(house.runs.latest()) <= KEPT_IN_MEMORY + 1
        house.dispatcher.gates["slow", "a"].set()
        await ended(slow)

    async def test_everybody_is_told_of_the_end_before_it_counts_as_ended(self, house):
        run = await ended(await start(house, STEPS))
        assert house.summaries[-1].state is RunState.DONE
        assert house.cells[-1].state is CellState.DONE
        assert [one.id for one in house.runs.active] == []
        assert run.ended_at
