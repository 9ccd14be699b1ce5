"""What was known of one command at one moment: read from its entries up to the playhead, and no further."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pydantic import ValidationError

from app.screens.replay.text import Clock, lasting
from app.text import one_line
from app.widgets.property_list import Property, short_digest
from core.audit.entries import Entry, Kind
from core.policy.models import Answer, Decision, Reason
from core.replay.models import Moment

ANSWERS = {Answer.ALLOW: "allowed", Answer.ASK: "asked", Answer.DENY: "denied"}


@dataclass(frozen=True, slots=True)
class CommandAt:
    """The entries of one command up to a moment, by what they say."""

    prepared: Entry | None = None
    decided: Entry | None = None
    asked: Entry | None = None
    answered: Entry | None = None
    sent: Entry | None = None
    ended: Entry | None = None

    @property
    def decision(self) -> Decision | None:
        """The decision that was enforced; None when it is not known yet, or cannot be read."""
        body = self.decided.body.get("decision") if self.decided else None
        try:
            return Decision.model_validate(body) if isinstance(body, dict) else None
        except ValidationError:
            return None

    @property
    def parameters(self) -> dict[str, Any]:
        """The arguments, as they were recorded."""
        return _inside(self.prepared, "parameters")

    @property
    def said(self) -> str:
        """What the asker said about it, unchecked."""
        said = self.prepared.body.get("said") if self.prepared else ""
        return said if isinstance(said, str) else ""

    @property
    def result(self) -> dict[str, Any] | None:
        """The outcome, when there is one by now."""
        return _inside(self.ended, "result") or None


def command_at(entries: list[Entry], seq: int) -> CommandAt:
    """What the entries of a command say up to the entry `seq`; later ones are not looked at."""
    found: dict[str, Entry] = {}
    places = {
        Kind.COMMAND_PREPARED: "prepared",
        Kind.COMMAND_DECIDED: "decided",
        Kind.APPROVAL_REQUESTED: "asked",
        Kind.APPROVAL_GIVEN: "answered",
        Kind.APPROVAL_DENIED: "answered",
        Kind.APPROVAL_EXPIRED: "answered",
        Kind.COMMAND_SENT: "sent",
        Kind.RESULT_RECORDED: "ended",
        Kind.COMMAND_REFUSED: "ended",
    }
    for entry in entries:
        if entry.seq <= seq and (place := places.get(entry.kind)) is not None:
            found[place] = entry
        elif entry.seq <= seq and entry.kind is Kind.GRANT_USED and "approval" in entry.body:
            found["answered"] = entry
    return CommandAt(**found)


def moment_facts(moment: Moment, clock: Clock) -> list[Property]:
    """What the entry itself says."""
    rows = [
        ("Time", clock.words(moment.time, moment.at, exact=True), True),
        ("What", one_line(moment.kind.replace("_", " ")), False),
        ("By", one_line(moment.actor), False),
        ("Device", one_line(moment.device), False),
        ("Tool", one_line(moment.tool), True),
    ]
    # The same rows whatever the entry: a step then mostly writes new values into them. The dash is never in
    # the type for what a machine reads: there it is a shorter one.
    return [Property(label, value or "—", mono and bool(value)) for label, value, mono in rows]


def command_facts(known: CommandAt, clock: Clock, start: datetime | None, playhead: Moment) -> list[Property]:
    """Decision, approval, rule, sending and answer, as far as they had come."""

    def when(entry: Entry) -> str:
        return clock.words(entry.time, _since(start, entry), exact=True)

    facts: list[Property] = []
    decision = known.decision
    if decision is not None and decision.summary:
        facts.append(Property("What", one_line(decision.summary)))
    if known.asked is not None:
        facts.append(_approval_fact(known, playhead))
    if decision is not None:
        facts.append(Property("Rule", "; ".join(map(_reason_words, decision.reasons)) or "—"))
    if known.sent is not None:
        facts.append(Property("Sent", when(known.sent), mono=True))
    else:
        facts.append(Property("Sent", "nothing was sent" if known.ended else "not yet", tone="text2"))
    facts.append(_answer_fact(known))
    # After an edit there are two: the newest is the one that was sent, or is to be.
    digest = known.prepared.body.get("digest") if known.prepared else None
    if isinstance(digest, str) and digest:
        facts.append(Property("Digest", short_digest(one_line(digest)), mono=True, full=one_line(digest)))
    return facts


def _reason_words(reason: Reason) -> str:
    text, origin = one_line(reason.text).rstrip("."), one_line(reason.origin)
    return text if origin.casefold() in text.casefold() else f"{text} ({origin})"


def _approval_fact(known: CommandAt, playhead: Moment) -> Property:
    asked, answered = known.asked, known.answered
    assert asked is not None
    if answered is None:
        waited = _between(asked.time, playhead.time)
        return Property("Approval", f"waits for {lasting(waited)}" if waited else "waits", tone="waiting")
    waited = _between(asked.time, answered.time)
    who = one_line(answered.actor.partition(":")[2] or answered.actor)
    match answered.kind:
        case Kind.APPROVAL_GIVEN:
            return Property("Approved", f"once, by {who} after {lasting(waited)}")
        case Kind.GRANT_USED:
            return Property(
                "Approved", f"by grant {one_line(str(answered.body['grant']))} after {lasting(waited)}"
            )
        case Kind.APPROVAL_DENIED:
            statement = _inside_of(_inside(answered, "signed"), "statement")
            reason = one_line(str(statement.get("reason") or answered.body.get("reason") or ""))
            because = f": {reason}" if reason else ""
            return Property("Denied", f"by {who} after {lasting(waited)}{because}", tone="fail")
    withdrawn = answered.body.get("state") == "withdrawn"
    word = "withdrawn" if withdrawn else "expired"
    return Property("Approval", f"{word} after {lasting(waited)}", tone="warn")


def _answer_fact(known: CommandAt) -> Property:
    ended = known.ended
    if ended is None:
        return Property("Answer", "none yet", tone="text2")
    if ended.verdict == "unknown":
        return Property("Answer", "none came; the outcome is unknown", tone="unknown")
    if ended.kind is Kind.COMMAND_REFUSED:
        return Property("Answer", "none; it was refused here", tone="fail")
    if ended.duration_ms is not None:
        return Property("Answer", f"after {lasting(ended.duration_ms / 1000)}")
    return Property("Answer", "came")


def _inside(entry: Entry | None, key: str) -> dict[str, Any]:
    return _inside_of(entry.body, key) if entry is not None else {}


def _inside_of(body: dict[str, Any], key: str) -> dict[str, Any]:
    value = body.get(key)
    return value if isinstance(value, dict) else {}


def _between(first: str, second: str) -> float:
    try:
        return max(0.0, (datetime.fromisoformat(second) - datetime.fromisoformat(first)).total_seconds())
    except (ValueError, TypeError):
        return 0.0


def _since(start: datetime | None, entry: Entry) -> float:
    return _between(start.isoformat(), entry.time) if start is not None else 0.0
