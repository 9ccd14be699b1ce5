"""The matrix: what every device came to in every step, moved through with the arrow keys."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QModelIndex, Qt, QTimer, Signal
from PySide6.QtGui import QFocusEvent, QKeyEvent, QMouseEvent, QPaintEvent, QResizeEvent
from PySide6.QtWidgets import QAbstractItemView, QTableView, QWidget

from app.screens.runs.matrix_model import MatrixModel
from app.screens.runs.matrix_paint import CellPainter, Corner, DeviceHead, StepHead
from app.theme.status_styles import cell_look
from app.theme.theme import theme_of
from app.widgets.animation_timer import pulse_of
from core.batch.models import Cell

DENSE_FROM = 41
DENSE_ROW = 20
LEAST_COLUMN = 128
DENSE_COLUMN = 84
MOST_DENSE_COLUMN = 150


class MatrixView(QTableView):
    """Devices by steps.

    Signals:
        cell_changed(cell): the cell under the cursor is this one now, or None.
        opened(cell): the operator pressed Enter on a cell, or double-clicked it.
        clicked_cell(cell): the operator clicked a cell once.
    """

    cell_changed = Signal(object)
    opened = Signal(object)
    clicked_cell = Signal(object)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.cells = MatrixModel(self)
        self.dense = False
        self.has_words = True
        self._kept: tuple[str, str] | None = None
        self._telling = True
        self._pulse = pulse_of(self)
        self._set_up()
        self.setModel(self.cells)
        self.setHorizontalHeader(StepHead(self))
        self._names = DeviceHead(self)
        self.setVerticalHeader(self._names)
        self.setItemDelegate(CellPainter(self))
        self._corner = Corner(self)
        self.selectionModel().currentChanged.connect(self._moved)
        self.cells.modelAboutToBeReset.connect(self._keep_place)
        self.cells.modelReset.connect(self._measure_and_return)
        self._measure()

    def _set_up(self) -> None:
        self.setAccessibleName("Cells of the run")
        self.setShowGrid(False)
        self.setWordWrap(False)
        self.setTabKeyNavigation(False)
        self.setCornerButtonEnabled(False)
        self.setSelectionMode(QAbstractItemView.SelectionMode.NoSelection)
        self.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.setVerticalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setHorizontalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)

    # What the delegate asks

    def turn(self) -> int:
        """How far rings have turned."""
        return self._pulse.step

    def still_turns(self) -> bool:
        """Asked by the shared timer: is a running cell in sight?"""
        return self.isVisible() and self._turning_in_sight()

    def _turning_in_sight(self) -> bool:
        if not self.cells.counts["running"]:
            return False
        top, bottom = max(0, self.rowAt(0)), self.rowAt(self.viewport().height() - 1)
        last = bottom if bottom >= 0 else self.cells.rowCount() - 1
        return any(
            cell_look(self.cells.look_at(self.cells.index(row, column))).turning
            for row in range(top, last + 1)
            for column in range(self.cells.columnCount())
        )

    # What the screen asks

    def current_cell(self) -> Cell | None:
        """The cell under the cursor."""
        return self.cells.cell_at(self.currentIndex())

    def go_to(self, index: QModelIndex) -> bool:
        """Move the cursor; False when there is no such place."""
        if not index.isValid():
            return False
        self.setCurrentIndex(index)
        self.scrollTo(index)
        return True

    def go_to_cell(self, device: str, step: str) -> bool:
        """Move the cursor to a cell; False when it is not shown."""
        return self.go_to(self.cells.index_of(device, step))

    def go_to_next_needing(self) -> bool:
        """Move to the next cell that needs a look; False when there is none."""
        return self.go_to(self.cells.next_needing(self.currentIndex()))

    def needed_height(self) -> int:
        """How high the matrix is with all its rows in sight."""
        rows = self.cells.rowCount() * self._names.defaultSectionSize()
        return self.horizontalHeader().sizeHint().height() + rows + 2

    def tick(self) -> None:
        """Paint the times of what goes on anew."""
        if self.cells.goes_on():
            self.viewport().update()

    def look_at_bands(self) -> None:
        """Paint the names anew when one of them carries the production band now, or no longer does."""
        self._names.look_at_bands()

    # Measures

    def _keep_place(self) -> None:
        cell = self.current_cell()
        self._kept = (cell.device, cell.step) if cell is not None else None
        self._telling = False

    def _measure_and_return(self) -> None:
        self._measure()
        if self._kept is not None:
            self.go_to_cell(*self._kept)
        self._telling = True
        self.cell_changed.emit(self.current_cell())

    def _measure(self) -> None:
        self.dense = self.cells.device_count >= DENSE_FROM
        row = DENSE_ROW if self.dense else theme_of(self).metrics.matrix_row
        self._names.setDefaultSectionSize(row)
        self._names.measure()
        self._spread()
        self.updateGeometries()

    def _spread(self) -> None:
        count = self.cells.columnCount()
        if not count:
            return
        least = DENSE_COLUMN if self.dense else LEAST_COLUMN
        width = self.viewport().width()
        each = max(least, width // count)
        # Few columns of a dense matrix have room for words, and take it; more are shapes only.
        self.has_words = not self.dense or each >= LEAST_COLUMN
        if not self.has_words:
            each = min(each, MOST_DENSE_COLUMN)
        fills = each * count <= width and self.has_words
        for column in range(count):
            rest = width - each * (count - 1)
            self.setColumnWidth(column, rest if fills and column == count - 1 else each)

    def updateGeometries(self) -> None:
        """Keep the corner where the heads meet."""
        super().updateGeometries()
        if hasattr(self, "_corner"):
            height = self.horizontalHeader().height()
            self._corner.setGeometry(0, 0, self.verticalHeader().width(), height)
            self._corner.raise_()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Spread the columns over the new width."""
        super().resizeEvent(event)
        if event.oldSize().width() != event.size().width():
            self._spread()
        # What takes room above or below, as a banner does, does not take the chosen row out of sight.
        row = self.visualRect(self.currentIndex())
        before = event.oldSize().height()
        if row.isValid() and row.bottom() >= event.size().height() and row.top() < before:
            self.scrollTo(self.currentIndex())

    def changeEvent(self, event: QEvent) -> None:
        """Take the new density's heights."""
        super().changeEvent(event)
        if event.type() == QEvent.Type.StyleChange and hasattr(self, "_names"):
            QTimer.singleShot(0, self, self._measure)

    # Behaviour

    def _moved(self, now: QModelIndex, before: QModelIndex) -> None:
        if now.row() != before.row():
            self._names.viewport().update()
        if self._telling:
            self.cell_changed.emit(self.cells.cell_at(now))

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Enter opens; letters are keys of the screen."""
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter) and not event.modifiers():
            if (cell := self.current_cell()) is not None:
                self.opened.emit(cell)
            return
        if event.text() and event.text().isprintable():
            event.ignore()
            return
        super().keyPressEvent(event)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        """A click shows the cell in the drawer."""
        super().mouseReleaseEvent(event)
        cell = self.cells.cell_at(self.indexAt(event.position().toPoint()))
        if cell is not None and event.button() == Qt.MouseButton.LeftButton:
            self.clicked_cell.emit(cell)

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:
        """A double click opens, as Enter does."""
        cell = self.cells.cell_at(self.indexAt(event.position().toPoint()))
        if cell is not None and event.button() == Qt.MouseButton.LeftButton:
            self.opened.emit(cell)

    def focusInEvent(self, event: QFocusEvent) -> None:
        """There is always a cursor once the matrix has the keyboard."""
        super().focusInEvent(event)
        if not self.currentIndex().isValid() and self.cells.total():
            self.go_to(self.cells.index(0, 0))
        self.viewport().update()

    def focusOutEvent(self, event: QFocusEvent) -> None:
        """The cursor goes grey."""
        super().focusOutEvent(event)
        self.viewport().update()

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw the cells; keep rings turning while one is in sight."""
        super().paintEvent(event)
        if not self._pulse.running and self._turning_in_sight():
            self._pulse.keep_turning(self)

    def update(self, *args: object) -> None:
        """The shared timer asks for a repaint: what turns is in the viewport."""
        if args:
            super().update(*args)
        else:
            self.viewport().update()
