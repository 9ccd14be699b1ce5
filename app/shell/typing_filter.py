"""Keys belong to where one types: a letter in an open list, a menu or a field is not a key of the screen.

Qt asks what has the keyboard, right before it looks a key up among the shortcuts, whether it wants it itself
(`ShortcutOverride`). Text inputs say so for letters. A closed list of choices, its open list, a completer and
a menu do not: `t` would take a picture while a tool is looked for. Here they do.

An open list has the keyboard as any widget has. A menu gets keys without having it; that one opens is told to
what has the keyboard, which loses it "to a pop-up".
"""

from __future__ import annotations

from PySide6.QtCore import QEvent, QObject, Qt
from PySide6.QtGui import QFocusEvent, QKeyEvent, QKeySequence
from PySide6.QtWidgets import (
    QAbstractItemView,
    QAbstractSpinBox,
    QApplication,
    QComboBox,
    QLineEdit,
    QMenu,
    QPlainTextEdit,
    QTextEdit,
    QWidget,
)
from shiboken6 import isValid

from app.forms.field_widgets import GrowingText
from app.screens.screen import Screen

_UNDO, _REDO = QKeySequence.StandardKey.Undo, QKeySequence.StandardKey.Redo
# Shift, the number pad and AltGr make letters; Windows reports AltGr as Ctrl+Alt.
_WITH_LETTERS = (
    Qt.KeyboardModifier.ShiftModifier
    | Qt.KeyboardModifier.KeypadModifier
    | Qt.KeyboardModifier.GroupSwitchModifier
)
# An open list is worked by these, which Qt does as early as here; they are keys of no screen.
_OF_LISTS = (Qt.Key.Key_Return, Qt.Key.Key_Enter, Qt.Key.Key_Select, Qt.Key.Key_Escape, Qt.Key.Key_F4)
_ALT_GR = Qt.KeyboardModifier.ControlModifier | Qt.KeyboardModifier.AltModifier


class TypingFilter(QObject):
    """Follows the keyboard through one window and its pop-ups."""

    def __init__(self, window: QWidget) -> None:
        super().__init__(window)
        self._window = window
        self._watched: QWidget | None = None
        app = QApplication.instance()
        if isinstance(app, QApplication):
            app.focusChanged.connect(self._follow)

    def _follow(self, _before: QWidget | None, now: QWidget | None) -> None:
        if self._watched is not None and isValid(self._watched):
            self._watched.removeEventFilter(self)
        self._watched = now
        if now is not None:
            now.installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Keep keys where one types; leave undo in a field to a screen that has it."""
        if isinstance(event, QFocusEvent):
            if event.type() == QEvent.Type.FocusOut and event.reason() == Qt.FocusReason.PopupFocusReason:
                self._watch_menu()
            return False
        if event.type() != QEvent.Type.ShortcutOverride or not isinstance(event, QKeyEvent):
            return False
        if QApplication.activePopupWidget() is not None:
            of_list = event.key() in _OF_LISTS and not event.modifiers() & ~_WITH_LETTERS
            if of_list or self._holds_everywhere(event):
                return False
            event.accept()
            return True
        if isinstance(watched, QLineEdit | GrowingText) and _is_undo(event) and _screen_undoes(watched):
            event.ignore()
            return True
        if isinstance(watched, QWidget) and takes_letters(watched) and _is_letter(event):
            event.accept()
            return True
        return False

    def _holds_everywhere(self, event: QKeyEvent) -> bool:
        """Whether it is Stop all, which no open list may keep from acting."""
        everywhere = Qt.ShortcutContext.ApplicationShortcut
        keys = QKeySequence(event.keyCombination())
        return any(
            action.shortcut() == keys
            for action in self._window.actions()
            if action.shortcutContext() == everywhere
        )

    def _watch_menu(self) -> None:
        menu = QApplication.activePopupWidget()
        if isinstance(menu, QMenu):
            for one in (menu, *menu.findChildren(QMenu)):
                one.removeEventFilter(self)
                one.installEventFilter(self)


def takes_letters(widget: QWidget) -> bool:
    """Whether letters are typed into a widget, or looked for in it."""
    match widget:
        case QLineEdit() | QPlainTextEdit() | QTextEdit() | QAbstractSpinBox():
            return not widget.isReadOnly()
        case QComboBox():
            return True
        case QAbstractItemView():
            return bool(widget.editTriggers() & QAbstractItemView.EditTrigger.AnyKeyPressed)
    return False


def _is_letter(event: QKeyEvent) -> bool:
    held = event.modifiers() & ~_WITH_LETTERS
    return event.text().isprintable() and bool(event.text()) and (not held.value or held == _ALT_GR)


def _is_undo(event: QKeyEvent) -> bool:
    return event.matches(_UNDO) or event.matches(_REDO)


def _screen_undoes(widget: QWidget) -> bool:
    place: QWidget | None = widget
    while place is not None and not isinstance(place, Screen):
        place = place.parentWidget()
    return place is not None and place.undoes_in_fields
