"""Keys belong to where one types: open lists, menus, fields and dialogs take them, in every screen."""

from __future__ import annotations

from pathlib import Path

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QComboBox, QMenu, QPlainTextEdit, QWidget

from app.main import ConsoleApplication
from app.screens.fleet.device_menu import open_menu
from app.screens.fleet.screen import FleetScreen
from app.screens.targets import OpenBatch, OpenDevice, OpenRun, OpenSection, Target
from app.theme.theme import Theme
from app.widgets.action import Action
from app.widgets.dialog import Dialog
from app.widgets.fields import DropDown
from tests.fakes.console import FakeConsole
from tests.fakes.story import story
from tests.fakes.window import open_frame, seen
from tests.gui.page import visible

Key = Qt.Key
CTRL = Qt.KeyboardModifier.ControlModifier
PLACES: list[tuple[str, Target | None]] = [
    ("fleet", OpenDevice("build-lnx-03")),
    ("batch", OpenBatch("free-disk-space")),
    ("approvals", None),
    ("runs", OpenRun("r-0418", "lab-lnx-01", "shot")),
    ("replay", None),
    ("journal", None),
    ("agents", None),
    ("settings", OpenSection("policy")),
]


def with_the_keyboard() -> QWidget:
    """What gets the next key: of an open list or menu the inside, else what has the keyboard."""
    popup, focus = QApplication.activePopupWidget(), QApplication.focusWidget()
    # A menu is given keys without having the keyboard, a list has it.
    found = focus if popup is None or (focus is not None and popup.isAncestorOf(focus)) else popup
    assert found is not None
    return found


def type_keys(text: str) -> None:
    for letter in text:
        QTest.keyClick(with_the_keyboard(), letter)


def done_in(desk: ConsoleApplication) -> list[str]:
    """The words of the screen's actions that are triggered from now on, or refused."""
    done: list[str] = []
    for action in desk.window.current.actions():
        action.triggered.connect(lambda *_, action=action: done.append(action.text()))
    return done


def letters_of(desk: ConsoleApplication) -> str:
    """The letters that are keys of the screen."""
    actions = desk.window.current.actions()
    keys = [action.keys for action in actions if isinstance(action, Action)]
    return "".join(key for key in keys if len(key) == 1 and key.isalpha()).lower()


async def screen_at(desk: ConsoleApplication, name: str, target: Target | None) -> QWidget:
    desk.window.open(name, target)
    desk.window.activateWindow()
    await seen(desk.window.isActiveWindow)
    desk.state.flush()
    return desk.window.current


@pytest.mark.parametrize(("name", "target"), PLACES)
async def test_no_letter_typed_into_an_open_list_or_a_menu_is_a_key_of_the_screen(
    theme: Theme, tmp_path: Path, name: str, target: Target | None
) -> None:
    async with open_frame(theme, tmp_path, story()) as desk:
        screen = await screen_at(desk, name, target)
        await seen(lambda: visible(screen, QWidget))
        done, letters = done_in(desk), letters_of(desk)
        for combo in visible(screen, QComboBox):
            if not combo.isEnabled() or not combo.count():
                continue
            combo.setFocus()
            combo.showPopup()
            assert QApplication.activePopupWidget() is not None
            type_keys(letters)
            QTest.keyClick(with_the_keyboard(), Key.Key_Return, CTRL)
            combo.hidePopup()
            assert not done, (combo.accessibleName(), done)
        place = desk.window.current.home_of_keyboard() or screen
        place.setFocus()
        menu = QMenu(desk.window)
        menu.addMenu("More").addAction("One")
        menu.addAction("Another")
        menu.popup(QPoint(40, 40))
        # ↓ and → so that a submenu gets keys, too.
        type_keys(letters)
        QTest.keyClick(with_the_keyboard(), Key.Key_Down)
        QTest.keyClick(with_the_keyboard(), Key.Key_Right)
        type_keys(letters)
        menu.close()
        assert not done


