"""What is hidden or switched off under the keyboard gets it back; until then the keyboard waits beside it.

Qt hands the keyboard of such a widget on to whatever comes next in the window, which may be a field or an
answer at its other end, and never back. Buttons that are switched off keep it: `keeps_keyboard`.
"""

from __future__ import annotations

import shiboken6
from PySide6.QtCore import QEvent, QObject, Qt
from PySide6.QtWidgets import QWidget

_BACK = (QEvent.Type.Show, QEvent.Type.EnabledChange)


class KeyboardKeeper(QObject):
    """Where the keyboard of one window waits; the window asks from its `focusNextPrevChild`.

    It waits in the innermost part of the window that is left of where it was: the keys of the screen work
    there, Tab goes on from there, and no ring is drawn. Whoever moves it meanwhile has moved it.
    """

    def __init__(self, window: QWidget) -> None:
        super().__init__(window)
        self._window = window
        self._left: QWidget | None = None
        self._place: QWidget | None = None

    def hold(self) -> bool:
        """Keep the keyboard here when what has it was hidden or switched off; False when it was not."""
        left = self._window.focusWidget()
        if left is None or left is self._window or (left.isVisible() and left.isEnabled()):
            return False
        place = left.parentWidget()
        while place is not None and not (place.isVisible() and place.isEnabled()):
            place = place.parentWidget()
        # Without a part of it left, as after a question, the window says where the keyboard goes.
        if place is None or place is self._window or place.window() is not self._window:
            return False
        self._forget()
        self._left, self._place = left, place
        left.installEventFilter(self)
        place.setFocus(Qt.FocusReason.OtherFocusReason)
        return True

    def _forget(self) -> None:
        if self._left is not None and shiboken6.isValid(self._left):
            self._left.removeEventFilter(self)
        self._left = self._place = None

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Give the keyboard back to what is shown again, unless somebody moved it on."""
        left, place = self._left, self._place
        if event.type() in _BACK and watched is left and left is not None and place is not None:
            if not shiboken6.isValid(place) or self._window.focusWidget() is not place:
                self._forget()
            elif left.isVisible() and left.isEnabled():
                self._forget()
                left.setFocus(Qt.FocusReason.OtherFocusReason)
        return super().eventFilter(watched, event)
