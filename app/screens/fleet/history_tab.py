"""What happened to one device lately, from the journal."""

from __future__ import annotations

from PySide6.QtWidgets import QWidget

from app.items.table_view import Cell, Column, Kind, TableModel, TableView
from app.query import Query
from app.screens.screen import Navigator
from app.screens.targets import OpenEntry
from app.service_client import ConsoleLink
from app.text import clock
from app.widgets.empty_state import ContentOrEmpty
from app.widgets.layouts import vbox
from core.audit.entries import Entry
from core.errors import QuarterdeckError
from core.service.console import EntryPage

ROWS = 50
# A busy device writes many entries a second; the list follows them once in so long.
AGAIN_MS = 1000


def _what(entry: Entry) -> Cell:
    """The tool first, for beside a narrow list it is what tells entries apart."""
    kind = entry.kind.value.replace("_", " ")
    what = f"{entry.tool}, {kind}" if entry.tool else kind.capitalize()
    return Cell(what, tip=f"{what}, {entry.actor}")


COLUMNS: tuple[Column[Entry], ...] = (
    Column("time", "Time", Kind.TIME, 84, cell=lambda entry: clock(entry.time)),
    Column("what", "What", Kind.TEXT, 140, stretch=True, tone="text", cell=_what),
    Column("verdict", "Verdict", Kind.VERDICT, 104, cell=lambda entry: entry.verdict or ""),
)


class HistoryTab(QWidget):
    """The newest entries of a device; Enter opens one in the journal."""

    def __init__(self, link: ConsoleLink, nav: Navigator) -> None:
        super().__init__()
        self._nav = nav
        self._name, self._shown = "", False
        self._entries = Query(self, link, self._show_entries, self._say_failed, "read the entries")
        self.table = TableView(
            TableModel(COLUMNS, lambda entry: str(entry.seq)),
            "Recent entries of the device",
            rows="journal",
            sortable=False,
        )
        self.place = ContentOrEmpty(self.table)
        self.place.empty.acted.connect(lambda _key: self._entries.refresh())
        self.table.opened.connect(lambda key: self._nav.open("journal", OpenEntry(int(key))))
        vbox(self.place, parent=self)

    def show_device(self, name: str) -> None:
        """Take another device; it is read when the tab is in front."""
        if name != self._name:
            self._name = name
            self._read()

    def set_shown(self, shown: bool) -> None:
        """The tab came to the front, or left it."""
        self._shown = shown
        self._read()

    def follow(self) -> None:
        """The journal has more: read again soon, while the tab is in front."""
        if self._shown:
            self._entries.refresh_within(AGAIN_MS)

    def _read(self) -> None:
        self._entries.forget()
        if not self._shown or not self._name:
            return
        self.place.say("Reading the entries…", "They are shown as soon as the service answers.")
        # What a live wall writes would push everything else out of so few rows.
        query = f"device:{self._name} !glimpse"
        self._entries.load(lambda console: console.journal.entries(query, limit=ROWS))

    def _show_entries(self, page: EntryPage) -> None:
        self.table.show_rows(page.entries)
        if page.entries:
            self.place.show_content()
        else:
            self.place.say(
                "Nothing is in the journal about this device yet.", "Call one of its tools, or run a batch."
            )

    def _say_failed(self, error: QuarterdeckError) -> None:
        again = ("again", "Read again", "refresh")
        self.place.say("The entries could not be read.", error.info.sentences, again)
