"""Sentences about one thing, each with an icon: what a change loosens, what does not count."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QWidget

from app.theme.tokens import SPACE
from app.widgets.icon_label import IconLabel
from app.widgets.labels import Label
from app.widgets.layouts import hbox
from app.widgets.line_breaks import breakable
from app.widgets.section import Card
from core.text import escape_hidden

MOST_SHOWN = 100


class Sentences(Card):
    """A card of sentences; text of devices in them has its hidden characters written out."""

    def __init__(self, name: str, icon: str = "warn", role: str = "warn") -> None:
        """`name` is what assistive technology calls the list."""
        super().__init__("warn" if role == "warn" else "raised")
        self._name, self._icon, self._role = name, icon, role
        self._rows: list[QWidget] = []
        self.body.setSpacing(SPACE.snug)

    def show_sentences(self, sentences: list[str]) -> None:
        """Show these, and how many more there are where they are too many to read."""
        for row in self._rows:
            row.hide()
            row.setParent(None)
            row.deleteLater()
        shown = [escape_hidden(words, keep_lines=False) for words in sentences[:MOST_SHOWN]]
        if len(sentences) > MOST_SHOWN:
            shown.append(f"{len(sentences) - MOST_SHOWN:,} more are not listed here.")
        self._rows = [self._row(words) for words in shown]
        for row in self._rows:
            self.add(row)
        self.setAccessibleName(f"{self._name}: {' '.join(shown)}")

    def _row(self, words: str) -> QWidget:
        row = QWidget()
        hbox(
            (IconLabel(self._icon, self._role), 0, Qt.AlignmentFlag.AlignTop),
            (Label(breakable(words), wrap=True), 1),
            parent=row,
            spacing=SPACE.small,
        )
        row.setAccessibleName(words)
        return row
