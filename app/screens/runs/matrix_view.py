"""The matrix: what every device came to in every step, moved through with the arrow keys."""

from __future__ import annotations

from collections.abc import Iterator

from PySide6.QtCore import QModelIndex, QRect, QRectF, Qt, Signal
from PySide6.QtGui import QFocusEvent, QKeyEvent, QMouseEvent, QPainter, QPixmap, QResizeEvent
from PySide6.QtWidgets import QAbstractItemView, QStyleOptionViewItem, QWidget

from app.items.item_view import ENTER, ItemDelegate
from app.items.keyed_model import Index
from app.items.matrix import MatrixView
from app.records.run_text import cell_time
from app.screens.runs.cells_model import CellsModel
from app.text import one_line
from app.theme.shapes import paint_glyph
from app.theme.state_looks import StateLook, cell_look
from app.theme.theme import Theme, theme_of
from app.widgets import painting
from core.batch.models import Cell

DENSE_FROM = 41
DENSE_ROW = 20
LEAST_COLUMN = 128
DENSE_COLUMN = 84
MOST_DENSE_COLUMN = 150


class RunMatrix(MatrixView):
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
        self.cells = CellsModel()
        self.has_words = True
        self._kept: tuple[str, str] | None = None
        self._telling = True
        super().__init__(self.cells, "Cells of the run", "Steps", "Devices", parent)
        self.cells.setParent(self)
        self.setSelectionMode(QAbstractItemView.SelectionMode.NoSelection)
        self.setItemDelegate(CellDelegate(self))
        self.selectionModel().currentChanged.connect(self._moved)
        self.cells.modelAboutToBeReset.connect(self._keep_place)
        self.cells.modelReset.connect(self._measure_and_return)
        self.measure_now()

    # How it looks

    def head_height(self) -> int:
        """Two lines."""
        return 40 if theme_of(self).density == "comfortable" else 36

    def paint_step(self, painter: QPainter, rect: QRectF, step: int, title: str, theme: Theme) -> None:
        """Draw number and id, below them the tool."""
        half = (rect.height() - 4) / 2
        first = QRectF(rect.x() + PAD, rect.y() + 3, rect.width() - 2 * PAD, half)
        painting.text(painter, first, title, theme, "badge")
        below = first.translated(0, half - 1)
        painting.text(painter, below, one_line(self.cells.tool_of(step)), theme, "mono_hint", "text2")

    def device_fill(self, row: int) -> str:
        """The row of the cursor is marked."""
        return "sel_idle" if row == self.currentIndex().row() else "base"

    def device_note(self, row: int) -> str:
        """The wave that begins there."""
        wave = self.cells.wave_begun_at(row)
        return f"wave {wave}" if wave else ""

    def turning(self) -> Iterator[QModelIndex]:
        """The cells in sight that run."""
        if not self.cells.counts["running"]:
            return
        for row in self.rows_in_sight():
            for column in range(self.cells.columnCount()):
                index = self.cells.index(row, column)
                if cell_look(self.cells.look_at(index)).turning:
                    yield index

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
        rows = self.cells.rowCount() * self.names.defaultSectionSize()
        return self.horizontalHeader().sizeHint().height() + rows + 2

    def tick(self) -> None:
        """Paint the times of what goes on again."""
        if self.cells.goes_on():
            self.viewport().update()

    def look_at_bands(self) -> None:
        """Paint the names again when one of them carries the production band now, or no longer does."""
        self.names.look_at_bands()

    # Measures

    def _keep_place(self) -> None:
        cell = self.current_cell()
        self._kept = (cell.device, cell.step) if cell is not None else None
        self._telling = False

    def _measure_and_return(self) -> None:
        self.measure_now()
        if self._kept is not None:
            self.go_to_cell(*self._kept)
        self._telling = True
        self.cell_changed.emit(self.current_cell())

    def measure_now(self) -> None:
        """Measure names and columns again; many devices stand close to each other."""
        self.dense = self.cells.device_count >= DENSE_FROM
        row = DENSE_ROW if self.dense else theme_of(self).metrics.matrix_row
        self.names.setDefaultSectionSize(row)
        super().measure_now()

    def spread(self) -> None:
        """Share the width among the steps; a dense matrix has narrower ones."""
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

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Spread the columns over the new width."""
        super().resizeEvent(event)
        if event.oldSize().width() != event.size().width():
            self.spread()
        # What takes room above or below, as a banner does, does not take the chosen row out of sight.
        row = self.visualRect(self.currentIndex())
        before = event.oldSize().height()
        if row.isValid() and row.bottom() >= event.size().height() and row.top() < before:
            self.scrollTo(self.currentIndex())

    # Behaviour

    def _moved(self, now: QModelIndex, before: QModelIndex) -> None:
        if now.row() != before.row():
            self.names.viewport().update()
        if self._telling:
            self.cell_changed.emit(self.cells.cell_at(now))

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Enter opens; letters and Space are keys of the screen."""
        if event.key() == Qt.Key.Key_Space:
            event.ignore()
            return
        if event.key() in ENTER and not event.modifiers():
            if (cell := self.current_cell()) is not None:
                self.opened.emit(cell)
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


