"""The three views of a run, of which one is in front: matrix, results, comparison."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QStackedWidget

from app.screens.runs.comparison_pane import ComparisonPane
from app.screens.runs.matrix_view import RunMatrix
from app.screens.runs.results_pane import ResultsPane
from app.screens.runs.view_bar import VIEWS, ViewBar
from app.service_client import ConsoleLink
from app.text import one_line
from core.batch.models import Cell, RunSummary

# Of larger runs the results are compared when they are looked at, and at the end, not with each change.
MOST_COMPARED = 200


class RunViews(QStackedWidget):
    """Keeps results and comparison at the run and step of the matrix, as far as they are in sight.

    Signals:
        opened(device, step): the operator wants to see this cell in the matrix.
    """

    opened = Signal(str, str)

    def __init__(self, link: ConsoleLink, matrix: RunMatrix) -> None:
        super().__init__()
        self.matrix = matrix
        self.results = ResultsPane(link, matrix.cells.cells_of)
        self.comparison = ComparisonPane(link)
        self.bar = ViewBar()
        self._run: RunSummary | None = None
        for view in (matrix, self.results, self.comparison):
            self.addWidget(view)
        self.bar.chosen.connect(self.show_view)
        self.results.grouped.connect(self._say_alike)
        self.results.step_chosen.connect(self._choose_step)
        for pane in (self.results, self.comparison):
            pane.opened.connect(self._open_cell)

    @property
    def shows_matrix(self) -> bool:
        """Whether the matrix is in front."""
        return self.currentWidget() is self.matrix

    def show_view(self, view: str) -> None:
        """Bring a view to the front, with the keyboard."""
        self.bar.views.choose(view)
        self.setCurrentIndex(VIEWS.index(view))
        self._show_front()
        self.take_keyboard()

    def take_keyboard(self) -> None:
        """The view in front gets the keyboard."""
        if self.shows_matrix:
            self.matrix.setFocus(Qt.FocusReason.OtherFocusReason)
        else:
            (self.results if self.currentWidget() is self.results else self.comparison).focus_first()

    def show_run(self, run: RunSummary) -> None:
        """Another run, or its end."""
        self._run = run
        self._show_front()
        if run.state.ended or len(run.devices) <= MOST_COMPARED:
            self.results.look_again()

    def take_cell(self) -> None:
        """A cell has changed."""
        if self.results.isVisible() or self.matrix.cells.device_count <= MOST_COMPARED:
            self.results.look_again()

    def show_step(self, cell: Cell | None) -> None:
        """The cursor of the matrix is at another cell."""
        if self._run is not None and cell is not None and cell.run == self._run.id:
            self.results.show_run(self._run.id, self._run.steps, cell.step)

    def _show_front(self) -> None:
        if self._run is not None and self.currentWidget() is self.comparison:
            self.comparison.show_run(self._run)
        elif self.currentWidget() is self.results:
            self.results.look_again()

    def _choose_step(self, step: str) -> None:
        cell = self.matrix.current_cell()
        if self._run is not None:
            self.results.show_run(self._run.id, self._run.steps, step)
        if cell is not None:
            self.matrix.go_to_cell(cell.device, step)

    def _open_cell(self, device: str, step: str) -> None:
        self.show_view("matrix")
        self.opened.emit(device, step)

    def _say_alike(self, words: str) -> None:
        several = self._run is not None and len(self._run.devices) > 1
        self.bar.say_alike(f"{one_line(self.results.step)}: {words}" if several and words else "")
