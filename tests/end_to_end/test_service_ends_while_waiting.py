"""A call waits for its approval while the service ends: its exit code says what became of it."""

from __future__ import annotations

import asyncio
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from core.approvals.models import Approval
from core.approvals.operator_keys import statement_for
from core.home import Home
from core.service import exit_codes
from core.service.console import Console
from tests.fakes.desk import choose_channel
from tests.fakes.patience import PATIENCE_S
from tests.fakes.program import environment, program
from tests.fakes.service_process import service_process, until, until_online
from tests.fakes.signing import anna


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path / "home").create()
    choose_channel(home, "in-process")
    return home


def started(home: Home, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        program(home, *words),
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


async def waiting_call(home: Home, console: Console, file: Path) -> tuple[subprocess.Popen[str], Approval]:
    """A call that waits for an approval, at a terminal of its own."""
    await console.approvals.register_operator(anna(home).operator)
    await until_online(console)
    events = console.events()
    line = f"touch {file}"
    call = started(
        home, "call", "this-computer", "shell_execute", f"command={line}", "--wait", "600", "--json"
    )

    async def approvals() -> list[Approval]:
        return (await console.service.state()).approvals

    await until(console, approvals, events)
    return call, (await approvals())[0]


async def ended(process: subprocess.Popen[str]) -> tuple[int, dict[str, Any], str]:
    out, err = await asyncio.to_thread(process.communicate, timeout=PATIENCE_S)
    return process.returncode, json.loads(out), err


async def test_what_waited_when_the_service_was_killed_was_not_sent_and_is_not_unknown(
    home: Home, tmp_path: Path
):
    async with service_process(home) as service:
        call, _ = await waiting_call(home, await service.console(), tmp_path / "touched")
        await service.kill()
        code, told, err = await ended(call)
    assert code == exit_codes.TOOL_FAILED, (told, err)
    assert (told["verdict"], told["basis"], told["error"]["code"]) == (
        "cancelled",
        "nothing_sent",
        "cancelled",
    )
    assert not (tmp_path / "touched").exists()


async def test_a_call_that_is_approved_while_the_service_waits_to_stop_is_done(home: Home, tmp_path: Path):
    async with service_process(home) as service:
        console = await service.console()
        call, approval = await waiting_call(home, console, tmp_path / "touched")
        assert "ends when 1 run has ended" in await console.service.shut_down(False)
        await console.approvals.decide(anna(home).sign(statement_for(approval, "approve", "anna", "")))
        await service.leave()
        code, told, err = await ended(call)
    assert code == exit_codes.DONE, (told, err)
    assert told["status"] == "success"
    assert (tmp_path / "touched").exists()
