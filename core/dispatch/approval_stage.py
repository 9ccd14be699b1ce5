"""Stage 5: wait for whoever must say yes. What comes back is the answer; a no is raised.

Deny ends it. Allow by a grant counts the grant's use. Ask waits in the queue until operators have answered,
and an edit there sends the command back to the first stage with other arguments. A grant that is given while
a request waits has it judged again, as a new one would be; what the grant lets through goes on under it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, Protocol

from core.approvals.grants import GrantBook
from core.approvals.models import Approval, ApprovalState
from core.approvals.queue import Answered, ApprovalQueue
from core.audit.entries import Kind
from core.dispatch.command_request import OnStage, Order, Prepared, Recorder, Stage
from core.dispatch.entries import entry_of
from core.errors import ErrorCode, JournalUnavailable, QuarterdeckError, Refused
from core.fleet.models import Effect
from core.ids import new_id
from core.policy.models import Answer, Decision, Profile, Reason
from core.quick import changed
from core.statements import Request, check_time

MOST_EDITS = 50


class Edited(Exception):
    """An operator put other arguments in place: the command begins again with these."""

    def __init__(self, parameters: dict[str, Any], approval: str, operator: str) -> None:
        """`operator` is who edited it, as their key has proved; empty where none has."""
        super().__init__(approval)
        self.parameters = parameters
        self.approval = approval
        self.operator = operator


class Cleared(NamedTuple):
    """A command that may go on, as it was judged last; `approval` is None where no operator signed for it."""

    prepared: Prepared
    decision: Decision
    approval: Approval | None


JudgeAgain = Callable[[], Awaitable[tuple[Prepared, Decision]]]


class Stopped(Protocol):
    """Says why nothing leaves, or an empty string."""

    def __call__(self) -> str: ...


class Approving:
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
        """Wait until the command may go on.

        `judge_again` takes the command through the first four stages once more, as it is now; its decision
        is made in the turn of the loop in which it returns.

        Raises:
            Refused: denied, expired, withdrawn, or too many requests wait already.
            Edited: an operator wants it with other arguments.
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
                # It waits on: the operator who approves it meets the same error.
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
        """Let a waiting request go on where a grant allows it as it is judged now; None where it waits on."""
        # Nothing can have come between the decision and this: the loop was not given up.
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
        """That the grant which let a command through was not taken back since.

        Raises:
            Refused: it was; taking trust back counts at once.
        """
        if decision.grant and self._grants.get(decision.grant).revoked_at is not None:
            raise Refused(f"Grant {decision.grant} was revoked.", ErrorCode.APPROVAL_INVALID)

    def _use_grant(self, prepared: Prepared, decision: Decision, approval_id: str = "") -> None:
        """Count a use; `approval_id` is the request that waited when the grant was given."""
        if not decision.grant:
            return
        # Nothing can have come between the decision and this: the loop was not given up.
        if not self._grants.use(decision.grant):
            raise Refused(f"Grant {decision.grant} does not hold any more.", ErrorCode.APPROVAL_INVALID)
        body = {"grant": decision.grant, "digest": prepared.request.digest}
        if approval_id:
            body["approval"] = approval_id
        prepared.held.append(entry_of(prepared.order, Kind.GRANT_USED, body, "policy"))


def as_ordered(order: Order, decision: Decision) -> Decision:
    """The decision as it holds for this order, of which the policy does not know everything."""
    if order.evidence_for and decision.answer is Answer.ASK and decision.effect is Effect.OBSERVE:
        # The command that it is for was allowed, and with it what its rules want to be seen.
        reason = Reason(text="A picture for a command that was allowed", origin=order.evidence_for)
        return changed(decision, answer=Answer.ALLOW, reasons=[reason, *decision.reasons])
    if order.edited_from and decision.answer is Answer.ALLOW:
        # Whoever edits a request means to approve what came of it, not to let it go by itself.
        reason = Reason(text="An operator changed the arguments", origin=order.edited_from)
        return changed(decision, answer=Answer.ASK, reasons=[reason, *decision.reasons], grant="")
    if order.glimpse and decision.grant:
        # Twenty a minute would use it up, and nobody granted it for that.
        reason = Reason(text="A live picture uses up no grant", origin=decision.grant)
        return changed(decision, answer=Answer.ASK, reasons=[reason, *decision.reasons], grant="")
    return decision


def check_still_allowed(now: Decision, then: Decision, approval: Approval | None, problem: str) -> None:
    """That what was decided still holds: while people think, or a picture is taken, policies become stricter.

    No approval is good against a denial, and what nobody was asked about must still go without asking.
    `problem` says that the policy is broken.

    Raises:
        Refused: it does not.
    """
    if now.answer is Answer.DENY:
        raise Refused(now.reasons[0].text.removesuffix(".") + ".")
    if approval is not None:
        for signed in approval.signed:
            check_time(signed.statement.expires)
        if now.approvers > len(approval.approved_by):
            raise Refused(f"The policy wants {now.approvers} operators now; ask again.")
    elif now.answer is Answer.ASK:
        # A grant that this very call used up is not missed; that it was not revoked is looked at last of all.
        asks = any(hit.decision is Answer.ASK for hit in now.rules) or now.profile is Profile.LOCKDOWN
        if not then.grant or asks or problem:
            raise Refused("The policy asks before this now; ask again.")
