"""What a run does beyond plain steps: retries, recovery, waves, stops, questions, pausing, single cancels."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from core import tasks
from core.approvals.models import ApprovalState
from core.audit.entries import Kind
from core.batch.live_run import LiveRun
from core.batch.models import Batch, CellState, Run, RunState, result_of
from core.batch.run_executor import STARTS_AT_A_TIME
from core.batch.run_history import rebuild_run
from core.batch.runs import Inputs
from core.batch.waves import planned_waves
from core.errors import ErrorCode, Refused
from tests.fakes.patience import PATIENCE_S
from tests.fakes.policy_calls import a_device
from tests.fakes.scripted_runs import House, open_house
from tests.fakes.turns import Turns
from tests.fakes.work import calls_counted

DONE, FAILED, NOT_STARTED, SKIPPED = (
    CellState.DONE,
    CellState.FAILED,
    CellState.NOT_STARTED,
    CellState.SKIPPED,
)


@pytest.fixture
async def house() -> AsyncIterator[House]:
    opened = open_house()
    yield opened
    await opened.close()


async def start(house: House, steps: list[Any], devices: list[str] | None = None, **more: Any) -> LiveRun:
    batch = Batch.model_validate({"name": "test", "steps": steps, **more})
    waves = planned_waves(batch.rollout, [a_device(name) for name in devices or ["one"]])
    return await house.runs.start(batch, waves, "operator:anna", "batch")


async def ended(run: LiveRun) -> LiveRun:
    async with asyncio.timeout(PATIENCE_S):
        await run.ended.wait()
    return run


def same(run: Run) -> dict[str, object]:
    """Without times: the service has its own, the journal those of the entries."""
    times = {"cells": {"__all__": {"started_at", "ended_at"}}, "summary": {"started_at", "ended_at"}}
    return run.model_dump(exclude=times)


async def until(true: Callable[[], object]) -> None:
    """Let the loop turn until this is true."""
    for _ in range(10_000):
        if true():
            return
        await asyncio.sleep(0)
    raise TimeoutError


def states(run: LiveRun, device: str = "one") -> dict[str, CellState]:
    return {step: cell.state for (where, step), cell in run.cells.items() if where == device}


RETRY: dict[str, Any] = {"times": 2, "backoff": 0.5}


class TestRetries:
    async def test_a_read_that_fails_is_tried_again_and_each_attempt_has_its_own_command(self, house):
        house.dispatcher.script["one", "a"] = ["failed", "failed", "done"]
        run = await ended(await start(house, [{"id": "a", "tool": "read", "retry": RETRY}]))
        cell = run.cells["one", "a"]
        assert (cell.state, cell.attempts) == (DONE, 3)
        calls = {entry.call_id for entry in house.journal.entries if entry.kind is Kind.RESULT_RECORDED}
        assert len(calls) == 3
        waits = [entry.body for entry in house.journal.entries if entry.kind is Kind.RETRY_SCHEDULED]
        assert [wait["attempt"] for wait in waits] == [2, 3]
        assert [wait["code"] for wait in waits] == ["tool_failed"] * 2
        assert 0.45 <= waits[0]["wait_s"] <= 0.55
        assert 0.9 <= waits[1]["wait_s"] <= 1.1

    async def test_attempts_end_with_the_number_that_the_batch_allows(self, house):
        house.dispatcher.script["one", "a"] = "failed"
        run = await ended(await start(house, [{"id": "a", "tool": "read", "retry": RETRY}]))
        assert (run.cells["one", "a"].state, run.cells["one", "a"].attempts) == (FAILED, 3)

    async def test_a_change_is_not_repeated_unless_the_batch_says_in_words_that_it_may(self, house):
        words = {**RETRY, "not_idempotent": "A second line does no harm."}
        steps = [
            {"id": "a", "tool": "write", "retry": RETRY, "on_failure": "continue"},
            {"id": "b", "tool": "write", "retry": words},
        ]
        house.dispatcher.script |= {("one", "a"): "failed", ("one", "b"): "failed"}
        run = await ended(await start(house, steps))
        assert [run.cells["one", step].attempts for step in "ab"] == [1, 3]

    async def test_a_press_is_tried_again_until_its_control_is_there(self, house):
        house.dispatcher.script["one", "a"] = ["not there", "not there", "done"]
        run = await ended(await start(house, [{"id": "a", "tool": "write", "retry": RETRY}]))
        assert (run.cells["one", "a"].state, run.cells["one", "a"].attempts) == (DONE, 3)

    async def test_a_step_may_fail_where_its_control_is_not_there(self, house):
        house.dispatcher.script["one", "a"] = "not there"
        steps = [{"id": "a", "tool": "write", "allow_failure": True}, {"id": "b", "tool": "read"}]
        run = await ended(await start(house, steps))
        assert states(run)["b"] is DONE

    @pytest.mark.parametrize("tool", ["read", "write"])
    async def test_an_unknown_outcome_is_never_repeated_whatever_the_batch_says(self, house, tool):
        words = {**RETRY, "not_idempotent": "A second line does no harm.", "on": ["outcome_unknown"]}
        house.dispatcher.script["one", "a"] = "unknown"
        run = await ended(await start(house, [{"id": "a", "tool": tool, "retry": words}]))
        assert (run.cells["one", "a"].state, run.cells["one", "a"].attempts) == (CellState.UNKNOWN, 1)

    async def test_only_the_codes_that_the_batch_lists_are_tried_again(self, house):
        house.dispatcher.script["one", "a"] = "failed"
        steps = [{"id": "a", "tool": "read", "retry": {**RETRY, "on": ["timeout"]}}]
        run = await ended(await start(house, steps))
        assert run.cells["one", "a"].attempts == 1

    async def test_a_device_that_flaps_is_tried_again_as_nothing_was_sent(self, house):
        house.dispatcher.script["one", "a"] = ["offline", "offline", "done"]
        run = await ended(await start(house, [{"id": "a", "tool": "write", "retry": RETRY}]))
        assert states(run) == {"a": DONE}

    async def test_a_cell_that_waits_for_its_next_attempt_holds_no_slot(self, house):
        wait = asyncio.Event()
        house.sleep.until = wait.wait
        house.dispatcher.script["one", "a"] = ["failed", "done"]
        steps = [{"id": "a", "tool": "read", "retry": RETRY}]
        run = await start(house, steps, ["one", "two"], rollout={"parallel": 1})
        await house.dispatcher.until_begun("two", "a")
        assert run.cells["one", "a"].state is CellState.RETRYING
        wait.set()
        await ended(run)
        assert run.summary().counts == {DONE: 2}

    async def test_cancelled_between_attempts_a_step_has_failed(self, house):
        house.sleep.until = asyncio.Event().wait
        house.dispatcher.script["one", "a"] = "failed"
        run = await start(house, [{"id": "a", "tool": "read", "retry": RETRY}])
        async with asyncio.timeout(PATIENCE_S):
            await house.sleep.begun.wait()
        await house.runs.cancel(run, "operator:anna")
        await ended(run)
        assert (run.cells["one", "a"].state, run.cells["one", "a"].attempts) == (FAILED, 1)
        assert run.end is RunState.CANCELLED


RECOVERED: list[Any] = [
    {
        "id": "restart",
        "tool": "t",
        "recover": [{"id": "log", "tool": "t", "on_failure": "continue"}, {"id": "other", "tool": "t"}],
    },
    {"id": "after", "tool": "t"},
]


class TestRecovery:
    async def test_a_failed_step_counts_as_done_by_its_recovery_and_says_so(self, house):
        house.dispatcher.script["one", "restart"] = "failed"
        run = await ended(await start(house, RECOVERED))
        cell = run.cells["one", "restart"]
        assert (cell.state, cell.recovered_by) == (DONE, ["log", "other"])
        assert cell.note == "Recovered by log, other. It ended as failed."
        assert states(run)["after"] is DONE
        assert run.end is RunState.DONE
        assert [step for _, step in house.dispatcher.begun] == ["restart", "log", "other", "after"]

    async def test_what_needs_no_recovery_skips_it_and_that_is_no_failure(self, house):
        run = await ended(await start(house, RECOVERED))
        assert states(run) == {"restart": DONE, "log": SKIPPED, "other": SKIPPED, "after": DONE}
        assert run.cells["one", "log"].note == "restart did not fail"
        assert run.end is RunState.DONE

    async def test_a_recovery_that_fails_leaves_the_step_failed(self, house):
        house.dispatcher.script |= {("one", "restart"): "failed", ("one", "other"): "failed"}
        run = await ended(await start(house, RECOVERED))
        assert states(run) == {"restart": FAILED, "log": DONE, "other": FAILED, "after": NOT_STARTED}

    async def test_a_step_of_the_recovery_that_may_fail_does_not_end_it(self, house):
        house.dispatcher.script |= {("one", "restart"): "failed", ("one", "log"): "failed"}
        run = await ended(await start(house, RECOVERED))
        assert states(run) == {"restart": DONE, "log": DONE, "other": DONE, "after": DONE}
        assert run.cells["one", "log"].note.startswith("Its failure is allowed.")
        assert run.end is RunState.DONE

    @pytest.mark.parametrize("end", ["unknown", "refused", "cancelled"])
    async def test_only_a_failure_is_recovered(self, house, end):
        house.dispatcher.script["one", "restart"] = end
        run = await ended(await start(house, RECOVERED))
        assert house.dispatcher.begun == [("one", "restart")]
        assert states(run)["other"] is NOT_STARTED


ONE: list[Any] = [{"id": "a", "tool": "t"}]


class TestRollout:
    async def test_the_canary_ends_before_the_first_wave_begins_and_each_wave_before_the_next(self, house):
        devices = [f"d{number}" for number in range(7)]
        begun: list[tuple[set[str], str]] = []
        house.dispatcher.on_begin = lambda: begun.append(
            ({cell.device for cell in house.cells if cell.state is DONE}, house.dispatcher.begun[-1][0])
        )
        await ended(await start(house, ONE, devices, rollout={"canary": 1, "wave": 3, "parallel": 3}))
        before = {device: done for done, device in begun}
        assert all({"d0"} <= before[device] for device in devices[1:])
        assert all({"d1", "d2", "d3"} <= before[device] for device in devices[4:])

    async def test_forty_in_flight_and_three_failures_start_nothing_more(self, house):
        devices = [f"d{number:03d}" for number in range(100)]
        for device in devices[:40]:
            house.dispatcher.gates[device, "a"] = asyncio.Event()
        house.dispatcher.script |= {(device, "a"): "failed" for device in devices[:3]}
        stop = {"run": {"failed": 3}}
        run = await start(house, ONE, devices, rollout={"parallel": 40, "stop": stop})
        for device in devices[:40]:
            await house.dispatcher.until_begun(device, "a")
        for device in devices[:40]:
            house.dispatcher.gates[device, "a"].set()
        await ended(run)
        # The slots that were free before the third failure was known were given to no device.
        assert len(house.dispatcher.sent) == 40
        assert len(house.dispatcher.begun) == 40
        assert run.note.startswith("Stopped: 3 of 100 devices failed; the batch stops at 3")
        skipped = [cell for cell in run.cells.values() if cell.state is NOT_STARTED]
        assert len(skipped) == 60
        result = result_of(skipped[0])
        assert result is not None
        assert result.error is not None
        assert result.error.code is ErrorCode.SKIPPED
        assert "the batch stops at 3" in result.error.message

    @pytest.mark.parametrize(
        ("end", "switch"),
        [("failed", "failed"), ("offline", "offline"), ("unknown", "unknown"), ("denied", "denied")],
    )
    async def test_each_trouble_is_counted_by_its_own_switch_only(self, house, end, switch):
        devices = ["d0", "d1", "d2"]
        for own in (True, False):
            house.dispatcher.begun.clear()
            house.dispatcher.script = {("d0", "a"): end}
            limits = {
                name: 1 for name in ("failed", "offline", "unknown", "denied") if (name == switch) is own
            }
            rollout = {"parallel": 1, "stop": {"run": limits}}
            await ended(await start(house, ONE, devices, rollout=rollout))
            assert len(house.dispatcher.begun) == (1 if own else 3)

    async def test_a_limit_per_wave_counts_each_wave_anew_and_in_percent_of_it(self, house):
        devices = [f"d{number}" for number in range(6)]
        house.dispatcher.script |= {(device, "a"): "failed" for device in ("d0", "d3", "d4")}
        rollout = {"parallel": 1, "wave": 3, "stop": {"wave": {"failed": "50%"}}}
        run = await ended(await start(house, ONE, devices, rollout=rollout))
        assert [device for device, _ in house.dispatcher.begun] == ["d0", "d1", "d2", "d3", "d4"]
        assert run.cells["d5", "a"].state is NOT_STARTED

    async def test_a_stop_withdraws_what_waits_and_a_wave_that_follows_does_not_begin(self, house):
        house.dispatcher.script |= {("d0", "a"): "failed", ("d1", "a"): "withdrawn"}
        house.dispatcher.gates |= {("d0", "a"): asyncio.Event(), ("d1", "a"): asyncio.Event()}
        rollout = {"canary": 2, "stop": {"run": {"failed": 1}}}
        run = await start(house, ONE, ["d0", "d1", "d2"], rollout=rollout)
        await house.dispatcher.until_begun("d1", "a")
        house.dispatcher.gates["d0", "a"].set()
        await until(lambda: house.approvals.withdrawn)
        house.dispatcher.gates["d1", "a"].set()
        await ended(run)
        assert "d2" not in [device for device, _ in house.dispatcher.begun]
        assert run.end is RunState.FAILED


class TestWaiting:
    async def test_three_hundred_devices_ask_at_once_and_are_sent_as_many_at_a_time_as_allowed(self, house):
        devices = [f"d{number:03d}" for number in range(300)]
        answered = asyncio.Event()
        for device in devices:
            house.dispatcher.script[device, "a"] = "approved"
            house.dispatcher.gates[device, "a"] = answered
        run = await start(house, ONE, devices, rollout={"parallel": 5})
        for device in devices:
            await house.dispatcher.until_begun(device, "a")
        assert run.summary().counts == {CellState.WAITING: 300}
        house.dispatcher.most_sent = 0
        answered.set()
        await ended(run)
        assert run.summary().counts == {DONE: 300}
        assert house.dispatcher.most_sent == 5

    async def test_a_queue_with_little_room_is_not_overrun(self, house):
        devices = [f"d{number}" for number in range(20)]
        house.approvals.most = 8
        answered = asyncio.Event()
        for device in devices:
            house.dispatcher.script[device, "a"] = "approved"
            house.dispatcher.gates[device, "a"] = answered
        house.approvals.waiting = lambda: house.dispatcher.waiting
        run = await start(house, ONE, devices, rollout={"parallel": 3})
        for _ in range(200):
            await asyncio.sleep(0)
        assert run.counts[CellState.WAITING] == 8
        answered.set()
        await ended(run)
        assert run.summary().counts == {DONE: 20}

    async def test_what_is_not_as_it_was_approved_is_asked_again_and_does_not_run(self, house):
        house.dispatcher.script["one", "a"] = ["changed", "done"]
        run = await ended(await start(house, ONE))
        assert (run.cells["one", "a"].state, run.cells["one", "a"].attempts) == (DONE, 2)


TWO: list[Any] = [{"id": "a", "tool": "t"}, {"id": "b", "tool": "t"}]


class TestPause:
    async def test_a_paused_run_starts_nothing_until_it_goes_on(self, house):
        gate = house.dispatcher.gates["one", "a"] = asyncio.Event()
        run = await start(house, TWO, ["one", "two"], rollout={"parallel": 1})
        await house.dispatcher.until_begun("one", "a")
        house.runs.pause(run, "operator:anna")
        assert run.summary().state is RunState.PAUSED
        gate.set()
        await until(lambda: run.cells["one", "a"].state is DONE)
        for _ in range(50):
            await asyncio.sleep(0)
        assert house.dispatcher.begun == [("one", "a")]
        house.runs.unpause(run, "operator:anna")
        await ended(run)
        assert run.summary().counts == {DONE: 4}
        kinds = house.journal.kinds()
        assert (kinds.count(Kind.RUN_PAUSED), kinds.count(Kind.RUN_UNPAUSED)) == (1, 1)

    async def test_a_paused_run_can_be_cancelled(self, house):
        gate = house.dispatcher.gates["one", "a"] = asyncio.Event()
        run = await start(house, TWO)
        await house.dispatcher.until_begun("one", "a")
        house.runs.pause(run, "operator:anna")
        await house.runs.cancel(run, "operator:anna")
        gate.set()
        await ended(run)
        assert run.end is RunState.CANCELLED


class TestCancelOneStep:
    async def test_a_running_step_is_asked_to_cancel_and_the_other_devices_go_on(self, house):
        gate = house.dispatcher.gates["one", "a"] = asyncio.Event()
        run = await start(house, TWO, ["one", "two"])
        await house.dispatcher.until_begun("one", "a")
        house.runs.cancel_cell(run, "one", "a", "operator:anna")
        assert run.cells["one", "a"].state is CellState.CANCEL_ASKED
        house.dispatcher.script["one", "a"] = "cancelled"
        gate.set()
        await ended(run)
        assert states(run) == {"a": CellState.CANCELLED, "b": NOT_STARTED}
        assert states(run, "two") == {"a": DONE, "b": DONE}

    async def test_a_step_that_has_not_begun_is_not_begun(self, house):
        gate = house.dispatcher.gates["one", "a"] = asyncio.Event()
        run = await start(house, TWO)
        await house.dispatcher.until_begun("one", "a")
        house.runs.cancel_cell(run, "one", "b", "operator:anna")
        gate.set()
        await ended(run)
        assert states(run) == {"a": DONE, "b": NOT_STARTED}
        assert run.cells["one", "b"].note == "cancelled by operator:anna"

    async def test_a_step_that_has_ended_cannot_be_cancelled(self, house):
        run = await ended(await start(house, TWO))
        with pytest.raises(Refused):
            house.runs.cancel_cell(run, "one", "a", "operator:anna")


WITH_QUESTION: list[Any] = [
    {"id": "a", "tool": "t"},
    {"id": "go", "approval": {"question": "Go on?", "approvers": 2, "deadline": 60}},
    {"id": "b", "tool": "t"},
]


class TestQuestions:
    async def test_a_question_is_asked_once_for_each_wave_when_its_devices_have_come_to_it(self, house):
        run = await start(house, WITH_QUESTION, ["one", "two", "three"], rollout={"canary": 1})
        for devices in (["one"], ["two", "three"]):
            approval = await asyncio.wait_for(house.approvals.asked.get(), PATIENCE_S)
            assert approval.request.parameters["devices"] == devices
            assert approval.decision.approvers == 2
            assert {run.cells[device, "go"].state for device in devices} == {CellState.WAITING}
            assert not [step for device, step in house.dispatcher.begun if step == "b" and device in devices]
            house.approvals.answer(approval.id, ApprovalState.APPROVED)
        await ended(run)
        assert run.summary().counts == {DONE: 9}

    async def test_a_refusal_stops_the_run_and_the_next_wave(self, house):
        run = await start(house, WITH_QUESTION, ["one", "two"], rollout={"canary": 1})
        approval = await asyncio.wait_for(house.approvals.asked.get(), PATIENCE_S)
        house.approvals.answer(approval.id, ApprovalState.DENIED, "not today")
        await ended(run)
        assert states(run) == {"a": DONE, "go": CellState.REFUSED, "b": NOT_STARTED}
        assert set(states(run, "two").values()) == {NOT_STARTED}
        assert run.cells["one", "go"].note == "anna denied it: not today"
        assert run.end is RunState.REFUSED

    async def test_a_device_that_is_cancelled_while_it_waits_does_not_end_the_question_of_others(self, house):
        run = await start(house, WITH_QUESTION, ["one", "two"])
        approval = await asyncio.wait_for(house.approvals.asked.get(), PATIENCE_S)
        house.runs.cancel_cell(run, "one", "go", "operator:anna")
        house.approvals.answer(approval.id, ApprovalState.APPROVED)
        await ended(run)
        assert states(run) == {"a": DONE, "go": NOT_STARTED, "b": NOT_STARTED}
        assert states(run, "two") == {"a": DONE, "go": DONE, "b": DONE}
        assert same(rebuild_run(house.journal.entries)) == same(run.whole())

    async def test_a_question_for_which_no_device_waits_any_more_is_withdrawn(self, house):
        run = await start(house, WITH_QUESTION)
        await asyncio.wait_for(house.approvals.asked.get(), PATIENCE_S)
        house.runs.cancel_cell(run, "one", "go", "operator:anna")
        await ended(run)
        assert house.approvals.withdrawn == ["No device waits for it any more."]

    async def test_cancelling_the_run_withdraws_its_question(self, house):
        run = await start(house, WITH_QUESTION)
        await asyncio.wait_for(house.approvals.asked.get(), PATIENCE_S)
        await house.runs.cancel(run, "operator:anna")
        await ended(run)
        assert states(run) == {"a": DONE, "go": CellState.CANCELLED, "b": NOT_STARTED}
        assert run.end is RunState.CANCELLED


async def test_a_run_with_all_of_it_is_read_back_as_it_was(house):
    steps = [
        {"id": "a", "tool": "read", "retry": {"times": 1}},
        {"id": "b", "tool": "t", "recover": [{"id": "c", "tool": "t"}]},
        {"id": "go", "approval": {"question": "Go on?"}},
        {"id": "d", "tool": "t"},
    ]
    house.dispatcher.script |= {
        ("one", "a"): ["failed", "done"],
        ("two", "b"): "failed",
        ("three", "a"): "offline",
        ("four", "b"): "unknown",
    }
    run = await start(house, steps, ["one", "two", "three", "four"])
    approval = await asyncio.wait_for(house.approvals.asked.get(), PATIENCE_S)
    house.approvals.answer(approval.id, ApprovalState.DENIED, "no")
    await ended(run)
    times = {"cells": {"__all__": {"started_at", "ended_at"}}, "summary": {"started_at", "ended_at"}}
    assert rebuild_run(house.journal.entries).model_dump(exclude=times) == run.whole().model_dump(
        exclude=times
    )


class TestExpressions:
    async def test_a_step_runs_where_its_condition_holds_and_is_skipped_elsewhere_which_is_no_failure(
        self, house
    ):
        steps = [
            {"id": "a", "tool": "t"},
            {"id": "b", "tool": "t", "when": "${{ device.name == 'two' }}"},
            {"id": "c", "tool": "t"},
        ]
        run = await ended(await start(house, steps, ["one", "two"]))
        assert states(run) == {"a": DONE, "b": SKIPPED, "c": DONE}
        assert states(run, "two") == {"a": DONE, "b": DONE, "c": DONE}
        assert "is false" in run.cells["one", "b"].note
        assert run.end is RunState.DONE

    async def test_arguments_hold_values_of_earlier_results_and_of_inputs(self, house):
        steps = [
            {"id": "a", "tool": "t"},
            {
                "id": "b",
                "tool": "t",
                "with": {"text": "${{ steps.a.result.end }}!", "limit": "${{ inputs.most }}"},
            },
        ]
        batch = Batch.model_validate({"name": "x", "steps": steps, "inputs": {"most": {"type": "integer"}}})
        inputs = Inputs({"most": 7}, {"most": 7})
        await ended(await house.runs.start(batch, (("one",),), "operator:anna", "batch", inputs=inputs))
        assert house.dispatcher.orders[-1].parameters == {"text": "done!", "limit": 7}

    async def test_an_expectation_that_does_not_hold_fails_the_step_and_names_itself(self, house):
        steps = [{"id": "a", "tool": "t", "expect": "${{ result.end == 'other' }}"}, {"id": "b", "tool": "t"}]
        run = await ended(await start(house, steps))
        assert states(run) == {"a": FAILED, "b": NOT_STARTED}
        result = run.cells["one", "a"].result
        assert result is not None
        assert result.error is not None
        assert result.error.code is ErrorCode.EXPECTATION_FAILED
        assert "result.end == 'other'" in result.error.message

    async def test_an_expectation_is_waited_for_by_retries(self, house):
        house.dispatcher.script["one", "a"] = ["done", "read"]
        steps = [{"id": "a", "tool": "read", "retry": {"times": 2}, "expect": "${{ result.end == 'read' }}"}]
        run = await ended(await start(house, steps))
        assert (run.cells["one", "a"].state, run.cells["one", "a"].attempts) == (DONE, 2)

    async def test_a_value_that_is_not_there_fails_the_step_before_anything_is_sent(self, house):
        house.dispatcher.script["one", "a"] = "failed"
        steps = [
            {"id": "a", "tool": "t", "on_failure": "continue"},
            {"id": "b", "tool": "t", "with": {"text": "${{ steps.a.result.end }}"}},
        ]
        run = await ended(await start(house, steps))
        assert states(run) == {"a": FAILED, "b": FAILED}
        assert "steps.a.result" in run.cells["one", "b"].note
        assert [step for _, step in house.dispatcher.begun] == ["a"]

    async def test_a_recovery_reads_how_its_step_failed(self, house):
        house.dispatcher.script["one", "a"] = "failed"
        recover = [{"id": "b", "tool": "t", "when": "${{ steps.a.error == 'tool_failed' }}"}]
        run = await ended(await start(house, [{"id": "a", "tool": "t", "recover": recover}]))
        assert states(run) == {"a": DONE, "b": DONE}

    async def test_the_arguments_of_a_single_call_are_meant_as_they_are_written(self, house):
        batch = Batch.model_validate(
            {"name": "x", "steps": [{"id": "a", "tool": "t", "with": {"t": "${{ x }}"}}]}
        )
        await ended(await house.runs.start(batch, (("one",),), "operator:anna", "call"))
        assert house.dispatcher.orders[-1].parameters == {"t": "${{ x }}"}

    async def test_what_expressions_did_is_read_back_from_the_journal(self, house):
        steps = [
            {"id": "a", "tool": "t", "when": "${{ device.name == 'two' }}"},
            {"id": "b", "tool": "t", "expect": "${{ result.end == 'no' }}", "on_failure": "continue"},
            {"id": "c", "tool": "t", "with": {"text": "${{ steps.a.result.end }}"}},
        ]
        run = await ended(await start(house, steps, ["one", "two"]))
        assert states(run) == {"a": SKIPPED, "b": FAILED, "c": FAILED}
        assert same(rebuild_run(house.journal.entries)) == same(run.whole())


async def calls_for(devices: int, steps: int, **more: Any) -> float:
    """The calls made for each result of a run, from its start to its end."""
    house = open_house()
    batch = Batch.model_validate(
        {
            "name": "test",
            "steps": [
                {"id": f"s{number}", "tool": "read", **(more if number else {})} for number in range(steps)
            ],
            "rollout": {"parallel": devices},
        }
    )
    names = [f"d{number}" for number in range(devices)]
    with calls_counted() as calls:
        run = await ended(await house.runs.start(batch, (tuple(names),), "operator:anna", "batch"))
    assert run.counts[DONE] == devices * steps
    await house.close()
    return calls.count / (devices * steps)


async def test_the_work_for_a_result_does_not_grow_with_the_number_of_cells():
    await calls_for(1, 1)
    assert await calls_for(400, 4) < 1.2 * await calls_for(20, 4)


async def test_the_work_for_a_condition_does_not_grow_with_the_number_of_steps():
    condition = {"when": "${{ steps.s0.state == 'done' }}"}
    await calls_for(1, 2, **condition)
    assert await calls_for(20, 80, **condition) < 1.2 * await calls_for(20, 10, **condition)


async def test_a_run_begins_a_few_devices_in_each_turn_of_the_loop_also_while_others_answer(house):
    turns, begun = Turns(), []
    house.dispatcher.on_begin = lambda: begun.append(turns.count)
    devices = [f"d{number}" for number in range(200)]
    steps = [{"id": "a", "tool": "read"}, {"id": "b", "tool": "read"}]
    await ended(await start(house, steps, devices, rollout={"parallel": 200}))
    turns.close()
    assert len(begun) == 400
    assert max(begun.count(turn) for turn in begun) <= STARTS_AT_A_TIME


async def test_a_run_of_thousands_of_cells_is_made_over_several_turns_of_the_loop(house, monkeypatch):
    monkeypatch.setattr(tasks, "TURN_S", 0.0)
    devices = [f"d{number}" for number in range(1000)]
    turns = Turns()
    run = await start(house, [{"id": f"s{number}", "tool": "read"} for number in range(5)], devices)
    turns.close()
    assert len(run.cells) == 5000
    assert turns.count >= 5000
    await house.runs.cancel(run, "operator:anna")
    await ended(run)
