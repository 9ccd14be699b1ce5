"""The left pane: a field to filter, the runs newest first, and older ones as one scrolls."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from PySide6.QtCore import QModelIndex, QPersistentModelIndex, QRect, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QPainter
from PySide6.QtWidgets import QAbstractItemView, QListView, QStyleOptionViewItem, QVBoxLayout, QWidget

from app.items.filter_rows import go_to_rows
from app.items.item_view import AnimatedItemView, ItemDelegate
from app.items.keyed_model import ITEM_ROLE
from app.records.run_search import RunSearch
from app.records.run_text import actor_words, cells_words, devices_words, effect_words, list_time, run_look
from app.screens.runs.run_list_model import RunsModel
from app.service_client import ConsoleLink
from app.text import count_words, one_line
from app.theme.theme import Theme, theme_of
from app.widgets import painting
from app.widgets.badges import paint_state
from app.widgets.empty_state import ContentOrEmpty
from app.widgets.fields import SearchField
from app.widgets.labels import Label, Link, separator, set_surface
from app.widgets.section import ScreenHead
from app.widgets.util import debounce
from core.batch.models import RunState, RunSummary
from core.errors import QuarterdeckError

Index = QModelIndex | QPersistentModelIndex
PAGE = 50
LEFT, RIGHT = 13, 12
GLYPH = 14
FILTER_PAUSE_MS = 120
# While a filter stands, runs that come or change are looked for this long after the first of them.
CHANGED_PAUSE_MS = 1000
FILTER_NAME = "Filter runs by name, id, state, device, tool, effect or who asked"


class RunDelegate(ItemDelegate):
    """Draws name and state, what the run does, and then devices, time, who asked and how much is done."""

    _view: RunListView

    def sizeHint(self, option: QStyleOptionViewItem, index: Index) -> QSize:
        """Three lines."""
        height = 66 if theme_of(self._view).density == "comfortable" else 60
        return QSize(self._view.viewport().width(), height)

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        """Draw one run."""
        theme = theme_of(self._view)
        rect = QRect(option.rect)
        painter.save()
        self.paint_card_back(painter, rect, index.row(), theme)
        line = QRectF(rect.x() + LEFT, rect.y() + 5, rect.width() - LEFT - RIGHT, 20)
        self._paint_lines(painter, line, index.data(ITEM_ROLE), theme)
        painter.restore()

    def _paint_lines(self, painter: QPainter, line: QRectF, run: RunSummary, theme: Theme) -> None:
        look = run_look(run.state)
        width = GLYPH + 6 + painting.text_width(look.word, theme)
        place = QRectF(line.right() - width, line.y(), width + 2, line.height())
        paint_state(painter, place, look, theme, step=self._view.turn())
        name = line.adjusted(0, 0, -width - 8, 0)
        painting.text(painter, name, one_line(run.name), theme, "name")
        right = Qt.AlignmentFlag.AlignRight
        effect, below = line.translated(0, 18), line.translated(0, 35)
        # Of a single call its state says all.
        done = cells_words(run) if len(run.devices) * len(run.steps) > 1 else ""
        painting.text(painter, effect, done, theme, "meta", "text2", right)
        room = effect.adjusted(0, 0, -painting.text_width(done, theme, "meta") - 8 if done else 0, 0)
        painting.text(painter, room, effect_words(run), theme, "meta", "text2")
        when = list_time(run.started_at)
        painting.text(painter, below, when, theme, "meta", "text3", right)
        room = below.adjusted(0, 0, -painting.text_width(when, theme, "meta") - 8, 0)
        words = f"{devices_words(run)}   {actor_words(run.actor).removeprefix('agent:')}"
        painting.text(painter, room, words, theme, "meta", "text3")


class RunListView(AnimatedItemView, QListView):
    """The runs; arrow keys choose, running ones turn."""

    def __init__(self, model: RunsModel, parent: QWidget | None = None) -> None:
        super().__init__("Runs, newest first", parent)
        self.runs = model
        self.setModel(model)
        self.setItemDelegate(RunDelegate(self))
        self.setUniformItemSizes(True)

    def turning(self) -> Iterator[QModelIndex]:
        """The runs in sight that go on."""
        for row in self.rows_in_sight():
            if (run := self.runs.item(row)) is not None and run.state is RunState.RUNNING:
                yield self.runs.index(row, 0)

    def dataChanged(self, first: Index, last: Index, roles: Sequence[int] = ()) -> None:
        """A run's row is painted again where it is: rows have one height, so nothing has to be laid out.

        `QListView` would lay out and paint the whole list, thirty times a second while a run goes on.
        """
        QAbstractItemView.dataChanged(self, first, last, roles)


class RunList(QWidget):
    """Field, list and what is still to be read.

    Signals:
        chosen(run): the operator chose a run by its id.
        opened(run): the operator pressed Enter on a run, or double-clicked it.
        clicked(run): the operator clicked a run.
    """

    chosen = Signal(str)
    opened = Signal(str)
    clicked = Signal(str)

    def __init__(self, link: ConsoleLink, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        set_surface(self, "base")
        self.setAccessibleName("Runs")
        self._current = ""
        self._enters = False
        self.model = RunsModel(self)
        self.view = RunListView(self.model)
        self.field = SearchField(FILTER_NAME, "Name, id, device, tool…", "filter", "Ctrl+F")
        self.head = ScreenHead("Runs")
        self.older = Link("Show older runs", "meta_strong")
        self.older.clicked.connect(lambda *_: self.read_older())
        self.older.hide()
        self.place = ContentOrEmpty(self.view)
        self.place.empty.acted.connect(self._act)
        self.message = Label("", "meta", "text3", wrap=True)
        self.message.setContentsMargins(LEFT, 6, RIGHT, 6)
        self.message.hide()
        # What was read of all runs stays while a filter looks for others.
        self.everything, self.search = RunSearch(link, PAGE, self), RunSearch(link, PAGE, self)
        self.everything.came.connect(self._read)
        self.search.came.connect(self._found)
        self.everything.failed.connect(self._say_failed)
        self.search.failed.connect(self._say_failed)
        self._pause = debounce(self, FILTER_PAUSE_MS, self.apply_filter)
        self._changed = debounce(self, CHANGED_PAUSE_MS, self._look_again)
        self.field.textChanged.connect(lambda _text: self._pause.start())
        self.field.down_pressed.connect(self._go_to_found)
        self.field.returnPressed.connect(self._enter_found)
        self.view.selectionModel().currentChanged.connect(self._moved)
        self.view.activated.connect(self._opened)
        self.view.clicked.connect(self._clicked)
        self.view.verticalScrollBar().valueChanged.connect(self._scrolled)
        self.model.arranged.connect(self._restore)
        self._build()

    def _build(self) -> None:
        foot = QWidget()
        inside = QVBoxLayout(foot)
        inside.setContentsMargins(LEFT, 0, RIGHT, 0)
        inside.addWidget(self.older)
        search = QWidget()
        around = QVBoxLayout(search)
        around.setContentsMargins(8, 8, 8, 8)
        around.addWidget(self.field)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        for widget in (self.head, separator(), search, separator()):
            column.addWidget(widget)
        column.addWidget(self.message)
        column.addWidget(self.place, 1)
        column.addWidget(foot)

    @property
    def current(self) -> str:
        """The id of the chosen run."""
        return self._current

    def show_runs(self, runs: list[RunSummary]) -> None:
        """Take over what the window knows; older runs that were read stay."""
        if self.model.take(runs) and self._filters and not self._changed.isActive():
            self._changed.start()
        self._say_counts()

    def choose(self, run: str) -> None:
        """Mark a run as chosen without telling."""
        self._current = run
        self._restore()

    def forget_filter(self) -> None:
        """Show all runs again."""
        self.field.clear()
        self.apply_filter()

    def _act(self, key: str) -> None:
        if key == "again":
            self.read_older()
        else:
            self.forget_filter()

    def apply_filter(self) -> None:
        """Filter now by what is in the field."""
        self._pause.stop()
        words = self.field.text().strip()
        if not words:
            self.search.stop()
            self.search.words = ""
            self.model.show_only(None)
        elif words != self.search.words:
            self.search.look(words)
        self._say_counts()

    def _go_to_found(self) -> int:
        """Down in the field: into the list, with the first run chosen where the chosen one is not in it."""
        count = go_to_rows(self.view)
        self._moved(self.view.currentIndex())
        return count

    def _enter_found(self) -> None:
        """Enter in the field, perhaps before the service has answered: then once it has."""
        if self._pause.isActive():
            self.apply_filter()
        self._enters = self._filters and self.search.busy
        if not self._enters and self._go_to_found() == 1:
            self._opened(self.view.currentIndex())

    def _look_again(self) -> None:
        if self._filters and not self.search.busy:
            self.search.look_again()

    def _found(self) -> None:
        if self._filters:
            self.model.show_only(self.search.runs)
            self._say_counts()
        if self._enters and not self.search.busy:
            self._enters = False
            if self.field.hasFocus():
                self._enter_found()

    @property
    def _filters(self) -> bool:
        return bool(self.field.text().strip())

    def _restore(self) -> None:
        index = self.model.index_of(self._current)
        self.view.setCurrentIndex(index)
        if index.isValid():
            self.view.scrollTo(index)

    def _moved(self, index: QModelIndex) -> None:
        run = self.model.item(index.row())
        if run is not None and run.id != self._current and not self.model.syncing:
            self._current = run.id
            self.chosen.emit(run.id)

    def _opened(self, index: QModelIndex) -> None:
        if (run := self.model.item(index.row())) is not None:
            self.opened.emit(run.id)

    def _clicked(self, index: QModelIndex) -> None:
        if (run := self.model.item(index.row())) is not None:
            self.clicked.emit(run.id)

    # Older runs

    def _scrolled(self, value: int) -> None:
        bar = self.view.verticalScrollBar()
        if bar.maximum() > 0 and value >= bar.maximum() - self.view.viewport().height():
            self.read_older()

    def read_older(self) -> None:
        """Read the next page of all runs, or of those that the filter finds, newest first."""
        (self.search if self._filters else self.everything).read_more()
        self._say_counts()

    def _read(self) -> None:
        # What the window was told of a run meanwhile is newer than what an earlier page said.
        self.model.take(run for run in self.everything.runs if self.model.find(run.id) is None)
        self._say_counts()

    def _say_failed(self, error: QuarterdeckError) -> None:
        self._say_counts()
        if self.model.rowCount():
            self.message.setText(f"Older runs could not be read. {error.info.sentences}")
            self.message.show()
        else:
            again = ("again", "Read again", "refresh")
            self.place.say("The runs could not be read.", error.info.sentences, again)

    def _say_counts(self) -> None:
        shown = self.model.rowCount()
        reads = self.search if self._filters else self.everything
        self.older.setVisible(reads.more and shown > 0)
        self.older.set_off("Older runs are being read." if reads.busy else "")
        busy = "Looking through all runs…" if self._filters and self.search.busy else ""
        self.message.setText(busy)
        self.message.setVisible(bool(busy and shown))
        if shown or not self._filters:
            self.place.show_content()
        elif busy:
            self.place.say(busy, "What fits the filter is shown as it is found.")
        elif self.search.words == self.field.text().strip():
            line = "Names, ids, devices, tools and effects were looked through."
            self.place.say("No run matches this filter.", line, ("clear", "Clear the filter", "clear"))
        if self._filters:
            detail = f"{count_words(shown)}{'+' if reads.more else ''} found" if shown else ""
        else:
            detail = f"{count_words(self.model.open)} not ended" if self.model.open else ""
        self.head.set_detail(detail)
