"""One-line titles of journal entries for the replay."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from core.audit.entries import Entry, Kind
from core.audit.events import (
    AgentAdded,
    AgentRevoked,
    AgentSet,
    ApprovalDenied,
    ApprovalExpired,
    ApprovalRejected,
    ChangeRefused,
    CommandDecided,
    CommandRefused,
    CommandSent,
    DeviceLost,
    DeviceRefused,
    Event,
    LateAnswerReceived,
    OperatorRemoved,
    ResultRecorded,
    RunFinished,
    RunStarted,
    event_of,
)
from core.text import escape_hidden, shorten_middle

_LONGEST = 160

_PLAIN: dict[Kind, str] = {
    Kind.SERVICE_STARTED: "The service started",
    Kind.SERVICE_STOPPED: "The service stopped",
    Kind.OPERATOR_REGISTERED: "An operator was registered",
    Kind.POLICY_LOADED: "The policy was loaded",
    Kind.POLICY_BROKEN: "The policy cannot be read; everything asks",
    Kind.PROFILE_CHANGED: "The profile changed",
    Kind.RUN_CANCEL_ASKED: "Cancelling the run was asked for",
    Kind.RUN_PAUSED: "The run was paused",
    Kind.RUN_UNPAUSED: "The run goes on",
    Kind.RUN_RESUMED: "The run is continued by another",
    Kind.ALL_STOPPED: "Everything was stopped",
    Kind.ALL_RESUMED: "Commands may leave again",
    Kind.LOSS_ACCEPTED: "A loss of entries was accepted",
    Kind.HOME_RESTORED: "The home was restored from a backup",
    Kind.JOURNAL_RECOVERED: "The journal was recovered",
    Kind.LISTENING_CHANGED: "Where devices dial in was changed",
    Kind.CERTIFICATE_MADE: "The next certificate was made",
    Kind.CERTIFICATE_SWITCHED: "The console shows its next certificate",
    Kind.TRUST_ADOPTED: "The trust in devices began with this journal",
    Kind.POLICY_SAVED: "The policy was changed",
    Kind.SETTINGS_ACCEPTED: "The settings were accepted",
    Kind.CHANGE_REFUSED: "A change was not signed as it has to be",
    Kind.OPERATOR_REMOVED: "An operator was removed",
    Kind.GRANT_REVOKED: "A grant was revoked",
    Kind.AGENT_ADDED: "An agent was added",
    Kind.AGENT_SET: "The limits of an agent were changed",
    Kind.AGENT_REVOKED: "An agent was revoked",
    Kind.AGENT_STOPPED: "An agent was stopped",
    Kind.AGENT_CONNECTED: "An agent connected",
    Kind.AGENT_LEFT: "An agent left",
    Kind.FATIGUE_NOTED: "Approvals came faster than a person reads",
}

# {tool}, {device}, {actor} and {step} come from the entry; a generic word replaces a missing value.
_OF_ENTRY: dict[Kind, str] = {
    Kind.DEVICE_CONNECTED: "{device} connected",
    Kind.DEVICE_LOST: "{device} was lost",
    Kind.DEVICE_REFUSED: "{device} was refused",
    Kind.DEVICE_PAIRED: "{device} was paired",
    Kind.DEVICE_BOUND: "{device} was bound to a machine",
    Kind.CERTIFICATE_TAKEN: "{device} accepts a certificate of this console",
    Kind.DEVICE_REVOKED: "{device} was revoked",
    Kind.DEVICE_FORGOTTEN: "{device} was forgotten",
    Kind.DEVICE_SET: "{device} was changed by {actor}",
    Kind.CONTRACT_PINNED: "Tools of {device} were trusted",
    Kind.CONTRACT_CHANGED: "Tools of {device} are not what was trusted",
    Kind.RUN_STARTED: "The run started",
    Kind.RUN_FINISHED: "The run ended",
    Kind.STEP_SKIPPED: "{step} was skipped",
    Kind.STEP_FAILED: "{step} failed",
    Kind.STEP_RECOVERED: "{step} failed and counts as done",
    Kind.STEP_SETTLED: "{actor} said whether {step} is done",
    Kind.STEP_CANCEL_ASKED: "Cancelling {step} was asked for",
    Kind.RETRY_SCHEDULED: "{step} is to be tried again",
    Kind.COMMAND_PREPARED: "{actor} asked for {tool}",
    Kind.COMMAND_REFUSED: "{tool} was refused",
    Kind.COMMAND_DECIDED: "{tool} was judged",
    Kind.APPROVAL_REQUESTED: "{tool} waits for an operator",
    Kind.APPROVAL_GIVEN: "{actor} approved {tool}",
    Kind.APPROVAL_DENIED: "{actor} denied {tool}",
    Kind.APPROVAL_EXPIRED: "No operator answered for {tool}",
    Kind.APPROVAL_REJECTED: "An answer for {tool} was not accepted",
    Kind.APPROVAL_EDITED: "{actor} changed the arguments of {tool}",
    Kind.GRANT_GIVEN: "{actor} granted {tool} from now on",
    Kind.GRANT_USED: "A grant let {tool} through",
    Kind.EVIDENCE_TAKEN: "Evidence for {tool} was taken",
    Kind.INTENT_RECORDED: "The intent to run {tool} was recorded",
    Kind.COMMAND_SENT: "{tool} was sent to {device}",
    Kind.PROGRESS_REPORTED: "{device} reports progress of {tool}",
    Kind.RESULT_RECORDED: "{tool} answered",
    Kind.LATE_ANSWER_RECEIVED: "{device} answered {tool} late",
}

NEVER_SEEN = "it never saw the command and refuses it from now on"
KNOWS_NOTHING = "it knows nothing of the command, or no longer"
_WITHDRAWN = "The request for {tool} was withdrawn"
_ASKED_AND_SENT = "{actor} asked for {tool}, which was allowed and sent to {device}"
_ANSWERS = {"allow": "allowed", "ask": "an operator is asked", "deny": "denied"}


def title_of(entry: Entry, event: Event | None = None) -> str:
    """The title of an entry in one line; missing or malformed parts are left out.

    `event` is the entry's event, if the caller has read it already.
    """
    event = event or event_of(entry)
    form = _OF_ENTRY.get(entry.kind, "")
    match event:
        case ApprovalExpired(state="withdrawn"):
            form = _WITHDRAWN
        case CommandSent(decision=dict()):
            form = _ASKED_AND_SENT
    words = _PLAIN.get(entry.kind) or form.format(
        tool=entry.tool or "a command",
        device=entry.device or "a device",
        actor=(entry.actor.partition(":")[2] or entry.actor) or "an unnamed actor",
        step=entry.step or "A step",
    )
    more = _more(entry, event)
    line = f"{words}: {more}" if more else words
    return escape_hidden(shorten_middle(line, _LONGEST), keep_lines=False)


def _more(entry: Entry, event: Event) -> str:
    match event:
        case CommandSent(decision=decision):
            return text_in(decision or {}, "summary")
        case CommandDecided(decision=decision):
            answer = _ANSWERS.get(text_in(decision, "answer"), "")
            return ", ".join(part for part in (answer, text_in(decision, "summary")) if part)
        case ResultRecorded(result=result, problem=problem):
            return _error_in(result) or problem or entry.verdict or ""
        case CommandRefused(result=result):
            return _error_in(result) or entry.verdict or ""
        case LateAnswerReceived(problem=problem, error=error, never_seen=never_seen):
            outcome = event.outcome or {}
            told = _error_in(outcome) or (NEVER_SEEN if never_seen else "")
            words = (word for word in (problem, told, error, entry.status) if isinstance(word, str) and word)
            how = next(words, "")
            return how if outcome else f"{how}; it counts for nothing".lstrip("; ")
        case ApprovalExpired(state="withdrawn", reason=reason):
            return reason
        case ApprovalDenied(signed=signed):
            return text_in(inside(signed, "statement"), "reason")
        case ApprovalRejected(problem=problem) | ChangeRefused(problem=problem):
            return problem
        case OperatorRemoved(operator=operator):
            return operator
        case AgentAdded(agent=agent) | AgentSet(agent=agent) | AgentRevoked(agent=agent):
            return agent
        case DeviceLost(reason=reason) | DeviceRefused(reason=reason):
            return reason
        case RunStarted(batch=batch):
            return text_in(batch, "name")
        case RunFinished(state=state):
            return state or entry.status or ""
    return ""


def _error_in(result: Mapping[str, Any] | None) -> str:
    return text_in(inside(result or {}, "error"), "message")


def inside(body: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """The object under a key, or an empty object."""
    value = body.get(key)
    return value if isinstance(value, dict) else {}


def text_in(body: Mapping[str, Any], key: str) -> str:
    """The text under a key, or an empty text."""
    value = body.get(key)
    return value if isinstance(value, str) else ""
