"""Whether a card may be answered now, and if not, why not: one rule for buttons, keys and signing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from app.input_origin import Stake
from app.screens.approvals.request_payload import DigestCheck
from core.approvals.answering_rules import check_may_approve
from core.approvals.models import Approval, ApprovalState
from core.approvals.request_groups import differ
from core.batch.questions import is_question
from core.errors import Refused
from core.models.tools import Risk

STATE_WORDS = {
    ApprovalState.WAITING: "waiting",
    ApprovalState.APPROVED: "approved",
    ApprovalState.DENIED: "denied",
    ApprovalState.EXPIRED: "expired",
    ApprovalState.EDITED: "edited",
    ApprovalState.WITHDRAWN: "withdrawn",
}


TOO_SOON = "This card has only just appeared."
GONE = "no longer waits"
"""Of a request that left the queue while the window was not told how."""


def fates_words(states: Iterable[ApprovalState | None]) -> str:
    """What became of the requests of a group: `denied`, or `1 approved, 3 denied`. None is not known."""
    counts = Counter(GONE if state is None else STATE_WORDS[state] for state in states)
    if len(counts) <= 1:
        return next(iter(counts), "")
    return ", ".join(f"{count} {word}" for word, count in counts.items())


@dataclass(frozen=True, slots=True)
class DecisionContext:
    """Everything that decides whether the open card may be answered. `busy` names what is under way.

    `unseen` names the box whose end was not on the screen yet, where there are several.
    `others` are requests like `approval` that one act answers together with it. `masked`
    counts the secrets that the card does not show. `makes_key`: no operator's key is in this home yet.
    """

    approval: Approval | None = None
    connected: bool = True
    guarded: bool = False
    busy: str = ""
    key: str = ""
    makes_key: bool = False
    digest: DigestCheck = DigestCheck.FITS
    masked: int = 0
    end_seen: bool = False
    unseen: str = ""
    typed: str = ""
    others: tuple[Approval, ...] = ()

    @property
    def asks(self) -> bool:
        """Whether it is the question of an approval step, which sends nothing."""
        return self.approval is not None and is_question(self.approval.request)

    @property
    def needs_end(self) -> bool:
        """The whole of the bytes, and of the list of devices, has to be seen before approving."""
        risky = self.approval is not None and self.approval.decision.risk.rank >= Risk.HIGH.rank
        return risky or bool(self.others)

    @property
    def stake(self) -> Stake:
        """What hangs on approving this: the greatest risk among the requests."""
        members = (self.approval, *self.others)
        return Stake.of_risk(*(one.decision.risk for one in members if one is not None))

    @property
    def needs_name(self) -> bool:
        """The device's name has to be typed before approving."""
        return self.approval is not None and self.approval.decision.risk is Risk.CRITICAL

    @property
    def names(self) -> str:
        """What has to be typed: the names of all devices that the answer is about."""
        return " ".join(self._devices)

    @property
    def several_devices(self) -> bool:
        """Whether one act answers for requests on more than one device."""
        return len(self._devices) > 1

    @property
    def _devices(self) -> list[str]:
        members = (self.approval, *self.others)
        return list(dict.fromkeys(one.request.device for one in members if one is not None))

    @property
    def approvers(self) -> int:
        """How many operators must approve."""
        return self.approval.approvers if self.approval is not None else 1


def deny_blocker(now: DecisionContext) -> str:
    """Why the card cannot be denied now; empty when it can.

    A new card can be denied at once: approving is what must not happen by a key that was meant for another.
    """
    if why := _why_not_signed(now):
        return why
    if not now.key:
        how = "make your operator key" if now.makes_key else "unlock a key"
        return f"Every answer is signed: {how} first."
    return ""


def approve_blocker(now: DecisionContext) -> str:
    """Why the card cannot be approved now; empty when it can."""
    if why := deny_blocker(now):
        return why
    if now.guarded:
        return TOO_SOON
    if why := operator_blocker(now, now.key):
        return why
    return readiness_blocker(now)


def second_operator_blocker(now: DecisionContext) -> str:
    """Why no other operator could approve at this console now; empty when one can."""
    return _why_not_signed(now) or (TOO_SOON if now.guarded else readiness_blocker(now))


def readiness_blocker(now: DecisionContext) -> str:
    """What the card still asks for before it can be approved; empty for nothing."""
    if now.needs_end and not now.end_seen:
        return f"scroll {now.unseen} to the end first" if now.unseen else "scroll to the end first"
    if now.needs_name and now.approval is not None and now.typed != now.names:
        return (
            "type the device's name first"
            if not now.several_devices
            else "type the names of all devices first"
        )
    return ""


def operator_blocker(now: DecisionContext, operator: str) -> str:
    """Why this operator's approval would not count here; empty when it would."""
    for one in (now.approval, *now.others):
        if one is None:
            continue
        try:
            check_may_approve(operator, one)
        except Refused as error:
            return error.message
    return ""


def grant_blocker(now: DecisionContext) -> str:
    """Why nothing can be remembered from this card; empty when it can."""
    if now.asks:
        return "A question is answered each time."
    if now.approval is not None and now.approval.approvers > 1:
        return "What several operators must approve is never granted by one."
    if now.needs_name:
        return "Critical risk is never remembered: it is approved each time."
    if now.approval is not None and differ((now.approval, *now.others)):
        return "These requests differ in their arguments, and a grant would cover one of them."
    if now.several_devices and (now.approval is None or now.approval.run is None):
        return "Remember one request at a time: answer these first."
    return deny_blocker(now)


def edit_blocker(now: DecisionContext) -> str:
    """Why the arguments cannot be changed here; empty when they can."""
    if now.asks:
        return "The question of a batch is answered; it cannot be edited."
    if now.others:
        return "Edit one request at a time."
    if now.masked:
        return "It holds a secret that is not shown here, so it cannot be edited."
    return _why_not_signed(now)


def _why_not_signed(now: DecisionContext) -> str:
    """What stands against any answer of any operator."""
    if now.approval is None:
        return "No card is open."
    if now.approval.state is not ApprovalState.WAITING:
        if now.others:
            return "These requests were answered, or ended, already."
        return f"This request is {STATE_WORDS[now.approval.state]} already."
    if not now.connected:
        return "The service is not connected; nothing can be answered."
    if now.busy:
        return now.busy
    if now.digest is DigestCheck.DIFFERS:
        return "The bytes shown are not the ones the digest is of; nothing is signed."
    return ""
