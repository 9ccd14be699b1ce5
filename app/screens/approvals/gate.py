"""Whether a card may be answered now, and if not, why not: one rule for buttons, keys and signing."""

from __future__ import annotations

from dataclasses import dataclass

from app.screens.approvals.what_is_sent import DigestCheck
from core.fleet.models import Risk
from core.policy.models import Approval, ApprovalState

STATE_WORDS = {
    ApprovalState.WAITING: "waiting",
    ApprovalState.APPROVED: "approved",
    ApprovalState.DENIED: "denied",
    ApprovalState.EXPIRED: "expired",
    ApprovalState.WITHDRAWN: "withdrawn",
}


@dataclass(frozen=True, slots=True)
class Situation:
    """Everything that decides whether the open card may be answered. `busy` names what is under way."""

    approval: Approval | None = None
    connected: bool = True
    guarded: bool = False
    busy: str = ""
    key: str = ""
    digest: DigestCheck = DigestCheck.FITS
    end_seen: bool = False
    typed: str = ""

    @property
    def needs_end(self) -> bool:
        """The whole of the bytes has to be seen before approving."""
        return self.approval is not None and self.approval.decision.risk.rank >= Risk.HIGH.rank

    @property
    def needs_name(self) -> bool:
        """The device's name has to be typed before approving."""
        return self.approval is not None and self.approval.decision.risk is Risk.CRITICAL


def why_not_deny(now: Situation) -> str:
    """Why the card cannot be denied now; empty when it can."""
    if now.approval is None:
        return "No card is open."
    if now.approval.state is not ApprovalState.WAITING:
        return f"This request is {STATE_WORDS[now.approval.state]} already."
    if not now.connected:
        return "The service is not connected; nothing can be answered."
    if now.busy:
        return now.busy
    if now.guarded:
        return "This card has only just appeared."
    if now.digest is DigestCheck.DIFFERS:
        return "The bytes shown are not the ones the digest is of; nothing is signed."
    if not now.key:
        return "Every answer is signed: unlock a key first."
    return ""


def why_not_approve(now: Situation) -> str:
    """Why the card cannot be approved now; empty when it can."""
    if why := why_not_deny(now):
        return why
    if now.needs_end and not now.end_seen:
        return "scroll to the end first"
    if now.needs_name and now.approval is not None and now.typed != now.approval.request.device:
        return "type the device's name first"
    return ""
