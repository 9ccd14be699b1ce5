"""A control that is switched off while it has the keyboard keeps it.

Qt hands the keyboard of a disabled widget on to its neighbour and never back: whoever pressed "Create key"
and presses again would press the neighbour. So what goes off under the keyboard is off in all but Qt's own
eyes: it takes no press by pointer, key or assistive technology, looks and is described as off, and Tab goes
on from it. Qt is told as soon as the keyboard moves elsewhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QEvent, QObject, Qt
from PySide6.QtGui import QFocusEvent, QKeyEvent

if TYPE_CHECKING:
    from PySide6.QtWidgets import QAbstractButton as Base
else:
    Base = object  # one Qt class a widget; the button stands beside this one in its list of bases

_PRESSES = (Qt.Key.Key_Return, Qt.Key.Key_Enter, Qt.Key.Key_Space, Qt.Key.Key_Select)
_POINTER = (
    QEvent.Type.MouseButtonPress,
    QEvent.Type.MouseButtonRelease,
    QEvent.Type.MouseButtonDblClick,
    QEvent.Type.TouchBegin,
    QEvent.Type.Shortcut,
)


class KeepsKeyboard(Base):
    """For buttons of all kinds: `class Button(KeepsKeyboard, QPushButton)`."""

    _kept = False

    def isEnabled(self) -> bool:
        """False while it is off, also while it still has the keyboard."""
        return super().isEnabled() and not self._kept

    def setEnabled(self, on: bool) -> None:
        """Switch on or off; off, it keeps the keyboard until that goes elsewhere by itself."""
        if on:
            self._end_keeping()
            super().setEnabled(True)
        elif not self._kept:
            if self.isVisible() and self.window().focusWidget() is self and super().isEnabled():
                self._begin_keeping()
            else:
                super().setEnabled(False)

    def take_keyboard_back(self) -> None:
        """Have the keyboard again after what covered it is gone, also while it is off."""
        off = not self.isEnabled()
        if off and not self._kept:
            super().setEnabled(True)
        self.setFocus(Qt.FocusReason.OtherFocusReason)
        if off and not self._kept:
            self.setEnabled(False)

    def click(self) -> None:
        """Press it, unless it is off."""
        if not self._kept:
            super().click()

    def nextCheckState(self) -> None:
        """One that is off stays as it is."""
        if not self._kept:
            super().nextCheckState()

    def _begin_keeping(self) -> None:
        self._kept = True
        self.setDown(False)
        # A press through accessibility comes as no event: nobody must hear of it.
        self.blockSignals(True)
        self.installEventFilter(self)
        self.update()

    def _end_keeping(self) -> None:
        if self._kept:
            self._kept = False
            self.blockSignals(False)
            self.removeEventFilter(self)
            self.setDown(False)
            self.update()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """What would press it has no effect; every other key goes its way."""
        if self._kept and watched is self:
            kind = event.type()
            if kind in _POINTER:
                return True
            if kind in (QEvent.Type.KeyPress, QEvent.Type.KeyRelease):
                return isinstance(event, QKeyEvent) and event.key() in _PRESSES
        return super().eventFilter(watched, event)

    def focusOutEvent(self, event: QFocusEvent) -> None:
        """Now it may be off in Qt's eyes, too. A window that only loses the front still has it."""
        super().focusOutEvent(event)
        if self._kept and self.window().focusWidget() is not self:
            self._end_keeping()
            super().setEnabled(False)
