"""A command that is cancelled before it has left never leaves, at whatever point of its way that was."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from core.approvals.operator_keys import statement_for
from core.audit.entries import Entry, Kind, NewEntry
from core.batch.models import Batch, CellState, RunState
from core.batch.run_executor import Environment
from core.batch.runs import Runs
from core.commands.request import CommandRequest, Stage
from core.commands.results import Basis, CommandResult, Verdict
from core.errors import ErrorCode
from core.home import Home
from tests.fakes.patience import PATIENCE_S
from tests.fakes.rig import DEVICE, Rig, open_rig
from tests.fakes.scripted_runs import PlainDevices

SHELL = {"command": "rm -rf build"}


class Wish:
    """An order that can be taken back."""

    def __init__(self) -> None:
        self.cancelled = False
        self.order = CommandRequest(DEVICE, "shell_execute", SHELL, "anna", cancelled=lambda: self.cancelled)

    def cancel(self) -> None:
        self.cancelled = True


async def approve_next(rig: Rig) -> None:
    approval = await asyncio.wait_for(rig.asked.get(), PATIENCE_S)
    await rig.approvals.decide(rig.key.sign(statement_for(approval, "approve", rig.key.name, "")))


async def held_to_nothing_sent(rig: Rig, result: CommandResult) -> None:
    assert rig.tools.seen == []
    assert (result.verdict, result.basis) == (Verdict.CANCELLED, Basis.NOTHING_SENT)
    assert result.error
    assert result.error.code is ErrorCode.CANCELLED
    kinds = [one.kind for one in await rig.entries() if one.call_id == result.call_id]
    assert Kind.COMMAND_SENT not in kinds
    assert kinds[-1] in (Kind.COMMAND_REFUSED, Kind.RESULT_RECORDED)


async def test_cancelled_before_it_begins_it_is_not_even_prepared(home: Home):
    wish = Wish()
    wish.cancel()
    async with open_rig(home) as rig:
        await held_to_nothing_sent(rig, await rig.dispatcher.dispatch(wish.order))
        assert rig.asked.empty()


async def test_cancelled_while_its_approval_is_written_it_is_not_sent(home: Home):
    wish = Wish()
    async with open_rig(home) as rig:
        append = rig.disk.append

        async def cancel_meanwhile(entry: NewEntry) -> Entry:
            if entry.kind is Kind.APPROVAL_GIVEN:
                wish.cancel()
            return await append(entry)

        rig.disk.append = cancel_meanwhile
        task = rig.tasks.spawn("call", rig.dispatcher.dispatch(wish.order))
        await approve_next(rig)
        result = await task
        await held_to_nothing_sent(rig, result)
        kinds = [one.kind for one in await rig.entries() if one.call_id == result.call_id]
        assert Kind.INTENT_RECORDED not in kinds


async def test_cancelled_while_its_intent_is_written_it_is_not_sent(home: Home):
    wish = Wish()
    async with open_rig(home) as rig:
        append_many = rig.disk.append_many

        async def cancel_meanwhile(entries: list[NewEntry]) -> list[Entry]:
            wish.cancel()
            return await append_many(entries)

        rig.disk.append_many = cancel_meanwhile
        task = rig.tasks.spawn("call", rig.dispatcher.dispatch(wish.order))
        await approve_next(rig)
        await held_to_nothing_sent(rig, await task)


async def test_cancelled_when_it_is_just_about_to_leave_it_does_not_leave(home: Home):
    wish = Wish()

    def cancel_at_the_last_moment(stage: Stage, approval: str) -> None:
        if stage is Stage.RUNNING:
            wish.cancel()

    async with open_rig(home) as rig:
        task = rig.tasks.spawn("call", rig.dispatcher.dispatch(wish.order, cancel_at_the_last_moment))
        await approve_next(rig)
        await held_to_nothing_sent(rig, await task)


@pytest.mark.parametrize("kind", [Kind.APPROVAL_GIVEN, Kind.INTENT_RECORDED])
async def test_a_run_that_is_cancelled_while_the_journal_writes_sends_nothing(home: Home, kind: Kind):
    async with open_rig(home) as rig:
        environment = Environment(rig.dispatcher, rig.disk, rig.approvals, PlainDevices(), lambda cell: None)
        runs = Runs(environment, rig.tasks, lambda run: None, rig.dispatcher.redacted)
        steps: list[Any] = [{"id": "a", "tool": "shell_execute", "with": SHELL}]
        run = await runs.start(
            Batch.model_validate({"name": "b", "targets": f"name:{DEVICE}", "steps": steps}),
            ((DEVICE,),),
            "operator:anna",
            "batch",
        )
        append, append_many = rig.disk.append, rig.disk.append_many

        async def one(entry: NewEntry) -> Entry:
            if entry.kind is kind:
                await runs.cancel(run, "operator:anna")
            return await append(entry)

        async def many(entries: list[NewEntry]) -> list[Entry]:
            if kind in [entry.kind for entry in entries]:
                await runs.cancel(run, "operator:anna")
            return await append_many(entries)

        rig.disk.append, rig.disk.append_many = one, many
        await approve_next(rig)
        async with asyncio.timeout(PATIENCE_S):
            await run.ended.wait()
        assert rig.tools.seen == []
        assert run.end is RunState.CANCELLED
        assert run.cells[DEVICE, "a"].state is CellState.CANCELLED
        runs.close()
