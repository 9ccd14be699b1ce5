"""The error for a call that the policy denies: what denies it, and what can be done about that."""

from __future__ import annotations

from core.errors import Refused
from core.next_steps import DENIED_BY_PROFILE, DENIED_BY_RULE
from core.policy.models import Answer, Decision
from core.text import clause


def refusal(decision: Decision, before: str = "") -> Refused:
    """The error for a decision that denies; `before` is put before its reason."""
    by_rule = any(hit.decision is Answer.DENY for hit in decision.rules)
    reason = clause(decision.reasons[0].text)
    step = DENIED_BY_RULE if by_rule else DENIED_BY_PROFILE
    return Refused(f"{before}{reason}.", next_step=step.person)
