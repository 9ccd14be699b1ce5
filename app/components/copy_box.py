"""One line for a machine, whole, with a button that copies exactly it."""

from __future__ import annotations

from PySide6.QtCore import QTimer, Signal
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QHBoxLayout, QPlainTextEdit, QVBoxLayout, QWidget

from app.components.buttons import Button
from app.components.label import Label
from app.look.theme import theme_of

COPIED_MS = 2000


class CopyBox(QWidget):
    """A label, the text in monospace, Copy. The text wraps anywhere; it is never cut.

    Signals:
        copied: the text is on the clipboard.
    """

    copied = Signal()

    def __init__(
        self, label: str, help_text: str = "", lines: int = 1, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self._label = label
        self._text = ""
        self.box = QPlainTextEdit()
        self.box.setReadOnly(True)
        self.box.setAccessibleName(label)
        self.box.setFont(theme_of(self).font("mono_small"))
        self.box.setTabChangesFocus(True)
        self.box.setWordWrapMode(self.box.wordWrapMode().WrapAnywhere)
        self.box.setFixedHeight(self.box.fontMetrics().lineSpacing() * lines + 16)
        self.button = Button("Copy", icon="copy")
        self.button.setAccessibleName(f"Copy: {label}")
        self.button.clicked.connect(self._copy)
        self._back = QTimer(self)
        self._back.setSingleShot(True)
        self._back.setInterval(COPIED_MS)
        self._back.timeout.connect(lambda: self.button.set_words("Copy", "copy"))
        row = QHBoxLayout()
        row.setSpacing(8)
        row.addWidget(self.box, 1)
        row.addWidget(self.button, 0)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(4)
        column.addWidget(Label(label, "name"))
        column.addLayout(row)
        if help_text:
            column.addWidget(Label(help_text, "meta", "text3", wrap=True))

    def show_text(self, text: str) -> None:
        """Show a text; empty forgets the one before."""
        self._text = text
        self.box.setPlainText(text)
        self.button.set_off("" if text else "There is nothing to copy.")

    def text(self) -> str:
        """The text, exactly."""
        return self._text

    def _copy(self) -> None:
        QGuiApplication.clipboard().setText(self._text)
        self.button.set_words("Copied", "check")
        self._back.start()
        self.copied.emit()
