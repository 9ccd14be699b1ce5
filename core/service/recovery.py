"""Recovery after a crash: closes in the journal what the last service left open.

A command that was sent and not answered has the outcome unknown; a command that was not sent was cancelled.
Recovery runs once, before anything is sent. A service that ended in order leaves nothing open.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

from core.aip.messages import ResultStatus
from core.audit.entries import Entry, Kind, NewEntry
from core.audit.events import (
    ApprovalExpired,
    CommandRefused,
    EntryFields,
    ResultRecorded,
    RunFinished,
    event_of,
)
from core.audit.journal import Journal
from core.audit.projection import CommandState, Projection
from core.batch.models import RunState
from core.batch.questions import SERVICE_ENDED
from core.commands.results import NOT_WRITTEN, Basis, CommandResult, Verdict
from core.dispatch.outcome import unknown_error
from core.errors import ErrorCode, ErrorInfo
from core.models.tools import Effect

_KINDS = (
    Kind.RUN_STARTED,
    Kind.RUN_FINISHED,
    Kind.COMMAND_PREPARED,
    Kind.COMMAND_DECIDED,
    Kind.COMMAND_REFUSED,
    Kind.APPROVAL_REQUESTED,
    Kind.APPROVAL_GIVEN,
    Kind.APPROVAL_DENIED,
    Kind.APPROVAL_EDITED,
    Kind.APPROVAL_EXPIRED,
    Kind.GRANT_USED,
    Kind.INTENT_RECORDED,
    Kind.COMMAND_SENT,
    Kind.RESULT_RECORDED,
    Kind.SERVICE_STARTED,
    Kind.SERVICE_STOPPED,
)


@dataclass(frozen=True, slots=True)
class Recovered:
    """The numbers of closed items; `unknown` counts changes that may or may not have happened."""

    runs: int = 0
    unknown: int = 0
    approvals: int = 0


async def recover(journal: Journal) -> Recovered:
    """Close, durably, everything that is open.

    Raises:
        JournalUnavailable: the journal cannot be written.
    """
    work = Projection()
    async for entry in _since_last_start(journal):
        work.apply(entry, event_of(entry))
        _drop_if_closed(work, entry)
    waiting = [request for command in work.commands.values() for request in command.waiting.items()]
    waiting.sort(key=lambda request: request[1].seq)
    # Listings of tools, which are sent without being prepared, come last.
    commands = sorted(filter(_is_open, work.commands.values()), key=lambda command: command.prepared is None)
    unknown = [command for command in commands if _may_have_acted(command)]
    unknown_runs = {_last_entry(command).run for command in unknown}
    runs = [run.started.entry for run in work.runs.values() if run.started]
    await journal.append_many(
        [
            *(_expired(approval, entry) for approval, entry in waiting),
            *map(_result, commands),
            *(_finished(entry, unknown=entry.run in unknown_runs) for entry in runs),
        ]
    )
    return Recovered(len(runs), len(unknown), len(waiting))


def _drop_if_closed(work: Projection, entry: Entry) -> None:
    """Drop the run or command of an entry that ended it: a service carries thousands in its time."""
    run, command = work.runs.get(entry.run or ""), work.commands.get(entry.call_id or "")
    if run is not None and run.finished:
        del work.runs[entry.run or ""]
    if command is not None and command.ended and not command.waiting:
        del work.commands[command.call_id]


async def _since_last_start(journal: Journal) -> AsyncIterator[Entry]:
    """The entries since the last service started, oldest first; none if it ended in order."""
    last = await journal.query(f"kind:{Kind.SERVICE_STARTED},{Kind.SERVICE_STOPPED}", limit=1)
    if last.entries and last.entries[0].kind is Kind.SERVICE_STOPPED:
        return
    after = last.entries[0].seq if last.entries else 0
    async for entry in journal.entries(f"kind:{','.join(_KINDS)}", after):
        yield entry


def _expired(approval: str, entry: Entry) -> NewEntry:
    event = ApprovalExpired(approval=approval, state="expired", reason=SERVICE_ENDED)
    return event.entry("service", **_place(entry))


def _is_open(command: CommandState) -> bool:
    return command.ended is None and (command.prepared or command.sending) is not None


def _last_entry(command: CommandState) -> Entry:
    """The last entry of an open command on its way to the device."""
    entry = command.sending or (command.prepared and command.prepared.entry)
    assert entry is not None, "an open command was prepared or sent"
    return entry


def _reads(command: CommandState) -> bool:
    # The effect in the decision is the contract's: the device's own claim is not trusted.
    return (command.decision or {}).get("effect") == Effect.OBSERVE


def _may_have_acted(command: CommandState) -> bool:
    """Whether the device may have had the command and may have changed something."""
    return command.sending is not None and not _reads(command)


def _result(command: CommandState) -> NewEntry:
    entry, sent = _last_entry(command), command.sending is not None
    if not sent:
        verdict, basis, status = Verdict.CANCELLED, Basis.NOTHING_SENT, ResultStatus.FAILURE
        error = ErrorInfo.of(ErrorCode.CANCELLED, "The service ended before it was sent.")
    else:
        reads = _reads(command)
        verdict, basis = Verdict.UNKNOWN, Basis.NO_ANSWER
        status = ResultStatus.FAILURE if reads else ResultStatus.NONE
        error = unknown_error(basis, "The service ended while the device had it.", reads=reads)
    result = CommandResult(
        call_id=entry.call_id or "",
        device=entry.device or "",
        tool_name=entry.tool or "",
        status=status,
        verdict=verdict,
        basis=basis,
        error=error,
    )
    event = ResultRecorded if sent else CommandRefused
    written = result.model_dump(mode="json", exclude=set(NOT_WRITTEN))
    fields: EntryFields = {**_place(entry), "status": status.value, "verdict": verdict.value}
    return event(result=written, recovered=True).entry("service", **fields)


def _finished(entry: Entry, *, unknown: bool) -> NewEntry:
    state = (RunState.UNKNOWN if unknown else RunState.INTERRUPTED).value
    event = RunFinished(state=state, note="The service ended while this run was going on.")
    return event.entry("service", run=entry.run, status=state)


def _place(entry: Entry) -> EntryFields:
    """The outcome in an entry that closes a command."""
    return {
        "run": entry.run,
        "step": entry.step,
        "device": entry.device,
        "call_id": entry.call_id,
        "tool": entry.tool,
    }


async def grants_before(journal: Journal) -> list[Entry]:
    """All journal entries about grants, oldest first."""
    kinds = ",".join((Kind.GRANT_GIVEN, Kind.GRANT_USED, Kind.GRANT_REVOKED))
    return [entry async for entry in journal.entries(f"kind:{kinds}")]