@pytest.mark.parametrize("is_open", [True, False])
async def test_letters_typed_into_the_list_of_tools_find_one_and_send_nothing(
    theme: Theme, tmp_path: Path, is_open: bool
) -> None:
    console = story()
    async with open_frame(theme, tmp_path, console) as desk:
        fleet = await screen_at(desk, "fleet", OpenDevice("build-lnx-03"))
        assert isinstance(fleet, FleetScreen)
        fleet.panel.show_tab("try")
        chooser = fleet.panel.try_tab.chooser
        await seen(lambda: chooser.isVisible() and chooser.count() > 3)
        chooser.setFocus()
        done = done_in(desk)
        if is_open:
            QTest.keyClick(chooser, Key.Key_Space)
            assert QApplication.activePopupWidget() is not None
        type_keys("get_sys")
        if is_open:
            assert chooser.view().currentIndex().data() == "get_system_info"
            QTest.keyClick(with_the_keyboard(), Key.Key_Return)
            await seen(lambda: QApplication.activePopupWidget() is None)
        assert chooser.currentText() == "get_system_info"
        assert not done
        assert not {"call", "start_run"} & set(console.asked)


@pytest.mark.parametrize("place", ["list", "menu", "dialog"])
async def test_stop_all_acts_over_an_open_list_a_menu_and_a_dialog(
    theme: Theme, tmp_path: Path, place: str
) -> None:
    console = story()
    async with open_frame(theme, tmp_path, console) as desk:
        fleet = await screen_at(desk, "fleet", None)
        assert isinstance(fleet, FleetScreen)
        await seen(fleet.listing.current_key)
        fleet.listing.view.setFocus()
        combo = DropDown("Choice", parent=fleet)
        combo.addItems(["one", "two"])
        combo.show()
        menu = QMenu(desk.window)
        menu.addAction("One")
        dialog = Dialog(desk.window, "A question")
        dialog.add_answer("yes", "Yes", "primary")
        if place == "list":
            combo.setFocus()
            combo.showPopup()
        elif place == "menu":
            menu.popup(QPoint(40, 40))
        else:
            dialog.open()
        QTest.keyClick(with_the_keyboard(), Key.Key_X, CTRL | Qt.KeyboardModifier.ShiftModifier)
        await seen(lambda: "stop_all" in console.asked)
        combo.hidePopup()
        menu.close()
        dialog.finish("")


async def test_letters_in_the_menu_of_a_device_do_not_switch_the_view(theme: Theme, tmp_path: Path) -> None:
    async with open_frame(theme, tmp_path, story()) as desk:
        fleet = await screen_at(desk, "fleet", None)
        assert isinstance(fleet, FleetScreen)
        await seen(fleet.listing.current_key)
        fleet.listing.view.setFocus()
        wall = fleet.listing.is_wall
        menu = open_menu(fleet, -1, QPoint(40, 40))
        assert QApplication.activePopupWidget() is menu
        QTest.keyClick(menu, Key.Key_W)
        assert fleet.listing.is_wall == wall
        menu.close()
        QTest.keyClick(fleet.listing.view, Key.Key_W)
        assert fleet.listing.is_wall != wall, "with the menu gone the key is the screen's again"


async def test_what_is_behind_a_dialog_does_not_take_the_keyboard_from_it(
    theme: Theme, tmp_path: Path
) -> None:
    async with open_frame(theme, tmp_path, FakeConsole()) as desk:
        fleet = await screen_at(desk, "fleet", None)
        assert isinstance(fleet, FleetScreen)
        dialog = Dialog(desk.window, "A question")
        dialog.add_answer("yes", "Yes", "primary")
        dialog.open()
        fleet.listing.view.setFocus()
        focus = QApplication.focusWidget()
        assert focus is not None
        assert dialog.isAncestorOf(focus)
        dialog.finish("")


async def test_a_dialog_whose_first_field_is_off_has_the_keyboard_all_the_same(
    theme: Theme, tmp_path: Path
) -> None:
    async with open_frame(theme, tmp_path, FakeConsole()) as desk:
        await screen_at(desk, "fleet", None)
        dialog = Dialog(desk.window, "A question")
        field = QPlainTextEdit()
        field.setEnabled(False)
        dialog.add(field)
        dialog.add_answer("yes", "Yes", "primary")
        dialog.open(field)
        focus = QApplication.focusWidget()
        assert focus is not None
        assert dialog.isAncestorOf(focus)
        dialog.finish("")
