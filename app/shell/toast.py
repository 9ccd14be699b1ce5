"""A word at the bottom right for what is done and needs no decision; gone after four seconds."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QObject, Qt, QTimer
from PySide6.QtWidgets import QHBoxLayout, QWidget

from app.components.label import Label
from app.look.tokens import FRAME
from app.shell.sheet import SheetCard

SHOWN_MS = 4000
WIDTH = 320
MARGIN = 12


class Toast(SheetCard):
    """One line; a newer one replaces it. Errors are never toasts."""

    def __init__(self, window: QWidget) -> None:
        super().__init__(window)
        self.setFixedWidth(WIDTH)
        self._window = window
        self._words = Label("", wrap=True)
        row = QHBoxLayout(self)
        row.setContentsMargins(14, 10, 14, 10)
        row.addWidget(self._words)
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.setInterval(SHOWN_MS)
        self._timer.timeout.connect(self.hide)
        window.installEventFilter(self)
        self.hide()

    def say(self, text: str) -> None:
        """Show `text` for four seconds."""
        self._words.setText(text)
        self.setAccessibleName(text)
        self.adjustSize()
        self._place()
        self.show()
        self.raise_()
        self._timer.start()

    def _place(self) -> None:
        bottom = self._window.height() - FRAME.status_bar - MARGIN
        self.move(self._window.width() - WIDTH - MARGIN, bottom - self.height())

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Keep the corner when the window changes its size."""
        if event.type() == QEvent.Type.Resize and self.isVisible():
            self._place()
        return super().eventFilter(watched, event)
