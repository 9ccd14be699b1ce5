"""Text of a request: how long it waits, what became of it."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from app.text import one_line, with_nothing_sent
from core.approvals.models import Approval, ApprovalState
from core.commands.results import CommandResult, Verdict

_VERDICTS = {
    Verdict.CONFIRMED: "It ran: confirmed.",
    Verdict.UNVERIFIED: "The device says that it ran.",
    Verdict.NO_EFFECT: "It ran, but changed nothing that can be observed.",
    Verdict.REFUSED: "It was refused afterwards; nothing was sent.",
    Verdict.UNKNOWN: "What became of it is not known: look at the device.",
    Verdict.CANCELLED: "It was cancelled.",
}


def unproved_words(approval: Approval) -> str:
    """Why more operators must approve than the policy wants; empty where none more must."""
    more = approval.approvers - approval.decision.approvers
    if approval.approvers == 1 or "" not in approval.askers or more <= 0:
        return ""
    operators = "one operator more" if more == 1 else f"{more} operators more"
    return f"Asked without a proof of who asks, so {operators} must approve"


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


MOST_PAUSE_S = 300.0
"""Reading pauses a request's expiry for so long at most, all readings together."""


class TimeLeft:
    """Seconds left of each request, also while its clock is paused and after the longest pause."""

    def __init__(self) -> None:
        self._paused_since: dict[str, float] = {}
        self._paused_before: dict[str, float] = {}

    def note(self, approvals: Iterable[Approval]) -> None:
        """Learn from the newest state of every request that waits; the others are forgotten."""
        seen = set()
        for one in approvals:
            seen.add(one.id)
            published = _published(one)
            if one.paused:
                self._paused_since.setdefault(one.id, published)
            elif (since := self._paused_since.pop(one.id, None)) is not None:
                before = self._paused_before.get(one.id, 0.0)
                self._paused_before[one.id] = before + max(0.0, published - since)
        for known in (self._paused_since, self._paused_before):
            for gone in known.keys() - seen:
                del known[gone]

    def seconds(self, approval: Approval, now: float) -> float:
        """Seconds left at `now` (a UNIX time); 0 when it has run out."""
        if not approval.paused:
            return max(0.0, _moment(approval.expires_at) - now)
        since = self._paused_since.get(approval.id, _published(approval))
        allowed = MOST_PAUSE_S - self._paused_before.get(approval.id, 0.0)
        ran_on = max(0.0, (now - since) - max(0.0, allowed))
        return max(0.0, approval.remaining_s - ran_on)


def _moment(stamp: str) -> float:
    return datetime.fromisoformat(stamp).timestamp()


def _published(approval: Approval) -> float:
    """When the service said this: the two times in it lie `remaining_s` apart at that moment."""
    return _moment(approval.expires_at) - approval.remaining_s


def clock_words(seconds: float) -> str:
    """`4:31`, `1:02:09`."""
    whole = int(seconds)
    hours, rest = divmod(whole, 3600)
    minutes, left = divmod(rest, 60)
    return f"{hours}:{minutes:02}:{left:02}" if hours else f"{minutes}:{left:02}"


def local_time(stamp: str | None) -> str:
    """A UTC stamp as the local clock with seconds; empty for none."""
    return datetime.fromisoformat(stamp).astimezone().strftime("%H:%M:%S") if stamp else ""
