"""A matrix of devices by steps: its model, its heads, and the corner where they meet."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar

from PySide6.QtCore import QAbstractTableModel, QModelIndex, QObject, QRect, QRectF, QSize, Qt, QTimer
from PySide6.QtGui import QPainter, QPaintEvent
from PySide6.QtWidgets import QHeaderView, QTableView, QWidget

from app.items.item_view import AnimatedItemView
from app.items.keyed_model import NO_PARENT, Index
from app.text import one_line
from app.theme.theme import Theme, theme_of
from app.theme.tokens import FRAME
from app.widgets import painting
from app.widgets.badges import paint_production_band

CellValue = TypeVar("CellValue")
_HEAD_ROLES = (Qt.ItemDataRole.DisplayRole, Qt.ItemDataRole.AccessibleTextRole)


class MatrixModel(QAbstractTableModel, Generic[CellValue]):
    """What is in each cell, by the names of its device and its step."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._cells: dict[tuple[str, str], CellValue] = {}
        self._devices: Sequence[str] = ()
        self._steps: Sequence[str] = ()
        self._rows: dict[str, int] = {}
        self._columns: dict[str, int] = {}
        self.is_production: Callable[[str], bool] = lambda _device: False

    def _set_heads(self, devices: Iterable[str], steps: Iterable[str]) -> None:
        """Name the rows and columns; within a reset."""
        self._devices, self._steps = list(devices), list(steps)
        self._rows = {device: row for row, device in enumerate(self._devices)}
        self._columns = {step: column for column, step in enumerate(self._steps)}

    @property
    def devices(self) -> Sequence[str]:
        """The devices that are shown, from top to bottom."""
        return self._devices

    @property
    def steps(self) -> Sequence[str]:
        """The steps, from left to right."""
        return self._steps

    def cell_at(self, index: Index) -> CellValue | None:
        """The cell at a place; None for one without, and beside the steps."""
        if not index.isValid() or index.column() >= len(self._steps):
            return None
        return self._cells.get((self._devices[index.row()], self._steps[index.column()]))

    def index_of(self, device: str, step: str) -> QModelIndex:
        """Where a cell is shown; invalid when it is not."""
        return self.index(self._rows.get(device, -1), self._columns.get(step, -1))

    def rowCount(self, parent: Index = NO_PARENT) -> int:
        """Devices that are shown."""
        return 0 if parent.isValid() else len(self._devices)

    def columnCount(self, parent: Index = NO_PARENT) -> int:
        """Steps."""
        return 0 if parent.isValid() else len(self._steps)

    def headerData(
        self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole
    ) -> Any:
        """Devices at the left; above the steps with their numbers."""
        names = self._devices if orientation == Qt.Orientation.Vertical else self._steps
        if role not in _HEAD_ROLES or not 0 <= section < len(names):
            return None
        number = "" if orientation == Qt.Orientation.Vertical else f"{section + 1} "
        return number + one_line(names[section])


class MatrixView(AnimatedItemView, QTableView):
    """Cells moved through with the arrow keys, between heads that stay in sight.

    A subclass says how its heads look: `head_height`, `head_fill` and `paint_step`, the least width of names,
    what lies beside the longest one, and whether lines go down through the heads as through the cells.
    """

    least_names, beside_name = 120, FRAME.first_column + 12
    lines_down = True
    dense = False

    def __init__(
        self, model: MatrixModel[Any], name: str, steps: str, devices: str, parent: QWidget | None = None
    ) -> None:
        """`steps` and `devices` name the heads for assistive technology."""
        super().__init__(name, parent)
        self.matrix_model = model
        self.setModel(model)
        self.setHorizontalHeader(StepHead(self, steps))
        self.names = DeviceHead(self, devices)
        self.setVerticalHeader(self.names)
        self.corner = Corner(self)

    def head_height(self) -> int:
        """The height of the heads of the steps."""
        return theme_of(self).metrics.table_head

    def head_fill(self, step: int) -> str:
        """The token behind the head of a step."""
        del step
        return "raised"

    def paint_step(self, painter: QPainter, rect: QRectF, step: int, title: str, theme: Theme) -> None:
        """Draw what the head of a step says."""
        raise NotImplementedError

    def device_fill(self, row: int) -> str:
        """The token behind the name of a device."""
        del row
        return "base"

    def device_note(self, row: int) -> str:
        """A word at the right of a device's name, above which a stronger line begins."""
        del row
        return ""

    def spread(self) -> None:
        """Share the width among the steps."""
        raise NotImplementedError

    def turning(self) -> Iterator[QModelIndex]:
        """Nothing turns in a matrix, unless its own view says so."""
        return iter(())

    def measure(self) -> None:
        """Take the new density's heights. The heads are polished after their view, and undo it until then."""
        QTimer.singleShot(0, self, self.measure_now)

    def measure_now(self) -> None:
        """Measure names and columns again."""
        self.names.measure()
        self.spread()
        self.updateGeometries()

    def updateGeometries(self) -> None:
        """Keep the corner where the heads meet."""
        super().updateGeometries()
        # Qt asks before the constructor has ended.
        if hasattr(self, "corner"):
            head = self.horizontalHeader()
            self.corner.setGeometry(0, 0, self.verticalHeader().width(), head.height())
            self.corner.raise_()


