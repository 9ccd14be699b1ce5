"""The executor: one turn for all actions of a device, and one table of calls that can be cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from core.aip.frames import read_error_text
from core.aip.messages import Command
from core.device import DeviceConfig, Router, build_router
from core.device.config import Limits
from core.device.frame_runner import FrameRunner
from core.device.frames import Step
from core.device.tool import OBSERVES, Tool, ToolCall, object_schema
from core.errors import ErrorCode
from core.models.tools import ToolType


class Held:
    """A tool that runs until it is let go, and counts how many of its calls run at once."""

    def __init__(self, name: str, tool_type: ToolType = "action") -> None:
        self.begun = asyncio.Event()
        self.go = asyncio.Event()
        self.runs = 0
        self.most_at_once = 0
        self.tool = Tool(
            name=name,
            title=name,
            tool_type=tool_type,
            description="Runs until it is let go.",
            input_schema=object_schema({}),
            output_schema={},
            contract=OBSERVES,
            run=self._run,
        )

    async def _run(self, call: ToolCall) -> str:
        self.runs += 1
        self.most_at_once = max(self.most_at_once, self.runs)
        self.begun.set()
        try:
            await self.go.wait()
        finally:
            self.runs -= 1
        return "done"


@pytest.fixture
async def router(tmp_path: Path) -> AsyncIterator[Router]:
    built = build_router(DeviceConfig(roots=(tmp_path,)), tmp_path / "state", "executor")
    yield built
    await built.close()


def step(call_id: str, tool: str = "hold", tool_type: ToolType = "action") -> Step:
    return Step(call_id, Command(tool_name=tool, tool_type=tool_type, call_id=call_id))


async def settle() -> None:
    """Give every task that can run now the loop often enough to come to its next wait."""
    for _ in range(100):
        await asyncio.sleep(0)


async def test_a_frame_and_a_call_beside_it_share_one_turn(router: Router) -> None:
    hold = Held("hold")
    router.offer(hold.tool)
    frames = FrameRunner(router, Limits())
    async with asyncio.TaskGroup() as group:
        first = group.create_task(frames.run([step("1"), step("2")]))
        await hold.begun.wait()
        command = step("3").command
        assert command is not None
        single = group.create_task(router.run(command, 20))
        second = group.create_task(frames.run([step("4")]))
        await settle()
        assert len(router.executor) == 4
        hold.go.set()
    assert [result.error for result in [*first.result(), single.result(), *second.result()]] == [None] * 4
    assert hold.most_at_once == 1
    assert len(router.executor) == 0


async def test_a_tool_that_appears_as_an_action_while_its_frame_runs_waits_for_its_turn(
    router: Router,
) -> None:
    """Its frame did not wait for a turn: when it began, it named an observation and an unknown tool."""
    look, late, hold = Held("look", "data_collection"), Held("late"), Held("hold")
    router.offer(look.tool)
    router.offer(hold.tool)
    frames = FrameRunner(router, Limits())
    async with asyncio.TaskGroup() as group:
        beside = group.create_task(frames.run([step("1", "look", "data_collection"), step("2", "late")]))
        await look.begun.wait()
        router.offer(late.tool)
        group.create_task(frames.run([step("3")]))
        await hold.begun.wait()
        look.go.set()
        late.go.set()
        await settle()
        assert look.runs == 0
        assert not late.begun.is_set()
        hold.go.set()
    assert [result.error for result in beside.result()] == [None, None]


async def test_calls_with_one_id_are_all_cancelled_whether_they_wait_or_run(router: Router) -> None:
    look, hold = Held("look", "data_collection"), Held("hold")
    router.offer(look.tool)
    router.offer(hold.tool)
    frames = FrameRunner(router, Limits())
    async with asyncio.TaskGroup() as group:
        running = group.create_task(frames.run([step("same", "look", "data_collection")]))
        holding = group.create_task(frames.run([step("first"), step("same")]))
        await look.begun.wait()
        await hold.begun.wait()
        waiting = group.create_task(frames.run([step("same")]))
        await settle()
        assert len(router.executor) == 4
        assert router.executor.cancel("same")
        assert not router.executor.cancel("unknown")
        # Neither has to wait for the tool that has the turn.
        results = [*await running, *await waiting]
        assert not holding.done()
        hold.go.set()
    results.append(holding.result()[1])
    assert [read_error_text(result.error or "").code for result in results] == [ErrorCode.CANCELLED] * 3
    assert holding.result()[0].error is None
    assert len(router.executor) == 0


async def test_an_action_that_cannot_be_stopped_says_so_and_ends(router: Router) -> None:
    hold = Held("hold")
    router.offer(hold.tool)
    command = step("1").command
    assert command is not None
    async with asyncio.TaskGroup() as group:
        running = group.create_task(router.run(command, 20))
        await hold.begun.wait()
        assert not router.executor.cancel("1")
        hold.go.set()
    assert running.result().error is None
    assert not router.executor.cancel("1")
