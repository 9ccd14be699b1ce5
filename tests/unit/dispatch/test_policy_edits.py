"""What changes between two commands, or while one is on its way, counts at once: policy and connections."""

from __future__ import annotations

import asyncio
from typing import Any

from core.aip.messages import Command
from core.approvals.models import ApprovalState
from core.audit.entries import Kind
from core.commands.request import CommandRequest
from core.commands.results import CommandResult
from core.errors import ErrorCode
from core.home import Home
from core.models.devices import Health
from core.models.tools import Risk
from core.service.console import Console
from core.service.service import Service
from tests.fakes.desk import approve, next_approval
from tests.fakes.lab_device import pair
from tests.fakes.patience import PATIENCE_S
from tests.fakes.remote_device import stands
from tests.fakes.rig import DEVICE, open_rig
from tests.fakes.scripted_device import scripted
from tests.fakes.signing import anna


async def test_a_device_that_is_lost_between_two_commands_gets_only_the_first(home: Home) -> None:
    async with open_rig(home) as rig:
        results: list[CommandResult] = []

        async def read(kind: str) -> None:
            order = CommandRequest(DEVICE, "get_system_info", {"info_type": kind}, "cli:anna")
            results.append(await rig.dispatcher.dispatch(order))

        # All three are due in the loop's next iteration, one after the other.
        first = rig.tasks.spawn("first", read("memory"))
        asyncio.get_running_loop().call_soon(rig.fleet.lost, DEVICE, None, "gone", Health.OFFLINE)
        second = rig.tasks.spawn("second", read("disk"))
        await asyncio.gather(first, second)
        assert [command.parameters for command in rig.tools.seen] == [{"info_type": "memory"}]
        [refused] = [result for result in results if result.error is not None]
        assert refused.error is not None
        assert refused.error.code is ErrorCode.DEVICE_OFFLINE


async def test_an_edit_counts_for_a_command_that_begins_while_others_still_run(home: Home) -> None:
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
        together = [rig.tasks.spawn(f"read {number}", read()) for number in range(5)]
        await asyncio.wait_for(all_there.wait(), PATIENCE_S)
        home.policy.write_text('[[rule]]\nid = "no"\ndecision = "deny"\n')
        denied = await rig.dispatcher.dispatch(order())
        go.set()
        await asyncio.gather(*together)
        assert denied.error is not None
        assert denied.error.code is ErrorCode.DENIED_BY_POLICY
        assert [result.error for result in results] == [None] * 5


async def test_an_edit_counts_for_the_next_command_even_in_the_same_iteration_of_the_loop(home: Home) -> None:
    async with open_rig(home) as rig:
        order = CommandRequest(DEVICE, "get_system_info", {"info_type": "memory"}, "cli:anna")
        first = await rig.dispatcher.dispatch(order)
        home.policy.write_text('[[rule]]\nid = "no"\ndecision = "deny"\n')
        second = await rig.dispatcher.dispatch(order)
        assert first.error is None
        assert second.error is not None


async def test_a_contract_that_policy_toml_changes_while_a_call_is_prepared_is_bound_anew(home: Home) -> None:
    async with open_rig(home) as rig:
        prepare = rig.dispatcher.calls.prepare

        async def edited_meanwhile(tool: Any, arguments: Any) -> Any:
            rig.dispatcher.calls.prepare = prepare  # type: ignore[method-assign]
            rig.use_policy('[[contract]]\ntool = "get_system_info"\nrisk = "critical"\nwhy = "shown"\n')
            return await prepare(tool, arguments)

        rig.dispatcher.calls.prepare = edited_meanwhile  # type: ignore[method-assign]
        task = rig.start("get_system_info", info_type="memory")
        waiting = await asyncio.wait_for(rig.asked.get(), PATIENCE_S)
        assert waiting.decision.risk is Risk.CRITICAL
        tool = rig.fleet.target(DEVICE).tools["get_system_info"]
        assert waiting.request.contract == tool.contract.digest
        task.cancel()
        await asyncio.wait([task])
        assert rig.tools.seen == []


class TestWhileACommandOfARunWaits:
    """`poke` asks, and an operator approves it; by then policy.toml is another one."""

    @staticmethod
    async def edited(service: Service, console: Console, rule: str) -> str:
        """The run of a call that was approved after the edit."""
        key = anna(service.home)
        await console.approvals.register_operator(key.operator)
        run = await console.runs.call("lab-1", "poke", {})
        waits = await next_approval(console)
        service.home.policy.write_text(f'[[rule]]\nid = "late"\ntool = "poke"\n{rule}\n')
        await approve(console, waits, key)
        return run.summary.id

    async def test_one_that_is_denied_now_is_refused_once_and_not_asked_again(
        self, service: Service, console: Console
    ) -> None:
        url, token = await pair(console)
        async with scripted(url, token, "lab-1"):
            await stands(console, "lab-1", Health.ONLINE)
            run = await self.edited(service, console, 'decision = "deny"')
            [cell] = (await console.runs.wait(run, PATIENCE_S)).cells
            assert cell.result is not None
            assert cell.result.error is not None
            assert (cell.result.error.code, cell.attempts) == (ErrorCode.DENIED_BY_POLICY, 1)
            entries = (await console.journal.entries(f"run:{run}")).entries
            kinds = [entry.kind for entry in entries]
            assert (kinds.count(Kind.COMMAND_REFUSED), kinds.count(Kind.COMMAND_PREPARED)) == (1, 1)
            assert Kind.COMMAND_SENT not in kinds

    async def test_one_that_two_must_approve_now_is_asked_again(
        self, service: Service, console: Console
    ) -> None:
        url, token = await pair(console)
        async with scripted(url, token, "lab-1"):
            await stands(console, "lab-1", Health.ONLINE)
            run = await self.edited(service, console, 'decision = "ask"\napprovers = 2')
            again = await next_approval(console)
            while again.state is not ApprovalState.WAITING:
                again = await next_approval(console)
            assert (again.run, again.decision.approvers) == (run, 2)
            await console.runs.stop(run)
