"""Requests of a run for which the queue has no room line up; those of a run not yet let in are refused."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from core.approvals.models import Approval, ApprovalState
from core.audit.entries import Kind
from core.batch.models import Batch, RunState
from core.commands.request import CommandRequest
from core.commands.results import CommandResult
from core.errors import ErrorCode
from core.home import Home
from core.policy.agent_models import AgentSettings
from core.service.console import Console
from core.service.local_console import LocalConsole
from tests.fakes.agents import agent_of
from tests.fakes.desk import approve, choose_channel, next_approval, open_service
from tests.fakes.operator_answers import asked, no, signed_grant, terms_for, yes
from tests.fakes.patience import PATIENCE_S
from tests.fakes.rig import DEVICE, Rig, open_rig
from tests.fakes.signing import anna

MOST = AgentSettings().waiting
Task = asyncio.Task[CommandResult]


def ask(rig: Rig, number: int, run: str | None = "r-1", actor: str = "agent:clerk", **more: Any) -> Task:
    """One step of a run of an agent, in the background."""
    order = CommandRequest(
        DEVICE, "shell_execute", {"command": f"rm -rf {number}"}, actor, run=run, operators=(), **more
    )
    return rig.tasks.spawn(f"step {number}", rig.dispatcher.dispatch(order))


async def full(rig: Rig, beside: int) -> tuple[list[Task], list[Approval]]:
    """A run with as many requests in the queue as its agent may have, and so many in line."""
    tasks = [ask(rig, number) for number in range(MOST + beside)]
    approvals = [await asked(rig) for _ in range(MOST)]
    async with asyncio.timeout(PATIENCE_S):
        for _ in iter(lambda: len(rig.approvals._line), beside):
            await asyncio.sleep(0)
    assert not any(task.done() for task in tasks)
    return tasks, approvals


def commands(approvals: list[Approval]) -> list[str]:
    return [str(one.request.parameters["command"]) for one in approvals]


def ran(rig: Rig) -> set[str]:
    return {str((command.parameters or {})["command"]) for command in rig.tools.seen}


async def code_of(task: Task) -> ErrorCode | None:
    result = await task
    return result.error.code if result.error else None


async def test_they_come_into_the_queue_in_their_order_as_others_leave_it(home: Home) -> None:
    async with open_rig(home) as rig:
        tasks, approvals = await full(rig, 3)
        assert commands(approvals) == [f"rm -rf {number}" for number in range(MOST)]
        await rig.approvals.decide(no(rig.key, approvals[7]))
        assert commands([await asked(rig)]) == [f"rm -rf {MOST}"]
        await rig.approvals.decide(yes(rig.key, approvals[3]))
        later = await asked(rig)
        assert commands([later]) == [f"rm -rf {MOST + 1}"]
        assert len(rig.approvals.list()) == MOST
        await rig.approvals.decide(yes(rig.key, later))
        assert (await tasks[MOST + 1]).error is None
        assert commands([await asked(rig)]) == [f"rm -rf {MOST + 2}"]
        rig.approvals.withdraw("enough")
        codes = [await code_of(task) for task in tasks]
        assert codes.count(None) == 2
        assert ErrorCode.QUEUE_FULL not in codes


async def test_another_run_of_the_agent_is_refused_and_other_agents_are_not(home: Home) -> None:
    async with open_rig(home) as rig:
        tasks, approvals = await full(rig, 1)
        assert rig.approvals.room("agent:clerk") == 0
        for run in ("r-2", None):
            assert await code_of(ask(rig, 90, run)) is ErrorCode.QUEUE_FULL
        other = ask(rig, 91, "r-3", "agent:other")
        assert (await asked(rig)).actor == "agent:other"
        # What leaves makes room for the one in line, and not for one that comes at that moment.
        rig.approvals.withdraw_one(approvals[0].id, "enough")
        assert await code_of(ask(rig, 92, "r-2")) is ErrorCode.QUEUE_FULL
        assert commands([await asked(rig)]) == [f"rm -rf {MOST}"]
        rig.approvals.withdraw("enough")
        await asyncio.gather(*tasks, other)


@pytest.mark.parametrize("run", ["r-1", None])
async def test_they_are_withdrawn_with_their_run_and_never_come_into_the_queue(
    home: Home, run: str | None
) -> None:
    async with open_rig(home) as rig:
        tasks, _ = await full(rig, 5)
        assert rig.approvals.withdraw("The run was cancelled; nothing was sent.", run) == MOST + 5
        assert {await code_of(task) for task in tasks} == {ErrorCode.CANCELLED}
        assert rig.approvals.list() == []
        assert rig.asked.empty()
        assert ran(rig) == set()
        ended = await rig.entries(f"kind:{Kind.APPROVAL_EXPIRED}")
        assert [one.body["state"] for one in ended] == ["withdrawn"] * (MOST + 5)


async def test_one_that_was_called_at_the_moment_of_the_withdrawal_is_withdrawn(home: Home) -> None:
    async with open_rig(home) as rig:
        tasks, approvals = await full(rig, 2)
        rig.approvals.withdraw_one(approvals[0].id, "enough")
        assert [place.called.is_set() for place in rig.approvals._line] == [True, False]
        rig.approvals.withdraw("enough", "r-1")
        await asyncio.gather(*tasks)
        assert (rig.approvals.list(), rig.asked.empty(), ran(rig)) == ([], True, set())


async def test_one_whose_asker_goes_leaves_its_place_to_the_next(home: Home) -> None:
    async with open_rig(home) as rig:
        tasks, approvals = await full(rig, 3)
        tasks[MOST].cancel()
        await asyncio.wait([tasks[MOST]])
        rig.approvals.withdraw_one(approvals[0].id, "enough")
        # Called, and gone before it came.
        tasks[MOST + 1].cancel()
        assert commands([await asked(rig)]) == [f"rm -rf {MOST + 2}"]
        assert len(rig.approvals.list()) == MOST
        rig.approvals.withdraw("enough")
        await asyncio.gather(*tasks, return_exceptions=True)


async def test_a_grant_that_was_given_meanwhile_answers_them(home: Home) -> None:
    async with open_rig(home) as rig:
        tasks, approvals = await full(rig, 3)
        terms = terms_for(approvals[0], "anna", arguments={"command": "any"}, uses=MOST + 3)
        await rig.approvals.decide(yes(rig.key, approvals[0]), signed_grant(rig.key, terms))
        assert {await code_of(task) for task in tasks} == {None}
        assert len(ran(rig)) == MOST + 3


async def test_what_an_operator_edits_in_a_full_queue_is_not_refused(home: Home) -> None:
    """The room that the edited request leaves goes to the one in line; the new one comes after it."""
    async with open_rig(home) as rig:
        tasks, approvals = await full(rig, 1)
        changed = {"command": "rm -rf edited"}
        await rig.approvals.edit(approvals[0].id, changed, changed, "operator:anna", "anna")
        assert commands([await asked(rig)]) == [f"rm -rf {MOST}"]
        await rig.approvals.decide(no(rig.key, approvals[1]))
        edited = await asked(rig)
        assert commands([edited]) == ["rm -rf edited"]
        assert edited.edited_from == approvals[0].id
        assert rig.approvals.get(approvals[0].id).state is ApprovalState.EDITED
        rig.approvals.withdraw("enough")
        await asyncio.gather(*tasks)


async def test_an_agents_parallel_steps_all_come_to_an_operator(home: Home, tmp_path: Path) -> None:
    """By the real service: the agent may have two requests in the queue, and the group asks five times."""
    choose_channel(home, "in-process")
    places = [tmp_path / str(number) for number in range(5)]
    group = [
        {"id": f"s{number}", "tool": "shell_execute", "parameters": {"command": f"touch {place}"}}
        for number, place in enumerate(places)
    ]
    batch = Batch.model_validate(
        {"name": "five", "targets": "name:this-computer", "steps": [{"parallel": group}]}
    )
    async with open_service(home) as service:
        agent = await agent_of(service, "clerk", AgentSettings(waiting=2))
        console, key = LocalConsole(service, "operator:anna"), anna(home)
        run = await agent.runs.start(batch, expected_devices=["this-computer"])
        for _ in places:
            assert len(await console.approvals.list()) <= 2
            await approve(console, await next_waiting(console), key)
        ended = await agent.runs.wait(run.summary.id, PATIENCE_S)
        assert ended.summary.state is RunState.DONE
    assert all(place.exists() for place in places)


async def next_waiting(console: Console) -> Approval:
    while (approval := await next_approval(console)).state is not ApprovalState.WAITING:
        pass
    return approval
