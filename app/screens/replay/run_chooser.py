"""The list of runs under the screen's title: search in it, or write an entry's number."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QObject, QPoint, Qt, Signal
from PySide6.QtGui import QKeyEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import QFrame, QWidget

from app.items.table_view import Cell, Column, Kind, Row, TableView
from app.records.run_search import RunSearch
from app.records.run_text import actor_words, devices_words, effect_words
from app.screens.targets import OpenReplay
from app.service_client import ConsoleLink
from app.state import AppState
from app.text import clock, one_line
from app.theme.theme import theme_of
from app.theme.tokens import SPACE
from app.widgets import painting
from app.widgets.empty_state import ContentOrEmpty
from app.widgets.fields import SearchField
from app.widgets.labels import set_surface
from app.widgets.layouts import vbox
from app.widgets.util import debounce
from core.batch.models import RunSummary
from core.errors import QuarterdeckError

PAGE = 100
PAUSE_MS = 120
# A tool-tip of a thousand names covers the screen.
MOST_NAMED = 40
WIDTH, HEIGHT = 820, 380
_COLUMNS: tuple[Column[Row], ...] = (
    Column("name", "Run", Kind.TEXT, 200, stretch=True, tone="text"),
    Column("id", "Id", Kind.MONO, 80),
    Column("devices", "Devices", Kind.TEXT, 130),
    Column("actor", "Asked by", Kind.TEXT, 110),
    Column("state", "State", Kind.VERDICT, 132),
    Column("started", "Started", Kind.TIME, 90),
)


class RunChooser(QFrame):
    """A pop-up list; it closes by Escape or a press elsewhere.

    Signals:
        chosen(target): the operator chose this run, or the entries around one.
    """

    chosen = Signal(object)

    def __init__(self, state: AppState, link: ConsoleLink, parent: QWidget) -> None:
        super().__init__(parent, Qt.WindowType.Popup)
        set_surface(self, "raised")
        self._state = state
        self._enters = False
        self.runs = RunSearch(link, PAGE, self)
        self.runs.came.connect(self._show)
        self.runs.failed.connect(self._failed)
        self._search_soon = debounce(self, PAUSE_MS, self._look)
        self.setAccessibleName("Choose what to replay")
        self.search = SearchField("Search runs", "Name, id, device, tool, effect, or an entry's number")
        self.search.textChanged.connect(lambda *_: self._search_soon.start())
        self.search.installEventFilter(self)
        self.table = TableView(_COLUMNS, "Runs", sortable=False)
        self.table.opened.connect(self._choose)
        bar = self.table.verticalScrollBar()
        bar.valueChanged.connect(lambda place: self.runs.read_more() if place == bar.maximum() else None)
        self.table.clicked.connect(lambda *_: self._choose(self.table.current_key()))
        self.place = ContentOrEmpty(self.table)
        self.place.empty.acted.connect(self._act)
        vbox(self.search, (self.place, 1), parent=self, margins=SPACE.small, spacing=SPACE.snug)

    def open_below(self, anchor: QWidget) -> None:
        """Show the list under a button; the service looks for runs as they are asked for."""
        self.resize(WIDTH, HEIGHT)
        self.search.clear()
        self._look()
        self.move(anchor.mapToGlobal(QPoint(0, anchor.height() + 2)))
        self.show()
        self.search.setFocus()

    def _look(self) -> None:
        self._search_soon.stop()
        self._enters = False
        self.runs.look(self.search.text().strip())
        self._show()

    def _failed(self, error: QuarterdeckError) -> None:
        again = ("again", "Read again", "refresh")
        self.place.say("The runs could not be read.", error.info.sentences, again)

    def _act(self, key: str) -> None:
        if key == "clear":
            self.search.clear()
        self._look()
        self.search.setFocus()

    def _show(self) -> None:
        number = self.runs.words.replace(",", "")
        # A run that goes on is known as it stands now.
        rows = [_run_row(self._state.runs.get(run.id, run)) for run in self.runs.runs]
        if number.isascii() and number.isdigit() and len(number) < 16 and int(number) > 0:
            rows.insert(0, Row(f"entry {int(number)}", (f"Around entry {int(number):,}", "", "", "", "", "")))
        current = self.table.current_key()
        self.table.show_rows(rows)
        if rows and self.table.current_key() != current:
            self.table.choose(rows[0].key)
        if rows:
            self.place.show_content()
        elif self.runs.busy:
            self.place.say("Looking through all runs…", "They are shown as they are found.")
        else:
            clear = ("clear", "Clear the search", "clear") if self.search.text() else None
            line = "An entry's number shows what happened around it."
            self.place.say("No run matches." if clear else "Nothing has run yet.", line, clear)
        if self._enters and rows:
            self._enters = False
            self._choose(rows[0].key)

    def _choose_first(self) -> None:
        """Enter, perhaps before the service has answered: then the first run that it finds is chosen."""
        if self._search_soon.isActive():
            self._look()
        self._enters = not self.table.current_key() and self.runs.busy
        self._choose(self.table.current_key())

    def _choose(self, key: str) -> None:
        if not key:
            return
        self.hide()
        around = key.removeprefix("entry ")
        if key.startswith("entry "):
            self.chosen.emit(OpenReplay(around=int(around), at=int(around)))
        else:
            self.chosen.emit(OpenReplay(run=key))

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw the edge of the list."""
        theme = theme_of(self)
        painter = QPainter(self)
        painting.box(painter, self.rect().toRectF(), 0, theme.color("raised"), theme.color("border2"))
        painter.end()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """From the field: Enter takes the first row, Down goes into the list."""
        if watched is self.search and isinstance(event, QKeyEvent) and event.type() == QEvent.Type.KeyPress:
            if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
                self._choose_first()
                return True
            if event.key() == Qt.Key.Key_Down:
                self.table.setFocus()
                return True
        return super().eventFilter(watched, event)


def _run_row(run: RunSummary) -> Row:
    return Row(
        run.id,
        (
            Cell(
                effect_words(run) or one_line(run.name),
                tip=f"{one_line(run.name)}\n{effect_words(run)}".strip(),
            ),
            one_line(run.id),
            Cell(devices_words(run), tip="\n".join(map(one_line, run.devices[:MOST_NAMED]))),
            actor_words(run.actor),
            run.state.value,
            clock(run.started_at, seconds=False),
        ),
    )
