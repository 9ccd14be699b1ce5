"""Tasks that come together go on a few in each iteration of the loop, and a task alone loses none."""

from __future__ import annotations

import asyncio

import pytest

from core import tasks
from core.tasks import Throttle, in_turns
from tests.fakes.turns import Turns

AT_A_TIME = 4


@pytest.fixture
def throttle() -> Throttle:
    return Throttle(AT_A_TIME)


async def test_a_hundred_tasks_go_on_in_order_a_few_in_each_iteration(throttle: Throttle) -> None:
    turns, went_on = Turns(), []

    async def work(number: int) -> None:
        await throttle.take()
        went_on.append((number, turns.count))

    async with asyncio.TaskGroup() as group:
        for number in range(100):
            group.create_task(work(number))
    turns.close()
    assert [number for number, _ in went_on] == list(range(100))
    in_turns = [[turn for _, turn in went_on].count(turn) for turn in range(turns.count + 1)]
    assert max(in_turns) == AT_A_TIME


async def test_a_task_alone_goes_on_at_once(throttle: Throttle) -> None:
    turns = Turns()
    for _ in range(AT_A_TIME):
        await throttle.take()
    assert turns.count == 0
    turns.close()


async def test_a_task_that_is_cancelled_while_it_waits_holds_up_no_other(throttle: Throttle) -> None:
    went_on: list[int] = []

    async def work(number: int) -> None:
        await throttle.take()
        went_on.append(number)

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(work(number)) for number in range(20)]
        await asyncio.sleep(0)
        for number in range(AT_A_TIME, 16):
            tasks[number].cancel()
    assert went_on == [0, 1, 2, 3, 16, 17, 18, 19]


@pytest.mark.parametrize(("turn_s", "turns"), [(0.0, 5), (60.0, 0)])
async def test_long_work_on_the_loop_lets_others_go_on(monkeypatch, turn_s: float, turns: int) -> None:
    monkeypatch.setattr(tasks, "TURN_S", turn_s)
    counted = Turns()
    assert [value async for value in in_turns(iter(range(5)))] == [0, 1, 2, 3, 4]
    assert counted.count == turns
    counted.close()
