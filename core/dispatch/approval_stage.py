"""Stage 5: obtain the approval that the decision demands. The outcome is a value: approved, denied or edited.

`deny` ends at once. `allow` by a grant counts one use of the grant. `ask` waits in the queue until operators
have answered; an edit sends the command back to the first stage with other arguments. When a grant is given
while a request waits, the request is judged again like a new request, and continues under the grant if the
grant covers it.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

from core.approvals.models import Approval, ApprovalState
from core.approvals.queue import Answered, ApprovalQueue, ApprovalRequest
from core.audit.events import ApprovalExpired, ApprovalRequested, GrantUsed
from core.commands.request import CommandRequest, OnStage, Purpose, Stage
from core.commitments import Places
from core.dispatch.command import DispatchedCommand
from core.dispatch.entries import command_entry, decided_entry
from core.dispatch.interfaces import Recorder
from core.errors import ErrorCode, JournalUnavailable, QuarterdeckError, Refused
from core.ids import new_id
from core.models.devices import Device
from core.models.tools import Effect
from core.policy.grant_book import GrantBook
from core.policy.models import Answer, Decision, Profile, Reason
from core.policy.refusal import refusal
from core.statements import MOST_STATEMENT_SECONDS, check_time
from core.text import sentences

# Seconds. Signatures are valid for minutes, less what it takes to answer and to send.
_CLOCK_MATTERS_S = 30.0


@dataclass(frozen=True, slots=True)
class Approved:
    """The command may be sent, by its last decision; `approval` is None if no operator signed it.

    `waited_s` is how long it waited for its turn since the answer came.
    """

    command: DispatchedCommand
    decision: Decision
    approval: Approval | None = None
    waited_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Denied:
    """The command is not sent: denied, expired, withdrawn, or the queue is full."""

    error: QuarterdeckError


@dataclass(frozen=True, slots=True)
class Edited:
    """An operator edited the arguments: a new request with these begins at the first stage.

    `places` are where the caller's secrets stand in them.

    `approval` is the id of the request that was edited. `operator` is the editor's name as proved by their
    key; empty where no key proved it.
    """

    parameters: dict[str, Any]
    places: Places
    approval: str
    operator: str


JudgeAgain = Callable[[], Awaitable[tuple[DispatchedCommand, Decision]]]


class Stopped(Protocol):
    """Returns why dispatch is stopped; an empty string while it is not."""

    def __call__(self) -> str: ...


class ApprovalStage:
    """The fifth stage. It sends nothing and mints nothing."""

    def __init__(
        self, approvals: ApprovalQueue, grants: GrantBook, journal: Recorder, stopped: Stopped
    ) -> None:
        self._approvals = approvals
        self._grants = grants
        self._journal = journal
        self._stopped = stopped

    async def approve(
        self,
        command: DispatchedCommand,
        decision: Decision,
        on_stage: OnStage,
        judge_again: JudgeAgain,
        on_card: Callable[[], None] = lambda: None,
    ) -> Approved | Denied | Edited:
        """Wait until it is known whether the command may be sent.

        `judge_again` runs the first four stages again with the present state; it makes its decision in the
        iteration of the event loop in which it returns. `on_card` is called when the command has a card.

        Raises:
            JournalUnavailable: the request for approval, or the use of a grant, could not be recorded.
        """
        if decision.answer is Answer.DENY:
            return Denied(refusal(decision))
        if decision.answer is Answer.ALLOW:
            if not self._use_grant(command, decision):
                words = f"Grant {decision.grant} does not hold any more."
                return Denied(Refused(words, ErrorCode.APPROVAL_INVALID))
            return Approved(command, decision)
        if not command.request.may_wait:
            words = "This call needs approval and was requested without asking; it was not run."
            return Denied(Refused(words, next_step="Request it as a command that may wait for an operator."))
        return await self._ask(command, decision, on_stage, judge_again, on_card)

    async def _ask(
        self,
        command: DispatchedCommand,
        decision: Decision,
        on_stage: OnStage,
        judge_again: JudgeAgain,
        on_card: Callable[[], None],
    ) -> Approved | Denied | Edited:
        request, approval_id = command.request, f"a-{new_id()}"
        requested = ApprovalRequested(
            approval=approval_id, digest=command.shown.digest, edited_from=request.edited_from
        )
        self._journal.note_all([command_entry(request, requested, request.actor)])
        on_stage(Stage.WAITING, approval_id)
        under_grant: Approved | None = None

        async def look_again() -> None:
            nonlocal under_grant
            try:
                again = await judge_again()
            except QuarterdeckError:
                # The request stays pending: an operator who approves it gets the same error.
                return
            under_grant = self._under_grant(approval_id, command, *again)

        try:
            answered = await self._approvals.ask(
                ApprovalRequest(
                    id=approval_id,
                    request=command.shown,
                    decision=decision,
                    actor=request.actor,
                    run=request.run,
                    step=request.step,
                    production=command.target.device.production,
                    said=request.said,
                    program=request.program,
                    askers=request.operators,
                    edited_from=request.edited_from,
                    sent=command.arguments.sent,
                    openings=command.arguments.openings,
                    declared=request.secrets.places.keys(),
                    reevaluate=look_again,
                    on_card=on_card,
                )
            )
        except QuarterdeckError as error:
            self._record_end(command, approval_id, "refused", error.message)
            return Denied(error)
        outcome = under_grant or self._outcome(command, decision, answered)
        if not isinstance(outcome, Approved):
            return outcome
        # From when the answer came: many that came in one call are recorded and counted together.
        approved_at = time.monotonic() if answered.answered_at is None else answered.answered_at
        await request.turn()
        return replace(outcome, waited_s=time.monotonic() - approved_at)

    def _outcome(
        self, command: DispatchedCommand, decision: Decision, answered: Answered
    ) -> Approved | Denied | Edited:
        approval = answered.approval
        if answered.edited is not None:
            return Edited(*answered.edited, approval.id, answered.edited_by)
        if approval.state is ApprovalState.APPROVED:
            return Approved(command, decision, approval)
        if approval.state is ApprovalState.DENIED:
            why = f": {approval.reason}" if approval.reason else "."
            return Denied(
                Refused(sentences(f"{approval.decided_by} denied it{why}"), ErrorCode.DENIED_BY_OPERATOR)
            )
        self._record_end(command, approval.id, approval.state.value, approval.reason)
        if approval.state is ApprovalState.EXPIRED:
            return Denied(Refused("No operator answered in time; denied once.", ErrorCode.APPROVAL_EXPIRED))
        code = ErrorCode.STOPPED if self._stopped() else ErrorCode.CANCELLED
        return Denied(Refused(approval.reason or "The request was withdrawn.", code))

    def _under_grant(
        self, approval_id: str, waiting: DispatchedCommand, command: DispatchedCommand, decision: Decision
    ) -> Approved | None:
        """Release a waiting request if a grant covers it now; None if it stays pending."""
        # No other task has run since the decision, so the grant is still as it was judged.
        if decision.answer is not Answer.ALLOW or not decision.grant:
            return None
        if command.shown.digest != waiting.shown.digest or not self._approvals.is_open(approval_id):
            return None
        try:
            if not self._use_grant(command, decision, approval_id):
                return None
        except JournalUnavailable:
            return None
        self._approvals.approve_by_grant(approval_id, self._grants.get(decision.grant).terms)
        return Approved(command, decision)

    def _use_grant(self, command: DispatchedCommand, decision: Decision, approval_id: str = "") -> bool:
        """Count and record one use of the decision's grant, if it has one; False if the grant is used up.

        `approval_id` is the request that was pending when the grant was given.
        """
        if not decision.grant:
            return True
        # No other task has run since the decision, so the grant is still as it was judged.
        if not self._grants.use(decision.grant):
            return False
        used = GrantUsed(grant=decision.grant, digest=command.shown.digest, approval=approval_id)
        entries = [command_entry(command.request, used, "policy")]
        if approval_id:
            # The decision to ask was recorded when the request began to wait; this one replaces it.
            entries.insert(0, decided_entry(command, decision))
        self._journal.note_all(entries)
        return True

    def _record_end(self, command: DispatchedCommand, approval_id: str, state: str, reason: str) -> None:
        ended = ApprovalExpired(approval=approval_id, state=state, reason=reason)
        self._journal.note_late([command_entry(command.request, ended, "service")])

    def check_still_granted(self, decision: Decision) -> None:
        """Check that the grant which allowed this command was not revoked since.

        Raises:
            Refused: the grant was revoked; a revocation takes effect at once.
        """
        if decision.grant and self._grants.get(decision.grant).revoked_at is not None:
            raise Refused(f"Grant {decision.grant} was revoked.", ErrorCode.APPROVAL_INVALID)


def adjusted(decision: Decision, request: CommandRequest, device: Device) -> Decision:
    """The decision adjusted to facts about the request and the device that the policy does not see."""
    return _with_clock(_adjusted(decision, request), device)


def _with_clock(decision: Decision, device: Device) -> Decision:
    """The decision with a word on a clock by which the device itself would refuse the signature."""
    offset = (device.clock_offset_ms or 0.0) / 1000
    if decision.answer is not Answer.ASK or not device.requires_approval or abs(offset) < _CLOCK_MATTERS_S:
        return decision
    way = "ahead of" if offset > 0 else "behind"
    words = f"Its clock is {abs(offset):.0f} s {way} this computer's: it may refuse the signature"
    reason = Reason(text=words, origin="the device's clock")
    return decision.model_copy(update={"reasons": [*decision.reasons, reason]})


def _adjusted(decision: Decision, request: CommandRequest) -> Decision:
    is_evidence, asks = request.purpose is Purpose.EVIDENCE, decision.answer is Answer.ASK
    if is_evidence and asks and decision.effect is Effect.OBSERVE:
        # The command was allowed, and that includes the pictures which its rules demand.
        reason = Reason(text="A picture for a command that was allowed", origin=request.evidence_for)
        return decision.model_copy(update={"answer": Answer.ALLOW, "reasons": [reason, *decision.reasons]})
    if request.edited_from and decision.answer is Answer.ALLOW:
        # An operator who edits a request expects to approve the result; it must not be sent without asking.
        reason = Reason(text="An operator changed the arguments", origin=request.edited_from)
        return decision.model_copy(
            update={"answer": Answer.ASK, "reasons": [reason, *decision.reasons], "grant": ""}
        )
    if request.purpose is Purpose.LIVE_VIEW and decision.grant:
        # Twenty live pictures a minute would use up the grant, which was not given for them.
        reason = Reason(text="A live picture uses up no grant", origin=decision.grant)
        return decision.model_copy(
            update={"answer": Answer.ASK, "reasons": [reason, *decision.reasons], "grant": ""}
        )
    return decision


def check_still_allowed(
    now: Decision, then: Decision, approval: Approval | None, problem: str, waited_s: float = 0.0
) -> None:
    """Check that the policy still allows the command: it may have become stricter during the wait.

    An approval does not override a denial. A command that needed no approval must still need none.
    `problem` is the policy's error text, empty if the policy is intact.

    An operator approves hundreds of devices at once, which then take turns: `waited_s`, the wait for the
    turn, does not count against a signature, up to `MOST_STATEMENT_SECONDS`. A device that checks signatures
    itself makes no such allowance.

    Raises:
        Refused: the policy denies the command now, or it must be asked again (code `approval_invalid`).
    """
    if now.answer is Answer.DENY:
        raise refusal(now)
    if approval is not None:
        allowance = 0.0 if now.device_requires_signature else min(waited_s, MOST_STATEMENT_SECONDS)
        for signed in approval.signed:
            check_time(signed.statement.expires, waited_s=allowance)
        if now.approvers > len(approval.approved_by):
            words = f"The policy wants {now.approvers} operators now; ask again."
            raise Refused(words, ErrorCode.APPROVAL_INVALID)
    elif now.answer is Answer.ASK:
        # A grant whose last use was this call is gone by now, which is fine. `check_still_granted` checks for
        # revocation just before sending.
        asks = any(hit.decision is Answer.ASK for hit in now.rules) or now.profile is Profile.LOCKDOWN
        if not then.grant or asks or problem:
            raise Refused("The policy asks before this now; ask again.", ErrorCode.APPROVAL_INVALID)
