"""What is said of a moment of the replay: of its command as far as it was known then, or of its entry."""

from __future__ import annotations

from datetime import datetime

from app.records.command import Command
from app.records.decision import decision_properties
from app.screens.replay.text import Clock, lasting
from app.text import one_line
from app.widgets.property_list import Property, short_digest
from core.audit.entries import Entry, Kind
from core.replay.models import Moment


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


def command_facts(known: Command, clock: Clock, start: datetime | None, playhead: Moment) -> list[Property]:
    """Decision, approval, rule, sending and answer, as far as they had come."""
    facts = decision_properties(known.decision) if known.decision is not None else []
    if known.asked is not None:
        facts.insert(min(1, len(facts)), _approval_fact(known, known.asked, playhead))
    if known.sent is not None:
        sent = clock.words(known.sent.time, _since(start, known.sent), exact=True)
        facts.append(Property("Sent", sent, mono=True))
    else:
        facts.append(Property("Sent", "nothing was sent" if known.ended else "not yet", tone="text2"))
    facts.append(_answer_fact(known))
    if known.digest:
        digest = one_line(known.digest)
        facts.append(Property("Digest", short_digest(digest), mono=True, full=digest))
    return facts


def _approval_fact(known: Command, asked: Entry, playhead: Moment) -> Property:
    answered = known.answered
    if answered is None:
        waits = _between(asked.time, playhead.time)
        return Property("Approval", f"waits for {lasting(waits)}" if waits else "waits", tone="waiting")
    waited = lasting(_between(asked.time, answered.at))
    match answered.kind:
        case Kind.APPROVAL_GIVEN:
            return Property("Approved", f"once, by {answered.by} after {waited}")
        case Kind.GRANT_USED:
            return Property("Approved", f"by grant {answered.by} after {waited}")
        case Kind.APPROVAL_DENIED:
            because = f": {answered.reason}" if answered.reason else ""
            return Property("Denied", f"by {answered.by} after {waited}{because}", tone="fail")
    word = "withdrawn" if answered.withdrawn else "expired"
    return Property("Approval", f"{word} after {waited}", tone="warn")


def _answer_fact(known: Command) -> Property:
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


def _between(first: str, second: str) -> float:
    try:
        return max(0.0, (datetime.fromisoformat(second) - datetime.fromisoformat(first)).total_seconds())
    except (ValueError, TypeError):
        return 0.0


def _since(start: datetime | None, entry: Entry) -> float:
    return _between(start.isoformat(), entry.time) if start is not None else 0.0
