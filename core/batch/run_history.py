"""Rebuilds runs from their journal entries alone, as the same `Run` that the service had in memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from pydantic import ValidationError

from core.audit.entries import Entry, Kind
from core.audit.events import (
    ApprovalDenied,
    ApprovalExpired,
    ApprovalGiven,
    ApprovalRequested,
    CommandDecided,
    CommandPrepared,
    CommandRefused,
    CommandSent,
    Event,
    EvidenceTaken,
    IntentRecorded,
    Json,
    LateAnswerReceived,
    ResultRecorded,
    RetryScheduled,
    RunFinished,
    RunResumed,
    RunStarted,
    StepCancelAsked,
    StepFailed,
    StepRecovered,
    StepSettled,
    StepSkipped,
    event_of,
)
from core.audit.projection import CommandState, Progress, Projection
from core.batch.live_run import (
    Carried,
    LiveCell,
    LiveRun,
    answered_late,
    cell_state_of,
    ended_state,
    failed_without_command,
    recovered,
    settled,
    state_after_late_answer,
    unexpected,
)
from core.batch.models import Batch, CellState, Run, RunState, RunSummary
from core.batch.questions import QuestionEnd, approved, denied, not_answered
from core.batch.waves import recorded_sizes
from core.commands.results import CommandResult, Evidence
from core.errors import BadInput, ErrorCode, ErrorInfo, JournalCorrupt
from core.policy.models import Decision, Moment
from core.text import sentences


def rebuild_run(entries: Iterable[Entry]) -> Run:
    """Rebuild a run from its entries, oldest first, each of which is looked at once.

    Raises:
        JournalCorrupt: the first entry is not the start of a run (NOT_FOUND), or cannot be read.
    """
    rest = iter(entries)
    first = next(rest, None)
    if first is None or first.kind is not Kind.RUN_STARTED or not first.run:
        raise JournalCorrupt("These entries do not begin with the start of a run.", ErrorCode.NOT_FOUND)
    run = _begin(first, first.run)
    run.put_first_cells(CellState.NOT_STARTED)
    journalled, questions = Projection(), _Questions(run)
    told_after_end = False
    for entry in chain([first], rest):
        event = event_of(entry)
        journalled.apply(entry, event)
        cell = run.cells.get((entry.device or "", entry.step or ""))
        if cell is not None:
            command = journalled.commands.get(entry.call_id or "")
            _bring_up_to_date(run, cell, entry, event, command)
            told_after_end |= _told_by(command, entry) and journalled.runs[run.id].finished is not None
        else:
            questions.apply(entry, event)
    record = journalled.runs[run.id]
    run.cancelled, run.resumed_by = record.cancelled, record.resumed_by
    if record.finished:
        state = record.finished.event.state
        run.end = RunState(state) if state in list(RunState) else None
        run.ended_at, run.note = record.finished.entry.time, record.finished.event.note
    run.end = run.end or ended_state(run)
    for cell in list(run.cells.values()):
        if cell.state is CellState.RETRYING:
            run.change(cell, {"state": CellState.FAILED})
    if told_after_end:
        run.end = state_after_late_answer(run)
    return run.whole()


# The kinds of entry that `summary_of` needs.
END_KINDS = (
    Kind.RUN_STARTED,
    Kind.RUN_FINISHED,
    Kind.RUN_RESUMED,
    Kind.STEP_SETTLED,
    Kind.LATE_ANSWER_RECEIVED,
)


def summary_of(ends: Sequence[Entry], decided: Iterable[Entry]) -> RunSummary | None:
    """The summary that `rebuild_run` gives, without the entries of all cells.

    `ends` are all entries of the run of `END_KINDS`, `decided` all with a decision on its first device, each
    oldest first. None if these do not tell it: the run has no end, or not its counts in it; a step was
    settled later, by an operator or a late answer; or its first step was not decided on the first device.

    Raises:
        JournalCorrupt: its start cannot be read.
    """
    if not ends or ends[0].kind is not Kind.RUN_STARTED or not ends[0].run:
        return None
    run = _begin(ends[0], ends[0].run)
    first = run.rows[0]
    for entry in decided:
        event = event_of(entry)
        if not isinstance(event, CommandDecided | CommandSent) or event.decision is None:
            continue
        if (entry.step, entry.tool) == (first.id, first.tool):
            run.decided(run.devices[0], first.id, str(event.decision.get("summary", "")))
    for entry in ends[1:]:
        match event_of(entry):
            case RunFinished(state=state, counts=counts, note=note) if (
                counts and state in list(RunState) and set(counts) <= set(CellState)
            ):
                run.end, run.ended_at, run.note = RunState(state), entry.time, note
                run.counts = Counter({CellState(name): count for name, count in counts.items()})
            case RunResumed(by=by):
                run.resumed_by = by
            case LateAnswerReceived(outcome=None):
                pass
            case _:
                return None
    return run.summary() if run.end is not None and run.effects else None


def _begin(first: Entry, run_id: str) -> LiveRun:
    """The run as it was before it had cells."""
    try:
        event = RunStarted.read_with(first.body, "batch", "kind", "devices")
        batch = Batch.model_validate(event.batch)
        carried = dict(_carried(event.carried))
    except (BadInput, ValidationError, KeyError, ValueError, TypeError) as error:
        raise JournalCorrupt(
            sentences(f"Entry {first.seq} is not a run this version can read: {error}")
        ) from error
    return LiveRun(
        id=run_id,
        batch=batch,
        kind=event.kind_,
        actor=first.actor,
        devices=event.devices,
        said=event.said,
        program=event.program,
        operator=event.operator,
        started_at=first.time,
        shown_inputs=event.inputs,
        resumes=event.resumes,
        carried=carried,
        note=event.note,
        undoes=event.undoes,
        wave_sizes=event.waves or recorded_sizes(batch.rollout, len(event.devices)),
    )


def _carried(groups: list[Json]) -> Iterator[tuple[tuple[str, str], Carried]]:
    for group in groups:
        carried = Carried(group["run"], CellState(group["state"]))
        for device in group["devices"]:
            yield (device, group["step"]), carried


def _bring_up_to_date(
    run: LiveRun, cell: LiveCell, entry: Entry, event: Event, command: CommandState | None
) -> None:
    """Change a cell to what its next entry tells; `command` is the entry's command after the entry."""
    match event:
        case StepSkipped():
            state = CellState.SKIPPED if event.needless else CellState.NOT_STARTED
            run.change(cell, {"state": state, "note": event.why})
        case CommandDecided():
            _decided(run, cell, entry, event.decision)
        case CommandSent() if command and event.decision is not None:
            run.change(cell, _attempted(cell, entry) | _under_way(command))
            _decided(run, cell, entry, event.decision)
        case CommandPrepared() | ApprovalRequested() | IntentRecorded() if command:
            run.change(cell, _attempted(cell, entry) | _under_way(command))
        case ResultRecorded() | CommandRefused() if command and command.result is not None:
            run.change(cell, _attempted(cell, entry) | _ended(command, entry.time))
        case EvidenceTaken(moment=Moment.AFTER) if entry.call_id == cell.call_id and cell.result is not None:
            seen = cell.result
            if event.picture is not None:
                seen = seen.seen_after(Evidence.model_validate(event.picture))
            elif event.missing is not None:
                seen = seen.not_seen_after(event.missing)
            run.change(cell, {"result": seen})
        case StepFailed():
            run.change(cell, _failed(cell, event, entry.time))
        case RetryScheduled():
            run.change(cell, {"state": CellState.RETRYING})
        case StepRecovered():
            run.change(cell, recovered(cell, event.by, event.why))
        case StepCancelAsked() if cell.state is CellState.RUNNING:
            run.change(cell, {"state": CellState.CANCEL_ASKED})
        case LateAnswerReceived() if command is not None and _told_by(command, entry):
            result = CommandResult.model_validate(command.result)
            decision = None if command.decision is None else Decision.model_validate(command.decision)
            run.change(cell, answered_late(run, cell, result.model_copy(update={"decision": decision})))
        case StepSettled():
            run.change(cell, settled(done=event.done, by=entry.actor))


