"""An input source that says what a test says, in place of the window system's word."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QAbstractButton

from app.hand import BlindSource, Hand, Stroke


class ToldHand(BlindSource):
    """Every stroke was made by `hand`. What Qt made of no stroke is told apart before it comes here."""

    def __init__(self, hand: Hand = Hand.REAL) -> None:
        self.hand = hand

    def hand_of(self, stroke: Stroke) -> Hand:
        """By whom the test says that it was made."""
        return self.hand


def press_button(button: QAbstractButton) -> None:
    """A click of the pointer; `button.click()` is what a program does."""
    QTest.mouseClick(button, Qt.MouseButton.LeftButton)
