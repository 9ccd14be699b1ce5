"""The stock UFO device client, unmodified, as a process: what the README promises of it, with the real one.

Opt-in, as UFO is not part of this project:
    QUARTERDECK_UFO=…/UFO QUARTERDECK_UFO_PYTHON=…/bin/python pytest tests/end_to_end/test_stock_ufo.py
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from core.approvals.operator_keys import OperatorKey
from core.batch.models import Cell, CellState, RunState
from core.commands.results import Basis, CommandResult, Verdict
from core.dispatch.outcome import STOCK_NULLS
from core.errors import ErrorCode
from core.fleet.models import DeviceSettings
from core.home import Home
from core.models.devices import Device, Health
from core.service.rpc.client import RemoteConsole
from tests.fakes.desk import approve, next_approval
from tests.fakes.patience import PATIENCE_S
from tests.fakes.ports import free_port
from tests.fakes.remote_device import make_listening_home, stands
from tests.fakes.service_process import service_process
from tests.fakes.signing import anna
from tests.fakes.stock_ufo import API_KEY, WHY_NOT, StockUfo, stock_servers

pytestmark = [pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT), pytest.mark.slow]

NAME = "ufo-1"


@pytest.fixture
async def ufo(tmp_path: Path) -> AsyncIterator[StockUfo]:
    folder = tmp_path / "ufo"
    folder.mkdir()
    async with stock_servers(folder) as ufo:
        yield ufo


@pytest.fixture
def home(tmp_path: Path) -> Home:
    # The client dials one address for ever, so the console comes back at the same one.
    return make_listening_home(tmp_path / "home", f"127.0.0.1:{free_port()}")


@pytest.fixture
def key(home: Home) -> OperatorKey:
    return anna(home)


async def open_desk(console: RemoteConsole, key: OperatorKey, agent: str | None = None) -> str:
    """Register the operator and pair the device; the address to give to the client."""
    await console.approvals.register_operator(key.operator)
    return (await console.devices.pair(NAME, DeviceSettings(agent=agent))).stock_url


async def cell_of(
    console: RemoteConsole,
    key: OperatorKey,
    tool: str,
    parameters: dict[str, Any],
    deadline: float | None = None,
) -> Cell:
    """How one call ended; whatever asks for approval gets it. `deadline` is the console's own, in seconds."""
    run = await console.runs.call(NAME, tool, parameters, deadline)
    contract = next(one.contract for one in await console.devices.tools(NAME) if one.tool_name == tool)
    if contract.risk.value != "low":
        await approve(console, await next_approval(console), key)
    ended = await console.runs.wait(run.summary.id, PATIENCE_S)
    assert ended.summary.state is not RunState.RUNNING
    [cell] = ended.cells
    return cell


async def result_of(console: RemoteConsole, key: OperatorKey, tool: str, **parameters: Any) -> CommandResult:
    result = (await cell_of(console, key, tool, parameters)).result
    assert result is not None
    return result


async def execute(console: RemoteConsole, key: OperatorKey, command: str, **more: Any) -> CommandResult:
    return await result_of(console, key, "execute_command", command=command, api_key=API_KEY, **more)


async def online(console: RemoteConsole) -> Device:
    return await stands(console, NAME, Health.ONLINE)


async def test_it_registers_is_found_to_be_a_linux_agent_and_runs_commands(home, key, ufo):
    async with service_process(home) as service:
        console = await service.console()
        url = await open_desk(console, key)
        async with ufo.client(url, NAME):
            device = await online(console)
            assert (device.client, device.agent, device.platform) == (
                "UFO device client",
                "LinuxAgent",
                "linux",
            )
            assert device.features == []
            tools = {tool.tool_key: tool for tool in await console.devices.tools(NAME)}
            assert set(tools) == {"action::execute_command", "action::get_system_info"}
            assert set(tools["action::execute_command"].input_schema["required"]) == {"command", "api_key"}

            done = await execute(console, key, "echo hello")
            assert done.error is None
            assert done.result["stdout"] == "hello\n"
            assert (done.verdict, done.basis) == (Verdict.UNVERIFIED, Basis.DEVICE_CLAIM)
            info = await result_of(console, key, "get_system_info", api_key=API_KEY)
            assert info.error is None
            assert "Linux" in info.result["uname"]

            # Each of these comes as a success from the client.
            failed = await execute(console, key, "ls /nowhere/at/all")
            assert failed.error.code is ErrorCode.TOOL_FAILED
            assert failed.error.message.startswith("Exit code 2")
            blocked = await execute(console, key, "shutdown now")
            assert "blocked" in failed_words(blocked)
            unkeyed = await result_of(console, key, "get_system_info", api_key="a wrong one")
            assert "Authentication failed" in failed_words(unkeyed)
            late = await execute(console, key, "tail -f /dev/null", timeout=1)
            assert "Timeout after 1s" in failed_words(late)


