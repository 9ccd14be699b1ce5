"""The device client's process: killed, restarted, and never asked the same thing twice."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import psutil
import pytest

from core.approvals.operator_keys import OperatorKey
from core.audit.entries import Kind
from core.batch.models import CellState, RunState
from core.commands.results import Basis, Verdict
from core.errors import ErrorCode
from core.home import Home
from core.models.devices import Health
from core.service.console import Console, DeviceChanged, Event
from core.service.local_console import LocalConsole
from core.service.service import Service
from tests.fakes.desk import Whistle, approve, choose_channel, next_approval, online, open_service
from tests.fakes.patience import PATIENCE_S
from tests.fakes.signing import signing


async def run_shell(console: Console, key: OperatorKey, command: str) -> str:
    run = await console.runs.call("this-computer", "shell_execute", {"command": command})
    await approve(console, await next_approval(console), key)
    return run.summary.id


async def tells_that_it_was_killed(events: AsyncIterator[Event]) -> None:
    """Every window is told why the device is away."""
    async with asyncio.timeout(PATIENCE_S):
        async for event in events:
            if isinstance(event, DeviceChanged) and "killed by SIGKILL" in event.device.reason:
                assert event.device.health is Health.RECONNECTING
                return
    raise AssertionError("it was not told")


async def test_a_device_killed_in_the_middle_of_an_action_leaves_it_unknown_and_is_restarted(
    home: Home, operator: OperatorKey, tmp_path: Path, whistle: Whistle
):
    count = tmp_path / "count"
    async with open_service(home) as service:
        console = signing(LocalConsole(service, "operator:anna"), service.home)
        await console.approvals.register_operator(operator.operator)
        run = await run_shell(console, operator, f"echo x >> '{count}'; echo x > '{whistle.path}'; sleep 60")
        await whistle.blown()
        first = service.this_computer.pid
        assert first is not None
        events = console.events()
        os.kill(first, signal.SIGKILL)
        await tells_that_it_was_killed(events)
        ended = await console.runs.wait(run, PATIENCE_S)
        [cell] = ended.cells
        assert cell.state is CellState.UNKNOWN
        assert cell.result
        assert cell.result.verdict is Verdict.UNKNOWN
        assert cell.result.error
        assert cell.result.error.code is ErrorCode.OUTCOME_UNKNOWN
        assert ended.summary.state is RunState.UNKNOWN
        await online(service)
        assert service.this_computer.pid != first
        device = (await console.service.state()).devices[0]
        assert device.restarts == 1
        again = await console.runs.call("this-computer", "get_system_info", {"info_type": "os"})
        assert (await console.runs.wait(again.summary.id, PATIENCE_S)).summary.state is RunState.DONE
        assert count.read_text() == "x\n"
        kinds = [entry.kind for entry in (await console.journal.command(cell.call_id or "")).entries]
        assert kinds.count(Kind.COMMAND_SENT) == 1
        journal = [entry.kind for entry in (await console.journal.entries()).entries]
        assert Kind.DEVICE_LOST in journal


async def test_closing_the_service_leaves_no_process_and_records_what_is_unknown(
    home: Home, operator: OperatorKey, tmp_path: Path, whistle: Whistle
):
    shell = tmp_path / "shell"
    async with open_service(home) as service:
        console = signing(LocalConsole(service, "operator:anna"), service.home)
        await console.approvals.register_operator(operator.operator)
        run = await run_shell(console, operator, f"echo $$ > '{shell}'; echo x > '{whistle.path}'; sleep 600")
        await whistle.blown()
        pid = service.this_computer.pid
        assert pid is not None
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert not [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    assert not psutil.pid_exists(int(shell.read_text()))
    choose_channel(home, "in-process")
    async with open_service(home) as service:
        [cell] = (await signing(LocalConsole(service, "operator:anna"), service.home).runs.get(run)).cells
        assert cell.state is CellState.UNKNOWN
        assert cell.result
        assert cell.result.basis is Basis.DEVICE_DOES_NOT_KNOW


async def test_a_second_service_on_the_same_home_is_refused_and_told_who_has_it(home: Home):
    choose_channel(home, "in-process")
    async with open_service(home):
        with pytest.raises(Exception, match=str(os.getpid())) as refusal:
            await Service.open(home)
        assert refusal.value.code is ErrorCode.HOME_BUSY


@pytest.mark.parametrize("channel", ["process", "in-process"])
async def test_the_device_s_tools_cannot_reach_the_home_of_the_console(home: Home, channel: str):
    choose_channel(home, channel)
    async with open_service(home) as service:
        console = signing(LocalConsole(service, "operator:anna"), service.home)
        for path in (home.path / "journal.db", home.keys / "journal.key", home.operators):
            run = await console.runs.call("this-computer", "read_file", {"file_path": str(path)})
            [cell] = (await console.runs.wait(run.summary.id, PATIENCE_S)).cells
            assert cell.result
            assert cell.result.error
            assert cell.result.error.code is ErrorCode.PATH_NOT_ALLOWED
