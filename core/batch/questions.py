"""Asks operators the question of an approval step, through the queue in which commands wait.

The question is a request like that of a command, so that an operator signs its digest, but no device gets
it. A grant never answers it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from core.approvals.models import Approval, ApprovalState
from core.approvals.queue import Answered, ApprovalRequest
from core.audit.entries import NewEntry
from core.audit.events import ApprovalExpired, ApprovalRequested, EntryFields
from core.batch.expressions import Context, ExpressionError
from core.batch.live_run import LiveRun
from core.batch.models import APPROVAL, LONGEST_QUESTION, ApprovalStep, CellState
from core.batch.step_scheduler import AskQuestion
from core.batch.templates import CompiledStep
from core.canonical_json import canonical_bytes
from core.errors import ErrorCode, ErrorInfo, QuarterdeckError
from core.ids import new_id
from core.models.tools import Effect, Risk
from core.policy.models import Answer, Decision, Profile, Reason, RuleHit
from core.statements import Request, make_request
from core.text import too_long

# Stands where a command has the digest of its tool's contract.
QUESTION_CONTRACT = "quarterdeck.question/1"
SERVICE_ENDED = "The service ended; nothing was sent."
"""Why a request has no answer that waited when its service was killed."""


def is_question(request: Request) -> bool:
    """Whether a request is the question of an approval step."""
    return request.contract == QUESTION_CONTRACT


class Asks(Protocol):
    """The part of the approval queue that questions use."""

    async def ask(self, asked: ApprovalRequest) -> Answered: ...


class Notes(Protocol):
    """The part of the journal that questions use."""

    def note_late(self, entries: list[NewEntry]) -> None: ...


class QuestionEnd(NamedTuple):
    """How a question ended for all its cells: approved (`DONE`), refused, or cancelled with its run."""

    state: CellState
    note: str
    error: ErrorInfo | None = None


@dataclass(frozen=True, slots=True)
class AskedQuestion:
    """The question of an approval step for the devices of one wave, about to be asked.

    `text` is what operators read and sign: the batch's question with the values of its expressions.
    """

    run: LiveRun
    step: ApprovalStep
    asked: AskQuestion
    text: str
    approval: str = field(default_factory=lambda: f"a-{new_id()}")
    call_id: str = field(default_factory=new_id)

    @property
    def request(self) -> Request:
        """The request that operators see and sign."""
        parameters: dict[str, Any] = {
            "question": self.text,
            "batch": self.run.batch.name,
            "run": self.run.id,
            "step": self.step.id,
            "wave": self.asked.wave + 1,
            "devices": list(self.asked.devices),
        }
        return make_request(
            device="",
            contract=QUESTION_CONTRACT,
            tool_key=APPROVAL,
            tool_name=APPROVAL,
            tool_type="action",
            namespace=None,
            parameters=parameters,
            call_id=self.call_id,
        )

    async def ask(self, queue: Asks, journal: Notes) -> QuestionEnd:
        """Record the question and wait for its end."""
        request, run = self.request, self.run
        requested = ApprovalRequested(
            approval=self.approval,
            digest=request.digest,
            edited_from="",
            question=self.text,
            devices=list(self.asked.devices),
            wave=self.asked.wave,
        )
        journal.note_late([requested.entry(run.actor, **self._place)])
        try:
            answered = await queue.ask(
                ApprovalRequest(
                    id=self.approval,
                    request=request,
                    decision=self._decision,
                    actor=run.actor,
                    run=run.id,
                    step=self.step.id,
                    production=False,
                    said=self.step.note,
                    program=run.program,
                    askers=(run.operator,),
                )
            )
        except QuarterdeckError as error:
            self._record_end(journal, "refused", error.message)
            return QuestionEnd(CellState.REFUSED, error.message, error.info)
        approval = answered.approval
        if approval.state not in (ApprovalState.APPROVED, ApprovalState.DENIED):
            self._record_end(journal, approval.state.value, approval.reason)
        return end_of(approval)

    @property
    def _decision(self) -> Decision:
        rule = RuleHit(id=self.step.id, decision=Answer.ASK, reason=self.step.note)
        return Decision(
            answer=Answer.ASK,
            # What follows depends on the answer, so that it is given by hand.
            risk=Risk.MEDIUM,
            effect=Effect.CHANGE,
            profile=Profile.GUARDED,
            summary=self.text,
            reasons=[Reason(text="The batch asks this before it goes on", origin=f"step {self.step.id}")],
            rules=[rule],
            approvers=self.step.approval.approvers,
            expires_s=self.step.approval.deadline,
        )

    @property
    def _place(self) -> EntryFields:
        return {"run": self.run.id, "step": self.step.id, "call_id": self.call_id, "tool": APPROVAL}

    def _record_end(self, journal: Notes, state: str, reason: str) -> None:
        ended = ApprovalExpired(approval=self.approval, state=state, reason=reason)
        journal.note_late([ended.entry("service", **self._place)])


def question_text(step: ApprovalStep, compiled: CompiledStep | None, context: Context) -> str:
    """The question of an approval step, with the values of its expressions.

    Raises:
        ExpressionError: an expression cannot be evaluated, or the text is empty or longer than a question.
    """
    if compiled is None or compiled.question is None:
        return step.approval.question
    value = compiled.question.fill(context).value
    text = value if isinstance(value, str) else canonical_bytes(value).decode()
    if not text.strip():
        raise ExpressionError("the question is empty.")
    if len(text) > LONGEST_QUESTION:
        raise ExpressionError(too_long("a question", text, LONGEST_QUESTION))
    return text


def end_of(approval: Approval) -> QuestionEnd:
    """How a question ended, from its approval."""
    match approval.state:
        case ApprovalState.APPROVED:
            return approved(approval.approved_by)
        case ApprovalState.DENIED:
            return denied(approval.decided_by or "An operator", approval.reason)
    return not_answered(approval.state.value, approval.reason)


def approved(operators: Sequence[str]) -> QuestionEnd:
    """The end of a question that these operators approved."""
    return QuestionEnd(CellState.DONE, f"approved by {' and '.join(operators)}")


def denied(operator: str, reason: str) -> QuestionEnd:
    """The end of a question that this operator denied."""
    message = f"{operator} denied it{f': {reason}' if reason else '.'}"
    return _refused(ErrorCode.DENIED_BY_OPERATOR, message)


def not_answered(state: str, reason: str) -> QuestionEnd:
    """The end of a question that no operator answered; `state` is an `ApprovalState` or `refused`."""
    if state == ApprovalState.WITHDRAWN.value or reason == SERVICE_ENDED:
        error = ErrorInfo.of(ErrorCode.CANCELLED, reason or "The request was withdrawn.")
        return QuestionEnd(CellState.CANCELLED, error.message, error)
    if state == ApprovalState.EXPIRED.value:
        return _refused(ErrorCode.APPROVAL_EXPIRED, "No operator answered in time; denied once.")
    return _refused(ErrorCode.QUEUE_FULL, reason)


def _refused(code: ErrorCode, message: str) -> QuestionEnd:
    error = ErrorInfo.of(code, message)
    return QuestionEnd(CellState.REFUSED, message, error)
