"""What every section of Settings in a column is."""

from __future__ import annotations

from PySide6.QtWidgets import QVBoxLayout, QWidget

from app.widgets.labels import Label


class SettingsSection(QWidget):
    """A titled column."""

    def __init__(self, title: str, words: str = "") -> None:
        super().__init__()
        self.setMaximumWidth(640)
        self.column = QVBoxLayout(self)
        self.column.setContentsMargins(0, 0, 0, 0)
        self.column.setSpacing(12)
        self.column.addWidget(Label(title, "title"))
        if words:
            self.column.addWidget(Label(words, tone="text2", wrap=True))
        self.setAccessibleName(title)
