"""A run in memory: its cells, their counts and the state of the whole run.

Maps a command's result to the state of its cell, and a cell to the result that clients read.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from core.aip.messages import ResultStatus
from core.batch.expressions import StepFacts
from core.batch.held_values import HeldValues
from core.batch.models import (
    OPEN_STATES,
    Batch,
    Cell,
    CellState,
    Row,
    Run,
    RunKind,
    RunState,
    RunSummary,
    flatten,
    result_of,
    rows,
)
from core.batch.step_values import readable_value
from core.batch.waves import Waves, in_waves
from core.canonical_json import digest_of
from core.commands.results import Basis, CommandResult, Verdict
from core.errors import ErrorCode, ErrorInfo, Refused
from core.tasks import in_turns

SWITCHED_OFF = "switched off"
AS_EXPECTED = "It failed as expected."
ALLOWED = "Its failure is allowed."
ANSWERED_LATE = "The device answered late."
NOT_JUDGED = "It succeeded, says its late answer; whether as the batch expects was not judged."
Json = dict[str, Any]


class Carried(NamedTuple):
    """A cell that an earlier run, `run`, has done or skipped, so that this run does not begin it."""

    run: str
    state: CellState


@dataclass(slots=True)
class LiveCell:
    """A cell of a run in memory, which changes as its command goes on; `Cell` explains the fields.

    `LiveRun.change` changes it, and clients get the `Cell` that it is at the time (`model`).
    """

    run: str
    device: str
    step: str
    tool: str
    state: CellState
    note: str = ""
    carried_from: str = ""
    call_id: str | None = None
    approval: str | None = None
    started_at: str | None = None
    ended_at: str | None = None
    progress: str = ""
    output_tail: str = ""
    output_size: int = 0
    result: CommandResult | None = None
    attempts: int = 0
    recovered_by: list[str] = field(default_factory=list)
    settled: Literal["", "done", "not_done"] = ""
    settled_by: str = ""

    def model(self) -> Cell:
        """The cell as clients read it."""
        return Cell(**{name: getattr(self, name) for name in self.__slots__})


@dataclass(slots=True)
class LiveRun:
    """A run in memory. `change` changes its cells, and keeps `counts` by cell state correct."""

    id: str
    batch: Batch
    kind: RunKind
    actor: str
    devices: list[str]
    said: str
    started_at: str
    # The operator who requested the run, proved by the operator's key; empty without proof.
    operator: str = ""
    # The redacted batch for the journal and display: secrets are replaced by commitments. None for a run
    # that was rebuilt from the journal, whose `batch` is redacted already.
    shown: Batch | None = None
    # The values of the batch's inputs, and the same redacted.
    inputs: Json = field(default_factory=dict)
    shown_inputs: Json = field(default_factory=dict)
    # The run that this one continues, and the one that continues this one.
    resumes: str = ""
    resumed_by: str = ""
    carried: dict[tuple[str, str], Carried] = field(default_factory=dict)
    # The run that this run undoes, and the arguments of its steps by device and step; a step without
    # arguments has nothing to undo on that device.
    undoes: str = ""
    undo_arguments: Mapping[tuple[str, str], Json] = field(default_factory=dict)
    cells: dict[tuple[str, str], LiveCell] = field(default_factory=dict)
    # How many devices each wave has; empty where all are one.
    wave_sizes: list[int] = field(default_factory=list)
    # Which values of results are in memory; None for a run that is rebuilt from the journal.
    held: HeldValues | None = None
    # By step: the index of the device that the step was decided for, and the summary of that decision.
    effects: dict[str, tuple[int, str]] = field(default_factory=dict)
    counts: Counter[CellState] = field(default_factory=Counter)
    rows: list[Row] = field(init=False)
    devices_hash: str = field(init=False)
    places: dict[str, int] = field(init=False)
    # The steps of whose result the batch expects something.
    expecting: frozenset[str] = field(init=False)
    end: RunState | None = None
    ended_at: str | None = None
    note: str = ""
    cancelled: bool = False
    paused: bool = False
    # Of an agent's run: see `core.audit.events.RunStarted`.
    request_id: str = ""
    request_digest: str = ""
    program: str = ""
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    # Set when the first command of the run has begun to wait for an operator, and when the run has ended.
    asked: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.rows = rows(self.batch.steps)
        self.devices_hash = devices_hash(self.devices)
        self.places = {device: place for place, device in enumerate(self.devices)}
        self.expecting = frozenset(step.id for step in flatten(self.batch.steps) if step.expect)

    def summary(self) -> RunSummary:
        """A snapshot of the run without its cells."""
        return RunSummary(
            id=self.id,
            name=self.batch.name,
            kind=self.kind,
            actor=self.actor,
            state=self.end or self._live_state(),
            devices=self.devices,
            devices_hash=self.devices_hash,
            steps=[row.id for row in self.rows],
            tools=[row.tool for row in self.rows],
            counts={key: count for key, count in self.counts.items() if count},
            started_at=self.started_at,
            ended_at=self.ended_at,
            note=self.note,
            effect=next((self.effects[row.id][1] for row in self.rows if row.id in self.effects), ""),
            resumes=self.resumes,
            resumed_by=self.resumed_by,
            undoes=self.undoes,
            waves=self.wave_sizes,
        )

    @property
    def waves(self) -> Waves:
        """The devices of each wave, in the order in which they begin."""
        return in_waves(self.devices, self.wave_sizes or [len(self.devices)])

    def _live_state(self) -> RunState:
        if self.paused:
            return RunState.PAUSED
        return RunState.WAITING if self.counts[CellState.WAITING] else RunState.RUNNING

    def decided(self, device: str, step: str, effect: str) -> None:
        """Record what a step does. Of several devices, the first in the order of the run counts.

        A step that is decided again after an edit replaces its earlier text.
        """
        place = self.places[device]
        if step not in self.effects or place <= self.effects[step][0]:
            self.effects[step] = (place, effect)

    def change(self, cell: LiveCell, changes: Mapping[str, Any]) -> None:
        """Set fields of a cell, and update the counts and the values in memory."""
        state, result = cell.state, cell.result
        for name, value in changes.items():
            setattr(cell, name, value)
        if cell.state is not state:
            self.counts[cell.state] += 1
            self.counts[state] -= 1
        if self.held is not None:
            for left in self.held.changed(cell, state, result):
                self.cells[left].result = _without_value(self.cells[left].result)
        if cell.state is CellState.WAITING:
            self.asked.set()

    def _add(self, cell: LiveCell) -> None:
        self.cells[cell.device, cell.step] = cell
        self.counts[cell.state] += 1
        if self.held is not None:
            self.held.changed(cell, None, None)

    def put_first_cells(self, state: CellState) -> None:
        """Store the first cell of every step on every device: switched off, carried, or in this state."""
        for cell in self._first_cells(state):
            self._add(cell)

    async def queue_first_cells(self) -> None:
        """`put_first_cells` of a run that begins, whose ten thousand cells take 20 ms and more."""
        async for cell in in_turns(self._first_cells(CellState.QUEUED)):
            self._add(cell)

    def _first_cells(self, state: CellState) -> Iterator[LiveCell]:
        off = {step.id for step in flatten(self.batch.steps) if not step.enabled}
        for device in self.devices:
            for row in self.rows:
                if (carried := self.carried.get((device, row.id))) is not None:
                    yield LiveCell(self.id, device, row.id, row.tool, carried.state, carried_from=carried.run)
                elif row.id in off:
                    yield LiveCell(self.id, device, row.id, row.tool, CellState.SKIPPED, SWITCHED_OFF)
                else:
                    yield LiveCell(self.id, device, row.id, row.tool, state)

    def whole(self) -> Run:
        """The run with all its cells."""
        return self.without_cells().model_copy(
            update={"cells": [cell.model() for cell in self.cells.values()]}
        )

    async def whole_in_turns(self) -> Run:
        """`whole` for the event loop, on which ten thousand cells take 85 ms; each as it is at its turn."""
        cells = [cell.model() async for cell in in_turns(list(self.cells.values()))]
        return self.without_cells().model_copy(update={"cells": cells})

    def without_cells(self) -> Run:
        """The run without its cells."""
        return Run(summary=self.summary(), batch=self.shown or self.batch, cells=[], inputs=self.shown_inputs)


def with_result(cell: Cell, **changes: Any) -> Cell:
    """The cell with these fields of its result changed; it has one."""
    assert cell.result is not None, "only a cell with a result has a value or a note"
    return cell.model_copy(update={"result": cell.result.model_copy(update=changes)})


def _without_value(result: CommandResult | None) -> CommandResult | None:
    return None if result is None else result.model_copy(update={"result": None})


def devices_hash(devices: list[str]) -> str:
    """SHA-256 over the sorted device names. Two lists name the same devices if their hashes are equal."""
    return digest_of(sorted(devices))


def already_resumed(run: str, by: str) -> Refused:
    """The error for a run that another run continues already."""
    return Refused(
        f"{run} was resumed already, as {by}.",
        ErrorCode.WRONG_STATE,
        f"Resume {by} if it has ended with something left.",
    )


def ended_state(run: LiveRun) -> RunState:
    """The final state of a run, from its cells.

    `interrupted` outweighs the others, then `unknown`, a cancelled run, `failed`, `refused`, a cancelled
    cell, `done`.
    """
    states = {state for state, count in run.counts.items() if count}
    if states & OPEN_STATES:
        return RunState.INTERRUPTED
    if CellState.UNKNOWN in states:
        return RunState.UNKNOWN
    if run.cancelled:
        return RunState.CANCELLED
    if states & {CellState.FAILED, CellState.NO_SUCH_TOOL}:
        return RunState.FAILED
    if CellState.REFUSED in states:
        return RunState.REFUSED
    return RunState.CANCELLED if CellState.CANCELLED in states else RunState.DONE


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


def failed_without_command(cell: Cell | LiveCell, error: ErrorInfo, call_id: str = "") -> CommandResult:
    """The result of a step that failed or was refused before there was a command."""
    return CommandResult(
        call_id=call_id,
        device=cell.device,
        tool_name=cell.tool,
        status=ResultStatus.FAILURE,
        verdict=Verdict.CANCELLED if error.code is ErrorCode.CANCELLED else Verdict.REFUSED,
        basis=Basis.NOTHING_SENT,
        error=error,
    )


def unexpected(result: CommandResult, error: ErrorInfo) -> CommandResult:
    """The result of a command that succeeded, but not as the batch expects."""
    return result.model_copy(update={"status": ResultStatus.FAILURE, "error": error})


def recovered(cell: Cell | LiveCell, by: list[str], why: str = "") -> Json:
    """The changes of the cell of a failed step that counts as done, by its recovery or because of `why`.

    It keeps the result of the failure.
    """
    because = why or f"Recovered by {', '.join(by)}."
    return {"state": CellState.DONE, "recovered_by": by, "note": f"{because} {cell.note}".strip()}


def settled(*, done: bool, by: str) -> Json:
    """The changes of the cell of a step that has ended when an operator says whether it is done."""
    note = f"{'Done by hand' if done else 'Not done'}, says {by}."
    changes = {"settled": "done" if done else "not_done", "settled_by": by, "note": note}
    return {"state": CellState.DONE if done else CellState.FAILED, **changes}


def answered_late(run: LiveRun, cell: LiveCell, result: CommandResult) -> Json:
    """The changes of the cell of a command whose outcome was unknown, after a late answer told it.

    An operator's word about the step, its recovery and a later attempt stand. A step that the batch expects
    something of stays unknown where the command succeeded: the expectation is not judged this late.
    """
    before = cell.result
    if cell.call_id != result.call_id or before is None or before.verdict is not Verdict.UNKNOWN:
        return {}
    if cell.settled or cell.recovered_by:
        return {"result": result}
    state, note = cell_state_of(result), result.error.message if result.error else ANSWERED_LATE
    if state is CellState.DONE and cell.step in run.expecting:
        state, note = CellState.UNKNOWN, NOT_JUDGED
    return {"state": state, "note": note, "result": result}


def state_after_late_answer(run: LiveRun) -> RunState:
    """The final state of an ended run, one of whose commands was answered late."""
    state = ended_state(run)
    if run.counts[CellState.NOT_STARTED] and (state is RunState.DONE or run.end is RunState.INTERRUPTED):
        # What was not begun can be resumed.
        return RunState.INTERRUPTED
    return state


def step_facts(cell: Cell, earlier: CommandResult | None = None) -> StepFacts:
    """The facts about an ended step for expressions; `earlier` is its result in an earlier run."""
    result = result_of(cell) or earlier
    if result is None:
        return StepFacts(state=cell.state.value)
    return StepFacts(
        state=cell.state.value,
        status=result.status.value,
        verdict=result.verdict.value,
        result=readable_value(result),
        error=result.error.code.value if result.error else "",
        duration_ms=result.duration_ms,
        attempts=cell.attempts,
    )
