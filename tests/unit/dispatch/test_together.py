"""Devices that answer together: each iteration of the loop concludes a few of them, at the same work each."""

from __future__ import annotations

import asyncio
import os
from typing import Any

import pytest

from core.aip.messages import Command
from core.home import Home
from tests.fakes.patience import PATIENCE_S
from tests.fakes.rig import Rig, open_rig
from tests.fakes.turns import Turns
from tests.fakes.work import calls_counted


async def answers_together(rig: Rig, count: int) -> tuple[int, int]:
    """Have `count` commands answered at one moment; the calls made then, and the turns that it took."""
    asked, all_asked, answer = 0, asyncio.Event(), asyncio.Event()

    async def wait(command: Command) -> Any:
        nonlocal asked
        asked += 1
        if asked == count:
            all_asked.set()
        await answer.wait()
        return {"ok": True}

    rig.tools.answers["get_system_info"] = wait
    commands = [rig.start("get_system_info", info_type="memory") for _ in range(count)]
    async with asyncio.timeout(PATIENCE_S):
        await all_asked.wait()
        answer.set()
        turns = Turns()
        with calls_counted() as calls:
            results = await asyncio.gather(*commands)
    turns.close()
    assert all(result.error is None for result in results)
    return calls.count, turns.count


async def test_two_hundred_answers_that_come_together_are_not_one_turn_of_the_loop(home: Home) -> None:
    async with open_rig(home) as rig:
        _, turns = await answers_together(rig, 200)
        assert turns >= 200 / 20


async def test_the_work_for_an_answer_does_not_grow_with_their_number(home: Home) -> None:
    async with open_rig(home) as rig:
        await answers_together(rig, 1)
        few, _ = await answers_together(rig, 20)
        many, _ = await answers_together(rig, 200)
        assert many / 200 < 1.2 * few / 20


@pytest.mark.parametrize("tool", ["get_system_info", "write_file"])
async def test_two_hundred_commands_that_begin_together_are_not_one_turn_of_the_loop(
    home: Home, tool: str
) -> None:
    arguments = {"info_type": "x"} if tool == "get_system_info" else {"file_path": "/tmp/x", "content": "x"}
    async with open_rig(home) as rig:
        rig.use_policy('profile = "trusted"\n')
        seen: list[int] = []
        turns = Turns()

        def note(command: Command) -> Any:
            seen.append(turns.count)
            return {"ok": True}

        rig.tools.answers[tool] = note
        async with asyncio.timeout(PATIENCE_S):
            await asyncio.gather(*(rig.call(tool, **arguments) for _ in range(200)))
        turns.close()
        assert max(seen.count(turn) for turn in seen) <= 20


async def test_reads_that_begin_together_are_sent_side_by_side_after_one_write(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between two frames nothing else goes on: their devices' processes are woken together."""
    async with open_rig(home) as rig:
        done: list[str] = []
        write = os.write

        def watched(descriptor: int, data: bytes) -> int:
            done.append("noted")
            return write(descriptor, data)

        def look(command: Command) -> Any:
            done.append("sent")
            return {"ok": True}

        rig.tools.answers["get_system_info"] = look
        monkeypatch.setattr(os, "write", watched)
        await asyncio.gather(*(rig.call("get_system_info", info_type=f"{number}") for number in range(5)))
        # One write more for their outcomes, which come together, too.
        assert done == ["noted", *["sent"] * 5, "noted"]
