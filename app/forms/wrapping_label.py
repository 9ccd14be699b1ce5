"""Wrapped words in a form of many rows."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from app.theme.tokens import TYPE
from app.widgets.labels import Label


class WrappingLabel(Label):
    """Words that wrap, and are as high as they are at their own width.

    Qt's way, a height that depends on the width, has every layout above ask for it again, for each label at
    several widths, whenever anything in the form becomes higher: 40 ms where there are a hundred fields.
    """

    def __init__(
        self, text: str, role: str, tone: str, selectable: bool = False, parent: QWidget | None = None
    ):
        self._line = TYPE[role].line
        super().__init__(text, role, tone, wrap=True, selectable=selectable, parent=parent)
        # A few letters wide, if need be: the words say nothing about how wide a form is.
        self.setMinimumWidth(40)
        self.setAlignment(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignTop)
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)

    def hasHeightForWidth(self) -> bool:
        """No: Qt gives a label that wraps its own way back whenever text or font are others."""
        return False

    def setText(self, text: str) -> None:
        """Show other words."""
        super().setText(text)
        self._fit()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Be as high as the words are now."""
        super().resizeEvent(event)
        if event.oldSize().width() != event.size().width():
            self._fit()

    def _fit(self) -> None:
        # Or it would be as high as it was at least.
        self.setMinimumHeight(0)
        self.setFixedHeight(max(self._line, self.heightForWidth(self.width())))