def failed_words(result: CommandResult) -> str:
    assert result.error is not None
    assert (result.error.code, result.verdict) == (ErrorCode.TOOL_FAILED, Verdict.UNVERIFIED)
    return result.error.message


async def test_an_agent_named_at_pairing_is_addressed_and_its_silences_hold_up_nothing(home, key, ufo):
    async with service_process(home) as service:
        console = await service.console()
        url = await open_desk(console, key, agent="HardwareAgent")
        async with ufo.client(url, NAME):
            assert (await online(console)).agent == "HardwareAgent"
            # Its one server is configured for both types, so each of its tools is listed twice.
            kinds = {tool.tool_name: tool.tool_type for tool in await console.devices.tools(NAME)}
            assert len(kinds) == 7
            assert set(kinds.values()) == {"action"}
            assert (await result_of(console, key, "add", a=2, b=3)).result == 5
            assert "the arm is stuck" in failed_words(await result_of(console, key, "breaks"))

            assert_unknown(await cell_of(console, key, "fails_without_a_word", {}, 1.0))
            assert "Error handling message" in ufo.log()
            assert_unknown(await cell_of(console, key, "nap", {"seconds": 3.0}, 1.0))
            # It still naps, and answers that first; what waited behind it runs all the same.
            assert (await result_of(console, key, "add", a=4, b=5)).result == 9
            [late] = (await console.journal.entries("kind:late_answer_received")).entries
            assert (late.device, late.tool) == (NAME, "nap")
            assert set(re.findall(r"Executing (\d+) actions", ufo.log())) == {"1"}


async def test_what_is_falsy_comes_as_no_value_and_another_agent_can_be_chosen(home, key, ufo):
    async with service_process(home) as service:
        console = await service.console()
        url = await open_desk(console, key)
        async with ufo.client(url, NAME):
            assert (await online(console)).agent == "LinuxAgent"
            await console.devices.update(NAME, DeviceSettings(agent="MobileAgent"))
            await device_with(console, "switched_on")
            kinds = {tool.tool_name: tool.tool_type for tool in await console.devices.tools(NAME)}
            assert (kinds["switched_on"], kinds["execute_command"]) == ("data_collection", "action")
            for tool in ("no_rows", "nothing_left", "switched_on"):
                nothing = await result_of(console, key, tool)
                assert (nothing.error, nothing.result) == (None, None)
                assert STOCK_NULLS in nothing.note
            assert (await result_of(console, key, "add", a=2, b=3)).result == 5


async def device_with(console: RemoteConsole, tool: str) -> None:
    """Wait until the device offers this tool."""
    events = console.events()
    async with asyncio.timeout(PATIENCE_S):
        while tool not in {one.tool_name for one in await console.devices.tools(NAME)}:
            await anext(events)


def assert_unknown(cell: Cell) -> None:
    assert cell.state is CellState.UNKNOWN
    assert cell.result is not None
    assert cell.result.error is not None
    assert (cell.result.verdict, cell.result.error.code) == (Verdict.UNKNOWN, ErrorCode.OUTCOME_UNKNOWN)


async def test_it_comes_back_to_a_console_that_was_away_and_a_new_one_is_let_in(home, key, ufo):
    async with service_process(home) as service:
        console = await service.console()
        url = await open_desk(console, key)
        async with ufo.client(url, NAME) as client:
            await online(console)
            await service.leave()
            service.process.terminate()
            await service.ends()
            async with service_process(home) as again:
                console = await again.console()
                assert (await online(console)).agent == "LinuxAgent"
                assert client.returncode is None
                assert (await execute(console, key, "echo back")).result["stdout"] == "back\n"
                client.kill()
                await stands(console, NAME, Health.RECONNECTING, Health.OFFLINE)
                async with ufo.client(url, NAME):
                    await online(console)
                    assert (await execute(console, key, "echo new")).result["stdout"] == "new\n"
