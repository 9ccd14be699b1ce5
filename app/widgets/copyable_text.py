"""One line for a machine, whole, with a button that copies exactly it."""

from __future__ import annotations

from PySide6.QtCore import Qt, QTimer, Signal
from PySide6.QtGui import QGuiApplication, QResizeEvent, QTextOption
from PySide6.QtWidgets import QPlainTextEdit, QWidget

from app.theme.theme import theme_of
from app.widgets.buttons import Button
from app.widgets.labels import Label
from app.widgets.layouts import hbox, vbox
from core.text import left_to_right

COPIED_MS = 2000
_EDGES = 14  # the border, the margin above, and below what the text edit counts before it scrolls


class _WholeText(QPlainTextEdit):
    """As high as its text is at its width; it never scrolls."""

    def __init__(self, least_lines: int) -> None:
        super().__init__()
        self._least_lines = least_lines
        self.setReadOnly(True)
        self.setProperty("code", "true")
        self.setFont(theme_of(self).font("mono_small"))
        self.setTabChangesFocus(True)
        self.setWordWrapMode(QTextOption.WrapMode.WrapAnywhere)
        self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.textChanged.connect(self._fit)
        self._fit()

    def _fit(self) -> None:
        # The layout of plain text counts its height in lines.
        lines = max(self._least_lines, round(self.document().size().height()))
        self.setFixedHeight(self.fontMetrics().lineSpacing() * lines + _EDGES)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Another width makes another number of lines."""
        super().resizeEvent(event)
        self._fit()


class CopyableText(QWidget):
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
        self.box = _WholeText(lines)
        self.box.setAccessibleName(label)
        self.button = Button("Copy", icon="copy")
        self.button.setAccessibleName(f"Copy: {label}")
        self.button.clicked.connect(self._copy)
        self._back = QTimer(self)
        self._back.setSingleShot(True)
        self._back.setInterval(COPIED_MS)
        self._back.timeout.connect(lambda: self.button.set_words("Copy", "copy"))
        row = hbox((self.box, 1), (self.button, 0, Qt.AlignmentFlag.AlignTop), spacing=8)
        column = vbox(Label(label, "name"), row, parent=self, spacing=4)
        if help_text:
            column.addWidget(Label(help_text, "meta", "text3", wrap=True))

    def show_text(self, text: str) -> None:
        """Show a text; empty forgets the one before."""
        self._text = text
        self.box.setPlainText(left_to_right(text))
        self.button.set_off("" if text else "There is nothing to copy.")

    def text(self) -> str:
        """The text, exactly."""
        return self._text

    def _copy(self) -> None:
        QGuiApplication.clipboard().setText(self._text)
        self.button.set_words("Copied", "check")
        self._back.start()
        self.copied.emit()
