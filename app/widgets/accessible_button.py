"""What assistive technology is told of buttons, and what its actions do.

A button that works stays enabled in Qt's eyes, so that it keeps the keyboard (`keeps_keyboard`), and Qt's
own interface would go on to call it so. Qt's "Toggle" only changes whether a button is checked: the rail, a
choice or a filter would then show as chosen what is not. Here it presses. In all else these are Qt's own
interfaces.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from PySide6.QtCore import QObject
from PySide6.QtGui import QAccessible, QAccessibleInterface, QAccessibleStateChangeEvent
from PySide6.QtWidgets import QAbstractButton, QAccessibleWidget, QCheckBox

from app.widgets.accessible_interfaces import install_factory

if TYPE_CHECKING:
    from app.widgets.buttons import Button

PRESS, TOGGLE = "Press", "Toggle"
_PROPERTY = "quarterdeck_button_access"


class PressInterface(QAccessibleWidget):
    """A button of this program as assistive technology sees it: each of its own actions is a press."""

    def __init__(self, button: QAbstractButton, role: QAccessible.Role = QAccessible.Role.CheckBox) -> None:
        super().__init__(button, role, "")

    @property
    def _button(self) -> QAbstractButton:
        return cast(QAbstractButton, self.object())

    def state(self) -> QAccessible.State:
        """Qt's own, and what the button says of itself."""
        state, button = super().state(), self._button
        state.checkable, state.checked = button.isCheckable(), button.isChecked()
        state.pressed = button.isDown()
        state.disabled = not button.isEnabled()
        return state

    def text(self, which: QAccessible.Text) -> str:
        """Its name is its label, where it has no other."""
        return super().text(which) or (self._button.text() if which == QAccessible.Text.Name else "")

    def actionNames(self) -> list[str]:
        """It can be pressed, unless it is off or works."""
        own = self._presses() if self._button.isEnabled() else ()
        return [*own, *super().actionNames()]

    def _presses(self) -> tuple[str, ...]:
        return TOGGLE, PRESS

    def doAction(self, name: str) -> None:
        """Press it, or do what any widget can be told to."""
        if name not in (PRESS, TOGGLE):
            super().doAction(name)
        elif self._button.isEnabled():
            self._button.click()


class ButtonInterface(PressInterface):
    """A push button: busy while it works."""

    def __init__(self, button: Button) -> None:
        super().__init__(button, QAccessible.Role.Button)

    def state(self) -> QAccessible.State:
        """As for any, and whether it works."""
        state = super().state()
        state.busy = cast("Button", self.object()).is_working
        return state

    def _presses(self) -> tuple[str, ...]:
        return (TOGGLE if self._button.isCheckable() else PRESS,)


def _interface_of(thing: QObject) -> QAccessibleInterface | None:
    # Buttons say when they work, and this says what a button is: one of the two has to be looked up late.
    from app.widgets.buttons import Button

    if isinstance(thing, Button):
        return ButtonInterface(thing)
    if isinstance(thing, QAbstractButton) and thing.isCheckable() and not isinstance(thing, QCheckBox):
        return PressInterface(thing)
    return None


def show_buttons_as_they_are() -> None:
    """Give assistive technology this view of buttons; once for an application."""
    install_factory(_PROPERTY, _interface_of)


def tell_of_change(button: QObject) -> None:
    """A button is off or works, or no longer."""
    if QAccessible.isActive():
        changed = QAccessible.State()
        changed.disabled = changed.busy = True
        QAccessible.updateAccessibility(QAccessibleStateChangeEvent(button, changed))
