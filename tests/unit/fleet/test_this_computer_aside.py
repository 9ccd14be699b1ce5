"""This computer's tools in the service's own process: looking for them holds nobody up."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from core.device import build as assembly_module
from core.device.build import build_router_aside
from core.device.config import DeviceConfig
from core.tasks import TaskGroupOwner
from tests.fakes.patience import PATIENCE_S


async def test_the_loop_goes_on_while_the_machine_is_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looking, go_on = threading.Event(), threading.Event()
    real = assembly_module.shell.offer

    def slow(*arguments: object) -> object:
        looking.set()
        assert go_on.wait(PATIENCE_S), "the loop was held up, so nobody could let this go on"
        return real(*arguments)  # type: ignore[arg-type]  # whatever it was called with

    monkeypatch.setattr(assembly_module.shell, "offer", slow)
    tasks = TaskGroupOwner("test")
    async with asyncio.timeout(PATIENCE_S):
        building = tasks.spawn("build", build_router_aside(DeviceConfig(roots=(tmp_path,)), tmp_path, "d1"))
        await asyncio.to_thread(looking.wait)
        go_on.set()
        router = await building
    assert any(info.tool_name == "shell_execute" for info in router.tools())
    await router.close()
    await tasks.close()
