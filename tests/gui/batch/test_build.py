"""Batch: steps built by key and by pointer, moved, grouped, undone; what is sent is what was typed."""

from __future__ import annotations

from pathlib import Path
from typing import TypeAlias

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QWidget

from app.main import ConsoleApplication
from app.screens.batch.document import content_of
from app.screens.batch.screen import BatchScreen
from app.screens.targets import OpenRun, OpenTool
from app.theme.theme import Theme
from core.batch.models import Batch, Parallel, Step
from tests.fakes.console import FakeConsole
from tests.fakes.pointer import move_pointer
from tests.fakes.window import open_frame, opened_screens, seen
from tests.gui.batch.page import is_ticked, words_on_text

Key: TypeAlias = Qt.Key
Mod: TypeAlias = Qt.KeyboardModifier
Left = Qt.MouseButton.LeftButton
COMPACT = (1280, 720)


def three(name: str = "Three", targets: str = "name:this-computer") -> Batch:
    steps = [
        {"id": "a", "tool": "get_system_info", "with": {"info_type": "memory"}},
        {"id": "b", "tool": "screenshot"},
        {"id": "c", "tool": "shell_execute", "with": {"command": "true"}},
    ]
    return Batch.model_validate({"name": name, "targets": targets, "steps": steps})


async def batch_of(desk: ConsoleApplication) -> BatchScreen:
    """The screen, with the tools of its devices read."""
    desk.window.open("batch")
    screen = desk.window.current
    assert isinstance(screen, BatchScreen)
    await seen(lambda: screen.shelf.offer.tools and not screen.shelf.offer.reading)
    return screen


def press(desk: ConsoleApplication, key: Key, modifiers: Mod = Mod.NoModifier) -> None:
    """A key, to whatever has the focus."""
    QTest.keyClick(QApplication.focusWidget() or desk.window, key, modifiers)


def type_text(text: str) -> None:
    focus = QApplication.focusWidget()
    assert focus is not None
    QTest.keyClicks(focus, text)


def ids(screen: BatchScreen) -> list[str]:
    return [step.id for step in screen.editor.content.steps]


def card(screen: BatchScreen, place: int) -> QPoint:
    view = screen.steps.view
    return view.visualRect(view.steps.index(place, 0)).center()


