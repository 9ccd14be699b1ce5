"""The bar a query is made in: field, suggestions from the journal, errors with their place, history."""

from __future__ import annotations

from PySide6.QtCore import QPoint, Signal
from PySide6.QtWidgets import QWidget

from app.items.completion_popup import CompletionPopup, Suggestion
from app.query import Query
from app.screens.journal.query_edit import QueryEdit
from app.screens.journal.query_terms import Slot, completed, slot_at, term_at
from app.service_client import ConsoleLink
from app.text import count_words, plural
from app.theme.tokens import SPACE
from app.widgets.icon_label import IconLabel
from app.widgets.labels import Label, set_surface
from app.widgets.layouts import hbox, vbox
from app.widgets.util import debounce
from core.audit.query import FIELDS, TEXT_FIELDS, parse_query
from core.errors import BadInput, QuarterdeckError
from core.service.console import Facet
from core.text import column_of

APPLY_PAUSE_MS = 250
FACETS_PAUSE_MS = 90
HISTORY_KEPT = 50
KEY_NOTES = {
    "kind": "what happened",
    "actor": "who did it",
    "run": "of this run",
    "device": "on this device",
    "call": "one command",
    "tool": "with this tool",
    "status": "as the device says",
    "verdict": "as observed",
    "dur": "how long it took",
    "seq": "entry numbers",
    "since": "from then on",
    "until": "before then",
}
FIXED_VALUES = {
    "since": [("15m", "minutes"), ("1h", "hour"), ("8h", "hours"), ("1d", "day"), ("7d", "days")],
    "until": [("15m", "minutes ago"), ("1h", "hour ago"), ("1d", "day ago"), ("7d", "days ago")],
    "dur": [
        (">1s", "longer than"),
        (">10s", "longer than"),
        ("<100ms", "shorter than"),
        ("1s..5s", "between"),
    ],
}


