"""Presses in programs that nobody here wrote; the X server's titles of their windows tell the effect."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from Xlib import X
from Xlib.display import Display

from core.device.desktop.linux import atspi
from tests.end_to_end.test_desktop_search import device, session
from tests.end_to_end.test_real_trees import appeared, running
from tests.fakes.desktop_device import DesktopDevice
from tests.fakes.patience import PATIENCE_S

__all__ = ["device", "session"]
PAGE = """<!doctype html><title>Page</title><button>Top</button><div style="height:3000px">tall</div>
<label><input type=checkbox onchange="document.title = 'checked ' + this.checked">Far check</label>
<label><input type=radio onchange="document.title = 'radio ' + this.checked">Far radio</label>"""


def titles(environment: dict[str, str]) -> list[str]:
    """The titles of the windows that are mapped; there is no window manager that puts frames around them."""
    display = Display(environment["DISPLAY"])
    try:
        children = display.screen().root.query_tree().children
        shown = (one for one in children if one.get_attributes().map_state == X.IsViewable)
        name, kind = display.get_atom("_NET_WM_NAME"), display.get_atom("UTF8_STRING")
        return [str(one.get_full_text_property(name, kind)) for one in shown]
    finally:
        display.close()


async def until_title(environment: dict[str, str], part: str, *, gone: bool = False) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while any(part in title for title in await asyncio.to_thread(titles, environment)) is gone:
            pass


async def test_mousepad_is_read_on_after_a_closed_menus_item_opened_a_dialog(
    device: DesktopDevice, session: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(atspi, "CALL_S", PATIENCE_S)
    async with running(session, "mousepad"):
        await appeared(device, process_name="mousepad", name="File")
        pressed = await device.run(
            "click_element", process_name="mousepad", role="menu item", name="Save As..."
        )
        await until_title(session, "Save As")
        assert pressed["method"] == "pointer"
        await appeared(device, process_name="mousepad", role="push button", name="Cancel")
        await device.run("click_element", process_name="mousepad", role="push button", name="Cancel")
        await until_title(session, "Save As", gone=True)


async def test_featherpad_has_opened_the_dialog_in_which_its_action_still_is(
    device: DesktopDevice, session: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(atspi, "CALL_S", PATIENCE_S)
    async with running(session, "featherpad", "--standalone"):
        await appeared(device, process_name="featherpad", name="File")
        await device.run("click_element", process_name="featherpad", role="menu item", name="Save As")
        await until_title(session, "Save as")


async def test_chromium_takes_checks_and_choices_that_are_off_the_screen(
    device: DesktopDevice, session: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(atspi, "CALL_S", PATIENCE_S)
    page = tmp_path / "page.html"
    page.write_text(PAGE)
    switches = ("--no-sandbox", "--force-renderer-accessibility", "--no-first-run", "--disable-sync")
    quiet = ("--disable-background-networking", "--disable-component-update", "--disable-gpu")
    line = ("chromium", *switches, *quiet, f"--user-data-dir={tmp_path / 'profile'}", page.as_uri())
    # Chromium builds its tree only where accessibility was switched on before it started.
    await device.result("get_ui_tree")
    async with running(session, *line):
        # The documents of Chromium's own window are there before the page is.
        await appeared(device, process_name="chromium", role="push button", name="Top")
        for role, name, title in (
            ("check box", "Far check", "checked true"),
            ("radio button", "Far radio", "radio true"),
        ):
            pressed = await device.run("click_element", process_name="chromium", role=role, name=name)
            await until_title(session, title)
            assert pressed["seen"]["gained"] == ["checked"]
