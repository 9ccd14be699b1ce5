"""What the journal has of one command, read from its entries: request, answer of an operator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from app.records.run_text import actor_words
from app.text import clock, one_line
from core.audit.entries import Entry, Kind
from core.dispatch.models import CommandResult
from core.policy.models import Decision
from core.service.console import CommandRecord

_ANSWERS = {
    Kind.APPROVAL_GIVEN: "approved once by",
    Kind.APPROVAL_DENIED: "denied by",
    Kind.APPROVAL_EXPIRED: "expired",
    Kind.APPROVAL_EDITED: "edited by",
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
    """How an operator answered: the journal's kind of answer, who, when, and why."""

    kind: Kind
    by: str
    at: str
    reason: str

    withdrawn: bool = False

    def sentence(self) -> str:
        """`approved once by harbour 10:40:17`."""
        words = "withdrawn" if self.withdrawn else _ANSWERS[self.kind]
        return " ".join(part for part in (words, self.by, clock(self.at)) if part)


@dataclass(frozen=True, slots=True)
class CommandRecordView:
    """A command as the drawer shows it.

    `digest`, `contract` and `parameters` are those of the request that was sent, or was asked for last;
    `asked_first` holds the arguments before an operator edited them, by the edit `edited`.
    """

    entries: tuple[Entry, ...] = ()
    decision: Decision | None = None
    result: CommandResult | None = None
    digest: str = ""
    contract: str = ""
    parameters: Any = None
    said: str = ""
    answered: Answered | None = None
    late: Entry | None = None
    edited: Answered | None = None
    asked_first: Any = None

    @property
    def denied_by(self) -> str:
        """The operator who said no; empty when none did."""
        return self.answered.by if self.answered and self.answered.kind is Kind.APPROVAL_DENIED else ""


def command_record_view(record: CommandRecord) -> CommandRecordView:
    """Read a command's entries; what is not there stays empty."""
    digest, contract, said = "", "", ""
    parameters: Any = None
    asked_first: Any = None
    answered: Answered | None = None
    edited: Answered | None = None
    late: Entry | None = None
    for entry in record.entries:
        body = entry.body
        if entry.kind in _OF_REQUEST:
            # The newest counts: after an edit, what was asked for first was never sent.
            digest = _text(body, "digest") or digest
            contract = _text(body, "contract") or contract
            said = said or _text(body, "said")
            parameters = body.get("parameters", parameters)
        if entry.kind is Kind.APPROVAL_EDITED:
            edited = _answer(entry)
            asked_first = parameters if asked_first is None else asked_first
        elif entry.kind in _ANSWERS:
            answered = _answer(entry)
        if entry.kind is Kind.LATE_ANSWER_RECEIVED:
            late = entry
    result = record.result
    decision = record.decision or (result.decision if result else None)
    return CommandRecordView(
        tuple(record.entries),
        decision,
        result,
        digest,
        contract,
        parameters,
        said,
        answered,
        late,
        edited,
        asked_first,
    )


def _answer(entry: Entry) -> Answered:
    body = entry.body
    signed = body.get("signed")
    statement = signed.get("statement", {}) if isinstance(signed, dict) else {}
    reason = _text(body, "reason") or (_text(statement, "reason") if isinstance(statement, dict) else "")
    expired = entry.kind is Kind.APPROVAL_EXPIRED
    by = "" if expired else actor_words(entry.actor)
    withdrawn = expired and _text(body, "state") == "withdrawn"
    return Answered(entry.kind, by, entry.time, one_line(reason), withdrawn)


def _text(body: dict[str, Any], key: str) -> str:
    value = body.get(key)
    return value if isinstance(value, str) else ""
