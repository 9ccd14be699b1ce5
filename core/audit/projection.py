"""The one fold of journal entries: what they tell of each run and of each command.

Recovery, the history of runs, the time line, the trial of a policy and a command's record all read it. Any
entry may be missing, as in an excerpt of the journal, and a body may hold any data: nothing here raises.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Generic, NamedTuple, TypeVar

from core.audit.entries import Entry, Kind
from core.audit.events import (
    ApprovalAnswered,
    ApprovalEdited,
    ApprovalExpired,
    ApprovalGiven,
    ApprovalRequested,
    CommandDecided,
    CommandEvent,
    CommandPrepared,
    CommandRefused,
    CommandSent,
    Event,
    GrantUsed,
    IntentRecorded,
    Json,
    LateAnswerReceived,
    ResultRecorded,
    RunCancelAsked,
    RunFinished,
    RunResumed,
    RunStarted,
    ServiceStarted,
)

AnEvent = TypeVar("AnEvent", bound=Event)
# `core.commands.results.Verdict.UNKNOWN`, which the journal does not import.
_UNKNOWN = "unknown"


class Recorded(NamedTuple, Generic[AnEvent]):
    """An entry with the event that it records."""

    entry: Entry
    event: AnEvent


_WITH_VALUE = frozenset({Kind.RESULT_RECORDED, Kind.LATE_ANSWER_RECEIVED})


def keep_values(entries: Iterable[Entry], keep: Callable[[Entry, Any], Any]) -> Iterator[Entry]:
    """The entries, with what `keep` returns in place of the value of each result, which may be megabytes."""
    for entry in entries:
        result = entry.body.get("result")
        if result is None or entry.kind not in _WITH_VALUE:
            yield entry
        elif entry.kind is Kind.LATE_ANSWER_RECEIVED:
            yield entry.model_copy(update={"body": {**entry.body, "result": keep(entry, result)}})
        elif isinstance(result, dict) and result.get("result") is not None:
            kept = {**result, "result": keep(entry, result["result"])}
            yield entry.model_copy(update={"body": {**entry.body, "result": kept}})
        else:
            yield entry


class Progress(StrEnum):
    """How far a command has come. The decision is made while it is `PREPARED`."""

    PREPARED = "prepared"
    WAITING = "waiting"
    SENDING = "sending"
    ENDED = "ended"


@dataclass(slots=True)
class CommandState:
    """One command as its entries tell of it, applied in their order; of each kind, the last entry counts.

    A late answer counts only while the outcome is unknown: the first that tells it stands.
    """

    call_id: str
    progress: Progress | None = None
    prepared: Recorded[CommandPrepared] | None = None
    decided: Recorded[CommandDecided] | None = None
    # The requests without an answer, by approval, and the last approval that was requested.
    waiting: dict[str, Entry] = field(default_factory=dict)
    approval: str | None = None
    # The intent and the sending, until the outcome is recorded.
    intended: Entry | None = None
    sent: Entry | None = None
    ended: Recorded[ResultRecorded | CommandRefused] | None = None
    # The late answer that told the outcome.
    late: Recorded[LateAnswerReceived] | None = None

    def apply(self, entry: Entry, event: Event) -> None:
        """Apply the command's next entry."""
        match event:
            case CommandPrepared():
                self.prepared, self.ended, self.progress = Recorded(entry, event), None, Progress.PREPARED
            case CommandDecided():
                self.decided = Recorded(entry, event)
            case ApprovalRequested():
                self.waiting[event.approval] = entry
                self.approval, self.progress = event.approval, Progress.WAITING
            case ApprovalGiven() if event.number < event.of:
                # It waits on for more operators.
                pass
            case ApprovalAnswered() | ApprovalEdited() | ApprovalExpired() | GrantUsed():
                self.waiting.pop(event.approval, None)
            case IntentRecorded():
                self.intended, self.ended, self.progress = entry, None, Progress.SENDING
            case CommandSent():
                self.sent, self.ended, self.progress = entry, None, Progress.SENDING
            case ResultRecorded() | CommandRefused():
                self.ended, self.late, self.progress = Recorded(entry, event), None, Progress.ENDED
                self.intended = self.sent = None
            case LateAnswerReceived() if event.outcome is not None and self.is_unknown:
                self.late = Recorded(entry, event)

    @property
    def decision(self) -> Json | None:
        """The last decision, as JSON."""
        return self.decided.event.decision if self.decided else None

    @property
    def result(self) -> Json | None:
        """The result as JSON; None before the end, and if the outcome was recorded without one."""
        if self.late is not None:
            return self.late.event.settled
        return self.ended.event.result if self.ended else None

    @property
    def is_unknown(self) -> bool:
        """Whether the command has ended, and it is unknown how."""
        return (self.result or {}).get("verdict") == _UNKNOWN

    @property
    def sending(self) -> Entry | None:
        """The entry by which it was last on its way to the device; None after its outcome."""
        return self.sent or self.intended

    def abandon(self) -> None:
        """The service that carried it has ended: no answer to it can arrive any more."""
        self.waiting.clear()
        self.intended = self.sent = None


@dataclass(slots=True)
class RunRecord:
    """One run as its own entries tell of it."""

    started: Recorded[RunStarted] | None = None
    cancelled: bool = False
    resumed_by: str = ""
    finished: Recorded[RunFinished] | None = None


@dataclass(slots=True)
class Projection:
    """The runs and commands in a stretch of the journal, by id, in the order of their first entries."""

    runs: dict[str, RunRecord] = field(default_factory=dict)
    commands: dict[str, CommandState] = field(default_factory=dict)

    def apply(self, entry: Entry, event: Event) -> None:
        """Apply the next entry."""
        match event:
            case CommandEvent() if entry.call_id:
                if entry.call_id not in self.commands:
                    self.commands[entry.call_id] = CommandState(entry.call_id)
                self.commands[entry.call_id].apply(entry, event)
            case RunStarted() if entry.run:
                self._run(entry.run).started = Recorded(entry, event)
            case RunCancelAsked() if entry.run:
                self._run(entry.run).cancelled = True
            case RunResumed() if entry.run:
                self._run(entry.run).resumed_by = event.by
            case RunFinished() if entry.run:
                self._run(entry.run).finished = Recorded(entry, event)
            case ServiceStarted():
                for command in self.commands.values():
                    command.abandon()

    def _run(self, run: str) -> RunRecord:
        return self.runs.setdefault(run, RunRecord())
