"""Trees and searches of programs that nobody here wrote; each is skipped where it is not installed."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from core.device.desktop.linux import atspi
from tests.end_to_end.test_desktop_search import device, flat, names, session
from tests.fakes.desktop_device import DesktopDevice
from tests.fakes.patience import PATIENCE_S

__all__ = ["device", "session"]
MOST_BYTES = 20_000
SECRET = "s3cret-größer"
PAGE = """<!doctype html><title>Rows</title>
<label for=u>User</label><input id=u><label for=w>Pass</label><input id=w type=password value="{secret}">
<input placeholder="Search here"><button>OK</button><button>OK</button><button>Only</button>
<div id=d style="height:200px;overflow:auto"><ul>{rows}</ul></div>
<script>document.getElementById("d").scrollTop = 1e9</script>"""


@contextlib.asynccontextmanager
async def running(environment: dict[str, str], *line: str) -> AsyncIterator[None]:
    """A program of this machine in a session of its own."""
    if shutil.which(line[0]) is None:
        pytest.skip(f"{line[0]} is not installed")
    process = await asyncio.create_subprocess_exec(
        *line,
        env=environment,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def appeared(device: DesktopDevice, **target: Any) -> None:
    await device.run("wait_for_element", **target, timeout=PATIENCE_S - 2)


async def size_of(device: DesktopDevice, program: str) -> int:
    return len(json.dumps(await device.run("get_ui_tree", process_name=program)).encode())


async def test_a_form_of_zenity_names_its_fields_and_shows_no_password(
    device: DesktopDevice, session: dict[str, str]
) -> None:
    line = ("zenity", "--forms", "--text=Log in", "--add-entry=User", "--add-password=Pass")
    async with running(session, *line):
        await appeared(device, process_name="zenity", name="User")
        found = await device.run("get_ui_tree", process_name="zenity")
        fields = [one["name"] for one in flat(found["tree"]) if one["role"] in ("text", "password text")]
        assert fields == ["User", "Pass"]
        (field,) = (await device.run("get_ui_tree", process_name="zenity", name="pass"))["tree"]
        assert field["role"] == "password text"
        await device.run("type_text", text=SECRET, control_id=field["id"], secret=True)
        for result in (
            await device.run("get_ui_tree", process_name="zenity"),
            await device.run("get_ui_tree", process_name="zenity", detail="full", showing=False),
            await device.run("get_ui_tree", process_name="zenity", name="Pass"),
            await device.run("wait_for_element", process_name="zenity", name="Pass"),
        ):
            assert SECRET not in json.dumps(result, ensure_ascii=False)
        assert await size_of(device, "zenity") < MOST_BYTES


async def test_mousepad_shows_its_menus_closed_and_finds_what_is_in_them(
    device: DesktopDevice, session: dict[str, str], tmp_path: Path
) -> None:
    note = tmp_path / "note.txt"
    note.write_text("some words")
    async with running(session, "mousepad", str(note)):
        await appeared(device, process_name="mousepad", name="File")
        found = await device.run("get_ui_tree", process_name="mousepad")
        assert {"File", "Edit", "Help"} <= set(names(found))
        assert "Save As..." not in {name.strip() for name in names(found)}
        assert await size_of(device, "mousepad") < MOST_BYTES
        target = {"process_name": "mousepad", "role": "menu item", "name": "Save As..."}
        items = (await device.run("get_ui_tree", **target))["tree"]
        assert items
        assert not [item for item in items if "showing" in item["states"]]


async def test_chromium_shows_the_rows_that_are_scrolled_to(
    device: DesktopDevice, session: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(atspi, "CALL_S", PATIENCE_S)
    page = tmp_path / "page.html"
    rows = "".join(f"<li><button>Row {at}</button></li>" for at in range(2_000))
    page.write_text(PAGE.format(secret=SECRET, rows=rows))
    switches = ("--no-sandbox", "--force-renderer-accessibility", "--no-first-run", "--disable-sync")
    quiet = ("--disable-background-networking", "--disable-component-update", "--disable-gpu")
    line = ("chromium", *switches, *quiet, f"--user-data-dir={tmp_path / 'profile'}", page.as_uri())
    # Chromium builds its tree only where accessibility was switched on before it started.
    await device.result("get_ui_tree")
    async with running(session, *line):
        await appeared(device, process_name="chromium", role="push button", name="Row 1999")
        found = await device.run("get_ui_tree", process_name="chromium")
        shown = {name for name in names(found) if name.startswith("Row ")}
        assert "Row 1999" in shown
        assert "Row 0" not in shown
        assert len(shown) < 50
        assert await size_of(device, "chromium") < MOST_BYTES
        assert SECRET not in json.dumps(found, ensure_ascii=False)
        for name, role in (("User", "entry"), ("Search here", "entry"), ("Only", "push button")):
            (control,) = (await device.run("get_ui_tree", process_name="chromium", name=name))["tree"]
            assert control["role"] == role
        two = await device.refused("click_element", process_name="chromium", role="push button", name="OK")
        assert two.startswith("control_ambiguous: 2 controls fit")
