"""Text of devices, agents and operators as a card writes it, and words for what became of a request."""

from __future__ import annotations

from app.screens.approvals.time_left import local_time
from app.text import person_words, with_nothing_sent
from core.approvals.models import Approval, ApprovalState
from core.dispatch.models import CommandResult, Verdict
from core.text import escape_hidden

MOST_SAID = 2000

_VERDICTS = {
    Verdict.CONFIRMED: "It ran: confirmed.",
    Verdict.UNVERIFIED: "The device says that it ran.",
    Verdict.NO_EFFECT: "It ran, but changed nothing that can be observed.",
    Verdict.REFUSED: "It was refused afterwards; nothing was sent.",
    Verdict.UNKNOWN: "What became of it is not known: look at the device.",
    Verdict.CANCELLED: "It was cancelled.",
}


def one_line(text: str) -> str:
    """Text of others in one line: what cannot be seen is written out."""
    return escape_hidden(text, keep_lines=False)


def quoted(said: str) -> str:
    """What the asker says, as a quotation; very long ones are cut with words that say so."""
    shown = escape_hidden(said[:MOST_SAID]).strip()
    left = len(said) - MOST_SAID
    return f"“{shown}”" if left <= 0 else f"“{shown} …” ({left} more characters are in the journal)"


def asker_words(actor: str) -> str:
    """Who asks, in full; of a window that proved no operator, that it is not proved."""
    return one_line(person_words(actor) if actor.startswith("window:") else actor)


def unproved_words(approval: Approval) -> str:
    """Why more operators must approve than the policy wants; empty where none more must."""
    more = approval.approvers - approval.decision.approvers
    if approval.approvers == 1 or "" not in approval.askers or more <= 0:
        return ""
    operators = "one operator more" if more == 1 else f"{more} operators more"
    return f"Asked without a proof of who asks, so {operators} must approve"


def is_agent(actor: str) -> bool:
    """True for an LLM program."""
    return actor.startswith("agent:")


def said_title(actor: str) -> str:
    """The title above what the asker says."""
    return f"The {'agent' if is_agent(actor) else 'asker'} says (not checked)"


def final_words(approval: Approval) -> tuple[str, str]:
    """What happened to a request that no longer waits: a fact, and a detail."""
    at = local_time(approval.decided_at)
    when = f" at {at}" if at else ""
    by = one_line(approval.decided_by or "an operator")
    reason = one_line(approval.reason)
    match approval.state:
        case ApprovalState.APPROVED:
            return f"Approved by {by}{when}.", reason
        case ApprovalState.DENIED:
            return f"Denied by {by}{when}.", with_nothing_sent(reason)
        case ApprovalState.EXPIRED:
            return f"Expired{when}.", "No operator answered in time; it was denied once and nothing was sent."
        case ApprovalState.EDITED:
            return f"Edited by {by}{when}.", "Nothing was sent. It asks again with other arguments."
        case ApprovalState.WITHDRAWN:
            return f"Withdrawn{when}.", with_nothing_sent(reason)
        case _:
            return "This request still waits.", ""


def outcome_words(result: CommandResult) -> str:
    """What became of an approved command."""
    words = _VERDICTS[result.verdict]
    if result.error is None:
        return words
    if result.verdict is Verdict.UNVERIFIED:
        words = "It ran and failed."
    return f"{words} {one_line(result.error.message)}"
