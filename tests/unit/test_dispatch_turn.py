"""One turn of the loop, which lets a command leave without looking at its device a second time."""

from __future__ import annotations

import asyncio

from core.aip.messages import Command
from core.dispatch.command_request import CommandRequest
from core.dispatch.models import CommandResult
from core.dispatch.turn import Turn
from core.errors import ErrorCode
from core.fleet.models import Health
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
        rig.use_policy('profile = "trusted"\n')
        looks.clear()
        seen: list[Command] = []
        rig.tools.answers["write_file"] = seen.append
        result = await rig.dispatcher.dispatch(
            CommandRequest(DEVICE, "write_file", {"file_path": "/srv/a", "content": "x"}, "operator:anna")
        )
        assert result.error is None
        # Bound, then again when its intent is on the disk and the loop was given up for it.
        assert len(looks) == 2
        assert len(seen) == 1


def test_a_turn_of_a_loop_that_was_closed_in_it_is_no_turn_of_another() -> None:
    turns: list[Turn] = []

    async def lasts() -> bool:
        return turns[0].lasts()

    closed = asyncio.new_event_loop()
    closed.call_soon(lambda: (turns.append(Turn()), closed.stop()))
    closed.run_forever()
    closed.close()
    assert not turns[0].over
    assert asyncio.run(lasts()) is False


async def test_what_happens_between_two_commands_of_a_turn_counts_for_the_second(home: Home) -> None:
    async with open_rig(home) as rig:
        results: list[CommandResult] = []

        async def read(kind: str) -> None:
            order = CommandRequest(DEVICE, "get_system_info", {"info_type": kind}, "cli:anna")
            results.append(await rig.dispatcher.dispatch(order))

        # All three are due in the loop's next turn, one after the other.
        first = rig.tasks.spawn("first", read("memory"))
        asyncio.get_running_loop().call_soon(rig.fleet.lost, DEVICE, None, "gone", Health.OFFLINE)
        second = rig.tasks.spawn("second", read("disk"))
        await asyncio.gather(first, second)
        assert [command.parameters for command in rig.tools.seen] == [{"info_type": "memory"}]
        [refused] = [result for result in results if result.error is not None]
        assert refused.error is not None
        assert refused.error.code is ErrorCode.DEVICE_OFFLINE


async def test_commands_that_begin_in_one_turn_share_one_look_at_the_policy(home: Home) -> None:
    async with open_rig(home) as rig:
        all_there, go = asyncio.Event(), asyncio.Event()
        results: list[CommandResult] = []

        async def answer(command: Command) -> dict[str, str]:
            if len(rig.tools.seen) == 5:
                all_there.set()
            await go.wait()
            return {}

        async def read() -> None:
            results.append(await rig.dispatcher.dispatch(order()))

        def order() -> CommandRequest:
            return CommandRequest(DEVICE, "get_system_info", {"info_type": "memory"}, "cli:anna")

        rig.tools.answers["get_system_info"] = answer
        looks: list[int] = []
        refresh = rig.policy.refresh
        rig.policy.refresh = lambda: (looks.append(1), refresh())[1]  # type: ignore[method-assign]
        together = [rig.tasks.spawn(f"read {number}", read()) for number in range(5)]
        await asyncio.wait_for(all_there.wait(), 10)
        in_one_turn = len(looks)
        # Who begins in another turn sees what was edited since, while the others still wait.
        home.policy.write_text('[[rule]]\nid = "no"\ndecision = "deny"\n')
        denied = await rig.dispatcher.dispatch(order())
        go.set()
        await asyncio.gather(*together)
        assert in_one_turn == 1
        assert denied.error is not None
        assert denied.error.code is ErrorCode.DENIED_BY_POLICY
        assert [result.error for result in results] == [None] * 5


async def test_an_edit_after_a_command_has_ended_counts_for_the_next_of_the_same_turn(home: Home) -> None:
    async with open_rig(home) as rig:
        turns = [Turn()]
        order = CommandRequest(DEVICE, "get_system_info", {"info_type": "memory"}, "cli:anna")
        first = await rig.dispatcher.dispatch(order)
        home.policy.write_text('[[rule]]\nid = "no"\ndecision = "deny"\n')
        second = await rig.dispatcher.dispatch(order)
        assert not turns[0].over, "both were one turn"
        assert first.error is None
        assert second.error is not None
