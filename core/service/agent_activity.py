"""Counts what agents asked for, were given and were denied, read from the journal.

A command is read from its own entries by the journal's one fold (`core.audit.projection`); which commands are
an agent's, from the entries that it is the actor of.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable

from pydantic import ValidationError

from core.actors import AGENT_PREFIX
from core.audit.entries import Entry, Kind
from core.audit.events import (
    ApprovalDenied,
    ApprovalGiven,
    CommandPrepared,
    CommandRefused,
    CommandSent,
    GrantUsed,
    Json,
    ResultRecorded,
    event_of,
)
from core.audit.journal import Journal
from core.audit.projection import CommandState
from core.audit.query import quoted
from core.commands.results import Basis, CommandResult
from core.errors import ErrorCode
from core.policy.models import Decision
from core.service.api.models import AgentCommand, AgentCommandPage, AgentTally, CommandFate

MOST_COMMANDS = 50
MOST_SHOWN = 4_000
"""Characters of the arguments, and of a result, that stand beside what the agent said."""
# Of the entries that tell of the sending, an agent is the actor of those with its request in them.
_ASKED = f"kind:{Kind.COMMAND_PREPARED},{Kind.COMMAND_REFUSED},{Kind.COMMAND_SENT}"
_ENDED = f"kind:{Kind.RESULT_RECORDED},{Kind.COMMAND_REFUSED}"
_DENIALS = frozenset(
    {
        ErrorCode.DENIED_BY_POLICY,
        ErrorCode.DENIED_BY_OPERATOR,
        ErrorCode.AGENT_PAUSED,
    }
)


class AgentActivity:
    """Reads the commands of agents, and counts them. One per service.

    The first count reads every command of an agent in the journal, each later one only what is new.
    """

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._counting = asyncio.Lock()
        self._counts: defaultdict[str, Counter[CommandFate]] = defaultdict(Counter)
        # The agent of each command that had not ended when it was last counted.
        self._open: dict[str, str] = {}
        self._counted_to = 0

    async def tallies(self) -> dict[str, AgentTally]:
        """How many commands each agent asked for, was given and was denied, by the agent's name."""
        async with self._counting:
            await self._journal.settle()
            await self._count_new()
            await self._count_ended()
        waiting = Counter(self._open.values())
        return {
            actor.removeprefix(AGENT_PREFIX): AgentTally(
                asked=self._counts[actor].total() + waiting[actor],
                given=self._counts[actor][CommandFate.GIVEN],
                denied=self._counts[actor][CommandFate.DENIED],
            )
            for actor in {*self._counts, *waiting}
        }

    async def _count_new(self) -> None:
        async for entry in self._journal.entries(f"{_ASKED} actor:{AGENT_PREFIX[:-1]}*", self._counted_to):
            self._counted_to = entry.seq
            event = event_of(entry)
            if not entry.call_id or not entry.actor.startswith(AGENT_PREFIX) or _is_evidence(event):
                continue
            if isinstance(event, CommandRefused):
                # Refused before it was a command; one that is refused later has `policy` as its actor.
                self._open.pop(entry.call_id, None)
                self._counts[entry.actor][_fate_of(event.result)] += 1
            else:
                self._open[entry.call_id] = entry.actor

    async def _count_ended(self) -> None:
        for calls in _chunks(list(self._open)):
            async for entry in self._journal.entries(f"{_ENDED} {_calls(calls)}"):
                event = event_of(entry)
                actor = self._open.pop(entry.call_id or "", None)
                if actor is not None and isinstance(event, ResultRecorded | CommandRefused):
                    self._counts[actor][_fate_of(event.result)] += 1

    async def commands(self, name: str, before: int | None, limit: int) -> AgentCommandPage:
        """A page of an agent's commands, newest first."""
        await self._journal.settle()
        limit = min(max(limit, 1), MOST_COMMANDS)
        page = await self._journal.query(
            f"{_ASKED} actor:{quoted(AGENT_PREFIX + name)}", before=before, limit=limit
        )
        first: dict[str, Entry] = {}
        for entry in page.entries:
            if entry.call_id and not _is_evidence(event_of(entry)):
                first[entry.call_id] = entry
        whole: defaultdict[str, list[Entry]] = defaultdict(list)
        for calls in _chunks(list(first)):
            async for entry in self._journal.entries(_calls(calls)):
                whole[entry.call_id or ""].append(entry)
        commands = [agent_command(entry, whole[call_id]) for call_id, entry in first.items()]
        return AgentCommandPage(commands=commands, next_before=page.next_before)


