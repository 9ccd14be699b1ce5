"""Programs of the operator's own session try to press Approve: a real window, a real service, a real bus.

The attacker is a device client's router of its own, outside the console: it finds the button through the
accessibility bus and does its action, as any program of the session can. What it can do beside that, and what
a hand can, is in `test_by_hand.py`.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from core.aip.messages import Command, Result, ResultStatus
from core.approvals.models import Approval
from core.approvals.operator_keys import OperatorKey
from core.batch.models import Run
from core.commands.results import Basis
from core.device import DeviceConfig, Router, build_router
from core.errors import ErrorCode
from core.home import Home
from core.models.devices import Health
from core.policy.models import Profile
from core.service.console import Console
from tests.fakes.accessible_session import accessible_session
from tests.fakes.desk import next_approval
from tests.fakes.patience import PATIENCE_S
from tests.fakes.program import ROOT
from tests.fakes.read_shell import NO_READ_SHELL
from tests.fakes.remote_device import stands
from tests.fakes.service_process import service_process

NAME = "this-computer"
BUTTON = "Approve once"


@pytest.fixture(scope="module")
def session() -> Iterator[dict[str, str]]:
    with accessible_session("1600x1000") as environment:
        yield environment


class Attacker:
    """A program on the session's accessibility bus."""

    def __init__(self, router: Router, window: int) -> None:
        self._router = router
        self._window = window
        self._kinds = {info.tool_name: info.tool_type for info in router.tools()}

    async def do(self, tool: str, **arguments: Any) -> Result:
        command = Command(tool_name=tool, tool_type=self._kinds[tool], parameters=arguments, call_id="attack")
        return await self._router.run(command, 20)

    async def controls(self) -> list[dict[str, Any]]:
        """Every control of the console's window."""
        found = await self.do(
            "get_ui_tree", max_nodes=5_000, max_bytes=10_000_000, showing=False, detail="full"
        )
        rest = list((found.result or {}).get("tree", []))
        controls = []
        while rest:
            one = rest.pop()
            if one["process_id"] == self._window:
                controls.append(one)
                rest.extend(one.get("children", []))
        return controls

    async def button(self, *, enabled: bool = True) -> dict[str, Any]:
        """The console's Approve, once it can be pressed."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                for one in await self.controls():
                    fits = one["name"] == BUTTON and one["actions"]
                    if fits and (not enabled or {"enabled", "showing"} <= set(one["states"])):
                        return one

    async def press(self) -> dict[str, Any]:
        """Find the button and do its action, as a script on the bus does."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                pressed = await self.do("click_element", control_id=(await self.button())["id"])
                # A window on a busy machine may not answer the bus at once; a script would try again.
                if not (pressed.error or "").startswith("timeout:"):
                    break
        assert pressed.status is ResultStatus.SUCCESS, pressed.error
        assert pressed.result["method"] == "accessibility"
        return pressed.result

    async def reads(self, words: str) -> None:
        """Wait until the window says this."""
        async with asyncio.timeout(PATIENCE_S):
            while not any(words in one["name"] for one in await self.controls()):
                pass


@dataclass
class Desk:
    console: Console
    attacker: Attacker

    async def ask(self, tool: str, **parameters: Any) -> tuple[Run, Approval]:
        run = await self.console.runs.call(NAME, tool, parameters)
        return run, await next_approval(self.console)

    async def waiting(self) -> list[str]:
        return [one.id for one in await self.console.approvals.list()]


@contextlib.asynccontextmanager
async def open_window(home: Home, name: str, environment: dict[str, str]) -> AsyncIterator[int]:
    """The console's window; its process's number."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.fakes.window_on_approvals", str(home.path), name),
        cwd=ROOT,
        env=environment,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        async with asyncio.timeout(PATIENCE_S):
            assert await process.stdout.readline() == b"ready\n"
        yield process.pid
    finally:
        process.kill()
        await process.wait()


@pytest.fixture
async def desk(
    home: Home,
    operator: OperatorKey,
    session: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> AsyncIterator[Desk]:
    for key, value in session.items():
        monkeypatch.setenv(key, value)
    for key in ("WAYLAND_DISPLAY", "XDG_SESSION_TYPE"):
        monkeypatch.delenv(key, raising=False)
    (home.path / "settings.toml").write_text('listen = "127.0.0.1:0"\n')
    async with service_process(home) as service:
        console = await service.console()
        await console.approvals.register_operator(operator.operator)
        await stands(console, NAME, Health.ONLINE)
        router = build_router(
            DeviceConfig(roots=(tmp_path,), tools_off=NO_READ_SHELL), tmp_path / "attacker", "attacker"
        )
        try:
            async with open_window(home, operator.name, session) as window:
                yield Desk(console, Attacker(router, window))
        finally:
            await router.close()


@pytest.mark.slow
async def test_neither_a_script_on_the_bus_nor_an_agents_click_approves_high_risk(desk: Desk, tmp_path: Path):
    ran = tmp_path / "ran"
    _run, approval = await desk.ask("shell_execute", command=f"touch '{ran}'")
    assert approval.decision.risk.value == "high"
    await desk.attacker.press()
    await desk.attacker.reads("This press came from a program, not from your hand")
    assert await desk.waiting() == [approval.id]
    for _again in range(5):
        await desk.attacker.press()
    await an_agents_clicks_are_refused_by_the_dispatcher(desk)
    assert await desk.waiting() == [approval.id]
    assert not ran.exists()


async def an_agents_clicks_are_refused_by_the_dispatcher(desk: Desk) -> None:
    button = await desk.attacker.button()
    for tool, parameters in (
        ("click_element", {"control_id": button["id"]}),
        ("click_element", {"process_name": "python3", "name": BUTTON}),
        ("click_element", {"app_root_name": "python3", "name": BUTTON}),
        ("click_point", {"x": button["box"]["x"], "y": button["box"]["y"], "observation": "x"}),
        ("press_key", {"key": "ctrl+Return"}),
    ):
        run = await desk.console.runs.call(NAME, tool, parameters)
        [cell] = (await desk.console.runs.wait(run.summary.id, PATIENCE_S)).cells
        assert cell.result is not None
        assert cell.result.basis is Basis.NOTHING_SENT, cell.result
        assert cell.result.error is not None
        assert cell.result.error.code is ErrorCode.DENIED_BY_POLICY
        assert "could press Approve" in cell.result.error.message


async def test_the_same_script_does_approve_what_is_harmless(desk: Desk):
    """So that the test above fails for the reason that it says: the script does press the button."""
    await desk.console.policy.set_profile(Profile.LOCKDOWN)
    run, approval = await desk.ask("get_system_info", info_type="memory")
    assert approval.decision.risk.value == "low"
    await desk.attacker.press()
    ended = await desk.console.runs.wait(run.summary.id, PATIENCE_S)
    assert ended.cells[0].result is not None
    assert ended.cells[0].result.error is None
