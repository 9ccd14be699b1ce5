"""Where the keyboard is: the ring around it, and what is switched off or hidden while it has it."""

from __future__ import annotations

from PySide6.QtCore import QCoreApplication, QEvent, Qt
from PySide6.QtGui import QAccessible
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QLineEdit, QScrollArea, QVBoxLayout, QWidget
from pytestqt.qtbot import QtBot

from app.theme.theme import Theme
from app.widgets.buttons import Button, IconButton
from app.widgets.focus import FocusFrame, FocusRestorer
from app.widgets.labels import Link


def test_the_ring_follows_the_keyboard_but_not_the_pointer(theme: Theme, qtbot: QtBot) -> None:
    window = QWidget()
    qtbot.addWidget(window)
    column = QVBoxLayout(window)
    field, button, other = QLineEdit(), Button("One"), Button("Two")
    for widget in (field, button, other):
        column.addWidget(widget)
    frame = FocusFrame(window)
    window.show()
    window.activateWindow()
    qtbot.waitUntil(window.isActiveWindow)
    assert frame.ring_rect().isEmpty() or frame.widget() is field
    button.setFocus(Qt.FocusReason.TabFocusReason)
    assert frame.widget() is button
    assert frame.ring_rect() == button.geometry().adjusted(-4, -4, 4, 4)
    field.setFocus(Qt.FocusReason.MouseFocusReason)
    assert frame.widget() is field
    button.setFocus(Qt.FocusReason.TabFocusReason)
    QTest.mousePress(button, Qt.MouseButton.LeftButton)
    assert frame.ring_rect().isEmpty()
    QTest.mouseRelease(button, Qt.MouseButton.LeftButton)


def test_the_ring_stays_when_the_theme_changes(theme: Theme, qtbot: QtBot) -> None:
    window = QWidget()
    qtbot.addWidget(window)
    column = QVBoxLayout(window)
    button, other = Button("Approve once"), Button("Deny…")
    column.addWidget(button)
    column.addWidget(other)
    frame = FocusFrame(window)
    theme.dress(window)
    window.show()
    window.activateWindow()
    qtbot.waitUntil(window.isActiveWindow)
    button.setFocus(Qt.FocusReason.TabFocusReason)
    theme.set_mode("light")
    assert frame.ring_rect() == button.geometry().adjusted(-4, -4, 4, 4)
    theme.set_density("compact")
    qtbot.waitUntil(lambda: frame.ring_rect() == button.geometry().adjusted(-4, -4, 4, 4))
    QTest.mouseClick(other, Qt.MouseButton.LeftButton)
    theme.set_mode("dark")
    assert frame.ring_rect().isEmpty()


def test_the_ring_outlives_a_list_that_was_deleted_with_the_focus_in_it(theme: Theme, qtbot: QtBot) -> None:
    window, scroller, inside = QWidget(), QScrollArea(), QLineEdit()
    qtbot.addWidget(window)
    column = QVBoxLayout(window)
    button = Button("Stays")
    column.addWidget(scroller)
    column.addWidget(button)
    scroller.setWidget(inside)
    frame = FocusFrame(window)
    window.show()
    window.activateWindow()
    qtbot.waitUntil(window.isActiveWindow)
    inside.setFocus(Qt.FocusReason.TabFocusReason)
    assert frame.widget() is inside
    scroller.deleteLater()
    QCoreApplication.sendPostedEvents(scroller, QEvent.Type.DeferredDelete)
    button.setFocus(Qt.FocusReason.TabFocusReason)
    assert frame.widget() is button
    assert frame.ring_rect() == button.geometry().adjusted(-4, -4, 4, 4)


class _Form(QWidget):
    """A field and two buttons, the keyboard on the first of these; what was pressed is listed."""

    def __init__(self, qtbot: QtBot) -> None:
        super().__init__()
        qtbot.addWidget(self)
        column = QVBoxLayout(self)
        self.works, self.other = Button("Create key"), Button("Without a passphrase")
        for widget in (QLineEdit(), self.works, self.other):
            column.addWidget(widget)
        self.pressed: list[str] = []
        for button in (self.works, self.other):
            button.clicked.connect(lambda *_, words=button.text(): self.pressed.append(words))
        self.show()
        self.activateWindow()
        qtbot.waitUntil(self.isActiveWindow)
        self.works.setFocus(Qt.FocusReason.TabFocusReason)


def _press_in_every_way(button: Button) -> None:
    for key in (Qt.Key.Key_Return, Qt.Key.Key_Enter, Qt.Key.Key_Space):
        QTest.keyClick(focused(), key)
    QTest.mouseClick(button, Qt.MouseButton.LeftButton)
    button.click()
    _press_as_assistive_technology(button)


def _press_as_assistive_technology(button: Button) -> None:
    QAccessible.queryAccessibleInterface(button).actionInterface().doAction("Press")


def focused() -> QWidget:
    """What has the keyboard."""
    widget = QApplication.focusWidget()
    assert widget is not None
    return widget


def test_a_button_that_works_keeps_the_keyboard_and_takes_no_second_press(theme: Theme, qtbot: QtBot) -> None:
    form = _Form(qtbot)
    works, pressed = form.works, form.pressed
    works.set_working("The key is being made.")
    assert focused() is works
    assert not works.isEnabled()
    _press_in_every_way(works)
    qtbot.waitUntil(lambda: not works.isDown())
    assert pressed == []
    assert works.accessibleDescription() == "The key is being made."
    works.set_working("")
    assert works.isEnabled()
    assert works.accessibleDescription() == ""
    QTest.keyClick(focused(), Qt.Key.Key_Return)
    assert pressed == ["Create key"]
    with qtbot.waitSignal(works.clicked):
        _press_as_assistive_technology(works)


