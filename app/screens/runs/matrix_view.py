"""The matrix: what every device came to in every step, moved through with the arrow keys."""

from __future__ import annotations

from PySide6.QtCore import (
    QEvent,
    QModelIndex,
    QPersistentModelIndex,
    QRect,
    QRectF,
    QSize,
    Qt,
    QTimer,
    Signal,
)
from PySide6.QtGui import QFocusEvent, QKeyEvent, QMouseEvent, QPainter, QPaintEvent, QPixmap, QResizeEvent
from PySide6.QtWidgets import (
    QAbstractItemView,
    QHeaderView,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QTableView,
    QWidget,
)

from app.records.run_text import cell_time
from app.screens.runs.cells_model import CellsModel
from app.text import one_line
from app.theme.shapes import paint_glyph
from app.theme.status_styles import StateLook, cell_look
from app.theme.theme import Theme, theme_of
from app.theme.tokens import FRAME, SPACE
from app.widgets import painting
from app.widgets.animation_timer import animation_timer_of
from app.widgets.badges import paint_production_band
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
        self.cells = CellsModel(self)
        self.dense = False
        self.has_words = True
        self._kept: tuple[str, str] | None = None
        self._telling = True
        self._pulse = animation_timer_of(self)
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


Index = QModelIndex | QPersistentModelIndex
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


class CellPainter(QStyledItemDelegate):
    """Draws one cell: tint, shape, word and time; only the shape in a dense matrix."""

    def __init__(self, view: MatrixView) -> None:
        super().__init__(view)
        self._view = view

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
        elif current and view.hasFocus():
            painter.fillRect(rect, theme.color("selected"))
        elif current:
            painter.fillRect(rect, theme.color("sel_idle"))
        line = theme.color("border")
        painter.fillRect(rect.x(), rect.bottom(), rect.width(), 1, line)
        painter.fillRect(rect.right(), rect.y(), 1, rect.height(), line)
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


class StepHead(QHeaderView):
    """Heads of the steps: number and id, below them the tool."""

    def __init__(self, view: MatrixView) -> None:
        super().__init__(Qt.Orientation.Horizontal, view)
        self._view = view
        self.setHighlightSections(False)
        self.setSectionsClickable(False)
        self.setMinimumSectionSize(24)
        self.setAccessibleName("Steps")

    def sizeHint(self) -> QSize:
        """Two lines."""
        return QSize(super().sizeHint().width(), 40 if theme_of(self).density == "comfortable" else 36)

    def paintSection(self, painter: QPainter, rect: QRect, logical: int) -> None:
        """Draw one head."""
        theme = theme_of(self)
        painter.save()
        painter.setClipRect(rect)
        painter.fillRect(rect, theme.color("raised"))
        painter.fillRect(rect.x(), rect.bottom(), rect.width(), 1, theme.color("border"))
        painter.fillRect(rect.right(), rect.y(), 1, rect.height(), theme.color("border"))
        title = str(self.model().headerData(logical, Qt.Orientation.Horizontal) or "")
        half = (rect.height() - 4) / 2
        first = QRectF(rect.x() + PAD, rect.y() + 3, rect.width() - 2 * PAD, half)
        painting.text(painter, first, title, theme, "badge")
        below = first.translated(0, half - 1)
        painting.text(
            painter, below, one_line(self._view.cells.tool_of(logical)), theme, "mono_hint", "text2"
        )
        painter.restore()


class DeviceHead(QHeaderView):
    """Names of the devices, whole, with the production band."""

    def __init__(self, view: MatrixView) -> None:
        super().__init__(Qt.Orientation.Vertical, view)
        self._view = view
        self.setHighlightSections(False)
        self.setSectionsClickable(False)
        self.setSectionResizeMode(QHeaderView.ResizeMode.Fixed)
        self.setMinimumSectionSize(1)
        self.setAccessibleName("Devices")
        self._width = 120
        # Whether each name that was painted carried the production band.
        self._banded: dict[str, bool] = {}

    def look_at_bands(self) -> None:
        """Paint the names anew when a band came or went."""
        is_production = self._view.cells.is_production
        if any(is_production(device) != banded for device, banded in self._banded.items()):
            self._banded.clear()
            self.viewport().update()

    def paintEvent(self, event: QPaintEvent) -> None:
        """Below the last name there is nothing: the ground of the pane."""
        end = self.length() - self.offset()
        super().paintEvent(event)
        if end < self.viewport().height():
            painter = QPainter(self.viewport())
            rest = QRect(0, end, self.viewport().width(), self.viewport().height() - end)
            painter.fillRect(rest, theme_of(self).color("base"))
            painter.end()

    def measure(self) -> None:
        """Be as wide as the longest name."""
        theme = theme_of(self)
        self._banded.clear()
        role = "meta" if self._view.dense else "name"
        names = (one_line(device) for device in self._view.cells.devices)
        # Only the longest by letters are measured: a thousand names in a thousand font lookups would show.
        longest = sorted(names, key=len, reverse=True)[:12]
        widest = max((painting.text_width(name, theme, role) for name in longest), default=60.0)
        self._width = max(120, round(widest) + FRAME.first_column + SPACE.medium)
        self.setFixedWidth(self._width)

    def sizeHint(self) -> QSize:
        """As wide as the names. Its height is the view's: Qt's own way would ask two hundred names."""
        return QSize(self._width, 0)

    def paintSection(self, painter: QPainter, rect: QRect, logical: int) -> None:
        """Draw one name."""
        theme = theme_of(self)
        devices = self._view.cells.devices
        if not 0 <= logical < len(devices):
            return
        device = devices[logical]
        here = self._view.currentIndex().row() == logical
        painter.save()
        painter.setClipRect(rect)
        painter.fillRect(rect, theme.color("sel_idle" if here else "base"))
        painter.fillRect(rect.x(), rect.bottom(), rect.width(), 1, theme.color("border"))
        painter.fillRect(rect.right(), rect.y(), 1, rect.height(), theme.color("border"))
        self._banded[device] = self._view.cells.is_production(device)
        if self._banded[device]:
            paint_production_band(painter, QRectF(rect.x() + 3, rect.y() + 1, 5, rect.height() - 3), theme)
        room = QRectF(rect).adjusted(FRAME.first_column, 0, -2, 0)
        role = "meta" if self._view.dense else "name"
        painting.text(painter, room, one_line(device), theme, role, elide=Qt.TextElideMode.ElideNone)
        painter.restore()


class Corner(QWidget):
    """The place where both heads meet."""

    def __init__(self, view: MatrixView) -> None:
        super().__init__(view)

    def paintEvent(self, event: QPaintEvent) -> None:
        """Say what the rows are."""
        theme = theme_of(self)
        painter = QPainter(self)
        rect = self.rect()
        painter.fillRect(rect, theme.color("raised"))
        painter.fillRect(0, rect.bottom(), rect.width(), 1, theme.color("border"))
        painter.fillRect(rect.right(), 0, 1, rect.height(), theme.color("border"))
        room = QRectF(rect).adjusted(FRAME.first_column, 0, 0, 0)
        painting.text(painter, room, "Device", theme, "label", "text3")
        painter.end()
