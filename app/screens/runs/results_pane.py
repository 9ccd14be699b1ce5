"""The results of a run over its devices: which are alike, as a table of rows, and searched as a whole."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QStackedWidget, QWidget

from app.items.filter_rows import lead_into_table
from app.items.table_model import Column, Kind, TableModel
from app.items.table_view import TableView
from app.query import Query
from app.records.run_text import look_key
from app.screens.runs.result_rows import (
    ResultRow,
    ResultTable,
    difference_columns,
    difference_words,
    table_of,
    value_words,
)
from app.service_client import ConsoleLink
from app.text import count_words, one_line, plural
from app.theme.tokens import SPACE
from app.widgets.buttons import Segmented
from app.widgets.empty_state import ContentOrEmpty
from app.widgets.fields import DropDown, SearchField
from app.widgets.labels import Label, set_surface
from app.widgets.layouts import hbox, vbox
from app.widgets.util import debounce
from core.audit.entries import Entry
from core.batch.models import Cell
from core.batch.result_groups import ResultGroup, group_results, in_words
from core.errors import QuarterdeckError
from core.replay.models import MOST_WORDS
from core.service.console import Console
from core.text import some_names

CHANGED_PAUSE_MS = 400
SEARCH_PAUSE_MS = 250
# Each is read from the journal by its number.
MOST_HITS = 200
_GROUPS, _TABLE, _HITS = range(3)


@dataclass(frozen=True, slots=True)
class Hits:
    """The results that contain all words; `more` were not read, `not_searched` texts are too large."""

    entries: list[Entry]
    more: int
    not_searched: int


def _differs(group: ResultGroup) -> str:
    words = [difference_words(one) for one in group.differences[:3]]
    more = group.more + max(0, len(group.differences) - 3)
    why = one_line(group.example.note) if not words else ""
    return "; ".join([*words, f"and {count_words(more)} more"] if more else words) or why


_GROUP_COLUMNS: tuple[Column[ResultGroup], ...] = (
    Column(
        "count",
        "Devices",
        Kind.NUMBER,
        70,
        cell=lambda group: count_words(len(group.devices)),
        sort=lambda group: len(group.devices),
    ),
    Column("state", "State", Kind.VERDICT, 120, cell=lambda group: look_key(group.example, True)),
    Column("which", "Which", Kind.TEXT, 240, cell=lambda group: one_line(some_names(group.devices, 6))),
    Column("differs", "Differs from the most", Kind.TEXT, 300, stretch=True, cell=_differs),
)
_HIT_COLUMNS: tuple[Column[Entry], ...] = (
    Column("device", "Device", Kind.NAME, 140, cell=lambda entry: one_line(entry.device or "")),
    Column("step", "Step", Kind.TEXT, 100, cell=lambda entry: one_line(entry.step or "")),
    Column("tool", "Tool", Kind.MONO, 140, cell=lambda entry: one_line(entry.tool or "")),
    Column("status", "Status", Kind.TEXT, 100, cell=lambda entry: entry.status or ""),
    Column("entry", "Entry", Kind.NUMBER, 90, stretch=True, cell=lambda entry: count_words(entry.seq)),
)


class ResultsPane(QWidget):
    """Groups of equal results of one step, its results as rows, or what a search in all of them found.

    Signals:
        grouped(words): such as `47 alike, 3 differ`, of the chosen step.
        opened(device, step): the operator wants to see this cell.
        step_chosen(step): the operator chose a step.
    """

    grouped = Signal(str)
    opened = Signal(str, str)
    step_chosen = Signal(str)

    def __init__(self, link: ConsoleLink, cells_of: Callable[[str], tuple[list[Cell], int]]) -> None:
        """`cells_of` gives a step's cells as they are now, and how many more only the journal has whole."""
        super().__init__()
        set_surface(self, "base")
        self.setAccessibleName("Results")
        self._cells_of = cells_of
        self._run, self._step = "", ""
        self._groups: list[ResultGroup] = []
        self._left_out = 0
        self._grouping = Query(self, link, self._show_groups, self._say_problem, "compare the results")
        self._rows = Query(self, link, self._show_rows, self._say_problem, "lay the results out")
        self._searching = Query(self, link, self._show_hits, self._say_problem, "search the results")
        self._look_soon = debounce(self, CHANGED_PAUSE_MS, self._look)
        self._search_soon = debounce(self, SEARCH_PAUSE_MS, self._search)
        self._make_parts()
        self._build()

    def _make_parts(self) -> None:
        self.steps = DropDown("Step")
        self.steps.activated.connect(lambda _row: self.step_chosen.emit(str(self.steps.currentData())))
        self.kind = Segmented(
            [("groups", "Alike"), ("table", "Rows")], "How to show the results", in_bar=True
        )
        self.kind.chosen.connect(lambda _key: self._show_kind())
        self.words = Label("", "head")
        self.field = SearchField("Search all results of this run", "Search all results of this run")
        self.field.setMinimumWidth(240)
        self.field.textChanged.connect(lambda _text: self._search_soon.start())
        self.problem = Label("", "meta", "fail", wrap=True)
        self.problem.hide()
        groups = TableModel(_GROUP_COLUMNS, lambda group: group.devices[0])
        self.groups = TableView(groups, "Groups of equal results")
        self.groups.current_changed.connect(self._show_differences)
        self.groups.opened.connect(lambda device: self.opened.emit(device, self._step))
        columns = difference_columns("Most have", "These have")
        differences = TableModel(columns, lambda one: one.path)
        self.differences = TableView(differences, "Differences of this group from the largest")
        self.difference_place = ContentOrEmpty(self.differences)
        self.table = TableView(TableModel[ResultRow]((), lambda row: row.number), "Results as rows")
        self.table_place = QStackedWidget()
        self.table_place.addWidget(self.table)
        self.hits = TableView(TableModel(_HIT_COLUMNS, lambda entry: entry.seq), "Results that were found")
        self.hits.opened.connect(self._open_hit)
        lead_into_table(self.field, self.hits)

    def _build(self) -> None:
        self.stack = QStackedWidget()
        groups = QWidget()
        vbox((self.groups, 3), (self.difference_place, 2), parent=groups)
        for page in (groups, self.table_place, self.hits):
            self.stack.addWidget(page)
        self.place = ContentOrEmpty(self.stack)
        bar = hbox(
            self.steps, self.kind, (self.words, 1), self.field,
            margins=(SPACE.pane, 6, SPACE.pane, 6), spacing=SPACE.small,
        )  # fmt: skip
        vbox(bar, self.problem, (self.place, 1), parent=self)

    @property
    def step(self) -> str:
        """The step on show."""
        return self._step

    # What is shown

    def show_run(self, run: str, steps: Sequence[str], step: str) -> None:
        """Another run, or another step of it; with a step of none of them, the first."""
        step = step if step in steps else next(iter(steps), "")
        if run != self._run:
            self.field.clear()
            self.steps.clear()
            for name in steps:
                self.steps.addItem(one_line(name), name)
            self.steps.updateGeometry()
        if (run, step) != (self._run, self._step):
            self._run, self._step = run, step
            self.steps.setCurrentIndex(max(0, self.steps.findData(step)))
            self._groups = []
            self.grouped.emit("")
            self._look()

    def look_again(self) -> None:
        """Cells have changed."""
        if not self._look_soon.isActive():
            self._look_soon.start()

    def _look(self) -> None:
        cells, self._left_out = self._cells_of(self._step)
        key = (self._run, self._step)

        async def group(_console: Console) -> list[ResultGroup]:
            return await asyncio.to_thread(group_results, cells)

        async def lay_out(_console: Console) -> ResultTable:
            return await asyncio.to_thread(table_of, cells)

        some = bool(cells or self._left_out)
        if some:
            self._grouping.load(group, key)
        if some and self.isVisible() and self.kind.current() == "table":
            self._rows.load(lay_out, key)

    def _show_groups(self, groups: list[ResultGroup]) -> None:
        self._groups = groups
        self.problem.hide()
        self.grouped.emit(self._alike_words)
        self._say_words()
        self.groups.show_rows(groups)
        if self.groups.current_key() == "" and groups:
            self.groups.choose(groups[min(1, len(groups) - 1)].devices[0])
        self._show_differences(self.groups.current_key())

    def _show_differences(self, device: str) -> None:
        group = next((group for group in self._groups if group.devices[0] == device), None)
        differences = group.differences if group is not None else []
        self.differences.show_rows(differences)
        if differences:
            self.difference_place.show_content()
        elif group is not None and group is not self._groups[0]:
            self.difference_place.say(
                "Its value is the same.", one_line(group.example.note) or "Its state differs."
            )
        elif len(self._groups) > 1:
            line = "Choose another group to see how it differs."
            self.difference_place.say("This is what most have.", line)
        else:
            self.difference_place.say("No device differs.", "All results of this step are alike.")

    def _show_rows(self, found: ResultTable) -> None:
        columns = [
            Column("device", "Device", Kind.NAME, 130, cell=lambda row: one_line(row.device)),
            *(_value_column(name, name == found.columns[-1]) for name in found.columns),
        ]
        table = TableView(TableModel[ResultRow](columns, lambda row: row.number), "Results as rows")
        table.opened.connect(lambda _key: self._open_row())
        table.show_rows(found.rows)
        had_keyboard = self.table.hasFocus()
        self.table_place.addWidget(table)
        self.table_place.setCurrentWidget(table)
        self.table_place.removeWidget(self.table)
        self.table.deleteLater()
        self.table = table
        if had_keyboard:
            table.setFocus()
        self._say_words()

    def _say_words(self) -> None:
        """Say what the view in front shows; a search says it itself."""
        found = self._rows.value
        if self._page == _GROUPS:
            self.words.setText(self._alike_words)
        elif self._page == _TABLE and found is not None:
            left = f", {count_words(found.left)} rows or columns are not shown" if found.left else ""
            self.words.setText(_joined(f"{plural(len(found.rows), 'row')}{left}", self._left_words))

    @property
    def _left_words(self) -> str:
        """How many results are not compared, because only the journal has their values."""
        if not self._left_out:
            return ""
        return f"{plural(self._left_out, 'large result')} in the journal only, not compared"

    @property
    def _alike_words(self) -> str:
        return _joined(in_words(self._groups) if self._groups else "", self._left_words)

    @property
    def _page(self) -> int:
        if self.field.text().strip():
            return _HITS
        return _TABLE if self.kind.current() == "table" else _GROUPS

    def _show_kind(self) -> None:
        self.stack.setCurrentIndex(self._page)
        self.place.show_content()
        self._say_words()
        self._look()

    # Search

    def _search(self) -> None:
        words, run = self.field.text().split()[: MOST_WORDS + 1], self._run
        if not words:
            self._searching.forget()
            self._show_kind()
            return

        async def find(console: Console) -> Hits:
            hits = await console.journal.find_in_results(words, run)
            common = sorted(set(hits.numbers[0]).intersection(*hits.numbers[1:]))
            entries = [await console.journal.entry(seq) for seq in common[:MOST_HITS]]
            return Hits(entries, len(common) - len(entries), hits.not_searched)

        self.stack.setCurrentIndex(_HITS)
        self.words.setText("Searching…")
        self._searching.load(find, (run, *words))

    def _show_hits(self, hits: Hits) -> None:
        self.problem.hide()
        self.hits.show_rows(hits.entries)
        more = f" and {count_words(hits.more)} more" if hits.more else ""
        missed = (
            f", {count_words(hits.not_searched)} texts could not be searched" if hits.not_searched else ""
        )
        self.words.setText(f"{count_words(len(hits.entries))}{more} found{missed}")
        if hits.entries:
            self.place.show_content()
        else:
            self.place.say(
                "No result has these words.", "Results of all steps and their large texts were searched."
            )

    def _open_hit(self, seq: str) -> None:
        entry = next((one for one in self.hits.rows_model.items if str(one.seq) == seq), None)
        if entry is not None and entry.device and entry.step:
            self.opened.emit(entry.device, entry.step)

    def _open_row(self) -> None:
        row = self.table.rows_model.item(self.table.currentIndex().row())
        if row is not None:
            self.opened.emit(row.device, row.step)

    def _say_problem(self, error: QuarterdeckError) -> None:
        self.problem.setText(error.info.sentences)
        self.problem.show()

    def focus_first(self) -> None:
        """Take the keyboard."""
        views = (self.groups, self.table, self.hits)
        views[self.stack.currentIndex()].setFocus(Qt.FocusReason.OtherFocusReason)


def _joined(*parts: str) -> str:
    return "; ".join(part for part in parts if part)


def _value_column(name: str, last: bool) -> Column[ResultRow]:
    def cell(row: ResultRow) -> str:
        return value_words(row.values[name]) if name in row.values else ""

    def order(row: ResultRow) -> object:
        value = row.values.get(name)
        return value if isinstance(value, int | float) and not isinstance(value, bool) else cell(row)

    return Column(name, one_line(name), Kind.TEXT, 120, stretch=last, cell=cell, sort=order)
