"""A field whose text was typed: for passphrases, and for names that are typed to be sure."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QInputMethodEvent
from PySide6.QtWidgets import QWidget

from app.components.inputs import TextField


class TypedField(TextField):
    """Takes what keys write or paste. Text that a program sets through accessibility is taken out again.

    Signals:
        was_set: a program set the text, and it is empty now.
    """

    was_set = Signal()

    def __init__(
        self, name: str, placeholder: str = "", mono: bool = False, parent: QWidget | None = None
    ) -> None:
        super().__init__(name, placeholder, mono, parent)
        self._composes = self._sets = False
        # "Paste" in a menu, and a drop, change the text without a key.
        self.setContextMenuPolicy(Qt.ContextMenuPolicy.NoContextMenu)
        self.setAcceptDrops(False)
        # Connected first, so that every other slot reads the field after the text was taken out.
        self.textChanged.connect(lambda *_: self._changed())

    def setText(self, text: str | None) -> None:
        """Show a text of this window's own; accessibility goes past this method."""
        self._sets = True
        super().setText(text)
        self._sets = False

    def clear(self) -> None:
        """Take the text out."""
        self.setText("")

    def inputMethodEvent(self, event: QInputMethodEvent) -> None:
        """What an input method composes of keys is typed as well."""
        self._composes = True
        super().inputMethodEvent(event)
        self._composes = False

    def _changed(self) -> None:
        if not (self.strokes or self._composes or self._sets):
            self.clear()
            self.was_set.emit()