def _decided(run: LiveRun, cell: LiveCell, entry: Entry, decision: Json) -> None:
    # A screenshot that a rule requires as evidence has a decision of its own under the same step.
    if entry.tool == cell.tool:
        run.decided(cell.device, cell.step, str(decision.get("summary", "")))


def _told_by(command: CommandState | None, entry: Entry) -> bool:
    """Whether this entry is the late answer that told a command's outcome."""
    return command is not None and command.late is not None and command.late.entry is entry


def _attempted(cell: LiveCell, entry: Entry) -> Json:
    """The changes of a cell by its command's entry: nothing, or it begins the next attempt."""
    if entry.call_id == cell.call_id:
        return {}
    begun = {"call_id": entry.call_id, "attempts": cell.attempts + 1}
    return {**begun, "approval": None, "ended_at": None, "note": "", "result": None}


def _failed(cell: LiveCell, event: StepFailed, time: str) -> Json:
    """The changes of a cell whose step failed by the batch's words, after its command or without one."""
    error = ErrorInfo.model_validate(event.error)
    changes = {"state": CellState.FAILED, "note": error.message, "ended_at": time}
    if event.expectation and cell.result is not None:
        return {**changes, "result": unexpected(cell.result, error)}
    return {**changes, "result": failed_without_command(cell, error)}


