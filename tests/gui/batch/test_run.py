"""Batch: the question before a run, what forbids to run, refusals shown in place."""

from __future__ import annotations

from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication

from app.screens.targets import OpenRun
from app.theme.theme import Theme
from app.widgets.json_edit import JsonEdit
from core.batch.models import Rollout
from core.errors import ErrorCode, Refused
from tests.fakes.batch_screen import batch_of, risky, sheet_of, words_in
from tests.fakes.console import FakeConsole
from tests.fakes.window import open_frame, opened_screens, seen

Key, Mod = Qt.Key, Qt.KeyboardModifier


async def test_production_is_named_before_a_run_and_enter_on_run_starts_it(
    theme: Theme, tmp_path: Path
) -> None:
    console = FakeConsole()

    async with open_frame(theme, tmp_path, console) as desk:
        screen = await batch_of(desk, risky("name:build-lnx-03,lab-lnx-01"))
        opened = opened_screens(desk)
        assert screen.head.run.text() == "Run on 2…"
        assert screen.head.production.accessibleName() == "1 Production"
        QTest.keyClick(desk.window, Key.Key_Return, Mod.ControlModifier)
        await seen(lambda: sheet_of(desk))
        sheet = sheet_of(desk)
        assert sheet is not None
        words = words_in(sheet)
        assert "on 2 devices?" in words
        assert "Production: build-lnx-03" in words
        assert "2 commands will ask." in words
        assert "start_run" not in console.asked
        focus = QApplication.focusWidget()
        assert focus is sheet.answer("run")
        QTest.keyClick(focus, Key.Key_Return)
        await seen(lambda: opened)
        assert console.calls_of("start_run")[0]["expected_devices"] == ["lab-lnx-01", "build-lnx-03"]
        assert isinstance(opened[0][1], OpenRun)


async def test_the_waves_are_listed_before_a_run_with_production_last(theme: Theme, tmp_path: Path) -> None:
    rollout = Rollout(canary="name:lab-lnx-02", wave=2)
    batch = risky("name:build-lnx-03,lab-lnx-*").model_copy(update={"rollout": rollout})

    async with open_frame(theme, tmp_path, FakeConsole()) as desk:
        screen = await batch_of(desk, batch)
        await seen(lambda: "waves, first lab-lnx-02" in screen.dock.what.text())
        assert screen.dock.what.toolTip().splitlines()[0] == "Wave 1: lab-lnx-02"
        QTest.keyClick(desk.window, Key.Key_Return, Mod.ControlModifier)
        await seen(lambda: sheet_of(desk))
        sheet = sheet_of(desk)
        assert sheet is not None
        waves = [line for line in words_in(sheet).splitlines() if line.startswith("Wave ")]
        assert waves[0] == "Wave 1: lab-lnx-02"
        assert "build-lnx-03 (production)" in waves[-1]
        assert not any("production" in line for line in waves[:-1])


async def test_one_production_device_alone_is_asked_about_too(theme: Theme, tmp_path: Path) -> None:
    console = FakeConsole()

    async with open_frame(theme, tmp_path, console) as desk:
        screen = await batch_of(desk, risky("name:db-primary"))
        assert screen.head.run.text() == "Run on 1…"
        screen.head.run.click()
        await seen(lambda: sheet_of(desk))
        QTest.keyClick(desk.window, Key.Key_Escape)
        await seen(lambda: sheet_of(desk) is None and screen.head.run.isEnabled())
        assert "start_run" not in console.asked


async def test_a_refused_start_is_shown_in_place_with_what_to_do(theme: Theme, tmp_path: Path) -> None:
    console = FakeConsole()

    async with open_frame(theme, tmp_path, console) as desk:
        screen = await batch_of(desk, risky("name:this-computer"))
        console.fail_next["start_run"] = Refused("Everything is stopped.", ErrorCode.STOPPED)
        screen.head.run.click()
        await seen(screen.notice.isVisible)
        assert "Everything is stopped." in screen.notice.accessibleName()
        assert "Resume in the console" in screen.notice.accessibleName()
        assert screen.head.run.isEnabled()
        QTest.keyClick(desk.window, Key.Key_Escape)
        assert not screen.notice.isVisible()


