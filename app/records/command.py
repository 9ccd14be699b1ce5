"""What the journal has of one command, read from its entries: all of them, or those up to a moment."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from app.records.run_text import actor_words
from app.text import clock, one_line
from core.audit.entries import Entry, Kind
from core.commands.results import CommandResult
from core.policy.models import Decision

_ANSWERS = {
    Kind.APPROVAL_GIVEN: "approved once by",
    Kind.APPROVAL_DENIED: "denied by",
    Kind.APPROVAL_EXPIRED: "expired",
    Kind.APPROVAL_EDITED: "edited by",
    Kind.GRANT_USED: "approved by grant",
}
_OF_REQUEST = (
    Kind.COMMAND_PREPARED,
    Kind.APPROVAL_REQUESTED,
    Kind.COMMAND_REFUSED,
    Kind.INTENT_RECORDED,
    Kind.COMMAND_SENT,
)


@dataclass(frozen=True, slots=True)
class Answered:
    """How a request was answered: the journal's kind of answer, by which operator or grant, when, and why."""

    kind: Kind
    by: str
    at: str
    reason: str
    withdrawn: bool = False

    def sentence(self) -> str:
        """`approved once by harbour 10:40:17`."""
        words = "withdrawn" if self.withdrawn else _ANSWERS[self.kind]
        return " ".join(part for part in (words, self.by, clock(self.at)) if part)


@dataclass(slots=True)
class Command:
    """A command as its entries tell of it; what is not in them stays empty. Of each kind the newest counts.

    `digest`, `contract` and `parameters` are those of the request that was sent, or was asked for last;
    `asked_first` holds the arguments before an operator edited them, by the edit `edited`.
    """

    entries: tuple[Entry, ...] = ()
    decision: Decision | None = None
    result: CommandResult | None = None
    digest: str = ""
    contract: str = ""
    parameters: Any = None
    asked_first: Any = None
    asker: str = ""
    said: str = ""
    asked: Entry | None = None
    answered: Answered | None = None
    edited: Answered | None = None
    sent: Entry | None = None
    ended: Entry | None = None
    late: Entry | None = None
    has_output: bool = False

    @property
    def denied_by(self) -> str:
        """The operator who said no; empty when none did."""
        return self.answered.by if self.answered and self.answered.kind is Kind.APPROVAL_DENIED else ""

    def apply(self, entry: Entry) -> None:
        """Take over what the next entry says."""
        body = entry.body
        if entry.kind in _OF_REQUEST:
            # After an edit, what was asked for first was never sent.
            self.digest = _text(body, "digest") or self.digest
            self.contract = _text(body, "contract") or self.contract
            self.said = self.said or _text(body, "said")
            self.parameters = body.get("parameters", self.parameters)
        match entry.kind:
            case Kind.COMMAND_PREPARED:
                self.asker = entry.actor
            case Kind.COMMAND_DECIDED:
                self.decision = _decision(body) or self.decision
            case Kind.APPROVAL_REQUESTED:
                self.asked = entry
            case Kind.APPROVAL_EDITED:
                self.edited = _answer(entry)
                self.asked_first = self.parameters if self.asked_first is None else self.asked_first
            case Kind.GRANT_USED if "approval" not in body:
                pass  # it was allowed without a request
            case Kind.APPROVAL_GIVEN | Kind.APPROVAL_DENIED | Kind.APPROVAL_EXPIRED | Kind.GRANT_USED:
                self.answered = _answer(entry)
            case Kind.COMMAND_SENT:
                self.sent = entry
            case Kind.RESULT_RECORDED | Kind.COMMAND_REFUSED:
                self.ended = entry
            case Kind.LATE_ANSWER_RECEIVED:
                self.late = entry
            case Kind.PROGRESS_REPORTED:
                self.has_output = self.has_output or bool(_text(body, "stream"))


def read_command(
    entries: Iterable[Entry], decision: Decision | None = None, result: CommandResult | None = None
) -> Command:
    """Read a command's entries in their order; `decision` and `result` are what the service made of them."""
    command = Command(tuple(entries))
    for entry in command.entries:
        command.apply(entry)
    command.result = result
    command.decision = decision or (result.decision if result else None) or command.decision
    return command


def _answer(entry: Entry) -> Answered:
    body = entry.body
    signed = body.get("signed")
    statement = signed.get("statement", {}) if isinstance(signed, dict) else {}
    reason = _text(body, "reason") or (_text(statement, "reason") if isinstance(statement, dict) else "")
    if entry.kind is Kind.GRANT_USED:
        by = one_line(_text(body, "grant"))
    else:
        by = "" if entry.kind is Kind.APPROVAL_EXPIRED else actor_words(entry.actor)
    withdrawn = entry.kind is Kind.APPROVAL_EXPIRED and _text(body, "state") == "withdrawn"
    return Answered(entry.kind, by, entry.time, one_line(reason), withdrawn)


def _decision(body: dict[str, Any]) -> Decision | None:
    try:
        return Decision.model_validate(body.get("decision"))
    except ValidationError:
        return None


def _text(body: dict[str, Any], key: str) -> str:
    value = body.get(key)
    return value if isinstance(value, str) else ""
