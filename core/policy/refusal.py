"""The error for a call that the policy denies: what denies it, and what can be done about that."""

from __future__ import annotations

from core.errors import Refused
from core.policy.models import Answer, Decision

_OF_A_RULE = "Read the rule that is named; change the policy if it is wrong."
_OF_A_PROFILE = "Change the profile of the device or the agent if it is wrong; no rule denies this."


def refusal(decision: Decision, before: str = "") -> Refused:
    """The error for a decision that denies; `before` is put before its reason."""
    by_rule = any(hit.decision is Answer.DENY for hit in decision.rules)
    reason = decision.reasons[0].text.removesuffix(".")
    return Refused(f"{before}{reason}.", next_step=_OF_A_RULE if by_rule else _OF_A_PROFILE)