class StepHead(QHeaderView):
    """Heads of the steps."""

    def __init__(self, view: MatrixView, name: str) -> None:
        super().__init__(Qt.Orientation.Horizontal, view)
        self._view = view
        self.setHighlightSections(False)
        self.setSectionsClickable(False)
        self.setMinimumSectionSize(24)
        self.setAccessibleName(name)

    def sizeHint(self) -> QSize:
        """As high as the view says."""
        return QSize(super().sizeHint().width(), self._view.head_height())

    def paintSection(self, painter: QPainter, rect: QRect, logical: int) -> None:
        """Draw one head."""
        theme = theme_of(self)
        painter.save()
        painter.setClipRect(rect)
        _paint_ground(painter, rect, self._view.head_fill(logical), self._view.lines_down, theme)
        title = str(self.model().headerData(logical, Qt.Orientation.Horizontal) or "")
        self._view.paint_step(painter, QRectF(rect), logical, title, theme)
        painter.restore()


class DeviceHead(QHeaderView):
    """Names of the devices, whole, with the production band."""

    def __init__(self, view: MatrixView, name: str) -> None:
        super().__init__(Qt.Orientation.Vertical, view)
        self._view = view
        self.setHighlightSections(False)
        self.setSectionsClickable(False)
        self.setSectionResizeMode(QHeaderView.ResizeMode.Fixed)
        self.setMinimumSectionSize(1)
        self.setAccessibleName(name)
        self._width = view.least_names
        # Whether each name that was painted carried the production band.
        self._banded: dict[str, bool] = {}

    def look_at_bands(self) -> None:
        """Paint the names again when a band came or went."""
        is_production = self._view.matrix_model.is_production
        if any(is_production(device) != banded for device, banded in self._banded.items()):
            self._banded.clear()
            self.viewport().update()

    def measure(self) -> None:
        """Be as wide as the longest name."""
        theme = theme_of(self)
        self._banded.clear()
        names = (one_line(device) for device in self._view.matrix_model.devices)
        # Only the longest by letters are measured: a thousand names in a thousand font lookups would show.
        longest = sorted(names, key=len, reverse=True)[:12]
        widest = max((painting.text_width(name, theme, self._role()) for name in longest), default=60.0)
        notes = (self._view.device_note(row) for row in range(len(self._view.matrix_model.devices)))
        note = max((painting.text_width(note, theme, "meta") + 16 for note in {*notes} if note), default=0)
        self._width = max(self._view.least_names, round(widest + note) + self._view.beside_name)
        self.setFixedWidth(self._width)

    def _role(self) -> str:
        return "meta" if self._view.dense else "name"

    def sizeHint(self) -> QSize:
        """As wide as the names. Its height is the view's: Qt's own way would ask two hundred names."""
        return QSize(self._width, 0)

    def paintEvent(self, event: QPaintEvent) -> None:
        """Below the last name there is nothing: the ground of the pane."""
        end = self.length() - self.offset()
        super().paintEvent(event)
        if end < self.viewport().height():
            painter = QPainter(self.viewport())
            rest = QRect(0, end, self.viewport().width(), self.viewport().height() - end)
            painter.fillRect(rest, theme_of(self).color("base"))
            painter.end()

    def paintSection(self, painter: QPainter, rect: QRect, logical: int) -> None:
        """Draw one name."""
        theme, model = theme_of(self), self._view.matrix_model
        if not 0 <= logical < len(model.devices):
            return
        device = model.devices[logical]
        painter.save()
        painter.setClipRect(rect)
        _paint_ground(painter, rect, self._view.device_fill(logical), self._view.lines_down, theme)
        self._banded[device] = model.is_production(device)
        if self._banded[device]:
            paint_production_band(painter, QRectF(rect.x() + 3, rect.y() + 1, 5, rect.height() - 3), theme)
        room = _room(rect, self._view.lines_down).adjusted(0, 0, -2, 0)
        if note := self._view.device_note(logical):
            painter.fillRect(rect.x(), rect.y(), rect.width(), 1, theme.color("control"))
            edge = room.adjusted(0, 0, -8, 0)
            painting.text(painter, edge, note, theme, "meta", "text3", Qt.AlignmentFlag.AlignRight)
        painting.text(painter, room, one_line(device), theme, self._role(), elide=Qt.TextElideMode.ElideNone)
        painter.restore()


class Corner(QWidget):
    """The place where both heads meet."""

    def __init__(self, view: MatrixView) -> None:
        super().__init__(view)
        self._view = view

    def paintEvent(self, event: QPaintEvent) -> None:
        """Say what the rows are."""
        theme = theme_of(self)
        painter = QPainter(self)
        _paint_ground(painter, self.rect(), "raised", self._view.lines_down, theme)
        painting.text(painter, _room(self.rect(), self._view.lines_down), "Device", theme, "label", "text3")
        painter.end()


def _paint_ground(painter: QPainter, rect: QRect, fill: str, line_at_right: bool, theme: Theme) -> None:
    painter.fillRect(rect, theme.color(fill))
    painter.fillRect(rect.x(), rect.bottom(), rect.width(), 1, theme.color("border"))
    if line_at_right:
        painter.fillRect(rect.right(), rect.y(), 1, rect.height(), theme.color("border"))


def _room(rect: QRect, lines_down: bool) -> QRectF:
    """Where a name stands; heads without lines down centre it above the one below."""
    return QRectF(rect).adjusted(FRAME.first_column, 0, 0, 0 if lines_down else -1)
