"""Rebuilds runs from their journal entries alone, as the same `Run` that the service had in memory."""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError

from core.audit.entries import Entry, Kind
from core.audit.events import (
    ApprovalRequested,
    CommandDecided,
    CommandPrepared,
    CommandRefused,
    Event,
    IntentRecorded,
    ResultRecorded,
    RunStarted,
    StepSkipped,
    event_of,
)
from core.audit.projection import CommandState, Progress, Projection
from core.batch.models import Batch, Cell, CellState, Run, RunState, flatten
from core.batch.run_state import SWITCHED_OFF, ActiveRun, cell_state_of, ended_state
from core.dispatch.models import CommandResult
from core.errors import BadInput, ErrorCode, JournalCorrupt
from core.policy.models import Decision


def rebuild_run(entries: list[Entry]) -> Run:
    """Rebuild a run from its entries, oldest first.

    Raises:
        JournalCorrupt: the first entry is not the start of a run (NOT_FOUND), or cannot be read.
    """
    run = _begin(entries)
    journalled = Projection()
    for entry in entries:
        event = event_of(entry)
        journalled.apply(entry, event)
        cell = run.cells.get((entry.device or "", entry.step or ""))
        if cell is not None:
            _bring_up_to_date(run, cell, entry, event, journalled.commands.get(entry.call_id or ""))
    record = journalled.runs[run.id]
    run.cancelled = record.cancelled
    if record.finished:
        state = record.finished.event.state
        run.end = RunState(state) if state in list(RunState) else None
        run.ended_at, run.note = record.finished.entry.time, record.finished.event.note
    run.end = run.end or ended_state(run)
    return run.whole()


def _begin(entries: list[Entry]) -> ActiveRun:
    if not entries or entries[0].kind is not Kind.RUN_STARTED or not entries[0].run:
        raise JournalCorrupt("These entries do not begin with the start of a run.", ErrorCode.NOT_FOUND)
    first = entries[0]
    try:
        event = RunStarted.read_with(first.body, "batch", "kind", "devices")
        batch = Batch.model_validate(event.batch)
    except (BadInput, ValidationError) as error:
        raise JournalCorrupt(f"Entry {first.seq} is not a run this version can read: {error}") from error
    run = ActiveRun(
        id=entries[0].run,
        batch=batch,
        kind=event.kind_,
        actor=first.actor,
        devices=event.devices,
        said=event.said,
        started_at=first.time,
        undoes=event.undoes,
    )
    for device in run.devices:
        for step in flatten(batch.steps):
            state = CellState.NOT_STARTED if step.enabled else CellState.SKIPPED
            note = "" if step.enabled else SWITCHED_OFF
            run.put(Cell(run=run.id, device=device, step=step.id, tool=step.tool, state=state, note=note))
    return run


def _bring_up_to_date(
    run: ActiveRun, cell: Cell, entry: Entry, event: Event, command: CommandState | None
) -> None:
    """Change a cell to what its next entry tells; `command` is the entry's command after the entry."""
    match event:
        case StepSkipped():
            run.put(cell.model_copy(update={"state": CellState.NOT_STARTED, "note": event.why}))
        case CommandDecided():
            # A screenshot that a rule requires as evidence has a decision of its own under the same step.
            if entry.tool == cell.tool:
                run.decided(cell.device, cell.step, str(event.decision.get("summary", "")))
        case CommandPrepared() | ApprovalRequested() | IntentRecorded() if command:
            run.put(cell.model_copy(update=_under_way(command)))
        case ResultRecorded() | CommandRefused() if command and command.result is not None:
            run.put(cell.model_copy(update=_ended(command, entry.time)))


def _under_way(command: CommandState) -> dict[str, Any]:
    """The fields of the cell of a command that has not ended."""
    waiting = command.progress is Progress.WAITING
    fields: dict[str, Any] = {"state": CellState.WAITING if waiting else CellState.RUNNING}
    if command.prepared:
        fields |= {"call_id": command.call_id, "started_at": command.prepared.entry.time}
    if command.approval is not None:
        fields["approval"] = command.approval
    return fields


def _ended(command: CommandState, time: str) -> dict[str, Any]:
    """The fields of the cell of a command that ended at `time`."""
    result = CommandResult.model_validate(command.result)
    decision = None if command.decision is None else Decision.model_validate(command.decision)
    return {
        "call_id": result.call_id,
        "state": cell_state_of(result),
        "ended_at": time,
        "note": result.error.message if result.error else "",
        "result": result.model_copy(update={"decision": decision}),
    }
