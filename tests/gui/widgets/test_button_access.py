"""What assistive technology is told of buttons: that they work, are off, and can be pressed or not."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest
from PySide6.QtCore import QObject
from PySide6.QtGui import QAccessible, QAccessibleActionInterface, QAccessibleInterface
from PySide6.QtWidgets import QVBoxLayout, QWidget
from pytestqt.qtbot import QtBot

from app.shell.navigation_bar import NavigationBar, NavLine
from app.shell.screen_registry import SCREENS
from app.theme.theme import Theme
from app.widgets.badges import Chip
from app.widgets.buttons import Button, Segmented
from tests.fakes.console import FakeConsole
from tests.fakes.window import open_frame
from tests.gui.page import part_of
from tests.gui.shell.page import screen_line

# Qt's own name for it, which changed with Qt 6.12.
FOCUS = QAccessibleActionInterface.setFocusAction()


class Pane(QWidget):
    """Two buttons, the first with the keyboard."""

    def __init__(self, qtbot: QtBot) -> None:
        super().__init__()
        self.works, self.other = Button("Create key…"), Button("Another")
        column = QVBoxLayout(self)
        column.addWidget(self.works)
        column.addWidget(self.other)
        qtbot.addWidget(self)
        self.show()
        qtbot.waitExposed(self)
        self.works.setFocus()
        self.pressed: list[str] = []
        for button in (self.works, self.other):
            button.clicked.connect(lambda *_, name=button.text(): self.pressed.append(name))


def seen(button: QWidget) -> QAccessibleInterface:
    return QAccessible.queryAccessibleInterface(button)


def actions(button: QWidget) -> list[str]:
    return list(seen(button).actionInterface().actionNames())


def test_a_button_that_works_is_busy_and_not_to_be_pressed_and_has_the_keyboard(
    theme: Theme, qtbot: QtBot
) -> None:
    pane = Pane(qtbot)
    assert not seen(pane.works).state().busy
    assert not seen(pane.works).state().disabled
    assert actions(pane.works) == ["Press", FOCUS]
    pane.works.set_working("The key is being made.")
    state = seen(pane.works).state()
    assert state.busy
    assert state.disabled
    assert state.focusable
    assert pane.focusWidget() is pane.works
    assert "Press" not in actions(pane.works)
    assert seen(pane.works).text(QAccessible.Text.Description) == "The key is being made."
    seen(pane.works).actionInterface().doAction("Press")
    assert pane.pressed == []
    pane.works.set_working("")
    state = seen(pane.works).state()
    assert not state.busy
    assert not state.disabled
    seen(pane.works).actionInterface().doAction("Press")
    assert pane.pressed == ["Create key…"]


def test_a_button_that_is_off_is_so_for_everybody_with_or_without_the_keyboard(
    theme: Theme, qtbot: QtBot
) -> None:
    pane = Pane(qtbot)
    for button in (pane.works, pane.other):
        button.set_off("There is nothing to do.")
        assert seen(button).state().disabled
        assert not seen(button).state().busy
        button.set_off("")
        assert not seen(button).state().disabled


def test_that_work_began_or_ended_is_told(
    theme: Theme, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    pane = Pane(qtbot)
    told: list[QObject] = []
    monkeypatch.setattr(QAccessible, "isActive", lambda: True)
    monkeypatch.setattr(QAccessible, "updateAccessibility", lambda event: told.append(event.object()))
    pane.works.set_working("The key is being made.")
    pane.works.set_working("")
    assert told == [pane.works, pane.works]


def test_the_rest_of_what_is_said_of_a_button_is_qts_own(theme: Theme, qtbot: QtBot) -> None:
    pane = Pane(qtbot)
    assert seen(pane.works).text(QAccessible.Text.Name) == "Create key"
    assert seen(pane.works).role() == QAccessible.Role.Button
    assert seen(pane.works).parent().object() is pane
    pane.other.setCheckable(True)
    assert actions(pane.other) == ["Toggle", FOCUS]
    seen(pane.other).actionInterface().doAction("Toggle")
    assert seen(pane.other).state().checked
    seen(pane.other).actionInterface().doAction(FOCUS)
    assert pane.focusWidget() is pane.other


def test_toggle_is_a_press_and_shows_nothing_as_chosen_that_is_not(theme: Theme, qtbot: QtBot) -> None:
    rail = NavigationBar(SCREENS)
    choice = Segmented([("guarded", "guarded"), ("trusted", "trusted")], "Profile")
    chip = Chip("only these", checkable=True)
    pane = QWidget()
    column = QVBoxLayout(pane)
    for widget in (rail, choice, chip):
        column.addWidget(widget)
    qtbot.addWidget(pane)
    pane.show()
    rail.show_current("fleet")
    told: list[object] = []
    rail.chosen.connect(told.append)
    choice.chosen.connect(told.append)
    chip.clicked.connect(lambda *_: told.append("chip"))
    for button in (*pane.findChildren(NavLine)[-1:], part_of(choice, "trusted"), chip):
        assert actions(button)[:2] == ["Toggle", "Press"]
        seen(button).actionInterface().doAction("Toggle")
        assert seen(button).state().checked
    assert told == ["settings", "trusted", "chip"]
    assert choice.current() == "trusted"


async def test_toggle_on_the_rail_opens_the_screen(theme: Theme, tmp_path: Path) -> None:
    async with open_frame(theme, tmp_path, FakeConsole()) as desk:
        desk.window.open("journal")
        seen(screen_line(desk, "settings")).actionInterface().doAction("Toggle")
        assert desk.window.current.name == "settings"
        assert not seen(screen_line(desk, "journal")).state().checked


def test_buttons_that_were_looked_at_go_without_a_trace(theme: Theme, qtbot: QtBot) -> None:
    pane = Pane(qtbot)
    for number in range(50):
        button = Button(f"b{number}", parent=pane)
        assert not seen(button).state().busy
        with qtbot.waitSignal(button.destroyed):
            button.deleteLater()
        del button
        gc.collect()
    assert seen(pane).childCount() == 2
