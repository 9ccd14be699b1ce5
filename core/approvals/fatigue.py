"""Warns if an operator approves faster than a person can read. It only measures; it affects no answer."""

from __future__ import annotations

import statistics
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from core.approvals.models import Fatigue

HASTY_S = 1.0
WINDOW_S = 3_600.0
KEPT = 500
ENOUGH = 10
MOST_HASTY = 5
MOST_APPROVED_SHARE = 0.98
MANY = 40


@dataclass(frozen=True, slots=True)
class _Answer:
    at: float
    took_s: float
    approved: bool


class FatigueMeter:
    """Each operator's answers in the last hour, at most `KEPT` of them."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._answers: dict[str, deque[_Answer]] = defaultdict(lambda: deque(maxlen=KEPT))

    def note(self, operator: str, took_s: float, approved: bool) -> Fatigue | None:
        """Record an answer that took `took_s` seconds; returns the measure if its warning has just begun."""
        return self.note_many(operator, [(took_s, approved)])

    def note_many(self, operator: str, answers: Iterable[tuple[float, bool]]) -> Fatigue | None:
        """Record answers that were given together, each with its seconds and whether it is an approval."""
        before, now_s = self.measure(operator).warning, self._clock()
        self._answers[operator].extend(_Answer(now_s, took_s, approved) for took_s, approved in answers)
        now = self.measure(operator)
        return now if now.warning and not before else None

    def measure(self, operator: str) -> Fatigue:
        """The operator's counts, median time and warning for the last hour."""
        answers = self._answers.get(operator, deque())
        while answers and answers[0].at < self._clock() - WINDOW_S:
            answers.popleft()
        approved = [answer for answer in answers if answer.approved]
        fatigue = Fatigue(
            operator=operator,
            decided=len(answers),
            approved=len(approved),
            median_s=round(statistics.median(answer.took_s for answer in answers), 2) if answers else 0.0,
            hasty=sum(answer.took_s < HASTY_S for answer in approved),
        )
        return fatigue.model_copy(update={"warning": _warning(fatigue)})


def _warning(fatigue: Fatigue) -> str:
    if fatigue.decided >= ENOUGH and fatigue.hasty >= MOST_HASTY:
        return f"{fatigue.hasty} of {fatigue.approved} approvals took less than a second each."
    if fatigue.decided >= MANY and fatigue.approved / fatigue.decided >= MOST_APPROVED_SHARE:
        return f"{fatigue.approved} of the last {fatigue.decided} requests were approved."
    return ""
