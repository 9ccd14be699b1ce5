"""Which values of results a run keeps in memory; the others are read back from the journal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from core.batch.expression_reads import TooCostly, size_of
from core.batch.expressions import STEPS
from core.batch.models import OPEN_STATES, CellState
from core.batch.templates import CompiledStep
from core.commands.results import CommandResult

MOST_HELD = 32 * 1024 * 1024
"""Bytes as JSON of the values in memory: of one run, and of all runs when one starts. Python takes several
times as much for them."""

Key = tuple[str, str]


class CellWithValue(Protocol):
    """The part of a cell that `HeldValues` reads, of a client's or of a run's own."""

    @property
    def device(self) -> str: ...
    @property
    def step(self) -> str: ...
    @property
    def state(self) -> CellState: ...
    @property
    def result(self) -> CommandResult | None: ...


@dataclass(slots=True)
class HeldValues:
    """The values that a run keeps, by device and step.

    `read` are the steps whose results expressions of the run read: they stay until their device has ended
    all its steps. `paged` are the cells whose values only the journal has.
    """

    read: frozenset[str] = frozenset()
    bytes: int = 0
    paged: set[Key] = field(default_factory=set)
    # Both oldest first, with sizes; `_needed` by device.
    _sizes: dict[Key, int] = field(default_factory=dict)
    _needed: dict[str, dict[Key, int]] = field(default_factory=dict)
    _open: Counter[str] = field(default_factory=Counter)

    def changed(
        self, cell: CellWithValue, state: CellState | None, result: CommandResult | None
    ) -> Iterable[Key]:
        """Take note of a cell that had this state and result; a new cell had none.

        Returns the cells whose values are left to the journal now.
        """
        if cell.result is not result:
            self._put_value(cell)
        self._open[cell.device] += (cell.state in OPEN_STATES) - (state in OPEN_STATES)
        if not self._open[cell.device]:
            self._sizes |= self._needed.pop(cell.device, {})
        if self.bytes <= MOST_HELD:
            return ()
        return self._leave_oldest()

    def _put_value(self, cell: CellWithValue) -> None:
        key, needed = (cell.device, cell.step), self._needed.get(cell.device, {})
        self.bytes -= self._sizes.pop(key, 0) + needed.pop(key, 0)
        self.paged.discard(key)
        if cell.result is None or cell.result.result is None:
            return
        size = bytes_of(cell.result.result)
        self.bytes += size
        if cell.step in self.read:
            self._needed.setdefault(cell.device, {})[key] = size
        else:
            self._sizes[key] = size

    def _leave_oldest(self) -> list[Key]:
        left: list[Key] = []
        for key, size in self._sizes.items():
            if self.bytes <= MOST_HELD:
                break
            self.bytes -= size
            left.append(key)
        for key in left:
            del self._sizes[key]
        self.paged.update(left)
        return left


def steps_read(compiled: Mapping[str, CompiledStep]) -> frozenset[str]:
    """The steps of which expressions of a batch read something."""
    expressions = (one for step in compiled.values() for one in step.expressions())
    paths = (reference.path for one in expressions for reference in one.references)
    return frozenset(path[1] for path in paths if path[0] == STEPS and len(path) > 1)


def bytes_of(value: Any) -> int:
    """Bytes of a value as JSON, or about as many."""
    try:
        return size_of(value)
    except TooCostly:  # a number beyond 64 bits
        return len(repr(value))
