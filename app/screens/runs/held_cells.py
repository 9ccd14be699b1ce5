"""The cells of the run on show, of whose values only the newest are kept."""

from __future__ import annotations

from dataclasses import dataclass, field

from core.batch.held_values import HeldValues, Key
from core.batch.live_run import with_result
from core.batch.models import Cell

IN_JOURNAL = "Its value is in the journal."


@dataclass(slots=True)
class HeldCells:
    """Cells by device and step, with at most `MOST_HELD` bytes of values: the journal has all of them."""

    cells: dict[Key, Cell] = field(default_factory=dict)
    values: HeldValues = field(default_factory=HeldValues)

    def put(self, cell: Cell) -> None:
        """Store a cell, replacing the cell of the same device and step."""
        key = (cell.device, cell.step)
        before = self.cells.get(key)
        state, result = (before.state, before.result) if before is not None else (None, None)
        left = self.values.changed(cell, state, result)
        self.cells[key] = cell
        for one in left:
            self.cells[one] = with_result(self.cells[one], result=None, note=IN_JOURNAL)

    def has_value(self, cell: Cell) -> bool:
        """Whether the value of a cell, if there is one, is here too."""
        return (cell.device, cell.step) not in self.values.paged
