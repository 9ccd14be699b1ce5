"""What every section of Settings in a column is."""

from __future__ import annotations

from PySide6.QtWidgets import QWidget

from app.widgets.labels import Label
from app.widgets.layouts import vbox


class SettingsSection(QWidget):
    """A titled column."""

    def __init__(self, title: str, words: str = "") -> None:
        super().__init__()
        self.setMaximumWidth(640)
        self.column = vbox(Label(title, "title"), parent=self, spacing=12)
        if words:
            self.column.addWidget(Label(words, tone="text2", wrap=True))
        self.setAccessibleName(title)
