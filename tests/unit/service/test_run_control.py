"""Resuming, settling, pausing and cancelling runs through the console API: who may, and what is said."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from core.audit.entries import Kind
from core.batch.models import Batch, CellState, Run, RunState
from core.errors import BadInput, Refused
from core.home import Home
from core.service.api.client import Client
from core.service.api.run_reader import RunReader
from core.service.local_console import LocalConsole
from core.service.service import Service
from tests.fakes.agents import agent_of
from tests.fakes.desk import approve, choose_channel, next_approval, open_service
from tests.fakes.signing import anna

LOOK: dict[str, Any] = {"id": "look", "tool": "get_system_info", "with": {"info_type": "memory"}}
FAILS: dict[str, Any] = {"id": "fails", "tool": "list_directory", "with": {"path": "/nowhere"}}
PATIENCE = 60.0


@pytest.fixture
async def service(home: Home) -> AsyncIterator[Service]:
    choose_channel(home, "in-process")
    home.device_state.mkdir(parents=True, exist_ok=True)
    async with open_service(home) as service:
        yield service


async def ended(service: Service, run: Run) -> Run:
    return await LocalConsole(service, "operator:anna").runs.wait(run.summary.id, PATIENCE)


def batch_of(*steps: dict[str, Any], **more: Any) -> Batch:
    return Batch.model_validate({"name": "test", "steps": steps, **more})


async def played(service: Service, *steps: dict[str, Any], actor: str = "operator:anna", **more: Any) -> Run:
    return await ended(service, await LocalConsole(service, actor).runs.start(batch_of(*steps, **more)))


async def test_a_run_has_the_waves_of_its_plan_and_a_canary_that_is_nobody_starts_nothing(service: Service):
    runs = LocalConsole(service, "operator:anna").runs
    nobody = batch_of(LOOK, rollout={"canary": "tag:nobody"})
    for asked in (runs.plan, runs.start):
        with pytest.raises(BadInput, match="No device of this batch is its canary"):
            await asked(nobody)
    batch = batch_of(LOOK, rollout={"canary": "name:this-*"})
    plan, run = await runs.plan(batch), await runs.start(batch)
    assert (plan.devices, plan.waves) == (run.summary.devices, [])
    assert (await ended(service, run)).summary.waves == []


async def test_a_failed_run_is_resumed_at_its_failed_step_and_only_once(service: Service):
    console = LocalConsole(service, "operator:anna")
    run = await played(service, LOOK, FAILS)
    assert run.summary.state is RunState.FAILED
    resumed = await ended(service, await console.runs.resume(run.summary.id))
    [look, fails] = resumed.cells
    assert (look.state, look.carried_from) == (CellState.DONE, run.summary.id)
    assert fails.state is CellState.FAILED
    assert fails.call_id != run.cells[1].call_id
    with pytest.raises(Refused, match=f"{run.summary.id} was resumed already, as {resumed.summary.id}"):
        await console.runs.resume(run.summary.id)
    before = await console.runs.get(run.summary.id)
    assert before.summary.resumed_by == resumed.summary.id


async def test_an_operator_s_word_that_a_step_is_done_is_journalled_and_counts(service: Service):
    console = LocalConsole(service, "operator:anna")
    run = await played(service, LOOK, FAILS, {**LOOK, "id": "after"})
    cell = await console.runs.settle(run.summary.id, "this-computer", "fails", "done")
    assert (cell.state, cell.settled, cell.settled_by) == (CellState.DONE, "done", "operator:anna")
    with pytest.raises(Refused, match="is done already"):
        await console.runs.settle(run.summary.id, "this-computer", "fails", "done")
    resumed = await ended(service, await console.runs.resume(run.summary.id))
    assert [(cell.step, bool(cell.carried_from)) for cell in resumed.cells] == [
        ("look", True),
        ("fails", True),
        ("after", False),
    ]
    assert resumed.summary.state is RunState.DONE
    [entry] = (await service.journal.query(f"kind:{Kind.STEP_SETTLED}")).entries
    assert (entry.actor, entry.body) == ("operator:anna", {"done": True, "before": "failed"})


async def test_a_failed_step_is_not_settled_as_not_done_and_an_unknown_place_is_named(service: Service):
    console = LocalConsole(service, "operator:anna")
    run = await played(service, FAILS)
    with pytest.raises(Refused, match="which is not unknown"):
        await console.runs.settle(run.summary.id, "this-computer", "fails", "not_done")
    with pytest.raises(BadInput, match="has no step other"):
        await console.runs.settle(run.summary.id, "this-computer", "other", "done")


async def test_an_agent_controls_its_own_runs_only(service: Service):
    agent = await agent_of(service, "clerk")
    run = await played(service, LOOK, FAILS)
    for control in (agent.runs.resume, agent.runs.undo, agent.runs.stop, agent.runs.cells):
        with pytest.raises(BadInput, match="There is no run"):
            await control(run.summary.id)
    for read in (agent.runs.output, agent.runs.alternatives):
        with pytest.raises(BadInput, match="There is no run"):
            await read(run.summary.id, "this-computer", "look")
    own = await ended(service, await agent.runs.start(batch_of(LOOK, FAILS)))
    assert (await agent.runs.resume(own.summary.id)).summary.resumes == own.summary.id


@pytest.mark.parametrize("number", ['q7"7q', "ends\\", "x*,y z", "line\nbreak"])
async def test_an_agent_s_request_is_known_again_by_its_id_whatever_is_in_it(service: Service, number: str):
    agent = await agent_of(service, "clerk")
    asked = await agent.runs.call("this-computer", "get_system_info", {}, request_id=number)
    first = await agent.runs.wait(asked.summary.id, PATIENCE)
    service.runs._runs.clear()  # as after a restart
    again = await agent.runs.call("this-computer", "get_system_info", {}, request_id=number)
    assert again.summary.id == first.summary.id
    assert len((await service.journal.query(f"kind:{Kind.COMMAND_SENT}")).entries) == 1


async def test_inputs_are_checked_before_anything_starts(service: Service):
    runs = LocalConsole(service, "operator:anna").runs
    inputs = {"most": {"type": "integer"}, "word": {"type": "string", "default": "x", "one_of": ["x", "y"]}}
    batch = Batch.model_validate({"name": "test", "steps": [LOOK], "inputs": inputs})
    for given, fault in (
        ({}, "most is missing"),
        ({"most": "1"}, "most is not of type integer"),
        ({"most": True}, "most is not of type integer"),
        ({"most": 1, "word": "z"}, "word is not one of"),
        ({"most": 1, "other": 1}, "other is not an input of this batch"),
    ):
        with pytest.raises(BadInput, match=fault):
            await runs.start(batch, inputs=given)
    assert (await runs.start(batch, inputs={"most": 1})).inputs == {"most": 1, "word": "x"}


async def test_arguments_that_are_invalid_on_every_device_are_refused_before_any_step_runs(service: Service):
    runs = LocalConsole(service, "operator:anna").runs
    secret = "tr0ub4dor&3"
    inputs = {"kind": {"type": "string", "secret": True}}
    wrong: dict[str, Any] = {**LOOK, "id": "wrong", "with": {"info_type": "no such thing"}}
    from_input = {**wrong, "with": {"info_type": "${{ inputs.kind }}"}}
    recovered = {**FAILS, "recover": [wrong]}
    for steps, given in (
        ([LOOK, wrong], {}),
        ([LOOK, from_input], {"kind": secret}),
        ([LOOK, recovered], {}),
        ([LOOK, {"parallel": [{**LOOK, "id": "beside"}, wrong]}], {}),
    ):
        with pytest.raises(BadInput, match="Nothing was started: wrong: info_type") as refused:
            await runs.start(batch_of(*steps, inputs=inputs if given else {}), inputs=given)
        assert secret not in str(refused.value)
    assert not (await service.journal.query(f"kind:{Kind.RUN_STARTED}")).entries
    # One with a condition may be meant for other devices: it fails where it is reached.
    run = await played(service, LOOK, {**wrong, "when": "${{ steps.look.state == 'done' }}"})
    assert [cell.state for cell in run.cells] == [CellState.DONE, CellState.FAILED]
    run = await played(service, LOOK, {**wrong, "enabled": False})
    assert run.summary.state is RunState.DONE


async def test_a_secret_input_is_journalled_as_its_commitment_and_given_again_to_resume(service: Service):
    runs = LocalConsole(service, "operator:anna").runs
    secret = "tr0ub4dor&3"
    inputs = {"pin": {"type": "string", "secret": True}}
    steps = [{**FAILS, "with": {"path": "/nowhere/${{ inputs.pin }}"}}]
    batch = Batch.model_validate({"name": "test", "steps": steps, "inputs": inputs})
    run = await ended(service, await runs.start(batch, inputs={"pin": secret}))
    assert run.summary.state is RunState.FAILED
    with pytest.raises(BadInput, match="must be given again: pin"):
        await runs.resume(run.summary.id)
    with pytest.raises(BadInput, match="had another value"):
        await runs.resume(run.summary.id, {"pin": "other"})
    resumed = await ended(service, await runs.resume(run.summary.id, {"pin": secret}))
    await service.journal.settle()
    page = await service.journal.query("", after=0, limit=500)
    texts = [
        run.model_dump_json(),
        resumed.model_dump_json(),
        *(one.model_dump_json() for one in page.entries),
    ]
    assert not [text for text in texts if secret in text]


async def test_a_run_whose_saved_batch_changed_goes_on_with_the_frozen_one_and_says_so(service: Service):
    runs = LocalConsole(service, "operator:anna").runs
    run = await played(service, LOOK, FAILS)
    await runs.save_batch("test", Batch.model_validate({"name": "test", "steps": [LOOK]}))
    resumed = await ended(service, await runs.resume(run.summary.id))
    assert [cell.step for cell in resumed.cells] == ["look", "fails"]
    assert "The saved batch test is another one now" in resumed.summary.note


async def test_a_question_is_answered_with_a_signature_like_a_command_and_cannot_be_edited(service: Service):
    console = LocalConsole(service, "operator:anna")
    question = {"id": "go", "approval": {"question": "Go on?"}}
    batch = Batch.model_validate({"name": "test", "steps": [LOOK, question, {**LOOK, "id": "after"}]})
    key = anna(service.home)
    await console.approvals.register_operator(key.operator)
    run = await console.runs.start(batch)
    approval = await next_approval(console)
    assert approval.request.parameters["question"] == "Go on?"
    assert (await console.approvals.preview(approval.id)).kind == "nothing"
    assert await console.approvals.helpers(approval.id) == []
    with pytest.raises(Refused, match="cannot be edited"):
        await console.approvals.edit(approval.id, {})
    await approve(console, approval, key)
    run = await ended(service, run)
    assert run.summary.state is RunState.DONE
    assert run.cells[1].note == "approved by anna"


async def test_a_run_that_has_ended_can_be_neither_paused_nor_cancelled_step_by_step(service: Service):
    runs = LocalConsole(service, "operator:anna").runs
    run = await played(service, LOOK)
    for call in (runs.pause, runs.unpause):
        with pytest.raises(Refused, match="has ended"):
            await call(run.summary.id)
    with pytest.raises(Refused, match="has ended"):
        await runs.cancel_step(run.summary.id, "this-computer", "look")
    with pytest.raises(BadInput, match="There is no run"):
        await runs.pause("r-9999")


async def test_each_result_is_told_to_the_collector_of_garbage(
    service: Service, monkeypatch: pytest.MonkeyPatch
):
    told: list[str] = []
    monkeypatch.setattr(service.garbage, "result_came", lambda: told.append("one"))
    await played(service, LOOK, {**LOOK, "id": "again"}, FAILS)
    assert told == ["one"] * 3


async def test_a_list_has_the_summaries_that_all_entries_of_each_run_give(service: Service):
    console, reader = LocalConsole(service, "operator:anna"), RunReader(Client(service, "operator:anna"))
    done, failed, settled = [await played(service, *steps) for steps in ((LOOK,), (LOOK, FAILS), (FAILS,))]
    await console.runs.settle(settled.summary.id, "this-computer", "fails", "done")
    resumed = await ended(service, await console.runs.resume(failed.summary.id))
    called = await ended(service, await console.runs.call("this-computer", "get_system_info", {}))
    retried = await played(service, {**FAILS, "retry": {"times": 2, "backoff": 0}})
    in_memory = [run.summary.id for run in (retried, called, resumed, settled, failed, done)]
    kept = await console.runs.list()
    assert [run.id for run in kept] == in_memory
    service.runs._runs.clear()  # as after many more runs
    listed = await console.runs.list()
    whole = [(await reader.states(run.id)).summary for run in listed]
    assert listed == whole
    assert [(run.id, run.counts, run.effect, run.resumed_by) for run in listed] == [
        (run.id, run.counts, run.effect, run.resumed_by) for run in kept
    ]


ECHO: dict[str, Any] = {"id": "call", "tool": "list_directory", "with": {"path": "${{ 1 + 1 }}"}}


async def test_a_literal_call_has_its_arguments_as_they_are_written(service: Service):
    runs = LocalConsole(service, "operator:anna").runs
    run = await ended(service, await runs.start(batch_of(ECHO), literal=True))
    assert run.summary.kind == "call"
    assert run.batch.steps[0].parameters == {"path": "${{ 1 + 1 }}"}
    # The device got a text.
    assert "must be an absolute path" in run.cells[0].note
    # As a batch it is an expression, whose value is no text.
    with pytest.raises(BadInput, match="path must be text"):
        await runs.start(batch_of(ECHO))


@pytest.mark.parametrize(
    "steps",
    [
        [LOOK, FAILS],
        [LOOK | {"when": "${{ false }}"}],
        [LOOK | {"expect": "${{ false }}"}],
        [LOOK | {"retry": {"times": 1}}],
        [LOOK | {"recover": [FAILS]}],
        [LOOK | {"enabled": False}],
        [{"parallel": [LOOK]}],
        [{"id": "asks", "approval": {"question": "Go on?"}}],
    ],
)
async def test_a_batch_whose_conditions_would_be_passed_over_is_not_taken_literally(service: Service, steps):
    runs = LocalConsole(service, "operator:anna").runs
    for call in (runs.start, runs.plan):
        with pytest.raises(BadInput, match="can be taken literally"):
            await call(batch_of(*steps), literal=True)
    assert await runs.list() == []
