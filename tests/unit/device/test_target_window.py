"""Which window a call means, and that nothing else is taken for it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from core.device.desktop.interface import Box, Control, NoDesktop, Window
from core.device.desktop.target_window import (
    brought_forward,
    check_inside,
    control_target,
    named_window,
    only_there,
    out_of_sight,
    window_target,
)
from core.errors import BadInput, DeviceError, ErrorCode

WHOLE = Box(0, 0, 800, 600)


def window(number: int, program: str = "mousepad", **more: Any) -> Window:
    given: dict[str, Any] = {"active": False, "visible": True, **more}
    return Window(f"0x{number:x}", f"Window {number}", number, program, WHOLE, **given)


class Windows(NoDesktop):
    """Windows of which one is brought forward when that is asked, as `obeys` says."""

    def __init__(self, *windows: Window, obeys: bool = True) -> None:
        super().__init__("test")
        self.there = list(windows)
        self.obeys = obeys
        self.asked: list[str] = []

    async def windows(self) -> list[Window]:
        return list(self.there)

    async def bring_forward(self, window: Window) -> None:
        self.asked.append(window.id)
        if self.obeys:
            self.there = [replace(one, active=one.id == window.id) for one in self.there]


async def test_without_a_name_no_window_is_meant_and_none_is_raised() -> None:
    desktop = Windows(window(1))
    assert await named_window(desktop, {}) is None
    assert await only_there(desktop, {"key": "Enter"}) is None
    assert desktop.asked == []


@pytest.mark.parametrize("window_id", ["0x2", "0x02", "0X2"])
async def test_a_window_is_meant_by_its_id_however_that_is_written(window_id: str) -> None:
    desktop = Windows(window(1), window(2))
    found = await named_window(desktop, {"window_id": window_id})
    assert found is not None
    assert found.id == "0x2"


async def test_an_id_that_is_gone_is_stale() -> None:
    for wrong in ("0x9", "no id"):
        with pytest.raises(DeviceError) as caught:
            await named_window(Windows(window(1)), {"window_id": wrong})
        assert caught.value.code is ErrorCode.STALE_OBSERVATION


async def test_the_window_of_another_program_than_the_named_one_is_refused() -> None:
    desktop = Windows(window(1), window(2, "gimp"))
    with pytest.raises(BadInput) as caught:
        await named_window(desktop, {"window_id": "0x2", "process_name": "mousepad"})
    assert "'Window 2' of gimp" in caught.value.message


@pytest.mark.parametrize(
    ("windows", "meant"),
    [
        ([window(1)], "0x1"),
        ([window(1, "Mousepad.exe")], "0x1"),
        # Of several windows the active one, and a dialog in place of the window that it blocks.
        ([window(1, active=True), window(2)], "0x1"),
        ([window(1), window(2, dialog_of="0x1")], "0x2"),
        ([window(1), window(2, dialog_of="0x1"), window(3, "gimp", active=True)], "0x2"),
        ([window(1), window(2, is_popup=True)], "0x1"),
    ],
)
async def test_a_program_means_its_active_its_only_or_its_blocking_window(
    windows: list[Window], meant: str
) -> None:
    found = await named_window(Windows(*windows), {"process_name": "mousepad"})
    assert found is not None
    assert found.id == meant


async def test_a_program_with_several_windows_has_them_listed_and_none_is_chosen() -> None:
    desktop = Windows(window(1), window(2), window(3, "gimp", active=True))
    with pytest.raises(BadInput) as caught:
        await only_there(desktop, {"process_name": "mousepad"})
    message = caught.value.message
    assert "2 windows" in message
    assert "0x1" in message
    assert "0x2" in message
    assert desktop.asked == []


async def test_a_program_without_a_window_is_refused_with_those_that_have_one() -> None:
    with pytest.raises(BadInput) as caught:
        await named_window(Windows(window(1), window(2, "gimp")), {"process_name": "zenity"})
    assert "gimp, mousepad" in caught.value.message


async def test_a_window_is_brought_forward_once_and_only_if_it_is_behind() -> None:
    desktop = Windows(window(1), window(2, active=True))
    found = await only_there(desktop, {"window_id": "0x1"})
    assert found is not None
    assert (found.id, found.active, desktop.asked) == ("0x1", True, ["0x1"])
    await only_there(desktop, {"window_id": "0x1"})
    assert desktop.asked == ["0x1"]


async def test_the_dialog_that_blocks_a_window_is_taken_for_it() -> None:
    dialog = window(2, dialog_of="0x1", active=True)
    desktop = Windows(window(1), dialog, obeys=False)
    assert await brought_forward(desktop, window(1)) == dialog


async def test_a_window_that_does_not_come_is_refused_with_the_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("core.device.desktop.target_window._FORWARD_S", 0.0)
    desktop = Windows(window(1), window(2, "gimp", active=True), obeys=False)
    with pytest.raises(DeviceError) as caught:
        await brought_forward(desktop, window(1))
    assert "the keyboard is in the window 'Window 2' of gimp" in caught.value.message
    desktop = Windows(window(1, minimized=True, visible=False), obeys=False)
    with pytest.raises(DeviceError) as caught:
        await brought_forward(desktop, window(1))
    assert "its window is minimized" in caught.value.message


def test_why_a_window_is_out_of_sight() -> None:
    assert out_of_sight(window(1)) is None
    assert out_of_sight(window(1, visible=False)) == "its window is not shown"
    assert out_of_sight(window(1, visible=False, minimized=True)) == "its window is minimized"
    away = window(1, visible=False, workspace=2, on_this_workspace=False)
    assert out_of_sight(away) == "its window is on workspace 2, which is not shown"


def test_a_control_of_another_window_is_refused() -> None:
    save = Control("ui-1", "push button", "Save", 1)
    check_inside(save, window(1), window(1))
    check_inside(save, None, window(1))
    with pytest.raises(BadInput) as caught:
        check_inside(save, window(2), window(1))
    assert "'Save' is in the window 'Window 2'" in caught.value.message


def test_results_name_window_and_control() -> None:
    assert window_target(window(1)) == {
        "window_id": "0x1",
        "title": "Window 1",
        "process_name": "mousepad",
    }
    assert control_target(Control("ui-1", "text", "Name", 1)) == {
        "role": "text",
        "name": "Name",
        "control_id": "ui-1",
    }
    assert window_target(None) is None
    assert control_target(None) is None
