"""The order in which requests that wait stand before operators: in the queue, on cards, in the terminal."""

from __future__ import annotations

from collections.abc import Iterable

from core.approvals.models import Approval


def in_queue_order(approvals: Iterable[Approval]) -> list[Approval]:
    """The requests with the highest risk first, then the oldest."""
    return sorted(approvals, key=lambda approval: (-approval.decision.risk.rank, approval.asked_at))