class QueryBar(QWidget):
    """Title, field and error line.

    Signals:
        applied: this query is to be in force; it was understood.
        rows_wanted: the operator goes on into the rows.
    """

    applied = Signal(str)
    rows_wanted = Signal()

    def __init__(self) -> None:
        super().__init__()
        set_surface(self, "base")
        self._in_force: str | None = None
        self._offered_for = ("", "", 0)
        self._facets: Query[list[Facet]] | None = None
        self.field = QueryEdit()
        self.error = Label("", "meta", "fail", wrap=True)
        self._error_row = QWidget()
        error = hbox(
            IconLabel("failed", "fail", 14),
            parent=self._error_row,
            margins=(SPACE.pane, 0, SPACE.pane, SPACE.small),
            spacing=SPACE.snug,
        )
        error.addWidget(self.error, 1)
        self._error_row.hide()
        row = hbox(
            Label("Journal", "title"),
            (self.field, 1),
            margins=(SPACE.pane, SPACE.small, SPACE.pane, SPACE.small),
            spacing=SPACE.medium,
        )
        vbox(row, self._error_row, parent=self)
        self._apply_soon = debounce(self, APPLY_PAUSE_MS, self._apply_typed)
        self._ask_soon = debounce(self, FACETS_PAUSE_MS, self._offer)
        self.field.textChanged.connect(self._changed)
        self.field.completion_wanted.connect(self._close_if_elsewhere)
        self.field.completion_wanted.connect(self._ask_soon.start)
        self.field.picked.connect(self._take)
        self.field.submitted.connect(self._apply_now)
        self.field.left.connect(self._apply_left)
        self.field.down_pressed.connect(self.rows_wanted)

    # what the screen asks

    def bind(self, link: ConsoleLink, history: list[str]) -> None:
        """Suggestions come through the door; `history` holds earlier queries, newest first."""
        self._facets = Query(self, link, self._show_facets, self._no_facets, "read the values of a field")
        self.history = history
        self.field.set_history(history)

    def text(self) -> str:
        """What stands in the field."""
        return self.field.text().strip()

    def set_query(self, query: str) -> None:
        """Write a query and bring it into force."""
        self.field.setText(query)
        self.field.close_list()
        self._apply_now()

    def show_count(self, matches: int, exact: bool, of: int, took_ms: float) -> None:
        """`214 of 18,204 entries, 6 ms`."""
        least = "" if exact else "at least "
        took = f"{took_ms:.0f} ms" if took_ms >= 1 else "under 1 ms"
        if not self._in_force:
            self.field.show_count(f"{plural(of, 'entry', 'entries')}, {took}")
        else:
            self.field.show_count(
                f"{least}{count_words(matches)} of {plural(of, 'entry', 'entries')}, {took}"
            )

    def show_busy(self) -> None:
        """The answer is on its way."""
        self.field.show_count("searching…")

    def show_error(self, message: str) -> None:
        """Say what is wrong under the bar, and mark the place; empty takes both away."""
        if message:
            self.error.setText(message)
            self.field.mark_error((column_of(message) or 1) - 1)
        else:
            self.field.mark_error(None)
        self._error_row.setVisible(bool(message))

    def close_list(self) -> bool:
        """Take the suggestions away; False when there are none."""
        return self.field.close_list()

    def clear_focused(self) -> bool:
        """Esc in the field empties it; False when it is empty or the focus is elsewhere."""
        if not self.field.hasFocus() or not self.field.text():
            return False
        self.set_query("")
        return True

    # applying

    def _changed(self) -> None:
        self.show_error("")
        self._apply_soon.start()

    def _apply_typed(self) -> None:
        """While typing, an unfinished term is no error: what was shown stays until it is one."""
        text = self.field.text()
        try:
            parse_query(text)
        except BadInput as error:
            column = column_of(error.message)
            span = term_at(text, self.field.cursorPosition()) if self.field.hasFocus() else None
            if column is None or span is None or not span.start < column <= span.end + 1:
                self.show_error(error.message)
            return
        self._bring_into_force(text.strip())

    def _apply_now(self) -> None:
        text = self.field.text()
        self._apply_soon.stop()
        try:
            parse_query(text)
        except BadInput as error:
            self.show_error(error.message)
            return
        self.show_error("")
        self._remember(text.strip())
        self._bring_into_force(text.strip())

    def _apply_left(self) -> None:
        if self.text() != self._in_force:
            self._apply_now()
        else:
            self._remember(self.text())

    def _bring_into_force(self, text: str) -> None:
        if text != self._in_force:
            self._in_force = text
            self.applied.emit(text)

    def _remember(self, text: str) -> None:
        if text and self._facets is not None:
            self.history[:] = [text, *(one for one in self.history if one != text)][:HISTORY_KEPT]
            self.field.set_history(self.history)

    # completing

    def _list(self) -> CompletionPopup:
        if self.field.suggestions is None:
            # A child of the window, so that it lies over everything and takes no focus from the field.
            self.field.suggestions = CompletionPopup(self.window())
            self.field.suggestions.picked.connect(self._take)
        return self.field.suggestions

    def _slot(self) -> Slot:
        return slot_at(self.field.text(), self.field.cursorPosition())

    def _close_if_elsewhere(self) -> None:
        """What was offered for another place of the query is not there to be taken here."""
        if self.field.list_is_open() and _place_of(self._slot()) != self._offered_for:
            self.field.close_list()

    def _offer(self) -> None:
        if not self.field.hasFocus() or self._facets is None:
            return
        self._facets.cancel()
        slot = self._slot()
        if slot.kind == "key":
            found = [
                Suggestion(name, KEY_NOTES[name]) for name in FIELDS if name.startswith(slot.prefix.lower())
            ]
            self._show(slot, found if slot.prefix else [])
        elif slot.field in FIXED_VALUES:
            values = FIXED_VALUES[slot.field]
            self._show(slot, [Suggestion(*one) for one in values if one[0].startswith(slot.prefix)])
        elif slot.field in TEXT_FIELDS:
            self._facets.load(lambda console: console.journal.facets(slot.field, slot.prefix), slot)
        else:
            self.field.close_list()

    def _show_facets(self, facets: list[Facet]) -> None:
        slot = self._slot()
        # What is typed meanwhile asks for itself, after its pause.
        if self._facets is not None and slot == self._facets.key:
            self._show(slot, [Suggestion.counted(one.value, one.count) for one in facets])

    def _no_facets(self, error: QuarterdeckError) -> None:
        """Suggestions are a convenience: without them the query can still be typed."""
        del error
        self.field.close_list()

    def _show(self, slot: Slot, found: list[Suggestion]) -> None:
        if [one.choice for one in found] == [slot.prefix] and slot.kind == "value":
            found = []  # what is typed is the only one
        found.sort(key=lambda one: one.choice != slot.prefix)  # what is typed in full comes first
        self._offered_for = _place_of(slot)
        x = round(self.field.x_of(slot.start)) - 10
        place = self.field.mapTo(self.window(), QPoint(max(0, x), self.field.height() + 4))
        self._list().offer(found if self.field.hasFocus() else [], place)

    def _take(self, choice: str) -> None:
        slot = self._slot()
        text, cursor = completed(self.field.text(), slot, choice)
        self.field.setText(text)
        self.field.setCursorPosition(cursor)
        self.field.setFocus()
        self.field.close_list()
        if slot.kind == "key":
            self._offer()
        else:
            self._apply_now()

    def stop(self) -> None:
        """The screen is left."""
        self.field.close_list()
        self._ask_soon.stop()


def _place_of(slot: Slot) -> tuple[str, str, int]:
    """What tells one place of a query from another while the operator types there."""
    return slot.kind, slot.field, slot.start
