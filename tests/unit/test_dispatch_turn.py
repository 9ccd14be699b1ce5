"""One turn of the loop, which lets a command leave without looking at its device a second time."""

from __future__ import annotations

import asyncio

from core.aip.messages import Command
from core.dispatch.order import Order
from core.dispatch.turn import Turn
from core.home import Home
from tests.fakes.rig import DEVICE, open_rig


async def test_a_turn_lasts_until_the_loop_is_given_up_and_no_longer() -> None:
    async def nothing() -> None:
        return

    turn = Turn()
    await nothing()
    assert not turn.over
    await asyncio.sleep(0)
    assert turn.over


async def test_a_turn_is_over_for_whoever_was_woken_by_what_was_due_already() -> None:
    woken = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_soon(woken.set_result, None)
    turn = Turn()
    await woken
    assert turn.over


async def test_reads_that_never_wait_look_at_the_policy_once_and_those_that_do_look_again(home: Home) -> None:
    async with open_rig(home) as rig:
        looks: list[int] = []
        refresh = rig.policy.refresh
        rig.policy.refresh = lambda: (looks.append(1), refresh())[1]  # type: ignore[method-assign]
        await rig.call("get_system_info", info_type="memory")
        assert len(looks) == 1
        looks.clear()
        home.policy.write_text('profile = "trusted"\n')
        seen: list[Command] = []
        rig.tools.answers["write_file"] = seen.append
        result = await rig.dispatcher.dispatch(
            Order(DEVICE, "write_file", {"file_path": "/srv/a", "content": "x"}, "operator:anna")
        )
        assert result.error is None
        # Bound, then again when its intent is on the disk and the loop was given up for it.
        assert len(looks) == 2
        assert len(seen) == 1
