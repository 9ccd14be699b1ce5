"""A console uses a real program on a device's screen: through the dispatcher, and over the wire."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import io
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from core.aip.messages import Command, ResultStatus
from core.approvals.operator_keys import statement_for
from core.commands.channel import LocalCommandDispatcher
from core.commands.request import CommandRequest
from core.commands.results import CommandResult
from core.device import DeviceConfig, build_router
from core.device.desktop.linux import actions, atspi
from core.fleet.fleet import ConnectionInfo
from core.home import Home
from tests.fakes.accessible_session import App, accessible_session, running_app
from tests.fakes.desktop_device import join_session
from tests.fakes.device_process import device, running_console
from tests.fakes.patience import PATIENCE_S
from tests.fakes.rig import Rig, open_rig

SECRET = "s3cret-größer"
NAME = "desk"
PROCESS = "desktop-under-test"


@pytest.fixture(scope="module")
def session() -> Iterator[dict[str, str]]:
    with accessible_session() as environment:
        yield environment


@pytest.fixture
async def app(session: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[App]:
    join_session(monkeypatch, session)
    # On a busy machine our program may think for longer than a person would want to wait.
    monkeypatch.setattr(atspi, "CALL_S", 5.0)
    monkeypatch.setattr(actions, "_ACTION_S", 15.0)
    async with running_app(session) as program:
        yield program


async def ask(rig: Rig, tool: str, **parameters: Any) -> CommandResult:
    """Dispatch one command to the device as the operator anna."""
    return await rig.dispatcher.dispatch(CommandRequest(NAME, tool, parameters, "operator:anna"))


async def approve_next(rig: Rig) -> str:
    """Sign what waits; what its card shows."""
    approval = await asyncio.wait_for(rig.asked.get(), PATIENCE_S)
    signed = rig.key.sign(statement_for(approval, "approve", "anna", ""))
    await rig.approvals.decide(signed)
    return approval.model_dump_json()


async def test_a_secret_typed_into_a_program_is_nowhere_in_the_home(
    app: App, home: Home, tmp_path: Path
) -> None:
    router = build_router(DeviceConfig(roots=(tmp_path,)), tmp_path / "state", NAME)
    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(router.close)
        rig = await stack.enter_async_context(open_rig(home))
        rig.fleet.add(NAME, ["lab"])
        channel = LocalCommandDispatcher(NAME, router, rig.dispatcher.gate)
        await rig.fleet.arrived(
            NAME, ConnectionInfo(channel, "in-process", "linux", "test", "test", [], None)
        )
        field = await field_named(rig, "Your code")
        typing = rig.tasks.spawn(
            "type", ask(rig, "type_text", text=SECRET, control_id=field["id"], secret=True)
        )
        assert SECRET not in await approve_next(rig)
        done = await typing
        assert done.status is ResultStatus.SUCCESS, done.error
        assert SECRET not in done.model_dump_json()
        shot = await ask(rig, "screenshot")
        assert shot.status is ResultStatus.SUCCESS, shot.error
        assert app.boxes["code"] in shot.result["masked"]
        assert SECRET not in str((await ask(rig, "get_ui_tree", process_name=PROCESS)).result)
        wrong = await ask(rig, "type_text", text=[SECRET], secret=True)
        assert SECRET not in wrong.model_dump_json()
        await rig.entries()
    for path in home.path.rglob("*"):
        if path.is_file():
            assert SECRET.encode() not in path.read_bytes(), path


def bytes_of(image: dict[str, Any]) -> bytes:
    """A picture's bytes, which travel beside the result or as text in it."""
    data: bytes = image.get("data_bytes") or base64.b64decode(image["data_base64"])
    return data


async def field_named(rig: Rig, name: str) -> dict[str, Any]:
    async with asyncio.timeout(PATIENCE_S):
        while True:
            found = await ask(rig, "get_ui_tree", name=name)
            for one in (found.result or {}).get("tree", []):
                return dict(one)


async def test_over_the_wire_a_picture_is_clicked_and_the_program_hears_it(app: App, tmp_path: Path) -> None:
    async with running_console() as console, device(console.server.url, tmp_path):
        link = await console.link()

        async def run(tool: str, tool_type: Any, **parameters: Any) -> Any:
            command = Command(tool_name=tool, tool_type=tool_type, parameters=parameters, call_id=tool)
            (result,) = await link.send_commands([command], 20)
            assert result.status is ResultStatus.SUCCESS, result.error
            return result.result

        shot = await run("screenshot", "data_collection", max_width=640)
        picture = Image.open(io.BytesIO(bytes_of(shot["image"])))
        assert picture.size == (640, 400)
        box = app.boxes["canvas"]
        x, y = box["x"] + box["width"] // 2, box["y"] + box["height"] // 2
        assert picture.convert("RGB").getpixel((x // 2, y // 2)) == (0x20, 0x60, 0xC0)
        await run("click_point", "action", x=x // 2, y=y // 2, observation=shot["observation"])
        heard = await app.told("canvas")
        assert abs(heard["x"] - x) <= 1
        assert abs(heard["y"] - y) <= 1