async def test_devices_that_changed_after_the_question_are_not_run_on(theme: Theme, tmp_path: Path) -> None:
    console = FakeConsole()

    async with open_frame(theme, tmp_path, console) as desk:
        screen = await batch_of(desk, risky("tag:lab os:linux"))
        screen.head.run.click()
        await seen(lambda: sheet_of(desk))
        console.change_device("kiosk-hall-1", tags=["lab"], platform="linux")
        sheet = sheet_of(desk)
        assert sheet is not None
        sheet.answer("run").click()
        await seen(screen.notice.isVisible)
        assert "other devices" in screen.notice.accessibleName()
        assert not console.work.summaries()


async def test_a_wrong_filter_names_the_column_and_forbids_to_run(theme: Theme, tmp_path: Path) -> None:
    async with open_frame(theme, tmp_path, FakeConsole()) as desk:
        screen = await batch_of(desk, risky("name:this-computer"))
        screen.head.targets.setFocus()
        screen.head.targets.selectAll()
        QTest.keyClicks(screen.head.targets, "tag:lab health:sick")
        assert screen.head.error.isVisible()
        assert "Column 16: " in screen.head.error.text()
        assert not screen.head.run.isEnabled()
        assert "filter" in screen.head.run.toolTip()
        QTest.keyClick(screen.head.targets, Key.Key_Z, Mod.ControlModifier)
        assert screen.editor.content.targets == "name:this-computer"
        assert not screen.head.error.isVisible()


@pytest.mark.parametrize("notation", ["json", "yaml"])
async def test_text_that_cannot_be_read_keeps_the_step_and_forbids_to_run(
    theme: Theme, tmp_path: Path, notation: str
) -> None:
    console = FakeConsole()

    async with open_frame(theme, tmp_path, console) as desk:
        screen = await batch_of(desk, risky("name:this-computer"))
        text = screen.text
        text.show_notation(notation)
        before = screen.editor.content
        good = text.editor.text()
        text.editor.setPlainText(good + "\n}: [")
        assert text.problem
        assert screen.editor.content == before
        assert text.editor.text() == good + "\n}: ["
        screen.head.run.click()
        assert screen.notice.isVisible()
        assert "start_run" not in console.asked
        text.editor.setPlainText(good.replace("disk", "memory"))
        assert not text.problem
        assert screen.editor.content.steps[0].parameters == {"info_type": "memory"}
        assert screen.step.form.value() == {"info_type": "memory"}
        text.editor.setPlainText(good.replace("get_system_info", "screenshot").replace("with", "without"))
        assert "allowed" in text.problem
        assert screen.editor.content.steps[0].tool == "get_system_info"


async def test_json_of_one_field_that_cannot_be_read_forbids_to_run(theme: Theme, tmp_path: Path) -> None:
    console = FakeConsole()
    tools = console.tools_of["this-computer"]
    schema = {"type": "object", "properties": {"any": {}}}
    tools[0] = tools[0].model_copy(update={"input_schema": schema})

    async with open_frame(theme, tmp_path, console) as desk:
        screen = await batch_of(desk)
        screen.editor.add(tools[0].tool_name, parameters={"any": {"x": 1}})
        focus = screen.step.form.findChild(JsonEdit)
        assert isinstance(focus, JsonEdit)
        focus.setFocus()
        focus.selectAll()
        QTest.keyClicks(focus, '{"x": 2')
        assert screen.editor.content.steps[0].parameters == {"any": {"x": 1}}
        screen.head.run.click()
        assert screen.notice.isVisible()
        assert "start_run" not in console.asked
