"""Recovery after a crash: closes in the journal what the last service left open.

A command that was sent and not answered has the outcome unknown; a command that was not sent was cancelled.
Recovery runs once, before anything is sent. A service that ended in order leaves nothing open.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from core.aip.messages import ResultStatus
from core.audit.entries import Entry, Kind, NewEntry
from core.audit.journal import Journal
from core.batch.models import RunState
from core.dispatch.models import NOT_WRITTEN, Basis, CommandResult, Verdict
from core.errors import ErrorCode, ErrorInfo
from core.fleet.models import Effect

PAGE = 500
_KINDS = (
    Kind.RUN_STARTED,
    Kind.RUN_FINISHED,
    Kind.COMMAND_PREPARED,
    Kind.COMMAND_DECIDED,
    Kind.COMMAND_REFUSED,
    Kind.APPROVAL_REQUESTED,
    Kind.APPROVAL_GIVEN,
    Kind.APPROVAL_DENIED,
    Kind.APPROVAL_EXPIRED,
    Kind.GRANT_USED,
    Kind.INTENT_RECORDED,
    Kind.COMMAND_SENT,
    Kind.RESULT_RECORDED,
    Kind.SERVICE_STARTED,
    Kind.SERVICE_STOPPED,
)


@dataclass(slots=True)
class _Open:
    """Runs, calls and approvals that are open at a point of the journal."""

    runs: dict[str, Entry] = field(default_factory=dict)
    calls: dict[str, Entry] = field(default_factory=dict)
    sent: dict[str, Entry] = field(default_factory=dict)
    approvals: dict[str, Entry] = field(default_factory=dict)
    unknown_runs: set[str] = field(default_factory=set)
    reads: set[str] = field(default_factory=set)

    def take(self, entry: Entry) -> None:
        """Apply an entry."""
        call, run = entry.call_id or "", entry.run or ""
        match entry.kind:
            case Kind.RUN_STARTED:
                self.runs[run] = entry
            case Kind.RUN_FINISHED:
                self.runs.pop(run, None)
            case Kind.COMMAND_PREPARED:
                self.calls[call] = entry
            case Kind.COMMAND_DECIDED:
                # The effect in the decision is the contract's: the device's own claim is not trusted.
                if entry.body.get("decision", {}).get("effect") == Effect.OBSERVE:
                    self.reads.add(call)
            case Kind.INTENT_RECORDED | Kind.COMMAND_SENT:
                self.sent[call] = entry
            case Kind.APPROVAL_REQUESTED:
                self.approvals[str(entry.body.get("approval"))] = entry
            case Kind.APPROVAL_GIVEN | Kind.APPROVAL_DENIED | Kind.APPROVAL_EXPIRED | Kind.GRANT_USED:
                self.approvals.pop(str(entry.body.get("approval")), None)
            case Kind.RESULT_RECORDED | Kind.COMMAND_REFUSED:
                self.calls.pop(call, None)
                self.sent.pop(call, None)
                self.reads.discard(call)


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
    left = _Open()
    async for entry in _since_last_start(journal):
        left.take(entry)
    entries = [_expired(approval, entry) for approval, entry in left.approvals.items()]
    unknown = 0
    for call, entry in {**left.calls, **left.sent}.items():
        sent = call in left.sent
        is_read = call in left.reads
        unknown += sent and not is_read
        if sent and not is_read and entry.run:
            left.unknown_runs.add(entry.run)
        entries.append(_result(entry, sent=sent, reads=is_read))
    for run, entry in left.runs.items():
        state = RunState.UNKNOWN if run in left.unknown_runs else RunState.INTERRUPTED
        entries.append(_finished(entry, state))
    await journal.append_many(entries)
    return Recovered(len(left.runs), unknown, len(left.approvals))


async def standing_stop(journal: Journal) -> str:
    """The note about an earlier service's Stop all that is still in force; empty if there is none."""
    page = await journal.query(f"kind:{Kind.ALL_STOPPED},{Kind.ALL_RESUMED}", limit=1)
    if not page.entries or page.entries[0].kind is Kind.ALL_RESUMED:
        return ""
    [stop] = page.entries
    when = stop.time[:19].replace("T", " ")
    return f"Everything was stopped by {stop.actor} at {when} UTC; resume to go on."


async def _since_last_start(journal: Journal) -> AsyncIterator[Entry]:
    """The entries since the last service started, oldest first; none if it ended in order."""
    last = await journal.query(f"kind:{Kind.SERVICE_STARTED},{Kind.SERVICE_STOPPED}", limit=1)
    if last.entries and last.entries[0].kind is Kind.SERVICE_STOPPED:
        return
    after: int | None = last.entries[0].seq if last.entries else 0
    kinds = ",".join(_KINDS)
    while after is not None:
        page = await journal.query(f"kind:{kinds}", after=after, limit=PAGE)
        for entry in page.entries:
            yield entry
        after = page.next_after


def _expired(approval: str, entry: Entry) -> NewEntry:
    return NewEntry(
        kind=Kind.APPROVAL_EXPIRED,
        actor="service",
        run=entry.run,
        step=entry.step,
        device=entry.device,
        call_id=entry.call_id,
        tool=entry.tool,
        body={"approval": approval, "state": "expired", "reason": "The service ended; nothing was sent."},
    )


def _result(entry: Entry, *, sent: bool, reads: bool) -> NewEntry:
    if not sent:
        verdict, basis, status = Verdict.CANCELLED, Basis.NOTHING_SENT, ResultStatus.FAILURE
        error = ErrorInfo.of(ErrorCode.CANCELLED, "The service ended before it was sent.")
    else:
        verdict, basis = Verdict.UNKNOWN, Basis.NO_ANSWER
        status = ResultStatus.FAILURE if reads else ResultStatus.NONE
        code = ErrorCode.TIMEOUT if reads else ErrorCode.OUTCOME_UNKNOWN
        error = ErrorInfo.of(code, "The service ended while the device had it.")
    result = CommandResult(
        call_id=entry.call_id or "",
        device=entry.device or "",
        tool_name=entry.tool or "",
        status=status,
        verdict=verdict,
        basis=basis,
        error=error,
    )
    return NewEntry(
        kind=Kind.RESULT_RECORDED if sent else Kind.COMMAND_REFUSED,
        actor="service",
        run=entry.run,
        step=entry.step,
        device=entry.device,
        call_id=entry.call_id,
        tool=entry.tool,
        status=status.value,
        verdict=verdict.value,
        body={"result": result.model_dump(mode="json", exclude=set(NOT_WRITTEN)), "recovered": True},
    )


def _finished(entry: Entry, state: RunState) -> NewEntry:
    return NewEntry(
        kind=Kind.RUN_FINISHED,
        actor="service",
        run=entry.run,
        status=state.value,
        body={"state": state.value, "note": "The service ended while this run was going on."},
    )


async def grants_before(journal: Journal) -> list[Entry]:
    """All journal entries about grants, oldest first."""
    kinds = ",".join((Kind.GRANT_GIVEN, Kind.GRANT_USED, Kind.GRANT_REVOKED))
    found: list[Entry] = []
    after: int | None = 0
    while after is not None:
        page = await journal.query(f"kind:{kinds}", after=after, limit=1_000)
        found.extend(page.entries)
        after = page.next_after
    return found