def _under_way(command: CommandState) -> dict[str, Any]:
    """The fields of the cell of a command that has not ended."""
    waiting = command.progress is Progress.WAITING
    fields: dict[str, Any] = {"state": CellState.WAITING if waiting else CellState.RUNNING}
    if command.prepared:
        fields |= {"started_at": command.prepared.entry.time}
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


@dataclass(slots=True)
class _Questions:
    """The questions of a run's approval steps, whose entries stand for the cells of many devices."""

    run: LiveRun
    # By approval: the cells that wait for it, and the operators who have approved it.
    waiting: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    approved_by: dict[str, list[str]] = field(default_factory=dict)

    def apply(self, entry: Entry, event: Event) -> None:
        """Apply an entry that names no cell of its own."""
        match event:
            case ApprovalRequested() if event.question and entry.step:
                places = [(device, entry.step) for device in event.devices]
                self.waiting[event.approval] = [place for place in places if place in self.run.cells]
                for place in self.waiting[event.approval]:
                    waits = {"state": CellState.WAITING, "approval": event.approval}
                    begun = {"call_id": entry.call_id, "started_at": entry.time}
                    self.run.change(self.run.cells[place], {**waits, **begun})
            case ApprovalGiven():
                operators = self.approved_by.setdefault(event.approval, [])
                operators.append(entry.actor.partition(":")[2])
                if event.number >= event.of:
                    self._end(event.approval, approved(operators), entry)
            case ApprovalDenied():
                statement = event.signed.get("statement", {})
                reason = statement.get("reason", "") if isinstance(statement, dict) else ""
                self._end(event.approval, denied(entry.actor.partition(":")[2], reason), entry)
            case ApprovalExpired():
                self._end(event.approval, not_answered(event.state, event.reason), entry)

    def _end(self, approval: str, end: QuestionEnd, entry: Entry) -> None:
        for place in self.waiting.get(approval, []):
            cell = self.run.cells[place]
            if cell.state is not CellState.WAITING:
                # Cancelled alone while the question waited.
                continue
            result = failed_without_command(cell, end.error, cell.call_id or "") if end.error else None
            changes = {"state": end.state, "note": end.note, "ended_at": entry.time, "result": result}
            self.run.change(cell, changes)
