"""Ctrl+Y as a second key for Redo; on Linux Qt knows only Ctrl+Shift+Z."""

from __future__ import annotations

from PySide6.QtCore import QEvent, Qt
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QPlainTextEdit

REDO_TOO = "Ctrl+Y"


class RedoKey(QPlainTextEdit):
    """A text with an undo history of its own: Ctrl+Y redoes here, and reaches no shortcut of the screen."""

    def event(self, event: QEvent) -> bool:
        """Take Ctrl+Y before shortcuts do, as Qt takes Ctrl+Shift+Z."""
        kind = event.type()
        if (
            kind in (QEvent.Type.ShortcutOverride, QEvent.Type.KeyPress)
            and isinstance(event, QKeyEvent)
            and event.key() == Qt.Key.Key_Y
            and event.modifiers() == Qt.KeyboardModifier.ControlModifier
            and not self.isReadOnly()
        ):
            event.accept()
            if kind == QEvent.Type.KeyPress:
                self.redo()
            return True
        return super().event(event)
