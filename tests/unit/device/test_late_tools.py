"""A display or an accessibility bus that comes after the device client did."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from core.device import build
from core.device.build import build_router
from core.device.config import DeviceConfig
from core.device.router import Router
from core.device.tool import Tool, Unavailable
from core.device.tool_context import ToolContext
from core.device.tool_rediscovery import LateTools
from core.tasks import TaskGroupOwner
from tests.fakes.patience import PATIENCE_S


@pytest.fixture
def router(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Router:
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    monkeypatch.delenv("XDG_SESSION_TYPE", raising=False)
    config = DeviceConfig(roots=(tmp_path,), tools_off=frozenset({"press_key"}))
    return build_router(config, tmp_path / "state", "late")


def names(router: Router) -> set[str]:
    return {info.tool_name for info in router.tools()}


@pytest.fixture
def late_display() -> Iterator[str]:
    """The name of a display that the device client did not see at its start."""
    told, ours = os.pipe()
    with subprocess.Popen(
        ["Xvfb", "-displayfd", str(ours), "-screen", "0", "320x200x24", "-nolisten", "tcp"],
        pass_fds=(ours,),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as display:
        os.close(ours)
        try:
            yield f":{int(os.read(told, 16))}"
        finally:
            os.close(told)
            display.kill()


@pytest.mark.skipif(sys.platform != "linux" or shutil.which("Xvfb") is None, reason="needs Xvfb")
async def test_a_display_that_comes_later_is_offered_and_announced_without_a_restart(
    router: Router, late_display: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    announced = asyncio.Event()
    router.on_tools_changed = announced.set
    assert router.late is not None
    assert {"screenshot", "click_point"} <= router.late.missing
    await router.late.look_again(router)
    assert not announced.is_set()
    assert "screenshot" not in names(router)
    monkeypatch.setenv("DISPLAY", late_display)
    tasks = TaskGroupOwner("test")
    tasks.spawn("watch", router.late.watch(router, 0.05))
    wanted = {"screenshot", "click_point", "list_windows"}
    # A display that is just starting may answer one user before another; each look announces what it found.
    async with asyncio.timeout(PATIENCE_S):
        while not wanted <= names(router):
            await announced.wait()
            announced.clear()
    await tasks.close()
    rows = {row.tool: row.reason for row in router.unavailable}
    assert "screenshot" not in rows
    # What device.toml switches off does not come in by this door.
    assert "press_key" not in names(router)
    assert "switched off" in rows["press_key"]
    await router.close()


async def test_a_desktop_that_never_answers_keeps_nobody_from_starting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers, asked = threading.Event(), []

    def hangs(workshop: ToolContext) -> tuple[list[Tool], list[Unavailable]]:
        asked.append(workshop)
        answers.wait(PATIENCE_S)
        return [], [Unavailable("screenshot", "It answers now", "")]

    def fails(workshop: ToolContext) -> tuple[list[Tool], list[Unavailable]]:
        raise FileNotFoundError("/proc/stat")

    monkeypatch.setattr(build, "_LOOK_S", 0.01)
    monkeypatch.setattr("core.device.tools.screen.offer", hangs)
    monkeypatch.setattr("core.device.tools.system.offer", fails)
    router = build_router(DeviceConfig(roots=(tmp_path,)), tmp_path / "state", "late")
    reasons = {row.tool: row.reason for row in router.unavailable}
    assert "did not answer" in reasons["screenshot"]
    assert "FileNotFoundError: /proc/stat" in reasons["get_system_info"]
    assert {"read_file", "shell_execute", "undo"} <= names(router)
    assert router.late is not None
    # Nobody joins the one who waits, or there would be more of them every half minute.
    await router.late.look_again(router)
    assert len(asked) == 1
    answers.set()
    await router.close()


@pytest.mark.skipif(sys.platform != "linux", reason="other platforms offer fewer")
async def test_the_names_of_a_group_are_those_that_it_offers(router: Router) -> None:
    for group, expected in (*build._ON_SCREEN, *build._OTHERS):
        offered, missing = group.offer(router._context)
        assert {tool.name for tool in offered} | {row.tool for row in missing} == set(expected)
    await router.close()


async def test_when_nothing_is_missing_nobody_looks(router: Router) -> None:
    def look() -> tuple[list[object], list[Unavailable]]:
        raise AssertionError("nothing was missing")

    await LateTools(look, ()).watch(router, 0.0)  # type: ignore[arg-type]  # it is never called
    await router.close()
