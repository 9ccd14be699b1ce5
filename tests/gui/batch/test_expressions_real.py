"""Expressions in the builder against a real service: completed from what a run gave, and evaluated on it."""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path

from PySide6.QtCore import Qt

from app.theme.theme import Theme
from core.batch.batch_file import read_batch
from core.home import Home
from core.service.console import Console
from core.service.local_console import LocalConsole
from tests.fakes.desk import choose_channel, open_service
from tests.fakes.window import open_window, seen
from tests.gui.batch.page import BatchPage

FILE = """
name: Look, then list
targets: name:this-computer
inputs:
  token: {type: string, secret: true, default: hunter2}
steps:
  - {id: disk, tool: get_system_info, with: {info_type: disk}}
  - {id: list, tool: list_processes}
"""


async def test_a_condition_is_completed_from_and_shown_against_the_latest_run(
    theme: Theme, tmp_path: Path
) -> None:
    home = Home(tmp_path / "service").create()
    choose_channel(home, "in-process")
    stack = AsyncExitStack()
    doors: list[Console] = []
    batch = read_batch(FILE, "look.yaml")

    async def opened() -> Console:
        service = await stack.enter_async_context(open_service(home))
        doors.append(LocalConsole(service, "operator:harbour"))
        run = await doors[0].runs.start(batch)
        await doors[0].runs.wait(run.summary.id, 60)
        return doors[0]

    async with open_window(theme, tmp_path / "window", opened) as desk:
        page = await BatchPage.on(desk, batch)
        page.open_step("list")
        await seen(lambda: page.when.completer.values, 20)
        page.write(page.when, "steps.disk.result.files")
        assert page.when.completer.offered() == ["steps.disk.result.filesystems"]
        page.press(Qt.Key.Key_Tab)
        page.type_text(".exists(f, f.use_percent >= 0)")
        page.press(Qt.Key.Key_Escape)
        words = page.when.message
        await seen(lambda: words.text().startswith("Gives true on this-computer in r-"), 20)
        page.write(page.when, "steps.disk.result.filesystem.size() > 0")
        page.press(Qt.Key.Key_Escape)
        await seen(lambda: 'there is no field "filesystem"' in words.text(), 20)
        page.write(page.when, "inputs.token == 'hunter2'")
        page.press(Qt.Key.Key_Escape)
        await seen(lambda: "secret input token" in words.text(), 20)
        # An argument in the same way.
        page.fill(page.argument_row("name"), "${{ steps.disk.result.files")
        assert page.offered() == ["steps.disk.result.filesystems"]
        page.press(Qt.Key.Key_Tab)
        page.type_text("[0].mount_point }}")
        notes = page.screen.step.form
        await seen(lambda: notes.notes, 20)
        assert 'Gives "/' in notes.notes["name",], notes.notes
        assert " on this-computer in r-" in notes.notes["name",]
        page.open_step("disk")
        expect = page.screen.step.flow.expect
        await seen(expect.from_result.isEnabled, 20)
        expect.add_expression("size(result.filesystems) > 0")
        [field] = page.expectations
        await seen(lambda: field.message.text().startswith("Gives true"), 20)
        await stack.aclose()
