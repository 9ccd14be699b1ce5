"""Keys that text fields and lists of choices would swallow, or that would slip through them to the screen."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QObject, Qt
from PySide6.QtGui import QKeyEvent, QKeySequence, QUndoStack
from PySide6.QtWidgets import QApplication, QComboBox, QLineEdit, QWidget

from app.forms.field_widgets import GrowingText


class ShortcutFilter(QObject):
    """Undo in a field undoes in the batch, where every change of the field is; letters search in lists."""

    def __init__(self, screen: QWidget, stack: QUndoStack) -> None:
        super().__init__(screen)
        self._screen, self._stack = screen, stack
        self._watched: QWidget | None = None
        app = QApplication.instance()
        if isinstance(app, QApplication):
            app.focusChanged.connect(self._follow)

    def _follow(self, _old: QWidget | None, now: QWidget | None) -> None:
        if now is None or not self._screen.isAncestorOf(now):
            return
        now.removeEventFilter(self)
        now.installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Leave undo and redo to the screen; keep letters in a list of choices."""
        if event.type() != QEvent.Type.ShortcutOverride or not isinstance(event, QKeyEvent):
            return False
        undo = event.matches(QKeySequence.StandardKey.Undo) or event.matches(QKeySequence.StandardKey.Redo)
        if undo and isinstance(watched, QLineEdit | GrowingText):
            event.ignore()
            return True
        plain = event.modifiers() in (Qt.KeyboardModifier.NoModifier, Qt.KeyboardModifier.ShiftModifier)
        if isinstance(watched, QComboBox) and plain and event.text().isprintable() and event.text():
            event.accept()
            return True
        return False
