"""The matrix of one run: devices as rows, steps as columns, and what each cell counts as."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from PySide6.QtCore import QAbstractTableModel, QModelIndex, QObject, QPersistentModelIndex, Qt, Signal

from app.records.run_text import GROUPS, NEEDS_A_LOOK, cell_words, group_of, look_key, matches
from app.text import one_line
from app.theme.status_styles import cell_look
from app.widgets.labels import escaped_tooltip
from core.batch.models import Cell, Run, RunSummary

Index = QModelIndex | QPersistentModelIndex
CELL_ROLE = int(Qt.ItemDataRole.UserRole) + 1
LOOK_ROLE = int(Qt.ItemDataRole.UserRole) + 2


class CellsModel(QAbstractTableModel):
    """Cells by device and step. A filter hides devices without a match; other cells stay, faded.

    Signals:
        counted: how many cells are in which group is different; read `counts`.
    """

    counted = Signal()

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.summary: RunSummary | None = None
        self._cells: dict[tuple[str, str], Cell] = {}
        self._looks: dict[tuple[str, str], str] = {}
        self._devices: list[str] = []
        self._shown: list[str] = []
        self._places: dict[str, int] = {}
        self._steps: list[str] = []
        self._columns: dict[str, int] = {}
        self._chosen = ""
        self.counts: Counter[str] = Counter()
        self.is_production: Callable[[str], bool] = lambda _device: False

    # What is shown

    def show_run(self, run: Run) -> None:
        """Show the cells of a run; of another run, with no filter. Of the same run only what is new."""
        other = self.summary is None or self.summary.id != run.summary.id
        if not (other or self._chosen) and self._has_places_of(run):
            self._take_cells(run)
            return
        if other:
            self._chosen = ""
        self.beginResetModel()
        self.summary = run.summary
        self._devices = list(run.summary.devices)
        self._steps = list(run.summary.steps)
        self._columns = {step: place for place, step in enumerate(self._steps)}
        self._cells = {(cell.device, cell.step): cell for cell in run.cells}
        self._look_again()
        self._arrange()
        self.endResetModel()
        self.counted.emit()

    def _has_places_of(self, run: Run) -> bool:
        return self._devices == run.summary.devices and self._steps == run.summary.steps

    def _take_cells(self, run: Run) -> None:
        self.summary = run.summary
        self._cells = {(cell.device, cell.step): cell for cell in run.cells}
        self._look_again()
        self._all_changed()
        self.counted.emit()

    def _all_changed(self) -> None:
        if self._shown:
            last = self.index(len(self._shown) - 1, len(self._steps) - 1)
            self.dataChanged.emit(self.index(0, 0), last)

    def clear(self) -> None:
        """Show nothing."""
        self.beginResetModel()
        self.summary = None
        self._cells, self._looks = {}, {}
        self._devices, self._shown, self._steps = [], [], []
        self._places, self._columns = {}, {}
        self.counts.clear()
        self.endResetModel()
        self.counted.emit()

    def _look_again(self) -> None:
        ended = self.summary is not None and self.summary.state.ended
        self._looks = {place: look_key(cell, ended) for place, cell in self._cells.items()}
        self.counts = Counter(group_of(look) for look in self._looks.values())

    def _arrange(self) -> None:
        self._shown = [device for device in self._devices if self._has_match(device)]
        self._places = {device: place for place, device in enumerate(self._shown)}

    def _has_match(self, device: str) -> bool:
        if not self._chosen:
            return True
        looks = (self._looks.get((device, step), "") for step in self._steps)
        return any(matches(look, self._chosen) for look in looks if look)

    def take_summary(self, summary: RunSummary) -> None:
        """The run's own state changed: at its end, open cells become interrupted."""
        if self.summary is None or summary.id != self.summary.id:
            return
        ended = summary.state.ended and not self.summary.state.ended
        self.summary = summary
        if ended:
            self._look_again()
            self._all_changed()
            self.counted.emit()

    def put(self, cell: Cell) -> None:
        """One cell is new. A row that no longer matches the filter stays until the filter is set anew."""
        place = (cell.device, cell.step)
        if place not in self._cells or self.summary is None or cell.run != self.summary.id:
            return
        before, look = self._looks[place], look_key(cell, self.summary.state.ended)
        self._cells[place], self._looks[place] = cell, look
        if cell.device in self._places:
            index = self.index(self._places[cell.device], self._columns[cell.step])
            self.dataChanged.emit(index, index)
        if before != look:
            self.counts[group_of(before)] -= 1
            self.counts[group_of(look)] += 1
            self.counted.emit()

    @property
    def chosen(self) -> str:
        """The filter: a group's key, what needs a look, or nothing."""
        return self._chosen

    def choose(self, group: str) -> None:
        """Show the devices that have a cell of this group; all when empty."""
        self.beginResetModel()
        self._chosen = group
        self._arrange()
        self.endResetModel()

    def needing(self) -> int:
        """How many cells need a look."""
        return sum(self.counts[group.key] for group in GROUPS if NEEDS_A_LOOK.issuperset(group.looks))

    def total(self) -> int:
        """How many cells there are."""
        return len(self._cells)

    # What views ask

    @property
    def device_count(self) -> int:
        """How many devices the run is on, shown or not."""
        return len(self._devices)

    @property
    def devices(self) -> list[str]:
        """The devices that are shown, from top to bottom."""
        return self._shown

    def tool_of(self, column: int) -> str:
        """The tool of a column's step."""
        tools = self.summary.tools if self.summary else []
        return tools[column] if 0 <= column < len(tools) else ""

    def cell_at(self, index: Index) -> Cell | None:
        """The cell at a place."""
        if not index.isValid():
            return None
        return self._cells.get((self._shown[index.row()], self._steps[index.column()]))

    def look_at(self, index: Index) -> str:
        """The look of the cell at a place; empty when there is none."""
        return self._looks.get((self._shown[index.row()], self._steps[index.column()]), "")

    def is_faded(self, look: str) -> bool:
        """Whether a cell of this look is beside the filter."""
        return bool(self._chosen) and not matches(look, self._chosen)

    def index_of(self, device: str, step: str) -> QModelIndex:
        """Where a cell is shown; invalid when it is not."""
        row, column = self._places.get(device, -1), self._columns.get(step, -1)
        return self.index(row, column) if row >= 0 and column >= 0 else QModelIndex()

    def next_needing(self, after: QModelIndex) -> QModelIndex:
        """The next cell that needs a look, row by row, around at the end; invalid when there is none."""
        width = len(self._steps)
        total = len(self._shown) * width
        start = after.row() * width + after.column() if after.isValid() else -1
        for offset in range(1, total + 1):
            row, column = divmod((start + offset) % total, width)
            if self._looks.get((self._shown[row], self._steps[column])) in NEEDS_A_LOOK:
                return self.index(row, column)
        return QModelIndex()

    def first_match(self) -> QModelIndex:
        """The first cell that the filter is about; the first of all without one."""
        for row, device in enumerate(self._shown):
            for column, step in enumerate(self._steps):
                look = self._looks.get((device, step), "")
                if look and not self.is_faded(look):
                    return self.index(row, column)
        return QModelIndex()

    def rowCount(self, parent: Index = QModelIndex()) -> int:
        """Devices that are shown."""
        return 0 if parent.isValid() else len(self._shown)

    def columnCount(self, parent: Index = QModelIndex()) -> int:
        """Steps."""
        return 0 if parent.isValid() else len(self._steps)

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> object:
        """The cell, its look, and its words."""
        if role not in (
            CELL_ROLE,
            LOOK_ROLE,
            Qt.ItemDataRole.DisplayRole,
            Qt.ItemDataRole.ToolTipRole,
            Qt.ItemDataRole.AccessibleTextRole,
        ):
            return None
        cell = self.cell_at(index)
        if cell is None:
            return None
        look = self.look_at(index)
        if role == CELL_ROLE:
            return cell
        if role == LOOK_ROLE:
            return look
        if role == Qt.ItemDataRole.DisplayRole:
            return cell_look(look).word
        words = cell_words(cell, look)
        return escaped_tooltip(words) if role == Qt.ItemDataRole.ToolTipRole else words

    def headerData(
        self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole
    ) -> object:
        """Devices at the left, steps above."""
        if role not in (Qt.ItemDataRole.DisplayRole, Qt.ItemDataRole.AccessibleTextRole):
            return None
        if orientation == Qt.Orientation.Vertical:
            return one_line(self._shown[section]) if section < len(self._shown) else None
        return f"{section + 1} {one_line(self._steps[section])}" if section < len(self._steps) else None

    def goes_on(self) -> bool:
        """True while running cells are counted, whose times go on."""
        return bool(self.counts["running"] or self.counts["waiting"])


__all__ = ["CELL_ROLE", "LOOK_ROLE", "CellsModel"]
