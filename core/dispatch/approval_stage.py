"""Stage 5: obtain the approval that the decision demands. A refusal is raised.

`deny` raises at once. `allow` by a grant counts one use of the grant. `ask` waits in the queue until
operators have answered; an edit sends the command back to the first stage with other arguments. When a grant
is given while a request waits, the request is judged again like a new request, and continues under the grant
if the grant covers it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, Protocol

from core.approvals.grants import GrantBook
from core.approvals.models import Approval, ApprovalState
from core.approvals.queue import Answered, ApprovalQueue
from core.audit.entries import Kind
from core.dispatch.command_request import CommandRequest, OnStage, Prepared, Recorder, Stage
from core.dispatch.entries import entry_of
from core.errors import ErrorCode, JournalUnavailable, QuarterdeckError, Refused
from core.fleet.models import Effect
from core.ids import new_id
from core.policy.models import Answer, Decision, Profile, Reason
from core.statements import Request, check_time

MOST_EDITS = 50


class Edited(Exception):
    """Raised when an operator edited the arguments: the command begins again with the new arguments."""

    def __init__(self, parameters: dict[str, Any], approval: str, operator: str) -> None:
        """`operator` is the editor's name as proved by their key; empty where no key proved it."""
        super().__init__(approval)
        self.parameters = parameters
        self.approval = approval
        self.operator = operator


class Cleared(NamedTuple):
    """A command that may be sent, with its last decision; `approval` is None if no operator signed it."""

    prepared: Prepared
    decision: Decision
    approval: Approval | None


JudgeAgain = Callable[[], Awaitable[tuple[Prepared, Decision]]]


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
        self, prepared: Prepared, decision: Decision, on_stage: OnStage, judge_again: JudgeAgain
    ) -> Cleared:
        """Wait until the command may be sent.

        `judge_again` runs the first four stages again with the present state; it makes its decision in the
        turn of the loop in which it returns.

        Raises:
            Refused: denied, expired, withdrawn, or too many requests are pending.
            Edited: an operator edited the arguments.
        """
        if decision.answer is Answer.DENY:
            raise Refused(decision.reasons[0].text.removesuffix(".") + ".")
        if decision.answer is Answer.ALLOW:
            self._use_grant(prepared, decision)
            return Cleared(prepared, decision, None)
        if prepared.order.unasked:
            raise Refused("This call needs approval and was requested without asking; it was not run.")
        approval_id = f"a-{new_id()}"
        order = prepared.order
        body = {"approval": approval_id, "digest": prepared.request.digest, "edited_from": order.edited_from}
        prepared.held.append(entry_of(order, Kind.APPROVAL_REQUESTED, body, order.actor))
        self._journal.note_all(prepared.held)
        prepared.held.clear()
        on_stage(Stage.WAITING, approval_id)
        granted: Cleared | None = None

        async def look_again() -> None:
            nonlocal granted
            try:
                again = await judge_again()
            except QuarterdeckError:
                # The request stays pending: an operator who approves it gets the same error.
                return
            granted = self._under_grant(approval_id, prepared.request, *again)

        answered = await self._ask(approval_id, prepared, decision, look_again)
        if granted is not None:
            return granted
        if answered.edited is not None:
            raise Edited(answered.edited, approval_id, answered.edited_by)
        if answered.approval.state is not ApprovalState.APPROVED:
            raise self._no(prepared, answered.approval)
        return Cleared(prepared, decision, answered.approval)

    def _under_grant(
        self, approval_id: str, asked: Request, prepared: Prepared, decision: Decision
    ) -> Cleared | None:
        """Release a waiting request if a grant covers it now; None if it stays pending."""
        # No other task has run since the decision, so the grant is still as it was judged.
        if decision.answer is not Answer.ALLOW or not decision.grant:
            return None
        if prepared.request.digest != asked.digest or not self._approvals.is_open(approval_id):
            return None
        try:
            self._use_grant(prepared, decision, approval_id)
            self._journal.note_all(prepared.held)
        except (Refused, JournalUnavailable):
            return None
        prepared.held.clear()
        self._approvals.granted(approval_id, self._grants.get(decision.grant).terms)
        return Cleared(prepared, decision, None)

    async def _ask(
        self,
        approval_id: str,
        prepared: Prepared,
        decision: Decision,
        judge_again: Callable[[], Awaitable[None]],
    ) -> Answered:
        order = prepared.order
        try:
            return await self._approvals.ask(
                approval_id,
                prepared.request,
                decision,
                actor=order.actor,
                run=order.run,
                step=order.step,
                production=prepared.target.device.production,
                said=order.said,
                askers=order.operators,
                edited_from=order.edited_from,
                sent=prepared.arguments.sent,
                judge_again=judge_again,
            )
        except QuarterdeckError as error:
            ended = {"approval": approval_id, "state": "refused", "reason": error.message}
            prepared.held.append(entry_of(order, Kind.APPROVAL_EXPIRED, ended, "service"))
            raise

    def _no(self, prepared: Prepared, approval: Approval) -> Refused:
        if approval.state is ApprovalState.DENIED:
            why = f": {approval.reason}" if approval.reason else "."
            return Refused(f"{approval.decided_by} denied it{why}", ErrorCode.DENIED_BY_OPERATOR)
        ended = {"approval": approval.id, "state": approval.state.value, "reason": approval.reason}
        prepared.held.append(entry_of(prepared.order, Kind.APPROVAL_EXPIRED, ended, "service"))
        if approval.state is ApprovalState.EXPIRED:
            return Refused("No operator answered in time; denied once.", ErrorCode.APPROVAL_EXPIRED)
        code = ErrorCode.STOPPED if self._stopped() else ErrorCode.CANCELLED
        return Refused(approval.reason or "The request was withdrawn.", code)

    def check_still_granted(self, decision: Decision) -> None:
        """Check that the grant which allowed this command was not revoked since.

        Raises:
            Refused: the grant was revoked; a revocation takes effect at once.
        """
        if decision.grant and self._grants.get(decision.grant).revoked_at is not None:
            raise Refused(f"Grant {decision.grant} was revoked.", ErrorCode.APPROVAL_INVALID)

    def _use_grant(self, prepared: Prepared, decision: Decision, approval_id: str = "") -> None:
        """Count one use of the grant; `approval_id` is the request that was pending when it was given."""
        if not decision.grant:
            return
        # No other task has run since the decision, so the grant is still as it was judged.
        if not self._grants.use(decision.grant):
            raise Refused(f"Grant {decision.grant} does not hold any more.", ErrorCode.APPROVAL_INVALID)
        body = {"grant": decision.grant, "digest": prepared.request.digest}
        if approval_id:
            body["approval"] = approval_id
        prepared.held.append(entry_of(prepared.order, Kind.GRANT_USED, body, "policy"))


