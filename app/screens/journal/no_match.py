"""What the rows say when there are none: what is true, and what to change."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QVBoxLayout, QWidget

from app.components.label import Label, Link, surface
from app.look.tokens import SPACE
from app.screens.journal.entry_words import shown
from app.screens.journal.query_text import TIME_FIELDS, terms_of, without_term
from app.shell.words import plural

MOST_WAYS = 4


class NoMatch(QWidget):
    """No entry matches, or there is none at all.

    Signals:
        query_wanted: bring this query into force.
    """

    query_wanted = Signal(str)

    def __init__(self) -> None:
        super().__init__()
        surface(self, "base")
        self._fact = Label("", "hero", wrap=True)
        self._line = Label("", "large", "text2", wrap=True)
        self._ways = QVBoxLayout()
        self._ways.setSpacing(SPACE.hair)
        column = QVBoxLayout(self)
        column.setContentsMargins(44, 44, 44, SPACE.pane)
        column.setSpacing(SPACE.tight)
        column.addWidget(self._fact)
        column.addWidget(self._line)
        column.addSpacing(SPACE.small)
        column.addLayout(self._ways)
        column.addStretch(1)

    def ways(self) -> list[Link]:
        """The links, in order."""
        items = (self._ways.itemAt(place) for place in range(self._ways.count()))
        return [widget for item in items if item and isinstance(widget := item.widget(), Link)]

    def show_query(self, query: str, entries: int) -> None:
        """Say that nothing matches this query, and how it may be widened."""
        for way in self.ways():
            self._ways.removeWidget(way)
            way.deleteLater()
        if not query:
            self._fact.setText("The journal has no entries yet.")
            self._line.setText("Every step of every command is written here; start with a batch or a call.")
            return
        self._fact.setText("No entry matches this query.")
        spans = terms_of(query)
        timed = any(span.field in TIME_FIELDS for span in spans)
        hint = "All terms must hold. Take one away"
        hint += ", or widen the time:" if timed else ", or put * where a part of a value may be anything:"
        self._line.setText(
            f"{hint}" if len(spans) > 1 else "The term may be misspelt, or nothing was like it."
        )
        if len(spans) > 1:
            for span in spans[:MOST_WAYS]:
                self._way(f"Without {query[span.start : span.end]}", without_term(query, span.start))
        self._way(f"Show all {plural(entries, 'entry', 'entries')}", "")

    def _way(self, words: str, query: str) -> None:
        link = Link(shown(words))
        link.clicked.connect(lambda *_: self.query_wanted.emit(query))
        self._ways.addWidget(link, 0, Qt.AlignmentFlag.AlignLeft)