GLYPH = 14
PAD = 8
_MOST_GLYPHS = 256
_glyphs: dict[tuple[str, str, float, int], QPixmap] = {}


def glyph_pixmap(look: StateLook, theme: Theme, color: str, ratio: float, step: int) -> QPixmap:
    """The shape of a look, drawn once per colour, pixel ratio and step of the turn."""
    key = (look.glyph, theme.color(color).name(), ratio, step if look.turning else 0)
    if (found := _glyphs.get(key)) is None:
        if len(_glyphs) >= _MOST_GLYPHS:
            _glyphs.clear()
        found = QPixmap(round(GLYPH * ratio), round(GLYPH * ratio))
        found.setDevicePixelRatio(ratio)
        found.fill(Qt.GlobalColor.transparent)
        painter = QPainter(found)
        paint_glyph(painter, QRectF(0, 0, GLYPH, GLYPH), look.glyph, theme.color(color), key[3])
        painter.end()
        _glyphs[key] = found
    return found


class CellDelegate(ItemDelegate):
    """Draws one cell: tint, shape, word and time; only the shape in a dense matrix."""

    _view: RunMatrix

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        """Draw the cell."""
        view, model = self._view, self._view.cells
        theme = theme_of(view)
        rect: QRect = option.rect
        key = model.look_at(index)
        if not key:
            return
        look = cell_look(key)
        faded = model.is_faded(key)
        current = view.currentIndex() == index
        if look.tint and not faded:
            painter.fillRect(rect, theme.color(look.tint))
        elif current:
            painter.fillRect(rect, theme.color(view.row_fill(True, index.row())))
        line = theme.color("border")
        painter.fillRect(rect.x(), rect.bottom(), rect.width(), 1, line)
        painter.fillRect(rect.right(), rect.y(), 1, rect.height(), line)
        if model.wave_begun_at(index.row()):
            painter.fillRect(rect.x(), rect.y(), rect.width(), 1, theme.color("control"))
        color = "text3" if faded else look.color
        ratio = painter.device().devicePixelRatio()
        pixmap = glyph_pixmap(look, theme, color, ratio, view.turn())
        top = rect.y() + (rect.height() - GLYPH) // 2
        if not view.has_words:
            painter.drawPixmap(rect.x() + (rect.width() - GLYPH) // 2, top, pixmap)
        else:
            painter.drawPixmap(rect.x() + PAD, top, pixmap)
            self._paint_words(painter, rect, index, look, theme, faded)
        if current:
            edge = theme.color("accent" if view.hasFocus() else "control")
            box = QRectF(rect).adjusted(0, 0, -1, -1)
            painting.box(painter, box, 0, edge=edge, width=2 if view.hasFocus() else 1)

    def _paint_words(
        self, painter: QPainter, rect: QRect, index: Index, look: StateLook, theme: Theme, faded: bool
    ) -> None:
        cell = self._view.cells.cell_at(index)
        if cell is None:
            return
        room = QRectF(rect).adjusted(PAD + GLYPH + 6, 0, -PAD, 0)
        time = cell_time(cell, self._view.cells.look_at(index))
        word_width = painting.text_width(look.word, theme)
        if time and word_width + 10 + painting.text_width(time, theme, "meta") <= room.width():
            tone = "text3" if not look.tint or faded else "text2"
            painting.text(painter, room, time, theme, "meta", tone, Qt.AlignmentFlag.AlignRight)
        painting.text(painter, room, look.word, theme, "body", "text3" if faded else look.word_color)