def agent_command(first: Entry, entries: Iterable[Entry]) -> AgentCommand:
    """A command as its entries, oldest first, tell of it; `first` is the one in which the agent asked."""
    state = CommandState(first.call_id or "")
    said, by, why, asked_first = "", "", "", None
    for entry in entries:
        event = event_of(entry)
        match event:
            case CommandSent():
                said = said or event.said
            case CommandPrepared():
                said = said or event.said
                if state.prepared is not None:
                    asked_first = asked_first or state.prepared.event.parameters
            case ApprovalGiven() | ApprovalDenied():
                by, why = entry.actor, _reason_in(event.signed)
            case GrantUsed():
                by = f"grant {event.grant}"
        state.apply(entry, event)
    result = _result(state.ended.event) if state.ended is not None else None
    prepared, decision = state.prepared, _decision(state.decision)
    refused = state.ended.event if state.ended is not None else None
    sketched = refused.parameters if isinstance(refused, CommandRefused) else None
    return AgentCommand(
        call_id=state.call_id,
        seq=first.seq,
        at=first.time,
        run=first.run,
        device=first.device or "",
        tool=first.tool or "",
        said=said,
        digest=prepared.event.digest if prepared is not None else "",
        arguments=_json(prepared.event.parameters if prepared is not None else sketched),
        asked_first=_json(asked_first),
        effect=decision.summary if decision is not None else "",
        fate=_fate_of(state.result) if state.ended is not None else CommandFate.OPEN,
        by=by,
        why=why or (decision.reasons[0].text if decision is not None and decision.reasons else ""),
        verdict=result.verdict if result is not None else None,
        error=result.error if result is not None else None,
        outcome=_json(result.result if result is not None else None),
        duration_ms=result.duration_ms if result is not None else None,
    )


def _fate_of(result: Json | None) -> CommandFate:
    """The outcome in a result; it is not validated, for there may be many."""
    basis, error = (result or {}).get("basis"), (result or {}).get("error")
    code = error.get("code") if isinstance(error, dict) else None
    if basis == Basis.DEVICE_REFUSED or code in _DENIALS:
        return CommandFate.DENIED
    return CommandFate.GIVEN if basis is not None and basis != Basis.NOTHING_SENT else CommandFate.NOT_SENT


def _result(event: ResultRecorded | CommandRefused) -> CommandResult | None:
    try:
        return CommandResult.model_validate(event.result)
    except ValidationError:
        return None


def _decision(value: object) -> Decision | None:
    try:
        return Decision.model_validate(value)
    except ValidationError:
        return None


def _json(value: object) -> str:
    """A value as a text of at most `MOST_SHOWN` characters and a line that says how much is left out."""
    if value is None:
        return ""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2)
    left = len(text) - MOST_SHOWN
    return text if left <= 0 else f"{text[:MOST_SHOWN]}\n… {left:,} more characters are in the journal."


def _reason_in(signed: object) -> str:
    statement = signed.get("statement") if isinstance(signed, dict) else None
    reason = statement.get("reason") if isinstance(statement, dict) else None
    return reason if isinstance(reason, str) else ""


def _is_evidence(event: object) -> bool:
    return isinstance(event, CommandPrepared | CommandSent) and bool(event.evidence_for)


def _chunks(calls: list[str]) -> Iterable[list[str]]:
    return (calls[at : at + MOST_COMMANDS] for at in range(0, len(calls), MOST_COMMANDS))


def _calls(calls: Collection[str]) -> str:
    return f"call:{','.join(map(quoted, calls))}"
