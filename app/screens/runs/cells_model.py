"""The matrix of one run: devices as rows, steps as columns, and what each cell counts as."""

from __future__ import annotations

from collections import Counter

from PySide6.QtCore import QModelIndex, QObject, Qt, Signal

from app.items.keyed_model import Index
from app.items.matrix import MatrixModel
from app.records.run_text import GROUPS, NEEDS_A_LOOK, cell_words, group_of, look_key, matches
from app.screens.runs.held_cells import HeldCells
from app.theme.state_looks import cell_look
from app.widgets.labels import escaped_tooltip
from core.batch.models import Cell, Run, RunSummary
from core.batch.waves import in_waves

_NOT_BEGUN = ("queued", "not_started", "done_before", "")
LOOK_ROLE = int(Qt.ItemDataRole.UserRole) + 2


class CellsModel(MatrixModel[Cell]):
    """Cells by device and step. A filter hides devices without a match; other cells stay, faded.

    Signals:
        counted: how many cells are in which group is different; read `counts`.
    """

    counted = Signal()

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.summary: RunSummary | None = None
        self._held = HeldCells()
        self._looks: dict[tuple[str, str], str] = {}
        self._chosen = ""
        self._waves: dict[str, int] = {}
        self.wave_count = 1
        # The number of the last wave of which something has begun; 0 before.
        self.present_wave = 0
        self.counts: Counter[str] = Counter()

    # What is shown

    def show_run(self, run: Run, held: HeldCells) -> None:
        """Show the cells of a run, which are in `held`; of another run, with no filter.

        Of the same run only what is new.
        """
        other = self.summary is None or self.summary.id != run.summary.id
        if not (other or self._chosen) and self._has_places_of(run):
            self._take_cells(run, held)
            return
        if other:
            self._chosen = ""
        self.beginResetModel()
        self.summary = run.summary
        waves = in_waves(run.summary.devices, run.summary.waves or [len(run.summary.devices)])
        self.wave_count = len(waves)
        self._waves = {device: number for number, wave in enumerate(waves, 1) for device in wave}
        self._hold(held)
        self._look_again()
        self._arrange()
        self.endResetModel()
        self.counted.emit()

    def _has_places_of(self, run: Run) -> bool:
        known = self.summary
        return known is not None and (known.devices, known.steps) == (run.summary.devices, run.summary.steps)

    def _take_cells(self, run: Run, held: HeldCells) -> None:
        self.summary = run.summary
        self._hold(held)
        self._look_again()
        self._all_changed()
        self.counted.emit()

    def _hold(self, held: HeldCells) -> None:
        self._held, self._cells = held, held.cells

    def _all_changed(self) -> None:
        if self._devices:
            last = self.index(len(self._devices) - 1, len(self._steps) - 1)
            self.dataChanged.emit(self.index(0, 0), last)

    def clear(self) -> None:
        """Show nothing."""
        self.beginResetModel()
        self.summary = None
        self._hold(HeldCells())
        self._looks = {}
        self._set_heads((), ())
        self.counts.clear()
        self.endResetModel()
        self.counted.emit()

    def _look_again(self) -> None:
        ended = self.summary is not None and self.summary.state.ended
        self._looks = {place: look_key(cell, ended) for place, cell in self._cells.items()}
        self.counts = Counter(group_of(look) for look in self._looks.values())
        begun = {device for (device, _), look in self._looks.items() if look not in _NOT_BEGUN}
        self.present_wave = max((self._waves.get(device, 0) for device in begun), default=0)

    def _arrange(self) -> None:
        if self.summary is not None:
            steps = self.summary.steps
            self._set_heads((one for one in self.summary.devices if self._has_match(one, steps)), steps)

    def _has_match(self, device: str, steps: list[str]) -> bool:
        looks = (self._looks.get((device, step), "") for step in steps)
        return not self._chosen or any(matches(look, self._chosen) for look in looks if look)

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
        """One cell is new. A row that no longer matches the filter stays until the filter is set again."""
        place = (cell.device, cell.step)
        if place not in self._cells or self.summary is None or cell.run != self.summary.id:
            return
        before, look = self._looks[place], look_key(cell, self.summary.state.ended)
        self._held.put(cell)
        self._looks[place] = look
        if look not in _NOT_BEGUN:
            self.present_wave = max(self.present_wave, self._waves.get(cell.device, 0))
        if (index := self.index_of(cell.device, cell.step)).isValid():
            self.dataChanged.emit(index, index)
        if before != look:
            self.counts[group_of(before)] -= 1
            self.counts[group_of(look)] += 1
            self.counted.emit()

    def cells_of(self, step: str) -> tuple[list[Cell], int]:
        """A step's cells in the order of the run's devices, and how many more only the journal has whole."""
        devices = self.summary.devices if self.summary is not None else []
        cells = [cell for device in devices if (cell := self._cells.get((device, step))) is not None]
        whole = [cell for cell in cells if self._held.has_value(cell)]
        return whole, len(cells) - len(whole)

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
        return len(self.summary.devices) if self.summary is not None else 0

    def tool_of(self, column: int) -> str:
        """The tool of a column's step."""
        tools = self.summary.tools if self.summary else []
        return tools[column] if 0 <= column < len(tools) else ""

    def wave_begun_at(self, row: int) -> int:
        """The number of the wave whose first device, of those that are shown, is in this row; else 0."""
        if self.wave_count < 2 or not 0 <= row < len(self._devices):
            return 0
        wave = self._waves.get(self._devices[row], 0)
        return wave if row == 0 or self._waves.get(self._devices[row - 1]) != wave else 0

    def look_at(self, index: Index) -> str:
        """The look of the cell at a place; empty when there is none."""
        return self._looks.get((self._devices[index.row()], self._steps[index.column()]), "")

    def is_faded(self, look: str) -> bool:
        """Whether a cell of this look is beside the filter."""
        return bool(self._chosen) and not matches(look, self._chosen)

    def next_needing(self, after: QModelIndex) -> QModelIndex:
        """The next cell that needs a look, row by row, around at the end; invalid when there is none."""
        width = len(self._steps)
        total = len(self._devices) * width
        start = after.row() * width + after.column() if after.isValid() else -1
        for offset in range(1, total + 1):
            row, column = divmod((start + offset) % total, width)
            if self._looks.get((self._devices[row], self._steps[column])) in NEEDS_A_LOOK:
                return self.index(row, column)
        return QModelIndex()

    def first_match(self) -> QModelIndex:
        """The first cell that the filter is about; the first of all without one."""
        for row, device in enumerate(self._devices):
            for column, step in enumerate(self._steps):
                look = self._looks.get((device, step), "")
                if look and not self.is_faded(look):
                    return self.index(row, column)
        return QModelIndex()

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> object:
        """A cell's look, and its words."""
        cell = self.cell_at(index)
        if cell is None:
            return None
        look = self.look_at(index)
        match role:
            case _ if role == LOOK_ROLE:
                return look
            case Qt.ItemDataRole.DisplayRole:
                return cell_look(look).word
            case Qt.ItemDataRole.AccessibleTextRole:
                return cell_words(cell, look)
            case Qt.ItemDataRole.ToolTipRole:
                return escaped_tooltip(cell_words(cell, look))
        return None

    def goes_on(self) -> bool:
        """True while running cells are counted, whose times go on."""
        return bool(self.counts["running"] or self.counts["waiting"])
