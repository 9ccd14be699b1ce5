"""Buttons and menus of an `Action`: they say what it is called and why it is off, as it is now.

They trigger it. Qt knows them as the action's own (`QWidget.actions`, `QAction.associatedObjects`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import QAbstractButton, QMenu, QWidget

from app.widgets.action import Action, chord_words
from app.widgets.buttons import Button, IconButton, Kind
from app.widgets.labels import Link, escaped_tooltip

if TYPE_CHECKING:
    from PySide6.QtWidgets import QAbstractButton as Base
else:
    Base = object  # one Qt class a widget; the button stands beside this one in its list of bases


class ShowsActionMixin(Base):
    """For buttons: `class ActionButton(ShowsActionMixin, Button)`; they call `show_of` when they are made."""

    action: Action

    def show_of(self, action: Action) -> None:
        """Follow an action; what it says of itself now is asked for when the button is shown."""
        self.action = action
        self.addAction(action)
        self.setCheckable(action.isCheckable())
        self.clicked.connect(self._trigger)
        action.changed.connect(self.show_action)

    def show_action(self) -> None:
        """Show how the action stands."""
        if self.action.isCheckable():
            self.setChecked(self.action.isChecked())

    def _trigger(self) -> None:
        self.action.trigger()
        # Qt has switched the button already, and the action may have stayed as it was.
        self.show_action()

    def showEvent(self, event: QShowEvent) -> None:
        """What has changed meanwhile."""
        self.show_action()
        super().showEvent(event)


class ActionButton(ShowsActionMixin, Button):
    """A push button of an action."""

    def __init__(
        self,
        action: Action,
        kind: Kind = "normal",
        words: str | None = None,
        icon: str | None = None,
        with_key: bool = False,
        menu_mark: bool = False,
        large: bool = False,
    ) -> None:
        """`words` and `icon` are for a button that has its own; `set_words` changes them."""
        key = chord_words(action.keys) if with_key else ""
        icon = action.concept if icon is None else icon
        self._follows_label = words is None
        super().__init__(action.label if words is None else words, kind, icon, key, menu_mark, large)
        self.set_tip(action.tip)
        self.show_of(action)

    def show_action(self) -> None:
        """Show how the action stands."""
        super().show_action()
        action = self.action
        if self._follows_label and self.text() != action.label:
            self.set_words(action.label)
        self.set_off(action.reason)


class ActionIconButton(ShowsActionMixin, IconButton):
    """A button without a word; its name is the action's label, with its key."""

    def __init__(self, action: Action, key: str = "") -> None:
        """`key` is for a key that is the screen's own, and not the action's."""
        super().__init__(action.concept, action.label, key=key or chord_words(action.keys))
        self.show_of(action)

    def show_action(self) -> None:
        """Show how the action stands."""
        super().show_action()
        self.set_name(self.action.label)
        self.set_off(self.action.reason)


class ActionLink(ShowsActionMixin, Link):
    """A link of an action."""

    def __init__(self, action: Action, words: str | None = None, role: str = "name") -> None:
        """`words` are for a link that has its own."""
        super().__init__(action.label if words is None else words, role)
        self.show_of(action)

    def show_action(self) -> None:
        """Show how the action stands."""
        super().show_action()
        self.set_off(self.action.reason, self.action.tip)


def trigger_by(button: QAbstractButton, action: Action) -> None:
    """Have a button that paints itself do an action; what it shows is its own affair."""
    button.addAction(action)
    button.clicked.connect(action.trigger)


class ActionMenu(QMenu):
    """A menu of actions: those that are off are grey while it is open, and say why."""

    def __init__(self, name: str, parent: QWidget) -> None:
        super().__init__(parent)
        self.setAccessibleName(name)
        self.setToolTipsVisible(True)
        self.aboutToShow.connect(self._show_reasons)
        self.aboutToHide.connect(self._forget_reasons)

    def _acts(self) -> Iterator[Action]:
        return (action for action in self.actions() if isinstance(action, Action))

    def _show_reasons(self) -> None:
        for action in self._acts():
            reason = action.reason
            action.setEnabled(not reason)
            action.setToolTip(escaped_tooltip(reason or action.tip))

    def _forget_reasons(self) -> None:
        # Its key asks for the reason when it is pressed; one that was off a while ago may be on by then.
        for action in self._acts():
            action.show_enabled()
