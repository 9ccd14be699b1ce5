"""Entries: what the journal has of this command, oldest first; Enter opens one there."""

from __future__ import annotations

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QWidget

from app.items.table_model import Column, Kind, Row
from app.items.table_view import TableView
from app.records.run_text import actor_words
from app.text import count_words, milliseconds, one_line, parse_time
from app.widgets.empty_state import ContentOrEmpty
from app.widgets.layouts import vbox
from core.audit.entries import Entry

_COLUMNS: tuple[Column[Row], ...] = (
    Column("seq", "Entry", Kind.NUMBER, 84, tone="text3"),
    Column("time", "Time", Kind.MONO, 116),
    Column("kind", "Kind", Kind.TEXT, 170, tone="text"),
    Column("actor", "Actor", Kind.TEXT, 150, stretch=True),
    Column("verdict", "Outcome", Kind.VERDICT, 116),
    Column("took", "Took", Kind.NUMBER, 76),
)


class EntriesTab(QWidget):
    """Journal entries of one call.

    Signals:
        opened(seq): the operator pressed Enter on an entry.
    """

    opened = Signal(int)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.table = TableView(_COLUMNS, "Journal entries of this command", sortable=False)
        self.table.opened.connect(lambda key: self.opened.emit(int(key)))
        self.place = ContentOrEmpty(self.table)
        vbox(self.place, parent=self)

    def show_entries(self, entries: tuple[Entry, ...], message: str) -> None:
        """Show entries; without any, `message` says why."""
        if entries or not message:
            self.place.show_content()
        else:
            self.place.say("No entries are shown.", message)
        self.table.show_rows([_row(entry) for entry in entries])


def _row(entry: Entry) -> Row:
    moment = parse_time(entry.time)
    return Row(
        key=str(entry.seq),
        cells=(
            count_words(entry.seq),
            f"{moment:%H:%M:%S}.{moment.microsecond // 1000:03d}",
            entry.kind.value.replace("_", " "),
            actor_words(entry.actor),
            one_line(entry.verdict or ""),
            milliseconds(entry.duration_ms) if entry.duration_ms is not None else "",
        ),
    )
