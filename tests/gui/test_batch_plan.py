"""Batch: what the plan and the policy say, the question before a run, refusals shown in place."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication

from app.components.json_editor import JsonEditor
from app.look.theme import Theme
from app.main import Desk
from app.screens.base import OpenBatch, OpenRun, Target
from app.screens.batch.content import content_of
from app.screens.batch.draft_store import FILE
from app.screens.batch.screen import BatchScreen
from app.shell.sheet import Sheet
from core.batch.models import Batch, Run
from core.errors import ErrorCode, Refused
from core.policy.models import Answer, Profile
from tests.fakes.console import FakeConsole
from tests.fakes.fleet_data import make_devices
from tests.fakes.story import story
from tests.fakes.window import play, seen

Key, Mod, Left = Qt.Key, Qt.KeyboardModifier, Qt.MouseButton.LeftButton


class Recorder(FakeConsole):
    """Remembers which batches were started, on which devices."""

    def __init__(self, **more: object) -> None:
        super().__init__(**more)  # type: ignore[arg-type]  # handed on as they are
        self.started: list[tuple[Batch, list[str] | None]] = []

    async def start_run(self, batch: Batch, expected_devices: list[str] | None = None) -> Run:
        self.started.append((batch, expected_devices))
        return await super().start_run(batch, expected_devices)


def risky(targets: str, command: str = "rm -rf /srv/cache") -> Batch:
    steps = [
        {"id": "look", "tool": "get_system_info", "with": {"info_type": "disk"}},
        {"id": "clean", "tool": "shell_execute", "with": {"command": command}},
    ]
    return Batch.model_validate({"name": "Clean", "targets": targets, "steps": steps})


async def batch_of(desk: Desk, batch: Batch | None = None) -> BatchScreen:
    desk.window.open("batch")
    screen = desk.window.current
    assert isinstance(screen, BatchScreen)
    await seen(lambda: desk.link.connected)
    if batch is not None:
        screen.editor.load(content_of(batch))
    await seen(lambda: screen.shelf.offer.tools and not screen.shelf.offer.reading)
    return screen


def sheet_of(desk: Desk) -> Sheet | None:
    return next((one for one in desk.window.findChildren(Sheet) if one.isVisible()), None)


def words_in(sheet: Sheet) -> str:
    from PySide6.QtWidgets import QLabel

    names = [widget.accessibleName() for widget in sheet.findChildren(QLabel)]
    texts = [label.text() for label in sheet.findChildren(QLabel)]
    tags = [one.accessibleName() for one in sheet.card.children() if hasattr(one, "accessibleName")]
    return "\n".join([*texts, *names, *tags])


def opened_screens(desk: Desk) -> list[tuple[str, Target | None]]:
    opened: list[tuple[str, Target | None]] = []
    desk.window.open = lambda screen, target=None: opened.append((screen, target))  # type: ignore[method-assign]
    return opened


def test_the_plan_says_what_runs_asks_and_is_denied_and_its_counts_stand_on_the_steps(
    theme: Theme, tmp_path: Path
) -> None:
    async def scenario(desk: Desk) -> None:
        screen = await batch_of(desk, risky("os:linux tag:lab,prod"))
        await seen(lambda: screen._plan is not None)
        assert screen.dock.counts.words() == "10 run, 10 ask"
        rows = screen.steps.view.steps.rows
        assert [row.note.counts for row in rows] == [{"runs": 10}, {"asks": 10}]
        assert "nothing was sent" in screen.dock.state.text()
        desk.window.choose_profile(Profile.OBSERVE)
        await seen(lambda: screen.dock.counts.words() == "10 run, 10 denied")
        model = screen.dock.matrix.plan_model
        assert "Profile observe: reads only." in model.why(0)
        screen.dock.as_text.click()
        copied = QApplication.clipboard().text()
        assert "build-lnx-03 (Production)\truns\tdenied\tProfile observe: reads only." in copied

    play(theme, tmp_path, FakeConsole(), scenario)


def test_planning_and_judging_send_nothing(theme: Theme, tmp_path: Path) -> None:
    console = Recorder()

    async def scenario(desk: Desk) -> None:
        screen = await batch_of(desk, risky("name:this-computer"))
        await seen(lambda: screen._plan is not None and "explain" in console.asked)
        assert not {"call", "start_run", "decide"} & set(console.asked)

    play(theme, tmp_path, console, scenario)


def test_above_fifty_devices_a_plan_is_made_on_f5_only(theme: Theme, tmp_path: Path) -> None:
    one = make_devices()[10]
    console = FakeConsole([one.model_copy(update={"name": f"d{number:03}"}) for number in range(60)])

    async def scenario(desk: Desk) -> None:
        screen = await batch_of(desk, risky("name:d*"))
        assert not screen.planner._pause.isActive()
        assert "F5" in screen.dock.nothing.text()
        QTest.keyClick(desk.window, Key.Key_F5)
        await seen(lambda: screen._plan is not None and len(screen._plan.devices) == 60)

    play(theme, tmp_path, console, scenario)


def test_the_open_step_is_judged_while_it_is_typed(theme: Theme, tmp_path: Path) -> None:
    async def scenario(desk: Desk) -> None:
        screen = await batch_of(desk, risky("name:this-computer", "true"))
        screen.editor.choose(screen.editor.content.steps[1].key)
        judged = screen.step.judgement
        await seen(lambda: judged.decision is not None)
        screen.step.focus_first()
        focus = QApplication.focusWidget()
        assert focus is not None
        QTest.keyClick(focus, Key.Key_End)
        QTest.keyClicks(focus, "; rm -rf /srv")
        await seen(lambda: "Deletes recursively" in judged.text())
        assert judged.decision is not None
        assert judged.decision.answer is Answer.ASK
        assert "Profile guarded" in judged.text()
        for _ in range(30):
            QTest.keyClick(focus, Key.Key_Backspace)
        await seen(lambda: "Not judged yet" in judged.text())
        assert "command" in judged.text()

    play(theme, tmp_path, FakeConsole(), scenario)


def test_production_is_named_before_a_run_and_enter_on_run_starts_it(theme: Theme, tmp_path: Path) -> None:
    console = Recorder()

    async def scenario(desk: Desk) -> None:
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
        assert not console.started
        focus = QApplication.focusWidget()
        assert focus is sheet.answer("run")
        QTest.keyClick(focus, Key.Key_Return)
        await seen(lambda: opened)
        assert console.started[0][1] == ["build-lnx-03", "lab-lnx-01"]
        assert isinstance(opened[0][1], OpenRun)

    play(theme, tmp_path, console, scenario)


def test_one_production_device_alone_is_asked_about_too(theme: Theme, tmp_path: Path) -> None:
    console = Recorder()

    async def scenario(desk: Desk) -> None:
        screen = await batch_of(desk, risky("name:db-primary"))
        assert screen.head.run.text() == "Run on 1…"
        screen.head.run.click()
        await seen(lambda: sheet_of(desk))
        QTest.keyClick(desk.window, Key.Key_Escape)
        await seen(lambda: sheet_of(desk) is None and screen.head.run.isEnabled())
        assert not console.started

    play(theme, tmp_path, console, scenario)


def test_a_refused_start_is_shown_in_place_with_what_to_do(theme: Theme, tmp_path: Path) -> None:
    console = Recorder()

    async def scenario(desk: Desk) -> None:
        screen = await batch_of(desk, risky("name:this-computer"))
        console.fail_next["start_run"] = Refused("Everything is stopped.", ErrorCode.STOPPED)
        screen.head.run.click()
        await seen(screen.notice.isVisible)
        assert "Everything is stopped." in screen.notice.accessibleName()
        assert "Resume in the console" in screen.notice.accessibleName()
        assert screen.head.run.isEnabled()
        QTest.keyClick(desk.window, Key.Key_Escape)
        assert not screen.notice.isVisible()

    play(theme, tmp_path, console, scenario)


def test_devices_that_changed_after_the_question_are_not_run_on(theme: Theme, tmp_path: Path) -> None:
    console = Recorder()

    async def scenario(desk: Desk) -> None:
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

    play(theme, tmp_path, console, scenario)


def test_a_wrong_filter_names_the_column_and_forbids_to_run(theme: Theme, tmp_path: Path) -> None:
    async def scenario(desk: Desk) -> None:
        screen = await batch_of(desk, risky("name:this-computer"))
        screen.head.targets.setFocus()
        screen.head.targets.selectAll()
        QTest.keyClicks(screen.head.targets, "tag:lab health:sick")
        assert screen.head.error.isVisible()
        assert "column 16" in screen.head.error.text()
        assert not screen.head.run.isEnabled()
        assert "filter" in screen.head.run.toolTip()
        QTest.keyClick(screen.head.targets, Key.Key_Z, Mod.ControlModifier)
        assert screen.editor.content.targets == "name:this-computer"
        assert not screen.head.error.isVisible()

    play(theme, tmp_path, FakeConsole(), scenario)


@pytest.mark.parametrize("notation", ["json", "yaml"])
def test_text_that_cannot_be_read_keeps_the_step_and_forbids_to_run(
    theme: Theme, tmp_path: Path, notation: str
) -> None:
    console = Recorder()

    async def scenario(desk: Desk) -> None:
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
        assert not console.started
        text.editor.setPlainText(good.replace("disk", "memory"))
        assert not text.problem
        assert screen.editor.content.steps[0].parameters == {"info_type": "memory"}
        assert screen.step.form.value() == {"info_type": "memory"}
        text.editor.setPlainText(good.replace("get_system_info", "screenshot").replace("with", "without"))
        assert "allowed" in text.problem
        assert screen.editor.content.steps[0].tool == "get_system_info"

    play(theme, tmp_path, console, scenario)


def test_what_the_form_says_is_in_the_text_and_the_other_way_round(theme: Theme, tmp_path: Path) -> None:
    async def scenario(desk: Desk) -> None:
        screen = await batch_of(desk, risky("name:this-computer", "true"))
        screen.editor.choose(screen.editor.content.steps[1].key)
        screen.step.focus_first()
        focus = QApplication.focusWidget()
        assert focus is not None
        QTest.keyClick(focus, Key.Key_End)
        QTest.keyClicks(focus, " # x")
        assert '"command": "true # x"' in screen.text.json.text()
        screen.text.show_notation("yaml")
        assert 'command: "true # x"' in screen.text.yaml.text()
        screen.step.timeout.setFocus()
        QTest.keyClicks(screen.step.timeout, "15")
        assert "timeout: 15" in screen.text.yaml.text()
        QTest.keyClicks(screen.step.timeout, "x")
        assert screen.step.timeout_field.error
        assert screen.editor.content.steps[1].timeout == 15

    play(theme, tmp_path, FakeConsole(), scenario)


def test_a_half_built_batch_is_there_again_after_a_restart(theme: Theme, tmp_path: Path) -> None:
    async def first(desk: Desk) -> None:
        screen = await batch_of(desk)
        screen.editor.add("shell_execute")
        screen.editor.add("screenshot")
        screen.editor.rename("Half")
        # The file is written while the window lives, so that a crash loses a second at most.
        await seen((tmp_path / FILE).exists)
        assert stat.S_IMODE((tmp_path / FILE).stat().st_mode) == 0o600
        screen.editor.group()

    async def second(desk: Desk) -> None:
        screen = await batch_of(desk)
        assert screen.editor.content.name == "Half"
        assert [step.tool for step in screen.editor.content.steps] == ["shell_execute", "screenshot"]
        assert all(step.group for step in screen.editor.content.steps)
        assert screen.editor.dirty
        assert not screen.editor.undo_stack.canUndo()

    play(theme, tmp_path, FakeConsole(), first)
    play(theme, tmp_path, FakeConsole(), second)


def test_a_draft_that_cannot_be_read_is_set_aside_and_said(theme: Theme, tmp_path: Path) -> None:
    (tmp_path / FILE).write_text('{"format": "quarterdeck.window-draft/9"')

    async def scenario(desk: Desk) -> None:
        screen = await batch_of(desk)
        assert screen.notice.isVisible()
        assert "window-draft.broken" in screen.notice.accessibleName()
        assert (tmp_path / "window-draft.broken").exists()

    play(theme, tmp_path, FakeConsole(), scenario)


def test_the_first_save_asks_for_a_name_and_the_next_one_does_not(theme: Theme, tmp_path: Path) -> None:
    console = FakeConsole()

    async def scenario(desk: Desk) -> None:
        screen = await batch_of(desk)
        screen.editor.add("screenshot")
        assert screen.head.mark.text() == "• not saved"
        QTest.keyClick(screen.steps.view, Key.Key_S, Mod.ControlModifier)
        assert QApplication.focusWidget() is screen.head.name
        assert not console.saved
        QTest.keyClicks(screen.head.name, "Nightly picture")
        QTest.keyClick(screen.head.name, Key.Key_Return)
        await seen(lambda: "Nightly picture" in console.saved)
        await seen(lambda: not screen.head.mark.isVisible())
        screen.editor.add("screenshot")
        QTest.keyClick(screen.steps.view, Key.Key_S, Mod.ControlModifier)
        await seen(lambda: len(console.saved["Nightly picture"].steps) == 2)

    play(theme, tmp_path, console, scenario)


def test_another_batch_of_the_same_name_is_not_overwritten_without_a_question(
    theme: Theme, tmp_path: Path
) -> None:
    console = FakeConsole()
    console.saved["Clean"] = risky("name:db-primary", "old")

    async def scenario(desk: Desk) -> None:
        screen = await batch_of(desk, risky("name:this-computer", "new"))
        screen.head.save.click()
        await seen(lambda: sheet_of(desk))
        QTest.keyClick(desk.window, Key.Key_Escape)
        await seen(lambda: sheet_of(desk) is None)
        assert console.saved["Clean"] == risky("name:db-primary", "old")
        await seen(lambda: not screen.files._saving)
        screen.head.save.click()
        await seen(lambda: sheet_of(desk))
        sheet = sheet_of(desk)
        assert sheet is not None
        sheet.answer("replace").click()
        await seen(lambda: console.saved["Clean"] == risky("name:this-computer", "new"))

    play(theme, tmp_path, console, scenario)


def test_loading_another_batch_asks_about_what_is_not_saved(theme: Theme, tmp_path: Path) -> None:
    console = story()

    async def scenario(desk: Desk) -> None:
        screen = await batch_of(desk, risky("name:this-computer"))
        screen.editor.rename("Mine")
        desk.window.open("batch", OpenBatch("free-disk-space"))
        await seen(lambda: sheet_of(desk))
        QTest.keyClick(desk.window, Key.Key_Escape)
        await seen(lambda: sheet_of(desk) is None)
        assert screen.editor.content.name == "Mine"
        desk.window.open("batch", OpenBatch("free-disk-space"))
        await seen(lambda: sheet_of(desk))
        sheet = sheet_of(desk)
        assert sheet is not None
        sheet.answer("save").click()
        await seen(lambda: screen.editor.saved_as == "free-disk-space")
        assert "Mine" in console.saved
        assert not screen.editor.undo_stack.canUndo()

    play(theme, tmp_path, console, scenario)


def test_open_lists_saved_batches_and_examples_and_is_worked_by_keyboard(
    theme: Theme, tmp_path: Path
) -> None:
    async def scenario(desk: Desk) -> None:
        screen = await batch_of(desk)
        QTest.keyClick(desk.window, Key.Key_O, Mod.ControlModifier)
        await seen(lambda: sheet_of(desk))
        focus = QApplication.focusWidget()
        assert focus is not None
        QTest.keyClicks(focus, "look at")
        QTest.keyClick(focus, Key.Key_Return)
        await seen(lambda: screen.editor.content.name == "Look at this computer")
        assert [step.group for step in screen.editor.content.steps] == [1, 1, 1]
        assert not screen.editor.dirty

    play(theme, tmp_path, story(), scenario)


def test_words_of_a_device_are_never_taken_for_markup(theme: Theme, tmp_path: Path) -> None:
    console = FakeConsole()
    tools = console.tools_of["this-computer"]
    tools[0] = tools[0].model_copy(update={"description": "<b>Harmless</b><img src=x>"})

    async def scenario(desk: Desk) -> None:
        screen = await batch_of(desk)
        model = screen.tools.list.tools
        place = next(n for n, row in enumerate(model.rows) if row.offered and row.offered.tool == tools[0])
        tip = model.data(model.index(place), Qt.ItemDataRole.ToolTipRole)
        assert "&lt;b&gt;Harmless" in tip

    play(theme, tmp_path, console, scenario)


def test_secrets_are_neither_on_the_card_nor_in_its_words(theme: Theme, tmp_path: Path) -> None:
    console = FakeConsole()
    tools = console.tools_of["this-computer"]
    schema = {
        "type": "object",
        "properties": {"token": {"type": "string", "format": "password"}, "deep": {"type": "object"}},
    }
    tools[0] = tools[0].model_copy(update={"input_schema": schema})

    async def scenario(desk: Desk) -> None:
        screen = await batch_of(desk)
        secret = {"token": "hunter2", "deep": {"password": "hunter2"}}
        screen.editor.add(tools[0].tool_name, parameters=secret)
        row = screen.steps.view.steps.rows[0]
        assert row.note.summary == "token •••, deep {1}"
        assert "hunter2" not in str(screen.steps.view.steps.data(screen.steps.view.steps.index(0)))

    play(theme, tmp_path, console, scenario)


def test_secrets_are_not_kept_in_the_draft(theme: Theme, tmp_path: Path) -> None:
    console = FakeConsole()
    tools = console.tools_of["this-computer"]
    schema = {"type": "object", "properties": {"token": {"type": "string", "writeOnly": True}, "a": {}}}
    tools[0] = tools[0].model_copy(update={"input_schema": schema})

    async def scenario(desk: Desk) -> None:
        screen = await batch_of(desk)
        screen.editor.add(tools[0].tool_name, parameters={"token": "hunter2", "a": "kept"})
        await seen(lambda: "kept" in _draft(tmp_path))
        assert "hunter2" not in _draft(tmp_path)
        screen.leave()
        assert "hunter2" not in _draft(tmp_path)

    play(theme, tmp_path, console, scenario)


def _draft(folder: Path) -> str:
    file = folder / FILE
    return file.read_text() if file.exists() else ""


def test_json_of_one_field_that_cannot_be_read_forbids_to_run(theme: Theme, tmp_path: Path) -> None:
    console = Recorder()
    tools = console.tools_of["this-computer"]
    schema = {"type": "object", "properties": {"any": {}}}
    tools[0] = tools[0].model_copy(update={"input_schema": schema})

    async def scenario(desk: Desk) -> None:
        screen = await batch_of(desk)
        screen.editor.add(tools[0].tool_name, parameters={"any": {"x": 1}})
        focus = screen.step.form.findChild(JsonEditor)
        assert isinstance(focus, JsonEditor)
        focus.setFocus()
        focus.selectAll()
        QTest.keyClicks(focus, '{"x": 2')
        assert screen.editor.content.steps[0].parameters == {"any": {"x": 1}}
        screen.head.run.click()
        assert screen.notice.isVisible()
        assert not console.started

    play(theme, tmp_path, console, scenario)
