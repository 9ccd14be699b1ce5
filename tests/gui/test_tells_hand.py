"""By whom a control says that it is pressed: the events of that very press, and nothing left over."""

from __future__ import annotations

import ctypes

import pytest
from PySide6.QtCore import QCoreApplication, Qt
from PySide6.QtGui import QKeySequence, QShortcutEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QVBoxLayout, QWidget
from pytestqt.qtbot import QtBot

from app.input_origin import (
    BlindSource,
    DeafSource,
    InputOrigin,
    Stake,
    Stroke,
    StrokeKind,
    hand_behind,
    source_of,
)
from app.theme.theme import Theme
from app.widgets.buttons import Button
from app.widgets.fields import TextField
from app.widgets.input_origin import InputOriginShortcut
from app.widgets.labels import Link
from app.widgets.primary_key import PrimaryKey
from app.x11_input import SentInputFilter, X11Source
from core.models.tools import Risk
from tests.fakes.hand import press_button


class ByKind(BlindSource):
    """Tells of each kind of event what the test says, of the rest that a hand made it."""

    def __init__(self) -> None:
        self.told: dict[StrokeKind, InputOrigin] = {}

    def hand_of(self, stroke: Stroke) -> InputOrigin:
        return self.told.get(stroke.kind, InputOrigin.REAL)


class Pane(QWidget):
    """A button, a link and a field, and what their presses said."""

    def __init__(self, qtbot: QtBot) -> None:
        super().__init__()
        self.input_source = ByKind()
        self.button, self.link, self.field = Button("Save"), Link("Without"), TextField("Name")
        self.hands: list[InputOrigin] = []
        column = QVBoxLayout(self)
        for control in (self.button, self.link, self.field):
            column.addWidget(control)
        self.button.clicked.connect(lambda *_: self.hands.append(self.button.hand))
        self.link.clicked.connect(lambda *_: self.hands.append(self.link.hand))
        qtbot.addWidget(self)
        self.show()
        qtbot.waitExposed(self)


@pytest.fixture
def pane(theme: Theme, qtbot: QtBot) -> Pane:
    return Pane(qtbot)


def test_a_click_is_as_good_as_the_worse_of_its_press_and_its_release(pane: Pane) -> None:
    for down, up, hand in (
        (InputOrigin.REAL, InputOrigin.REAL, InputOrigin.REAL),
        (InputOrigin.SYNTHETIC, InputOrigin.REAL, InputOrigin.SYNTHETIC),
        (InputOrigin.REAL, InputOrigin.SYNTHETIC, InputOrigin.SYNTHETIC),
        (InputOrigin.UNKNOWN, InputOrigin.REAL, InputOrigin.UNKNOWN),
    ):
        pane.input_source.told = {"button down": down, "button up": up, "key down": down, "key up": up}
        for control in (pane.button, pane.link):
            press_button(control)
            control.setFocus()
            QTest.keyClick(control, Qt.Key.Key_Space)
        assert pane.hands == [hand] * 4
        pane.hands.clear()


def enter_presses(pane: Pane) -> None:
    """Make the button the primary one of its pane, with the keyboard in the field."""
    PrimaryKey(pane, lambda: pane.button)
    pane.field.setFocus()


def test_enter_presses_with_its_own_press(pane: Pane) -> None:
    enter_presses(pane)
    pane.input_source.told = {"key down": InputOrigin.SYNTHETIC}
    for control in (pane.button, pane.link, pane.field):
        QTest.keyClick(control, Qt.Key.Key_Return)
    assert pane.hands == [InputOrigin.SYNTHETIC] * 3


def test_what_no_input_presses_has_no_hand_whatever_came_before(pane: Pane) -> None:
    press_button(pane.button)
    pane.button.click()
    enter_presses(pane)
    QTest.keyClick(pane.field, Qt.Key.Key_Return)
    pane.button.click()
    # A press that never ends is no part of what code does meanwhile.
    QTest.mousePress(pane.button, Qt.MouseButton.LeftButton)
    pane.button.click()
    hands = list(pane.hands)
    # Qt would take the pointer's button for pressed in all tests that follow.
    QTest.mouseRelease(pane.button, Qt.MouseButton.LeftButton)
    assert hands == [
        InputOrigin.REAL,
        InputOrigin.NONE,
        InputOrigin.REAL,
        InputOrigin.NONE,
        InputOrigin.NONE,
    ]
    assert pane.button.hand is InputOrigin.NONE


def test_a_shortcut_tells_of_its_own_key_alone(pane: Pane, qtbot: QtBot) -> None:
    hands: list[InputOrigin] = []
    chord = InputOriginShortcut("Ctrl+Return", pane)
    chord.pressed_by.connect(hands.append)
    pane.activateWindow()
    qtbot.waitUntil(pane.isActiveWindow)
    pane.field.setFocus()
    pane.input_source.told = {"key down": InputOrigin.SYNTHETIC}
    QTest.keyClick(pane.field, Qt.Key.Key_Return, Qt.KeyboardModifier.ControlModifier)
    assert hands == [InputOrigin.SYNTHETIC]
    # Another key was pressed, and the shortcut is set off by no key at all.
    pane.input_source.told = {}
    QTest.keyClick(pane.field, Qt.Key.Key_F2)
    QCoreApplication.processEvents()
    QCoreApplication.sendEvent(chord, QShortcutEvent(QKeySequence("Ctrl+Return"), chord, False))
    assert hands == [InputOrigin.SYNTHETIC, InputOrigin.NONE]


def test_a_widget_has_the_source_of_its_window(pane: Pane) -> None:
    assert source_of(pane.field) is pane.input_source
    alone = QWidget()
    assert type(source_of(alone)) is BlindSource
    assert hand_behind(alone, ()) is InputOrigin.NONE
    alone.deleteLater()


def test_before_anything_is_known_of_a_server_that_would_tell_no_input_counts_as_a_hand(
    theme: Theme,
) -> None:
    stroke = Stroke("button down", 1, 0, control=False)
    assert X11Source().hand_of(stroke) is InputOrigin.SYNTHETIC
    assert DeafSource().hand_of(stroke) is InputOrigin.SYNTHETIC


@pytest.mark.parametrize(
    ("kind", "code", "dropped"),
    [
        (b"xcb_generic_event_t", 0x80 | 2, True),
        (b"xcb_generic_event_t", 0x80 | 5, True),
        (b"xcb_generic_event_t", 2, False),
        (b"xcb_generic_event_t", 5, False),
        (b"xcb_generic_event_t", 0x80 | 28, False),
        (b"xcb_generic_event_t", 0x80 | 33, False),
        (b"windows_generic_MSG", 0x80 | 2, False),
    ],
)
def test_keys_and_clicks_that_were_sent_are_dropped(kind: bytes, code: int, dropped: bool) -> None:
    event = (ctypes.c_uint8 * 32)(code)
    assert SentInputFilter().nativeEventFilter(kind, ctypes.addressof(event)) == (dropped, 0)


def test_what_hangs_on_a_press_is_the_greatest_risk() -> None:
    assert Stake.of_risk(Risk.LOW) is Stake.LOW
    assert Stake.of_risk(Risk.LOW, Risk.MEDIUM) is Stake.MEDIUM
    assert Stake.of_risk(Risk.HIGH, Risk.LOW) is Stake.HIGH
    assert Stake.of_risk(Risk.CRITICAL) is Stake.HIGH
    assert Stake.of_risk() is Stake.HIGH
