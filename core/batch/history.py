"""Rebuilds runs from their journal entries alone, as the same `Run` that the service had in memory."""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError

from core.audit.entries import Entry, Kind
from core.batch.models import Batch, Cell, CellState, Run, RunState, flatten
from core.batch.run_state import SWITCHED_OFF, ActiveRun, cell_state_of, ended_state
from core.dispatch.models import CommandResult
from core.errors import ErrorCode, JournalCorrupt
from core.policy.models import Decision


def rebuild_run(entries: list[Entry]) -> Run:
    """Rebuild a run from its entries, oldest first.

    Raises:
        JournalCorrupt: the first entry is not the start of a run (NOT_FOUND), or cannot be read.
    """
    live = _begin(entries)
    decisions: dict[str, Decision] = {}
    for entry in entries[1:]:
        _apply(live, entry, decisions)
    if live.end is None:
        live.end = ended_state(live)
    return live.whole()


def _begin(entries: list[Entry]) -> ActiveRun:
    if not entries or entries[0].kind is not Kind.RUN_STARTED or entries[0].run is None:
        raise JournalCorrupt("These entries do not begin with the start of a run.", ErrorCode.NOT_FOUND)
    first = entries[0]
    try:
        batch = Batch.model_validate(first.body["batch"])
        live = ActiveRun(
            id=entries[0].run,
            batch=batch,
            kind=first.body["kind"],
            actor=first.actor,
            devices=list(first.body["devices"]),
            said=str(first.body.get("said", "")),
            started_at=first.time,
        )
    except (KeyError, TypeError, ValidationError) as error:
        raise JournalCorrupt(f"Entry {first.seq} is not a run this version can read: {error}") from error
    for device in live.devices:
        for step in flatten(batch.steps):
            state = CellState.NOT_STARTED if step.enabled else CellState.SKIPPED
            note = "" if step.enabled else SWITCHED_OFF
            live.put(Cell(run=live.id, device=device, step=step.id, tool=step.tool, state=state, note=note))
    return live


def _apply(live: ActiveRun, entry: Entry, decisions: dict[str, Decision]) -> None:
    cell = live.cells.get((entry.device or "", entry.step or ""))
    changes: dict[str, Any] = {}
    match entry.kind:
        case Kind.RUN_FINISHED:
            live.ended_at = entry.time
            if entry.body.get("state") in list(RunState):
                live.end = RunState(entry.body["state"])
            live.note = str(entry.body.get("note", ""))
            return
        case Kind.RUN_CANCEL_ASKED:
            live.cancelled = True
            return
        case Kind.COMMAND_PREPARED:
            changes = {"call_id": entry.call_id, "started_at": entry.time, "state": CellState.RUNNING}
        case Kind.COMMAND_DECIDED if entry.call_id:
            decision = decisions[entry.call_id] = Decision.model_validate(entry.body["decision"])
            # A screenshot that a rule requires as evidence has a decision of its own under the same step.
            if cell is not None and entry.tool == cell.tool:
                live.decided(cell.device, cell.step, decision.summary)
        case Kind.APPROVAL_REQUESTED:
            changes = {"approval": entry.body.get("approval"), "state": CellState.WAITING}
        case Kind.INTENT_RECORDED:
            changes = {"state": CellState.RUNNING}
        case Kind.STEP_SKIPPED:
            changes = {"state": CellState.NOT_STARTED, "note": str(entry.body.get("why", ""))}
        case Kind.RESULT_RECORDED | Kind.COMMAND_REFUSED if "result" in entry.body:
            result = CommandResult.model_validate(entry.body["result"])
            result = result.model_copy(update={"decision": decisions.get(result.call_id)})
            changes = {
                "call_id": result.call_id,
                "state": cell_state_of(result),
                "ended_at": entry.time,
                "note": result.error.message if result.error else "",
                "result": result,
            }
        case _:
            return
    if cell is not None and changes:
        live.put(cell.model_copy(update=changes))