def test_a_press_begun_while_a_button_works_is_none_when_the_work_ends(theme: Theme, qtbot: QtBot) -> None:
    form = _Form(qtbot)
    works, pressed = form.works, form.pressed
    works.set_working("The key is being made.")
    QTest.mousePress(works, Qt.MouseButton.LeftButton)
    QTest.keyPress(works, Qt.Key.Key_Space)
    works.set_working("")
    QTest.keyRelease(works, Qt.Key.Key_Space)
    QTest.mouseRelease(works, Qt.MouseButton.LeftButton)
    assert pressed == []


def test_tab_goes_on_from_a_button_that_works_and_the_end_of_the_work_calls_nobody_back(
    theme: Theme, qtbot: QtBot
) -> None:
    form = _Form(qtbot)
    works, other, pressed = form.works, form.other, form.pressed
    works.set_working("The key is being made.")
    QTest.keyClick(focused(), Qt.Key.Key_Tab)
    assert focused() is other
    QTest.mouseClick(works, Qt.MouseButton.LeftButton)
    assert focused() is other
    assert pressed == []
    works.set_working("")
    assert focused() is other
    assert works.isEnabled()
    QTest.keyClick(focused(), Qt.Key.Key_Backtab)
    assert focused() is works


def test_a_button_is_off_for_its_own_reason_once_its_work_has_ended(theme: Theme, qtbot: QtBot) -> None:
    form = _Form(qtbot)
    works, pressed = form.works, form.pressed
    works.set_working("The key is being made.")
    works.set_off("")
    assert not works.isEnabled(), "what else is shown meanwhile does not end the work"
    works.set_off("Type a name first.")
    works.set_working("")
    assert not works.isEnabled()
    assert works.toolTip() == "Type a name first."
    QTest.keyClick(focused(), Qt.Key.Key_Space)
    assert focused() is works
    assert pressed == []


def test_a_window_that_only_loses_the_front_leaves_the_keyboard_where_it_was(
    theme: Theme, qtbot: QtBot
) -> None:
    form = _Form(qtbot)
    works = form.works
    front = QWidget()
    qtbot.addWidget(front)
    front.show()
    works.set_working("The key is being made.")
    front.activateWindow()
    qtbot.waitUntil(front.isActiveWindow)
    assert form.focusWidget() is works
    works.set_working("")
    form.activateWindow()
    qtbot.waitUntil(form.isActiveWindow)
    assert focused() is works


def test_the_last_step_of_an_arrow_leaves_the_keyboard_on_it(theme: Theme, qtbot: QtBot) -> None:
    window = QWidget()
    qtbot.addWidget(window)
    column = QVBoxLayout(window)
    field, arrow, link = QLineEdit(), IconButton("next", "Next"), Link("All of them")
    for widget in (arrow, link, field):
        column.addWidget(widget)
    arrow.clicked.connect(lambda: arrow.setEnabled(False))
    link.clicked.connect(lambda: link.setEnabled(False))
    window.show()
    window.activateWindow()
    qtbot.waitUntil(window.isActiveWindow)
    for control in (arrow, link):
        control.setFocus(Qt.FocusReason.TabFocusReason)
        QTest.keyClick(control, Qt.Key.Key_Space)
        assert focused() is control
        assert not control.isEnabled()


class _Kept(QWidget):
    """A window that keeps its keyboard: a field to search in, and a part with a field and a button."""

    def __init__(self, qtbot: QtBot) -> None:
        super().__init__()
        qtbot.addWidget(self)
        self.keeper, self.frame = FocusRestorer(self), FocusFrame(self)
        self.search, self.part, self.field, self.below = QLineEdit(), QWidget(), QLineEdit(), QLineEdit()
        self.holder = QWidget()
        inside, around, column = QVBoxLayout(self.part), QVBoxLayout(self.holder), QVBoxLayout(self)
        inside.addWidget(self.field)
        around.addWidget(self.part)
        around.addWidget(self.below)
        column.addWidget(self.search)
        column.addWidget(self.holder)
        self.show()
        self.activateWindow()
        qtbot.waitUntil(self.isActiveWindow)
        self.field.setFocus(Qt.FocusReason.TabFocusReason)

    def focusNextPrevChild(self, forward: bool) -> bool:
        return self.keeper.hold() or super().focusNextPrevChild(forward)


def test_what_is_hidden_under_the_keyboard_gets_it_back_when_it_is_shown_again(
    theme: Theme, qtbot: QtBot
) -> None:
    window = _Kept(qtbot)
    window.part.hide()
    assert focused() is window.holder, "it waits beside it, and in no other field"
    assert window.frame.ring_rect().isEmpty()
    window.part.show()
    assert focused() is window.field
    assert window.frame.widget() is window.field


def test_a_field_that_is_switched_off_under_the_keyboard_gets_it_back_when_it_is_on(
    theme: Theme, qtbot: QtBot
) -> None:
    window = _Kept(qtbot)
    window.field.setEnabled(False)
    assert focused() is window.part
    window.field.setEnabled(True)
    assert focused() is window.field


def test_who_moved_the_keyboard_meanwhile_keeps_it(theme: Theme, qtbot: QtBot) -> None:
    window = _Kept(qtbot)
    window.part.hide()
    QTest.keyClick(focused(), Qt.Key.Key_Tab)
    assert focused() is window.below, "Tab goes on from where it was"
    window.part.show()
    assert focused() is window.below
    window.field.setFocus(Qt.FocusReason.TabFocusReason)
    QTest.keyClick(focused(), Qt.Key.Key_Tab)
    assert focused() is window.below, "and Tab is Tab"
