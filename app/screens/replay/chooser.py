"""The list of runs under the screen's title: search in it, or write an entry's number."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QObject, QPoint, Qt, Signal
from PySide6.QtGui import QKeyEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import QFrame, QVBoxLayout, QWidget

from app.components import paint
from app.components.inputs import SearchField
from app.components.label import Label, surface
from app.components.tables import Cell, Column, DataTable, Kind, Row
from app.link import ConsoleLink
from app.look.theme import theme_of
from app.look.tokens import SPACE
from app.screens.base import OpenReplay
from app.screens.replay.reel import shown
from app.shell.words import clock, plural
from app.state import AppState
from core.batch.models import RunSummary
from core.errors import QuarterdeckError

MOST = 500
WIDTH, HEIGHT = 660, 380
_COLUMNS = (
    Column("name", "Run", Kind.TEXT, 200, stretch=True, tone="text"),
    Column("id", "Id", Kind.MONO, 80),
    Column("devices", "Devices", Kind.TEXT, 130),
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
        surface(self, "raised")
        self._state, self._link = state, link
        self._older: dict[str, RunSummary] = {}
        self.setAccessibleName("Choose what to replay")
        self.search = SearchField("Search runs", "Name, id, device, or an entry's number")
        self.search.textChanged.connect(lambda *_: self._show())
        self.search.installEventFilter(self)
        self.table = DataTable(_COLUMNS, "Runs", sortable=False)
        self.table.opened.connect(self._choose)
        self.table.clicked.connect(lambda *_: self._choose(self.table.current_key()))
        self.words = Label("", "meta", "text3", wrap=True)
        column = QVBoxLayout(self)
        column.setContentsMargins(SPACE.small, SPACE.small, SPACE.small, SPACE.small)
        column.setSpacing(SPACE.snug)
        column.addWidget(self.search)
        column.addWidget(self.words)
        column.addWidget(self.table, 1)

    def open_below(self, anchor: QWidget) -> None:
        """Show the list under a button, and read older runs than the window knows."""
        self.resize(WIDTH, HEIGHT)
        self.search.clear()
        self._show()
        self.move(anchor.mapToGlobal(QPoint(0, anchor.height() + 2)))
        self.show()
        self.search.setFocus()
        self._link.ask(
            lambda console: console.runs(limit=MOST), self._came, self._failed, what="read the runs"
        )

    def _came(self, runs: list[RunSummary]) -> None:
        self._older = {run.id: run for run in runs}
        self._show()

    def _failed(self, error: QuarterdeckError) -> None:
        self.words.setText(f"Older runs could not be read: {error.message}")
        self.words.show()

    def _runs(self) -> list[RunSummary]:
        known = {**self._older, **self._state.runs}
        return sorted(known.values(), key=lambda run: (run.started_at, run.id), reverse=True)

    def _show(self) -> None:
        text = self.search.text().strip()
        words = text.casefold().split()
        rows = [_run_row(run) for run in self._runs() if _matches(run, words)]
        number = text.replace(",", "")
        if number.isascii() and number.isdigit() and len(number) < 16 and int(number) > 0:
            rows.insert(0, Row(f"entry {int(number)}", (f"Around entry {int(number):,}", "", "", "", "")))
        self.table.show_rows(rows)
        if rows:
            self.table.choose(rows[0].key)
        self.words.setText("" if rows else "No run matches. An entry's number shows what happened around it.")
        self.words.setVisible(not rows)

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
        paint.box(painter, self.rect().toRectF(), 0, theme.color("raised"), theme.color("border2"))
        painter.end()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """From the field: Enter takes the first row, Down goes into the list."""
        if watched is self.search and isinstance(event, QKeyEvent) and event.type() == QEvent.Type.KeyPress:
            if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
                self._choose(self.table.current_key())
                return True
            if event.key() == Qt.Key.Key_Down:
                self.table.setFocus()
                return True
        return super().eventFilter(watched, event)


def _matches(run: RunSummary, words: list[str]) -> bool:
    text = " ".join((run.name, run.id, run.actor, run.state.value, *run.devices, *run.tools)).casefold()
    return all(word in text for word in words)


def _run_row(run: RunSummary) -> Row:
    count = len(run.devices)
    devices = shown(run.devices[0]) if count == 1 else plural(count, "device")
    return Row(
        run.id,
        (
            Cell(shown(run.name), tip=shown(run.actor)),
            shown(run.id),
            Cell(devices, tip="\n".join(map(shown, run.devices))),
            run.state.value,
            clock(run.started_at, seconds=False),
        ),
    )
