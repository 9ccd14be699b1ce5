"""kill -9 of the service: nothing outlives it, nothing is done twice, and what is not known is said so."""

from __future__ import annotations

import asyncio
import os
import random
import shlex
from pathlib import Path

import pytest

from core.approvals.models import Approval
from core.approvals.operator_keys import OperatorKey, statement_for
from core.audit.entries import Kind
from core.batch.batch_file import read_batch
from core.batch.models import CellState, RunState
from core.commands.results import Basis, Verdict
from core.errors import ErrorCode, QuarterdeckError
from core.fleet.models import DeviceSettings
from core.home import Home
from core.service.console import Console
from core.service.rpc.client import RemoteConsole
from tests.fakes.desk import Whistle, choose_channel, next_approval
from tests.fakes.ended import all_ended
from tests.fakes.pace import slowness
from tests.fakes.patience import PATIENCE_S
from tests.fakes.program import run as command
from tests.fakes.remote_device import make_listening_home
from tests.fakes.service_process import service_process, until_online
from tests.fakes.signing import anna, signing

# Each at a random moment: the full number where properties have theirs, too.
_FULL = os.environ.get("HYPOTHESIS_PROFILE") == "full"
KILLS = 8 if _FULL else 5
KILLS_OF_A_START = 5 if _FULL else 3


async def ask_shell(console: RemoteConsole, line: str) -> tuple[str, Approval]:
    run = await console.runs.call("this-computer", "shell_execute", {"command": line})
    return run.summary.id, await next_approval(console)


async def approve(console: Console, approval: Approval, key: OperatorKey) -> None:
    await console.approvals.decide(key.sign(statement_for(approval, "approve", key.name, "")))


def times_in(count: Path) -> int:
    return count.read_text().count("x") if count.exists() else 0


@pytest.mark.story
async def test_killed_in_the_middle_of_an_action_it_leaves_no_orphan_and_the_action_is_unknown(
    home: Home, operator: OperatorKey, tmp_path: Path, whistle: Whistle
):
    count = tmp_path / "count"
    quoted = [shlex.quote(str(path)) for path in (count, whistle.path)]
    # Far longer than the test lasts: what has ended was ended.
    line = "echo x >> {}; echo x > {}; sleep 600".format(*quoted)
    async with service_process(home) as service:
        console = await service.console()
        await console.approvals.register_operator(operator.operator)
        await until_online(console)
        run, approval = await ask_shell(console, line)
        await approve(console, approval, operator)
        await whistle.blown()
        family = service.family()
        assert len(family) >= 3
        await service.kill()
        await all_ended(family, PATIENCE_S)
    async with service_process(home) as service:
        console = await service.console()
        found = await console.runs.get(run)
        assert found.summary.state is RunState.UNKNOWN
        [cell] = found.cells
        assert cell.state is CellState.UNKNOWN
        assert cell.result
        assert cell.result.verdict is Verdict.UNKNOWN
        # Its device is asked as soon as it is back, and its client ended with the command.
        assert cell.result.basis in (Basis.NO_ANSWER, Basis.DEVICE_DOES_NOT_KNOW)
        assert cell.result.error
        assert cell.result.error.code is ErrorCode.OUTCOME_UNKNOWN
        assert [one.state for one in await console.runs.list()] == [RunState.UNKNOWN]
        await until_online(console)
        # The device is back and idle: had anything been sent again, it would be before this answer.
        again = await console.runs.call("this-computer", "get_system_info", {"info_type": "memory"})
        assert (await console.runs.wait(again.summary.id, PATIENCE_S)).summary.state is RunState.DONE
        assert times_in(count) == 1
        kinds = [entry.kind for entry in (await console.journal.command(cell.call_id or "")).entries]
        assert kinds.count(Kind.COMMAND_SENT) == 1
        assert kinds.count(Kind.RESULT_RECORDED) == 1
        assert (await console.journal.verify()).ok
    shown = command(home, "runs", "show", run, "--json")
    assert shown.json["results"][0]["verdict"] == "unknown"


async def test_killed_while_an_approval_waits_it_is_expired_and_nothing_was_sent(
    home: Home, operator: OperatorKey, tmp_path: Path
):
    choose_channel(home, "in-process")
    target = tmp_path / "never"
    async with service_process(home) as service:
        console = await service.console()
        await console.approvals.register_operator(operator.operator)
        await until_online(console)
        run, approval = await ask_shell(console, f"touch {shlex.quote(str(target))}")
        await service.kill()
    async with service_process(home) as service:
        console = await service.console()
        assert await console.approvals.list() == []
        found = await console.runs.get(run)
        assert found.summary.state is RunState.INTERRUPTED
        [cell] = found.cells
        assert cell.state is CellState.CANCELLED
        kinds = [entry.kind for entry in (await console.journal.command(cell.call_id or "")).entries]
        assert Kind.APPROVAL_EXPIRED in kinds
        assert Kind.INTENT_RECORDED not in kinds
        assert Kind.COMMAND_SENT not in kinds
        # An approval that comes after all is for a request that nobody asks any more.
        with pytest.raises(QuarterdeckError) as late:
            await approve(console, approval, operator)
        assert late.value.code in (ErrorCode.NOT_FOUND, ErrorCode.APPROVAL_INVALID)
        await until_online(console)
        again = await console.runs.call("this-computer", "get_system_info", {"info_type": "memory"})
        await console.runs.wait(again.summary.id, PATIENCE_S)
        assert again.summary.id != run
    assert not target.exists()


