"""How the matrix is drawn: cells, heads of steps, names of devices."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QModelIndex, QPersistentModelIndex, QRect, QRectF, QSize, Qt
from PySide6.QtGui import QPainter, QPaintEvent, QPixmap
from PySide6.QtWidgets import QHeaderView, QStyledItemDelegate, QStyleOptionViewItem, QWidget

from app.screens.runs.words import cell_time, one_line
from app.theme.shapes import paint_glyph
from app.theme.status_styles import StateLook, cell_look
from app.theme.theme import Theme, theme_of
from app.theme.tokens import FRAME, SPACE
from app.widgets import painting
from app.widgets.badges import paint_production_band

if TYPE_CHECKING:
    from app.screens.runs.matrix import MatrixView

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
