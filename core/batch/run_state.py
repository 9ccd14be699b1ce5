"""Holds the state of a run in memory: its cells, their counts and the state of the whole run.

Maps a command's result to the state of its cell, and a cell to the result that clients read.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from typing import Literal

from core.aip.messages import ResultStatus
from core.batch.models import Batch, Cell, CellState, Run, RunState, RunSummary, flatten
from core.canonical_json import digest_of
from core.dispatch.models import Basis, CommandResult, Verdict
from core.errors import ErrorCode, ErrorInfo

SWITCHED_OFF = "switched off"


@dataclass(slots=True)
class ActiveRun:
    """A run in memory. Cells must be changed with `put`, which keeps `counts` by cell state correct."""

    id: str
    batch: Batch
    kind: Literal["batch", "call"]
    actor: str
    devices: list[str]
    said: str
    started_at: str
    # The operator who requested the run, proved by the operator's key; empty without proof.
    operator: str = ""
    # The redacted batch for the journal and display: secrets are replaced by commitments. None for a run
    # that was rebuilt from the journal, whose `batch` is redacted already.
    shown: Batch | None = None
    cells: dict[tuple[str, str], Cell] = field(default_factory=dict)
    # By step: the index of the device that the step was decided for, and the summary of that decision.
    effects: dict[str, tuple[int, str]] = field(default_factory=dict)
    counts: Counter[CellState] = field(default_factory=Counter)
    devices_hash: str = field(init=False)
    places: dict[str, int] = field(init=False)
    end: RunState | None = None
    ended_at: str | None = None
    note: str = ""
    cancelled: bool = False
    # Of an agent's run: see `core.audit.events.RunStarted`.
    request_id: str = ""
    request_digest: str = ""
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    # Set when the first command of the run has begun to wait for an operator, and when the run has ended.
    asked: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.devices_hash = devices_hash(self.devices)
        self.places = {device: place for place, device in enumerate(self.devices)}

    def summary(self) -> RunSummary:
        """A snapshot of the run without its cells."""
        steps = flatten(self.batch.steps)
        state = RunState.WAITING if self.counts[CellState.WAITING] else RunState.RUNNING
        return RunSummary(
            id=self.id,
            name=self.batch.name,
            kind=self.kind,
            actor=self.actor,
            state=self.end or state,
            devices=self.devices,
            devices_hash=self.devices_hash,
            steps=[step.id for step in steps],
            tools=[step.tool for step in steps],
            counts={key: count for key, count in self.counts.items() if count},
            started_at=self.started_at,
            ended_at=self.ended_at,
            note=self.note,
            effect=next((self.effects[step.id][1] for step in steps if step.id in self.effects), ""),
        )

    def decided(self, device: str, step: str, effect: str) -> None:
        """Record what a step does. Of several devices, the first in the order of the run counts.

        A step that is decided again after an edit replaces its earlier text.
        """
        place = self.places[device]
        if step not in self.effects or place <= self.effects[step][0]:
            self.effects[step] = (place, effect)

    def put(self, cell: Cell) -> None:
        """Store a cell, replacing the cell of the same device and step, and update the counts."""
        key = (cell.device, cell.step)
        before = self.cells.get(key)
        if before is None or before.state is not cell.state:
            self.counts[cell.state] += 1
            if before is not None:
                self.counts[before.state] -= 1
        self.cells[key] = cell
        if cell.state is CellState.WAITING:
            self.asked.set()

    def whole(self) -> Run:
        """The run with all its cells."""
        return Run(summary=self.summary(), batch=self.shown or self.batch, cells=list(self.cells.values()))


def devices_hash(devices: list[str]) -> str:
    """SHA-256 over the sorted device names. Two lists name the same devices if their hashes are equal."""
    return digest_of(sorted(devices))


def ended_state(run: ActiveRun) -> RunState:
    """The final state of a run, from its cells.

    `interrupted` outweighs the others, then `unknown`, `cancelled`, `failed`, `refused`, `done`.
    """
    states = {cell.state for cell in run.cells.values()}
    if states & {CellState.RUNNING, CellState.WAITING, CellState.QUEUED, CellState.CANCEL_ASKED}:
        return RunState.INTERRUPTED
    if CellState.UNKNOWN in states:
        return RunState.UNKNOWN
    if run.cancelled or CellState.CANCELLED in states:
        return RunState.CANCELLED
    if states & {CellState.FAILED, CellState.NO_SUCH_TOOL}:
        return RunState.FAILED
    if CellState.REFUSED in states:
        return RunState.REFUSED
    return RunState.DONE


# Nothing was sent because of a fault, not because the policy or an operator refused.
_FAULTS = frozenset(
    {
        ErrorCode.DEVICE_OFFLINE,
        ErrorCode.UNKNOWN_DEVICE,
        ErrorCode.INVALID_ARGUMENTS,
        ErrorCode.TOO_LARGE,
        ErrorCode.PATH_NOT_ALLOWED,
        ErrorCode.JOURNAL_UNAVAILABLE,
        ErrorCode.INTERNAL,
    }
)


def cell_state_of(result: CommandResult) -> CellState:
    """The state of a cell whose command has ended with this result."""
    if result.verdict is Verdict.CANCELLED:
        return CellState.CANCELLED
    if result.verdict is Verdict.UNKNOWN:
        reads = result.status is ResultStatus.FAILURE
        return CellState.FAILED if reads else CellState.UNKNOWN
    if result.basis is Basis.NOTHING_SENT and result.error is not None:
        if result.error.code is ErrorCode.UNKNOWN_TOOL:
            return CellState.NO_SUCH_TOOL
        return CellState.FAILED if result.error.code in _FAULTS else CellState.REFUSED
    if result.status is ResultStatus.SKIPPED:
        return CellState.SKIPPED
    return CellState.DONE if result.status is ResultStatus.SUCCESS else CellState.FAILED


def result_of(cell: Cell) -> CommandResult | None:
    """The result of a cell; None while the cell has not ended.

    A step that was not started gets a result with the AIP status `skipped`, no call id, and the reason as
    its error.
    """
    if cell.result is not None or cell.state not in (CellState.NOT_STARTED, CellState.SKIPPED):
        return cell.result
    why = cell.note or "the run ended before it was its turn"
    return CommandResult(
        call_id="",
        device=cell.device,
        tool_name=cell.tool,
        status=ResultStatus.SKIPPED,
        verdict=Verdict.CANCELLED,
        basis=Basis.NOTHING_SENT,
        error=ErrorInfo.of(ErrorCode.SKIPPED, f"Not begun: {why}."),
    )
