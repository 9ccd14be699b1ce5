"""A click is held when its target changed while somebody thought: a real screen, a real caret."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from core.aip.messages import Command, ResultStatus
from core.approvals.models import Approval
from core.approvals.operator_keys import statement_for
from core.commands.channel import LocalCommandDispatcher
from core.commands.request import CommandRequest
from core.commands.results import CommandResult
from core.device import DeviceConfig, Router, build_router
from core.errors import ErrorCode
from core.fleet.fleet import ConnectionInfo
from core.home import Home
from tests.fakes.accessible_session import App, accessible_session, running_app
from tests.fakes.patience import PATIENCE_S
from tests.fakes.rig import Rig, open_rig

pytestmark = pytest.mark.asyncio(loop_scope="module")

NAME = "desk"
PROCESS = "desktop-under-test"


@pytest.fixture(scope="module")
def session() -> Iterator[dict[str, str]]:
    with accessible_session() as environment:
        yield environment


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def program(session: dict[str, str]) -> AsyncIterator[App]:
    async with running_app(session) as program:
        yield program


@dataclass
class Bench:
    """A device with a program on its screen, an operator, and somebody who uses the program meanwhile."""

    rig: Rig
    router: Router
    app: App

    async def ask(self, tool: str, **parameters: Any) -> CommandResult:
        return await self.rig.dispatcher.dispatch(CommandRequest(NAME, tool, parameters, "operator:anna"))

    async def meanwhile(self, tool: str, **parameters: Any) -> None:
        """Something happens on the screen, past the console."""
        command = Command(tool_name=tool, tool_type="action", parameters=parameters, call_id="meanwhile")
        result = await self.router.run(command, 20)
        assert result.status is ResultStatus.SUCCESS, result.error

    async def control(self, name: str) -> dict[str, Any]:
        async with asyncio.timeout(PATIENCE_S):
            while True:
                found = (await self.ask("get_ui_tree", name=name)).result or {}
                for one in found.get("tree", []):
                    return dict(one)

    async def aim(self, name: str) -> tuple[asyncio.Task[CommandResult], Approval]:
        """Ask for a click in the middle of a control, on a picture taken now; what waits."""
        box = (await self.control(name))["box"]
        shot = await self.ask("screenshot")
        at = {"x": box["x"] + box["width"] // 2, "y": box["y"] + box["height"] // 2}
        click = self.ask("click_point", **at, observation=shot.result["observation"])
        task = self.rig.tasks.spawn("click", click)
        return task, await self.card()

    async def card(self) -> Approval:
        """What waits, when its card shows the screen."""
        approval = await asyncio.wait_for(self.rig.asked.get(), PATIENCE_S)
        view = await self.rig.dispatcher.cards.shown(approval.request.digest, renew=False)
        assert view is not None
        assert view.picture is not None, view.problem
        return approval

    async def approve(self, approval: Approval) -> None:
        await self.rig.approvals.decide(self.rig.key.sign(statement_for(approval, "approve", "anna")))


@pytest_asyncio.fixture(loop_scope="module")
async def bench(
    session: dict[str, str], program: App, home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Bench]:
    for key in ("DISPLAY", "DBUS_SESSION_BUS_ADDRESS", "XDG_RUNTIME_DIR"):
        monkeypatch.setenv(key, session[key])
    for key in ("WAYLAND_DISPLAY", "XDG_SESSION_TYPE"):
        monkeypatch.delenv(key, raising=False)
    await program.anew()
    router = build_router(DeviceConfig(roots=(tmp_path,)), tmp_path / "state", NAME)
    try:
        async with open_rig(home) as rig:
            rig.fleet.add(NAME, ["lab"])
            channel = LocalCommandDispatcher(NAME, router, rig.dispatcher.gate)
            arrival = ConnectionInfo(channel, "in-process", "linux", "test", "test", [], None)
            await rig.fleet.arrived(NAME, arrival)
            yield Bench(rig, router, program)
    finally:
        await router.close()


async def test_a_caret_that_blinks_in_the_target_holds_nothing(bench: Bench) -> None:
    for _attempt in range(3):
        click, approval = await bench.aim("Your name")
        await bench.approve(approval)
        result = await click
        assert result.error is None, result.error


async def test_a_target_that_changed_meanwhile_is_held_and_nothing_is_pressed(bench: Bench) -> None:
    click, approval = await bench.aim("Your name")
    field = await bench.control("Your name")
    await bench.meanwhile(
        "type_text", text="somebody else typed this, in the middle of it all", control_id=field["id"]
    )
    await bench.app.told("line")
    await bench.approve(approval)
    result = await click
    assert result.error is not None
    assert result.error.code is ErrorCode.STALE_OBSERVATION
    assert [one.what for one in result.evidence] == ["on the card", "just before"]


async def test_what_changed_before_the_request_holds_nothing(bench: Bench) -> None:
    """The card shows the screen of the request's time, whatever picture was taken before."""
    box = await bench.control("Remember")
    await bench.ask("screenshot")
    await bench.meanwhile("click_element", control_id=box["id"])
    await bench.app.told("toggled", on=True)
    press = bench.rig.tasks.spawn("press", bench.ask("click_element", control_id=box["id"]))
    await bench.approve(await bench.card())
    assert (await press).error is None
    await bench.app.told("toggled", on=False)


async def test_a_control_that_looks_otherwise_now_is_held(bench: Bench) -> None:
    box = await bench.control("Remember")
    press = bench.rig.tasks.spawn("press", bench.ask("click_element", control_id=box["id"]))
    approval = await bench.card()
    await bench.meanwhile("click_element", control_id=box["id"])
    await bench.app.told("toggled", on=True)
    await bench.approve(approval)
    result = await press
    assert result.error is not None
    assert result.error.code is ErrorCode.STALE_OBSERVATION
    # The card of the next request shows it as it is now, so it is pressed.
    again = bench.rig.tasks.spawn("press", bench.ask("click_element", control_id=box["id"]))
    await bench.approve(await bench.card())
    assert (await again).error is None
    await bench.app.told("toggled", on=False)
