"""A device in a Wayland session offers only what it can do: the X server is asked, never the environment."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from core.device.build import build_router
from core.device.config import DeviceConfig
from core.device.desktop.linux.x11_display import NO_WAYLAND, display_lack
from core.x_server import connect, is_xwayland
from tests.fakes.display import virtual_display
from tests.fakes.wayland_session import wayland_session

OF_THE_SCREEN = ("screenshot", "list_windows", "click_point", "press_key", "scroll")


@pytest.fixture(scope="module")
def xwayland() -> Iterator[str]:
    with wayland_session() as session, session.xwayland() as name:
        yield name


@pytest.fixture(scope="module")
def xvfb() -> Iterator[str]:
    with virtual_display() as name:
        yield name


@pytest.mark.parametrize("session_type", [None, "tty", "x11", "wayland"])
async def test_xwayland_is_never_taken_for_the_screen(
    xwayland: str, session_type: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    monkeypatch.delenv("XDG_SESSION_TYPE", raising=False)
    if session_type is not None:
        monkeypatch.setenv("XDG_SESSION_TYPE", session_type)
    monkeypatch.setenv("DISPLAY", xwayland)
    router = build_router(DeviceConfig(roots=(tmp_path,)), tmp_path / "state", "screen")
    reasons = {one.tool: one.reason for one in router.unavailable}
    assert {reasons.get(tool) for tool in OF_THE_SCREEN} == {NO_WAYLAND.reason}
    await router.close()


def test_a_display_of_ones_own_works_inside_a_wayland_session(
    xvfb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_SESSION_TYPE", "wayland")
    monkeypatch.setenv("WAYLAND_DISPLAY", "wayland-0")
    monkeypatch.setenv("DISPLAY", xvfb)
    assert display_lack(xtest=True) is None


def test_a_process_that_has_met_one_server_can_speak_to_another(xwayland: str, xvfb: str) -> None:
    answers = []
    for name in (xwayland, xvfb, xwayland, xvfb):
        server = connect(name)
        answers.append(is_xwayland(server))
        server.close()
    assert answers == [True, False, True, False]
