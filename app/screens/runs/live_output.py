"""Output as it comes: while a command runs, and of one that was cancelled or lost and has no result."""

from __future__ import annotations

import asyncio
from collections import deque

from PySide6.QtCore import QTimer, Signal
from PySide6.QtGui import QGuiApplication, QShowEvent
from PySide6.QtWidgets import QPlainTextEdit, QWidget

from app.query import Query
from app.screens.runs.live_box import LiveBox
from app.screens.runs.live_text import LiveText
from app.screens.runs.output_search import OutputSearch
from app.screens.runs.save_as import Saver
from app.screens.screen import Navigator
from app.service_client import ConsoleLink
from app.text import count_words
from app.theme.tokens import SPACE
from app.widgets.fields import CheckBox
from app.widgets.labels import Label, Link
from app.widgets.layouts import STRETCH, hbox, vbox
from app.widgets.util import debounce
from core.batch.models import Cell, OutputChunk, OutputPiece
from core.errors import QuarterdeckError
from core.service.console import Console

# Characters that are put into the box in one turn of the loop: more would be a visible stall.
A_TURN = 32_000
SEARCH_PAUSE_MS = 300


class LiveOutput(QWidget):
    """Both streams in the order in which they came, with times; more is read as the cell tells of it.

    Signals:
        streams_wanted: the operator wants the streams of the result instead.
    """

    streams_wanted = Signal()

    def __init__(self, link: ConsoleLink, nav: Navigator, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._nav, self._saver = nav, Saver(self, link, nav.toast)
        self._cell: Cell | None = None
        self._size = 0
        self._text = LiveText()
        self._waiting: deque[tuple[OutputPiece, int]] = deque()
        self._end = 0
        self._reading = Query(self, link, self._take, self._say_problem, "read the output")
        self._copying = Query(self, link, self._copied, self._say_problem, "copy the output")
        self._turn = QTimer(self)
        self._turn.setInterval(0)
        self._turn.timeout.connect(self._show_some)
        self.box = LiveBox()
        self.search = OutputSearch(self.box)
        self.search.marks_changed.connect(lambda: self.box.setExtraSelections(self.search.marks()))
        self._search_again = debounce(self, SEARCH_PAUSE_MS, self._give_search)
        self._make_foot()
        vbox(
            self.search,
            (self.box, 1),
            self._foot,
            parent=self,
            margins=(SPACE.pane, SPACE.medium, SPACE.pane, SPACE.small),
            spacing=SPACE.small,
        )

    def _make_foot(self) -> None:
        self.about = Label("", "meta", "text2")
        self.message = Label("", "meta", "fail")
        self.follow = CheckBox("Follow the end")
        self.follow.setChecked(True)
        self.follow.setToolTip("Ctrl+L")
        self.follow.toggled.connect(self.box.set_follows)
        self.box.followed.connect(self.follow.setChecked)
        self.times = CheckBox("Times")
        self.times.setChecked(True)
        self.times.toggled.connect(self.box.set_numbers)
        self.wrap = CheckBox("Wrap lines")
        self.wrap.setChecked(True)
        self.wrap.toggled.connect(self._set_wrap)
        self.streams = Link("By stream", "meta_strong")
        self.streams.clicked.connect(lambda *_: self.streams_wanted.emit())
        self.copy = Link("Copy", "meta_strong")
        self.copy.clicked.connect(lambda *_: self._copying.load(self._whole))
        self.save = Link("Save as…", "meta_strong")
        self.save.clicked.connect(lambda *_: self._save())
        self._foot = hbox(
            self.about,
            self.follow,
            self.times,
            self.wrap,
            STRETCH,
            self.message,
            self.streams,
            self.copy,
            self.save,
            spacing=SPACE.medium,
        )

    # What is shown

    def show_cell(self, cell: Cell) -> None:
        """Show the output of a cell's command, or what of it is new."""
        other = self._cell is None or _call(cell) != _call(self._cell)
        ended = self._cell is not None and cell.ended_at != self._cell.ended_at
        self._cell = cell
        if other:
            self._start_again()
        if other or ended or cell.output_size > self._size:
            self._size = max(self._size, cell.output_size)
            self._load()

    def _start_again(self) -> None:
        self._reading.forget()
        self._turn.stop()
        self._waiting.clear()
        self._text, self._end, self._size = LiveText(), 0, 0
        self.message.setText("")
        self.box.start_again()
        self.follow.setChecked(True)
        self._give_search()
        self._say()

    def _load(self) -> None:
        if (cell := self._cell) is not None and self.isVisible():
            self._reading.load(
                lambda console: console.runs.output(cell.run, cell.device, cell.step, self._text.next),
                _call(cell),
            )

    def showEvent(self, event: QShowEvent) -> None:
        """Read what came while it was not in sight."""
        super().showEvent(event)
        self._load()

    def _take(self, chunk: OutputChunk) -> None:
        self.message.setText("")
        for piece in self._text.take(chunk):
            self._waiting.append((piece, self._end))
            self._end = piece.end
        if self._waiting:
            self._show_some()
        self._say()
        if chunk.more:
            self._load()

    def _show_some(self) -> None:
        """Put what has come into the box, some of it in each turn of the loop."""
        room = A_TURN
        parts = []
        while self._waiting and room > 0:
            piece, before = self._waiting.popleft()
            if len(piece.text) > room:
                self._waiting.appendleft((piece.since(piece.at + room), piece.at + room))
                piece = piece.model_copy(update={"text": piece.text[:room]})
            room -= len(piece.text)
            parts += self._text.read(piece, before)
        self.box.add(parts)
        if self._waiting:
            self._turn.start()
        else:
            self._turn.stop()
        self._search_again.start()

    def _say(self) -> None:
        words = f"{count_words(self._text.next)} characters"
        if self.box.dropped:
            words = f"{words}, the first {count_words(self.box.dropped)} are not shown"
        self.about.setText(words if self._text.ended else f"{words} until now")

    def _give_search(self) -> None:
        self.search.show_more(self.box.toPlainText() if self.search.isVisible() else "")

    def open_search(self) -> QWidget:
        """Open the search; the field that takes the keyboard."""
        field = self.search.open_search()
        self.search.show_text(self.box.toPlainText())
        return field

    def toggle_follow(self) -> None:
        """Follow the end, or no longer."""
        self.follow.toggle()

    def show_streams_link(self, shown: bool) -> None:
        """Offer the streams of the result, once there are some."""
        self.streams.setVisible(shown)

    def _set_wrap(self, wrap: bool) -> None:
        mode = QPlainTextEdit.LineWrapMode
        self.box.setLineWrapMode(mode.WidgetWidth if wrap else mode.NoWrap)

    # The whole of it

    async def _whole(self, console: Console) -> bytes:
        """All that is kept of it, also what the box has no more."""
        cell = self._cell
        assert cell is not None
        texts, after = [], 0
        while True:
            chunk = await console.runs.output(cell.run, cell.device, cell.step, after)
            texts.append(chunk.text)
            if not chunk.more:
                return await asyncio.to_thread(lambda: "".join(texts).encode("utf-8", "replace"))
            after = chunk.next

    def _copied(self, data: bytes) -> None:
        QGuiApplication.clipboard().setText(data.decode("utf-8", "replace"))
        self._nav.toast("Output copied")

    def _save(self) -> None:
        if self._cell is not None:
            name = f"{self._cell.tool}-{self._cell.call_id}.txt"
            self._saver.save(name, self._whole, self._say_problem)

    def _say_problem(self, error: QuarterdeckError) -> None:
        self.message.setText(error.info.sentences)


def _call(cell: Cell) -> tuple[str, str, str, str | None]:
    return cell.run, cell.device, cell.step, cell.call_id