def as_ordered(order: CommandRequest, decision: Decision) -> Decision:
    """The decision adjusted to facts about the order that the policy does not see."""
    if order.evidence_for and decision.answer is Answer.ASK and decision.effect is Effect.OBSERVE:
        # The command was allowed, and that includes the pictures which its rules demand.
        reason = Reason(text="A picture for a command that was allowed", origin=order.evidence_for)
        return decision.model_copy(update={"answer": Answer.ALLOW, "reasons": [reason, *decision.reasons]})
    if order.edited_from and decision.answer is Answer.ALLOW:
        # An operator who edits a request expects to approve the result; it must not be sent without asking.
        reason = Reason(text="An operator changed the arguments", origin=order.edited_from)
        return decision.model_copy(
            update={"answer": Answer.ASK, "reasons": [reason, *decision.reasons], "grant": ""}
        )
    if order.glimpse and decision.grant:
        # Twenty live pictures a minute would use up the grant, which was not given for them.
        reason = Reason(text="A live picture uses up no grant", origin=decision.grant)
        return decision.model_copy(
            update={"answer": Answer.ASK, "reasons": [reason, *decision.reasons], "grant": ""}
        )
    return decision


def check_still_allowed(now: Decision, then: Decision, approval: Approval | None, problem: str) -> None:
    """Check that the policy still allows the command: it may have become stricter during the wait.

    An approval does not override a denial. A command that needed no approval must still need none.
    `problem` is the policy's error text, empty if the policy is intact.

    Raises:
        Refused: the policy does not allow the command any more.
    """
    if now.answer is Answer.DENY:
        raise Refused(now.reasons[0].text.removesuffix(".") + ".")
    if approval is not None:
        for signed in approval.signed:
            check_time(signed.statement.expires)
        if now.approvers > len(approval.approved_by):
            raise Refused(f"The policy wants {now.approvers} operators now; ask again.")
    elif now.answer is Answer.ASK:
        # A grant whose last use was this call is gone by now, which is fine. `check_still_granted` checks for
        # revocation just before sending.
        asks = any(hit.decision is Answer.ASK for hit in now.rules) or now.profile is Profile.LOCKDOWN
        if not then.grant or asks or problem:
            raise Refused("The policy asks before this now; ask again.")