def drag(source: QWidget, start: QPoint, target: QWidget, end: QPoint) -> None:
    """Press, move past the drag distance, move on, let go; as a hand does it."""
    QTest.mousePress(source, Left, Mod.NoModifier, start)
    there = source.mapFromGlobal(target.mapToGlobal(end))
    middle = QPoint((start.x() + there.x()) // 2, (start.y() + there.y()) // 2)
    for point in (middle, there):
        move_pointer(source, point)
    QTest.mouseRelease(source, Left, Mod.NoModifier, there)


async def test_three_steps_are_built_by_keyboard_alone_and_run_exactly_as_typed(
    theme: Theme, tmp_path: Path
) -> None:
    console = FakeConsole()

    async with open_frame(theme, tmp_path, console) as desk:
        screen = await batch_of(desk)
        opened = opened_screens(desk)
        press(desk, Key.Key_A)
        assert QApplication.focusWidget() is screen.tools.search
        for count, tool in enumerate(("get_system_info", "screenshot", "shell_execute"), 1):
            press(desk, Key.Key_F, Mod.ControlModifier)
            type_text(tool)
            press(desk, Key.Key_Return)
            await seen(lambda count=count: len(ids(screen)) == count)
        assert ids(screen) == ["system_info", "screenshot", "shell_execute"]
        # The form of what was added has the keyboard.
        type_text("echo hello > ~/note.txt")
        screen.steps.view.setFocus()
        press(desk, Key.Key_Up)
        press(desk, Key.Key_Up)
        press(desk, Key.Key_Return)
        press(desk, Key.Key_Down)
        await seen(lambda: not screen.planner.busy and screen.dock.plan and len(screen.dock.plan.cells) == 3)
        press(desk, Key.Key_Return, Mod.ControlModifier)
        await seen(lambda: "start_run" in console.asked)
        await seen(lambda: opened)
        [started] = console.calls_of("start_run")
        batch, devices = started["batch"], started["expected_devices"]
        assert devices == ["this-computer"]
        assert batch.steps == [
            Step(id="system_info", tool="get_system_info", parameters={"info_type": "memory"}),
            Step(id="screenshot", tool="screenshot"),
            Step(id="shell_execute", tool="shell_execute", parameters={"command": "echo hello > ~/note.txt"}),
        ]
        name, target = opened[0]
        assert name == "runs"
        assert isinstance(target, OpenRun)


async def test_three_steps_are_built_with_the_pointer_and_run(theme: Theme, tmp_path: Path) -> None:
    console = FakeConsole()

    async with open_frame(theme, tmp_path, console) as desk:
        screen = await batch_of(desk)
        opened = opened_screens(desk)
        tools, view = screen.tools.list, screen.steps.view

        def at(name: str) -> QPoint:
            place = next(n for n, row in enumerate(tools.tools.items) if row.words == name)
            return tools.visualRect(tools.tools.index(place, 0)).center()

        drag(tools.viewport(), at("get_system_info"), screen.steps.empty, QPoint(40, 40))
        assert ids(screen) == ["system_info"]
        QTest.mouseDClick(tools.viewport(), Left, Mod.NoModifier, at("screenshot"))
        end = QPoint(60, view.visualRect(view.steps.index(0, 0)).top() + 4)
        drag(tools.viewport(), at("list_processes"), view.viewport(), end)
        assert ids(screen) == ["list_processes", "system_info", "screenshot"]
        await seen(lambda: screen.head.run.isEnabled() and screen.dock.plan is not None)
        QTest.mouseClick(screen.head.run, Left)
        # get_system_info has no argument yet, so the plan says invalid and the run is asked about.
        await seen(lambda: _sheet_is_open(desk))
        QTest.keyClick(desk.window, Key.Key_Escape)
        assert "start_run" not in console.asked
        screen.editor.set_parameters(screen.editor.content.steps[1].key, {"info_type": "cpu"})
        await seen(lambda: screen.head.run.isEnabled())
        QTest.mouseClick(screen.head.run, Left)
        await seen(lambda: "start_run" in console.asked and opened)
        assert [
            step.tool for step in console.calls_of("start_run")[0]["batch"].steps if isinstance(step, Step)
        ] == [
            "list_processes",
            "get_system_info",
            "screenshot",
        ]


async def test_the_text_of_a_step_is_called_valid_only_when_the_step_is(theme: Theme, tmp_path: Path) -> None:
    console = FakeConsole()
    steps = [
        {"id": "facts", "tool": "get_system_info"},
        {"id": "list", "tool": "list_processes"},
    ]
    batch = Batch.model_validate({"name": "One", "targets": "name:this-computer", "steps": steps})

    async with open_frame(theme, tmp_path, console) as desk:
        screen = await batch_of(desk)
        screen.editor.load(content_of(batch))
        facts, listing = (step.key for step in screen.editor.content.steps)
        screen.editor.choose(facts)
        await seen(lambda: "required" in words_on_text(screen))
        assert not is_ticked(screen)
        assert not screen.text.problem, "the text itself can be read, and is what would be sent"
        screen.editor.choose(listing)
        await seen(lambda: words_on_text(screen) == "The text: valid")
        assert is_ticked(screen)
        screen.editor.choose(facts)
        await seen(lambda: "required" in words_on_text(screen))
        screen.editor.set_parameters(facts, {"info_type": "cpu"})
        await seen(lambda: words_on_text(screen) == "The text: valid")


def _sheet_is_open(desk: ConsoleApplication) -> bool:
    from app.widgets.dialog import Dialog

    return any(sheet.isVisible() for sheet in desk.window.findChildren(Dialog))


async def test_what_was_not_typed_is_not_sent_and_what_was_cleared_neither(
    theme: Theme, tmp_path: Path
) -> None:
    async with open_frame(theme, tmp_path, FakeConsole()) as desk:
        screen = await batch_of(desk)
        screen.editor.add("write_file")
        assert screen.editor.current is not None
        assert screen.editor.current.parameters == {}
        screen.step.focus_first()
        type_text("~/x")
        assert screen.editor.current.parameters == {"file_path": "~/x"}
        for _ in range(3):
            press(desk, Key.Key_Backspace)
        assert screen.editor.current.parameters == {}


async def test_undo_takes_back_typing_as_one_and_every_other_change_by_itself(
    theme: Theme, tmp_path: Path
) -> None:
    async with open_frame(theme, tmp_path, FakeConsole()) as desk:
        screen = await batch_of(desk)
        screen.editor.load(content_of(three()))
        screen.editor.choose(screen.editor.content.steps[2].key)
        screen.step.focus_first()
        press(desk, Key.Key_End)
        type_text(" && date")
        assert screen.editor.content.steps[2].parameters == {"command": "true && date"}
        # The field has the focus, and still the key undoes in the batch.
        press(desk, Key.Key_Z, Mod.ControlModifier)
        assert screen.editor.content.steps[2].parameters == {"command": "true"}
        assert screen.step.form.value() == {"command": "true"}
        press(desk, Key.Key_Z, Mod.ControlModifier | Mod.ShiftModifier)
        assert screen.step.form.value() == {"command": "true && date"}
        press(desk, Key.Key_Z, Mod.ControlModifier)
        press(desk, Key.Key_Y, Mod.ControlModifier)
        assert screen.step.form.value() == {"command": "true && date"}
        screen.steps.view.setFocus()
        press(desk, Key.Key_X)
        press(desk, Key.Key_D, Mod.ControlModifier)
        press(desk, Key.Key_Delete)
        assert ids(screen) == ["a", "b", "c"]
        assert [step.enabled for step in screen.editor.content.steps] == [True, True, False]
        for _ in range(4):
            press(desk, Key.Key_Z, Mod.ControlModifier)
        assert screen.editor.content.as_batch() == three()
        assert not screen.editor.undo_stack.canUndo()
        assert not screen.editor.dirty


async def test_steps_are_moved_by_key_and_the_moved_one_stays_open(theme: Theme, tmp_path: Path) -> None:
    async with open_frame(theme, tmp_path, FakeConsole()) as desk:
        screen = await batch_of(desk)
        screen.editor.load(content_of(three()))
        screen.steps.view.setFocus()
        press(desk, Key.Key_Down, Mod.AltModifier)
        assert ids(screen) == ["b", "a", "c"]
        press(desk, Key.Key_Down, Mod.AltModifier)
        press(desk, Key.Key_Down, Mod.AltModifier)
        assert ids(screen) == ["b", "c", "a"]
        assert screen.step.id_field.text() == "a"
        press(desk, Key.Key_Up, Mod.AltModifier)
        assert ids(screen) == ["b", "a", "c"]


async def test_a_card_dragged_above_another_goes_before_it_and_esc_stops_a_drag(
    theme: Theme, tmp_path: Path
) -> None:
    async with open_frame(theme, tmp_path, FakeConsole()) as desk:
        screen = await batch_of(desk)
        screen.editor.load(content_of(three()))
        view = screen.steps.view
        above_first = QPoint(60, view.visualRect(view.steps.index(0, 0)).top() + 3)
        drag(view.viewport(), card(screen, 2), view.viewport(), above_first)
        assert ids(screen) == ["c", "a", "b"]
        QTest.mousePress(view.viewport(), Left, Mod.NoModifier, card(screen, 2))
        move_pointer(view.viewport(), above_first)
        QTest.keyClick(desk.window, Key.Key_Escape)
        QTest.mouseRelease(view.viewport(), Left, Mod.NoModifier, above_first)
        assert ids(screen) == ["c", "a", "b"]


async def test_p_lets_a_step_run_with_the_next_one_and_again_alone(theme: Theme, tmp_path: Path) -> None:
    async with open_frame(theme, tmp_path, FakeConsole()) as desk:
        screen = await batch_of(desk)
        screen.editor.load(content_of(three()))
        screen.steps.view.setFocus()
        press(desk, Key.Key_P)
        first = screen.editor.content.as_batch().steps[0]
        assert isinstance(first, Parallel)
        assert [step.id for step in first.parallel] == ["a", "b"]
        assert [row.bracket for row in screen.steps.view.steps.items] == ["first", "last", ""]
        press(desk, Key.Key_P)
        assert screen.editor.content.as_batch() == three()


async def test_a_switched_off_step_stays_in_the_batch_and_is_off(theme: Theme, tmp_path: Path) -> None:
    async with open_frame(theme, tmp_path, FakeConsole()) as desk:
        screen = await batch_of(desk)
        screen.editor.load(content_of(three()))
        screen.steps.view.setFocus()
        press(desk, Key.Key_X)
        await seen(lambda: screen.dock.plan is not None and screen.dock.plan.cells[0].outcome == "off")
        assert not screen.editor.content.steps[0].enabled


async def test_a_tool_from_elsewhere_becomes_a_batch_of_one_step_on_that_device(
    theme: Theme, tmp_path: Path
) -> None:
    async with open_frame(theme, tmp_path, FakeConsole()) as desk:
        desk.window.open("batch", OpenTool("lab-lnx-02", "read_file", {"file_path": "/etc/hostname"}))
        screen = desk.window.current
        assert isinstance(screen, BatchScreen)
        assert screen.editor.content.targets == "name:lab-lnx-02"
        await seen(lambda: screen.step.form.value() == {"file_path": "/etc/hostname"})
        assert screen.head.run.text() == "Run on 1"
        assert not screen.editor.dirty


async def test_in_a_narrow_window_a_opens_the_tools_and_esc_closes_them(theme: Theme, tmp_path: Path) -> None:
    async with open_frame(theme, tmp_path, FakeConsole(), size=COMPACT) as desk:
        screen = await batch_of(desk)
        assert not screen.tools.isVisible()
        press(desk, Key.Key_A)
        assert screen.tools.isVisible()
        type_text("read_f")
        press(desk, Key.Key_Return)
        await seen(lambda: ids(screen) == ["read_file"])
        assert not screen.tools.isVisible()
        assert screen.step.isAncestorOf(QApplication.focusWidget())
        screen.steps.view.setFocus()
        press(desk, Key.Key_A)
        QTest.keyClick(desk.window, Key.Key_Escape)
        assert not screen.tools.isVisible()
        assert QApplication.focusWidget() is screen.steps.view


@pytest.mark.parametrize("size", [(1440, 900), COMPACT])
async def test_the_id_of_the_open_step_is_whole_and_its_tool_is_not_said_twice(
    theme: Theme, tmp_path: Path, size: tuple[int, int]
) -> None:
    async with open_frame(theme, tmp_path, FakeConsole(), size) as desk:
        screen = await batch_of(desk)
        pane = screen.step
        for id_, tool in (("shell_execute", "shell_execute"), ("shell_execute_again", "shell_execute")):
            steps = [{"id": id_, "tool": tool, "with": {"command": "true"}}]
            batch = Batch.model_validate({"name": "One", "targets": "name:this-computer", "steps": steps})
            screen.editor.load(content_of(batch))
            screen.editor.choose_id(id_)
            text = pane.id_field.fontMetrics().horizontalAdvance(id_)
            room = text + 2 * pane.id_field.textMargins().left()
            await seen(lambda room=room: pane.id_field.width() > room)
            assert pane.tool.isVisible() == (id_ != tool)
            assert pane.undo.isVisible() != pane.undo_below.isVisible()
