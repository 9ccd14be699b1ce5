"""An input source that answers as a test wants, in place of the window system."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QAbstractButton

from app.input_origin import BlindSource, InputOrigin, Stroke


class ScriptedHand(BlindSource):
    """Every stroke is made by `hand`; a press without strokes never comes here."""

    def __init__(self, hand: InputOrigin = InputOrigin.REAL) -> None:
        self.hand = hand

    def hand_of(self, stroke: Stroke) -> InputOrigin:
        """As the test has it."""
        return self.hand


def press_button(button: QAbstractButton) -> None:
    """A click of the pointer; `button.click()` is what a program does."""
    QTest.mouseClick(button, Qt.MouseButton.LeftButton)
