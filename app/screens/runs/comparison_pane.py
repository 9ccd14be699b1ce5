"""Two runs of one batch, cell by cell: state, value, duration."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QWidget

from app.items.table_model import Cell, Column, Kind, RowStyle, TableModel
from app.items.table_view import TableView
from app.query import Query
from app.records.run_text import list_time, run_look, short_time
from app.screens.runs.result_rows import difference_columns, difference_words
from app.service_client import ConsoleLink
from app.text import count_words, one_line
from app.theme.tokens import SPACE
from app.widgets.buttons import Button
from app.widgets.empty_state import ContentOrEmpty
from app.widgets.fields import CheckBox, DropDown
from app.widgets.labels import Label, set_surface
from app.widgets.layouts import hbox, vbox
from core.batch.models import CellComparison, CellSide, RunComparison, RunSummary
from core.errors import QuarterdeckError
from core.service.api.models import RunPage

MOST_RUNS = 100
_NO_OTHER = "There is no other run of this batch."


def _state(side: CellSide | None) -> str:
    """The verdict where the step was done, else its state; as in the matrix."""
    if side is None:
        return ""
    return side.verdict if side.state.value == "done" and side.verdict else side.state.value


def _value(cell: CellComparison) -> str:
    if cell.before is None or cell.after is None:
        return "only in one of the runs"
    words = [difference_words(one) for one in cell.differences[:2]]
    more = cell.more + max(0, len(cell.differences) - 2)
    return "; ".join([*words, f"and {count_words(more)} more"] if more else words)


def _took(side: CellSide | None) -> float | None:
    return side.duration_ms if side is not None else None


def _durations(cell: CellComparison) -> Cell:
    times = [_took(cell.before), _took(cell.after)]
    words = [short_time(time / 1000) if time is not None else "—" for time in times]
    return Cell("" if times == [None, None] else " → ".join(words))


def _slower_by(cell: CellComparison) -> float | None:
    before, after = _took(cell.before), _took(cell.after)
    return None if before is None or after is None else after - before


_COLUMNS: tuple[Column[CellComparison], ...] = (
    Column("device", "Device", Kind.NAME, 140, cell=lambda cell: one_line(cell.device)),
    Column("step", "Step", Kind.TEXT, 100, cell=lambda cell: one_line(cell.step)),
    Column("before", "Before", Kind.VERDICT, 120, cell=lambda cell: _state(cell.before)),
    Column("after", "After", Kind.VERDICT, 120, cell=lambda cell: _state(cell.after)),
    Column("value", "Value", Kind.TEXT, 260, stretch=True, cell=_value),
    Column("took", "Took", Kind.TEXT, 130, right=True, cell=_durations, sort=_slower_by),
)


class ComparisonPane(QWidget):
    """Compares the run on show with an earlier or later one of the same name.

    Signals:
        opened(device, step): the operator wants to see this cell.
    """

    opened = Signal(str, str)

    def __init__(self, link: ConsoleLink) -> None:
        super().__init__()
        set_surface(self, "base")
        self.setAccessibleName("Comparison")
        self._run: RunSummary | None = None
        self._found: RunComparison | None = None
        self._others = Query(
            self, link, self._show_others, self._say_problem, "find other runs of this batch"
        )
        self._comparing = Query(self, link, self._show, self._say_problem, "compare the two runs")
        self.other = DropDown("Run to compare with")
        self.other.setMinimumWidth(230)
        self.other.activated.connect(lambda _row: self._compare())
        self.again = Button("Compare again", icon="refresh")
        self.again.clicked.connect(lambda *_: self._compare())
        self.only = CheckBox("Only what differs")
        self.only.setChecked(True)
        self.only.toggled.connect(lambda _on: self._show_cells())
        self.words = Label("", "head")
        self.notes = Label("", "meta", "warn", wrap=True)
        self.notes.hide()
        self.cells = TableView(TableModel(_COLUMNS, _place, _style), "Cells of both runs")
        self.cells.current_changed.connect(lambda _key: self._show_differences())
        self.cells.opened.connect(lambda _key: self._open_cell())
        columns = difference_columns("Before", "After")
        self.differences = TableView(TableModel(columns, lambda one: one.path), "Differences of this cell")
        inside = QWidget()
        vbox((self.cells, 3), (self.differences, 2), parent=inside)
        self.place = ContentOrEmpty(inside)
        bar = hbox(
            Label("With", tone="text2"),
            self.other,
            (self.words, 1),
            self.only,
            self.again,
            margins=(SPACE.pane, 6, SPACE.pane, 6),
            spacing=SPACE.small,
        )
        vbox(bar, self.notes, (self.place, 1), parent=self)

    def show_run(self, run: RunSummary) -> None:
        """Another run, or its end; the one before it of the same name is compared with it."""
        if self._run is not None and run.id == self._run.id:
            ended, self._run = run.state.ended and not self._run.state.ended, run
            if ended:
                self._compare()
            return
        self._run, self._found = run, None
        self.other.clear()
        self.words.setText("")
        self.place.say("Looking for other runs of this batch…", "They are offered as soon as they are found.")
        # Words of a search have no quotes: what has all words of the name is sifted here.
        self._others.load(lambda console: console.runs.find(run.name, None, MOST_RUNS), run.id)

    def _show_others(self, page: RunPage) -> None:
        run = self._run
        assert run is not None
        others = [one for one in page.runs if one.name == run.name and one.id != run.id]
        for one in others:
            self.other.addItem(f"{one.id}  {list_time(one.started_at)}  {run_look(one.state).word}", one.id)
        if not others:
            self.place.say(_NO_OTHER, "Run it again, then compare.")
            return
        before = [one.id for one in others if one.started_at < run.started_at]
        wanted = run.resumes if run.resumes in before else next(iter(before), others[0].id)
        self.other.setCurrentIndex(self.other.findData(wanted))
        self._compare()

    def _compare(self) -> None:
        run, other = self._run, str(self.other.currentData() or "")
        if run is None or not other:
            return
        newer = self._is_newer(other)
        pair = (run.id, other) if newer else (other, run.id)
        self._comparing.load(lambda console: console.runs.compare(*pair), pair)

    def _is_newer(self, other: str) -> bool:
        page = self._others.value
        found = next((one for one in page.runs if one.id == other), None) if page is not None else None
        return found is not None and self._run is not None and found.started_at > self._run.started_at

    def _show(self, found: RunComparison) -> None:
        self._found = found
        self.notes.setText(" ".join(found.notes))
        self.notes.setVisible(bool(found.notes))
        alike, differ = count_words(found.equal), count_words(len(found.cells) - found.equal)
        self.words.setText(f"{found.before} and {found.after}: {alike} alike, {differ} differ")
        self._show_cells()

    def _show_cells(self) -> None:
        found = self._found
        if found is None:
            return
        cells = [cell for cell in found.cells if not (self.only.isChecked() and cell.equal)]
        self.cells.show_rows(cells)
        if cells:
            self.place.show_content()
            if not self.cells.currentIndex().isValid():
                self.cells.selectRow(0)
        else:
            self.place.say(
                "Nothing differs.", "State, verdict, value and pictures of all cells are the same."
            )
        self._show_differences()

    def _current(self) -> CellComparison | None:
        found = self.cells.rows_model.item(self.cells.currentIndex().row())
        return found if isinstance(found, CellComparison) else None

    def _show_differences(self) -> None:
        cell = self._current()
        self.differences.show_rows(cell.differences if cell is not None else [])

    def _open_cell(self) -> None:
        if (cell := self._current()) is not None:
            self.opened.emit(cell.device, cell.step)

    def _say_problem(self, error: QuarterdeckError) -> None:
        self.place.say("The two runs could not be compared.", error.info.sentences)

    def focus_first(self) -> None:
        """Take the keyboard."""
        target = self.cells if self.cells.isVisible() else self.other
        target.setFocus(Qt.FocusReason.OtherFocusReason)


def _place(cell: CellComparison) -> tuple[str, str]:
    return cell.device, cell.step


def _style(cell: CellComparison) -> RowStyle:
    return RowStyle(muted=cell.equal)