async def test_a_service_that_is_killed_again_while_it_recovers_closes_everything_once(
    home: Home, operator: OperatorKey, tmp_path: Path
):
    choose_channel(home, "in-process")
    async with service_process(home) as service:
        console = await service.console()
        await console.approvals.register_operator(operator.operator)
        await until_online(console)
        run, _ = await ask_shell(console, "true")
        await service.kill()
    rng = random.Random(7)
    for _ in range(KILLS_OF_A_START):
        async with service_process(home, cold=True) as service:
            await asyncio.sleep(rng.uniform(0.2, 0.7))  # a random moment of the start is what is tested
            await service.kill()
    async with service_process(home) as service:
        console = await service.console()
        assert (await console.runs.get(run)).summary.state is RunState.INTERRUPTED
        kinds = [entry.kind for entry in (await console.journal.entries(f"run:{run}", limit=100)).entries]
        assert kinds.count(Kind.RUN_FINISHED) == 1
        assert kinds.count(Kind.APPROVAL_EXPIRED) == 1
        assert (await console.journal.verify()).ok


@pytest.mark.slow
async def test_killed_at_any_moment_after_an_approval_the_command_ran_at_most_once_and_is_in_the_journal(
    home: Home, tmp_path: Path
):
    operator = anna(home)
    rng = random.Random(20261121)
    killed: list[tuple[str, Path, bool]] = []
    for number in range(KILLS):
        count = tmp_path / f"count-{number}"
        approves = number % 5 != 4
        async with service_process(home) as service:
            console = await service.console()
            await console.approvals.register_operator(operator.operator)
            if killed:
                await check_one(console, *killed[-1])
            await until_online(console)
            run, approval = await ask_shell(console, f"echo x >> {shlex.quote(str(count))}")
            deciding = asyncio.gather(
                *([approve(console, approval, operator)] if approves else []), return_exceptions=True
            )
            # A random moment of its way is what is tested, and that is longer on a busy machine.
            await asyncio.sleep(rng.uniform(0, 0.03 * slowness()))
            family = service.family()
            await service.kill()
            await deciding
            await all_ended(family, PATIENCE_S)
        killed.append((run, count, approves))
    async with service_process(home) as service:
        console = await service.console()
        for one in killed:
            await check_one(console, *one)
        assert (await console.journal.verify()).ok
    # Not one side of the moment only, or nothing was tested.
    assert 0 < sum(times_in(count) for _, count, _ in killed) < KILLS


async def check_one(console: Console, run: str, count: Path, approved: bool) -> None:
    """Hold the journal against what happened before the kill."""
    times = times_in(count)
    kinds = [entry.kind for entry in (await console.journal.entries(f"run:{run}", limit=100)).entries]
    assert times <= 1
    assert kinds.count(Kind.COMMAND_SENT) <= 1
    assert kinds.count(Kind.RUN_FINISHED) == 1
    if times:
        assert {Kind.APPROVAL_GIVEN, Kind.INTENT_RECORDED, Kind.COMMAND_SENT} <= set(kinds)
    if times or Kind.INTENT_RECORDED in kinds:
        assert approved
    state = (await console.runs.get(run)).summary.state
    if Kind.INTENT_RECORDED in kinds:
        # Asked again, its device may say that it ended before it began with the command.
        assert state in (RunState.DONE, RunState.UNKNOWN) or (state is RunState.CANCELLED and not times)
    else:
        assert state is RunState.INTERRUPTED


async def test_killed_at_a_question_the_run_is_read_as_the_journal_tells_it(tmp_path: Path):
    home = make_listening_home(tmp_path / "listening")
    operator = anna(home)
    batch = read_batch(
        """
name: asks
targets: "name:lab-1,this-computer"
rollout: {canary: 1}
steps:
  - {id: go, approval: {question: "Go on?"}}
""",
        "asks.yaml",
    )
    async with service_process(home) as service:
        console = signing(await service.console(), home)
        await console.approvals.register_operator(operator.operator)
        # It is never there, and need not be: a question goes to operators.
        await console.devices.pair("lab-1", DeviceSettings())
        events = console.events()
        run = (await console.runs.start(batch)).summary.id
        first = await next_approval(console)
        await approve(console, first, operator)
        async with asyncio.timeout(PATIENCE_S):
            while not [one for one in await console.approvals.list() if one.id != first.id]:
                await anext(events)
        await service.kill()
    async with service_process(home) as service:
        console = await service.console()
        found = await console.runs.get(run)
        canary, other = found.cells
        assert (canary.device, canary.state) == ("lab-1", CellState.DONE)
        assert canary.note == "approved by anna"
        assert (other.device, other.state) == ("this-computer", CellState.CANCELLED)
        assert other.note == "The service ended; nothing was sent."
        assert found.summary.state is RunState.INTERRUPTED
