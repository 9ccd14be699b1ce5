"""The focus ring: where it goes, and that it outlives what it was around."""

from __future__ import annotations

from PySide6.QtCore import QCoreApplication, QEvent, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QLineEdit, QScrollArea, QVBoxLayout, QWidget
from pytestqt.qtbot import QtBot

from app.components.buttons import Button
from app.components.focus_frame import FocusFrame
from app.look.theme import Theme


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
