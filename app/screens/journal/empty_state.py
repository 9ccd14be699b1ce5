"""What stands in the place of the entries while there are none: why, and how the query may be widened."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal

from app.screens.journal.query_terms import TIME_FIELDS, terms_of, without_term
from app.text import one_line
from app.theme.tokens import SPACE
from app.widgets.empty_state import EmptyState
from app.widgets.labels import Link, set_surface
from app.widgets.util import clear_layout

MOST_WAYS = 4


class NoMatch(EmptyState):
    """No entry matches, or there is none at all.

    Signals:
        query_wanted: bring this query into force.
    """

    query_wanted = Signal(str)

    def __init__(self) -> None:
        super().__init__()
        set_surface(self, "base")
        self.acted.connect(lambda key: self.query_wanted.emit("") if key == "clear" else None)

    def ways(self) -> list[Link]:
        """The links, in order."""
        items = (self.more.itemAt(place) for place in range(self.more.count()))
        return [widget for item in items if item and isinstance(widget := item.widget(), Link)]

    def show_query(self, query: str) -> None:
        """Say that nothing matches this query, and how it may be widened."""
        clear_layout(self.more)
        if not query:
            line = "Every step of every command is written here; start with a batch or a call."
            self.say("The journal has no entries yet.", line)
            return
        spans = terms_of(query)
        hint = "The term may be misspelt, or nothing was like it."
        if len(spans) > 1:
            timed = any(span.field in TIME_FIELDS for span in spans)
            hint = "All terms must hold. Take one away"
            hint += ", or widen the time." if timed else ", or put * where a part of a value may be anything."
            self.more.addSpacing(SPACE.small)
            for span in spans[:MOST_WAYS]:
                self._way(f"Without {query[span.start : span.end]}", without_term(query, span.start))
        self.say("No entry matches this query.", hint, ("clear", "Clear the query", "clear"))

    def _way(self, words: str, query: str) -> None:
        link = Link(one_line(words))
        link.clicked.connect(lambda *_: self.query_wanted.emit(query))
        self.more.addWidget(link, 0, Qt.AlignmentFlag.AlignHCenter)
