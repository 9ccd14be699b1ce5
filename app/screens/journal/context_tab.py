"""What stands around one entry in the journal, whatever the query says; the same command is marked."""

from __future__ import annotations

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QWidget

from app.items.table_model import Cell, Column, Kind, Row
from app.items.table_view import TableView
from app.query import Query
from app.screens.journal.entry_text import (
    KIND_TONES,
    Present,
    entry_title,
    entry_words,
    outcome_of,
    time_words,
)
from app.service_client import ConsoleLink
from app.text import count_words
from app.theme.theme import theme_of
from app.widgets import painting
from app.widgets.labels import Label
from app.widgets.layouts import vbox
from core.audit.entries import Entry
from core.errors import QuarterdeckError
from core.service.console import EntryPage

REACH = 10
COLUMNS: tuple[Column[Row], ...] = (
    Column("seq", "Entry", Kind.NUMBER, 64, tone="text3"),
    Column("time", "Time", Kind.MONO, 106),
    Column("kind", "What", Kind.TEXT, 140, stretch=True, tone="text"),
    Column("outcome", "", Kind.VERDICT, 34),
)


class ContextTab(QWidget):
    """Ten entries before, ten after.

    Signals:
        opened: show the entry with this number.
        counted: so many of them belong to the same command.
    """

    opened = Signal(int)
    counted = Signal(int)

    def __init__(self, link: ConsoleLink) -> None:
        super().__init__()
        self._around = Query(self, link, self._show_around, self._say_problem, "read the entries around it")
        self.present = Present()
        self._entry: Entry | None = None
        self._shown = False
        self.message = Label("", "meta", "text3", wrap=True)
        self.message.setContentsMargins(14, 8, 14, 8)
        self.table = TableView(COLUMNS, "Entries around it", rows="journal", sortable=False)
        self.table.opened.connect(lambda key: self.opened.emit(int(key)))
        vbox(self.message, (self.table, 1), parent=self)

    def show_entry(self, entry: Entry | None) -> None:
        """Take another entry; it is read when the tab is in front."""
        self._entry = entry
        if entry is None or entry.seq != self._around.key:
            self._around.forget()
        self._read()

    def set_shown(self, shown: bool) -> None:
        """The tab came to the front, or left it."""
        self._shown = shown
        self._read()

    def _read(self) -> None:
        entry = self._entry
        if self._shown and entry is not None:
            query = f"seq:{max(1, entry.seq - REACH)}..{entry.seq + REACH}"
            self._around.ensure(
                lambda console: console.journal.entries(query, None, 2 * REACH + 1), entry.seq
            )

    def _show_around(self, page: EntryPage) -> None:
        if self._entry is not None:
            self._show(self._entry, page.entries)

    def _say_problem(self, error: QuarterdeckError) -> None:
        self.message.setText(error.info.sentences)

    def _show(self, entry: Entry, around: list[Entry]) -> None:
        same = [one for one in around if entry.call_id and one.call_id == entry.call_id]
        self.table.show_rows([self._row(one, entry) for one in around])
        self.table.choose(str(entry.seq))
        number = painting.text_width(count_words(entry.seq + REACH), theme_of(self)) + 26
        self.table.setColumnWidth(0, max(self.table.columnWidth(0), round(number)))
        if len(same) > 1:
            self.message.setText(f"{len(same)} of these belong to the same command; they are marked.")
        elif entry.call_id:
            self.message.setText("No other entry near it belongs to the same command.")
        else:
            self.message.setText("This entry belongs to no command.")
        self.counted.emit(len(same))

    def _row(self, one: Entry, entry: Entry) -> Row:
        same = bool(entry.call_id) and one.call_id == entry.call_id
        return Row(
            key=str(one.seq),
            cells=(
                count_words(one.seq),
                Cell(time_words(one.time), tone="text"),
                Cell(entry_words(one), tone=KIND_TONES.get(one.kind, "text"), tip=entry_title(one)),
                Cell(outcome_of(one, self.present), tip=outcome_of(one, self.present).replace("_", " ")),
            ),
            production=one.device in self.present.production,
            tint="accent_tint" if same else "",
            muted=not same and bool(entry.call_id),
        )
