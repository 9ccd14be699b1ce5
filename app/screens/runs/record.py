"""What the journal has of one command, read from its entries: request, answer of an operator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from app.screens.runs.words import actor_words, one_line
from app.shell.words import clock
from core.audit.entries import Entry, Kind
from core.dispatch.models import CommandResult
from core.policy.models import Decision
from core.service.console import CommandRecord

_ANSWERS = {
    Kind.APPROVAL_GIVEN: "approved once by",
    Kind.APPROVAL_DENIED: "denied by",
    Kind.APPROVAL_EXPIRED: "nobody answered in time",
}


@dataclass(frozen=True, slots=True)
class Answered:
    """How an operator answered: the journal's kind of answer, who, when, and why."""

    kind: Kind
    by: str
    at: str
    reason: str

    def sentence(self) -> str:
        """`approved once by harbour 10:40:17`."""
        return " ".join(part for part in (_ANSWERS[self.kind], self.by, clock(self.at)) if part)


@dataclass(frozen=True, slots=True)
class Known:
    """A command as the drawer shows it."""

    entries: tuple[Entry, ...] = ()
    decision: Decision | None = None
    result: CommandResult | None = None
    digest: str = ""
    contract: str = ""
    parameters: Any = None
    said: str = ""
    answered: Answered | None = None
    late: Entry | None = None

    @property
    def denied_by(self) -> str:
        """The operator who said no; empty when none did."""
        return self.answered.by if self.answered and self.answered.kind is Kind.APPROVAL_DENIED else ""


def known_from(record: CommandRecord) -> Known:
    """Read a command's entries; what is not there stays empty."""
    digest, contract, said = "", "", ""
    parameters: Any = None
    answered: Answered | None = None
    late: Entry | None = None
    for entry in record.entries:
        body = entry.body
        if entry.kind in (Kind.COMMAND_PREPARED, Kind.APPROVAL_REQUESTED, Kind.COMMAND_REFUSED):
            digest = digest or _text(body, "digest")
            contract = contract or _text(body, "contract")
            said = said or _text(body, "said")
            parameters = body.get("parameters", parameters)
        if entry.kind in _ANSWERS:
            answered = _answer(entry)
        if entry.kind is Kind.LATE_ANSWER_RECEIVED:
            late = entry
    result = record.result
    decision = record.decision or (result.decision if result else None)
    return Known(tuple(record.entries), decision, result, digest, contract, parameters, said, answered, late)


def _answer(entry: Entry) -> Answered:
    body = entry.body
    signed = body.get("signed")
    statement = signed.get("statement", {}) if isinstance(signed, dict) else {}
    reason = _text(body, "reason") or (_text(statement, "reason") if isinstance(statement, dict) else "")
    expired = entry.kind is Kind.APPROVAL_EXPIRED
    by = "" if expired else actor_words(entry.actor)
    return Answered(entry.kind, by, entry.time, one_line(reason))


def _text(body: dict[str, Any], key: str) -> str:
    value = body.get(key)
    return value if isinstance(value, str) else ""
