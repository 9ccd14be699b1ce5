"""One-line titles of journal entries for the replay."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from core.audit.entries import Entry, Kind
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
    Kind.ALL_STOPPED: "Everything was stopped",
    Kind.ALL_RESUMED: "Commands may leave again",
    Kind.JOURNAL_RECOVERED: "The journal was recovered",
    Kind.LISTENING_CHANGED: "Where devices dial in was changed",
    Kind.TRUST_ADOPTED: "What an earlier version trusted was taken over",
    Kind.POLICY_SAVED: "The policy was changed",
    Kind.SETTINGS_ACCEPTED: "The settings were accepted",
    Kind.CHANGE_REFUSED: "A change was not signed as it has to be",
    Kind.OPERATOR_REMOVED: "An operator was removed",
    Kind.GRANT_REVOKED: "A grant was revoked",
    Kind.FATIGUE_NOTED: "Approvals came faster than a person reads",
}

# {tool}, {device}, {actor} and {step} come from the entry; a generic word replaces a missing value.
_OF_ENTRY: dict[Kind, str] = {
    Kind.DEVICE_CONNECTED: "{device} connected",
    Kind.DEVICE_LOST: "{device} was lost",
    Kind.DEVICE_REFUSED: "{device} was refused",
    Kind.DEVICE_PAIRED: "{device} was paired",
    Kind.DEVICE_REVOKED: "{device} was revoked",
    Kind.DEVICE_FORGOTTEN: "{device} was forgotten",
    Kind.DEVICE_SET: "{device} was changed by {actor}",
    Kind.CONTRACT_PINNED: "Tools of {device} were trusted",
    Kind.CONTRACT_CHANGED: "Tools of {device} are not what was trusted",
    Kind.RUN_STARTED: "The run started",
    Kind.RUN_FINISHED: "The run ended",
    Kind.STEP_SKIPPED: "{step} was skipped",
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
    Kind.LATE_ANSWER_RECEIVED: "{device} answered {tool} too late",
}

_WITHDRAWN = "The request for {tool} was withdrawn"
_ANSWERS = {"allow": "allowed", "ask": "an operator is asked", "deny": "denied"}


def title_of(entry: Entry) -> str:
    """The title of an entry in one line; missing or malformed parts are left out."""
    withdrawn = entry.kind is Kind.APPROVAL_EXPIRED and text_in(entry.body, "state") == "withdrawn"
    form = _WITHDRAWN if withdrawn else _OF_ENTRY.get(entry.kind, "")
    words = _PLAIN.get(entry.kind) or form.format(
        tool=entry.tool or "a command",
        device=entry.device or "a device",
        actor=(entry.actor.partition(":")[2] or entry.actor) or "an unnamed actor",
        step=entry.step or "A step",
    )
    more = _more(entry)
    line = f"{words}: {more}" if more else words
    return escape_hidden(shorten_middle(line, _LONGEST), keep_lines=False)


def _more(entry: Entry) -> str:
    body = entry.body
    match entry.kind:
        case Kind.COMMAND_DECIDED:
            decision = inside(body, "decision")
            answer = _ANSWERS.get(text_in(decision, "answer"), "")
            return ", ".join(part for part in (answer, text_in(decision, "summary")) if part)
        case Kind.RESULT_RECORDED | Kind.COMMAND_REFUSED:
            problem = text_in(inside(inside(body, "result"), "error"), "message") or text_in(body, "problem")
            return problem or (entry.verdict or "")
        case Kind.LATE_ANSWER_RECEIVED:
            return text_in(body, "problem") or text_in(body, "error") or (entry.status or "")
        case Kind.APPROVAL_EXPIRED if text_in(body, "state") == "withdrawn":
            return text_in(body, "reason")
        case Kind.APPROVAL_DENIED:
            return text_in(inside(inside(body, "signed"), "statement"), "reason")
        case Kind.APPROVAL_REJECTED | Kind.CHANGE_REFUSED:
            return text_in(body, "problem")
        case Kind.OPERATOR_REMOVED:
            return text_in(body, "operator")
        case Kind.DEVICE_LOST | Kind.DEVICE_REFUSED | Kind.STEP_SKIPPED:
            return text_in(body, "reason")
        case Kind.RUN_STARTED:
            return text_in(body, "name") or text_in(inside(body, "batch"), "name")
        case Kind.RUN_FINISHED:
            return text_in(body, "state") or (entry.status or "")
        case Kind.PROFILE_CHANGED:
            return text_in(body, "profile")
    return ""


def inside(body: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """The object under a key, or an empty object."""
    value = body.get(key)
    return value if isinstance(value, dict) else {}


def text_in(body: Mapping[str, Any], key: str) -> str:
    """The text under a key, or an empty text."""
    value = body.get(key)
    return value if isinstance(value, str) else ""
