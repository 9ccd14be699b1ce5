"""Rules for valid answers to requests, and the journal entries of answers. Pure functions without I/O."""

from __future__ import annotations

from typing import Any

from core.approvals.grants import GrantTerms, SignedGrant, uncovered_request
from core.approvals.models import Approval, Fatigue, Operator
from core.audit.entries import NewEntry
from core.audit.events import (
    ApprovalDenied,
    ApprovalEdited,
    ApprovalGiven,
    ApprovalRejected,
    EntryFields,
    FatigueNoted,
    GrantGiven,
)
from core.commitments import SECRET_MARK
from core.errors import BadInput, ErrorCode, Refused
from core.policy.models import Answer, Profile
from core.statements import SignedStatement, Statement, verify_signature


def check_may_approve(operator: str, approval: Approval) -> None:
    """Check that this operator's approval counts for the request.

    Raises:
        Refused: the operator has approved it already, or asked for it and several operators must approve.
    """
    if operator in approval.approved_by:
        raise Refused(
            f"{operator} has approved this already; another operator must.", ErrorCode.APPROVAL_INVALID
        )
    if approval.approvers > 1 and operator in approval.askers:
        raise Refused(
            f"{operator} asked for this; where {approval.approvers} must approve, the asker does not count.",
            ErrorCode.APPROVAL_INVALID,
        )


SEVERAL = "what several operators must approve is never granted by one"


def asks_each_time(approval: Approval) -> str:
    """The reason why no grant may answer such a request; empty if a grant may."""
    decision = approval.decision
    if always := [hit.id for hit in decision.rules if hit.decision is Answer.ASK]:
        return f"rule {always[0]} asks each time"
    if decision.device_requires_signature:
        return f"{approval.request.device} wants every action signed for"
    return "profile lockdown asks each time" if decision.profile is Profile.LOCKDOWN else ""


def may_go_on_under(terms: GrantTerms, waiting: Approval) -> bool:
    """Whether a grant may answer a pending request; the policy must judge the request again before it does.

    A grant answers neither an edited request, because the operator who edited it is to answer it, nor a
    request that several operators must approve.
    """
    if (
        waiting.id == terms.approval
        or waiting.approvers > 1
        or waiting.edited_from
        or asks_each_time(waiting)
    ):
        return False
    risk = waiting.decision.risk
    return not uncovered_request(terms, waiting.request, actor=waiting.actor, run=waiting.run, risk=risk)


def check_grant(grant: SignedGrant, statement: Statement, approval: Approval, operator: Operator) -> None:
    """Check that a grant belongs to this approval, covers the request, and is signed by the same operator.

    Raises:
        Refused: it does not (code `approval_invalid`); the message gives the reason.
    """
    terms = grant.terms
    fault = ""
    if statement.verdict != "approve":
        fault = "a denial grants nothing"
    elif approval.approvers > 1:
        fault = SEVERAL
    elif terms.author != statement.approver or terms.approval != approval.id:
        fault = "it belongs to another approval"
    elif not verify_signature(terms, grant.signature, operator.public_key):
        fault = f"the signature is not {operator.name}'s"
    elif always := asks_each_time(approval):
        fault = f"{always}, whatever is granted"
    elif faults := uncovered_request(
        terms, approval.request, actor=approval.actor, run=approval.run, risk=approval.decision.risk
    ):
        fault = f"it does not cover this request: {faults[0]}"
    if fault:
        raise Refused(f"The grant does not hold: {fault}.", ErrorCode.APPROVAL_INVALID)


def answer_entries(
    signed: SignedStatement, approval: Approval, grant: SignedGrant | None, took_s: float
) -> list[NewEntry]:
    """The journal entries of an answer: a grant's entry, if any, precedes that of its approval."""
    statement = signed.statement
    approved = statement.verdict == "approve"
    actor = f"operator:{statement.approver}"
    entries: list[NewEntry] = []
    if grant is not None:
        given = GrantGiven(grant=grant.terms.id, signed=grant.model_dump(mode="json"))
        entries.append(given.entry(actor, **_place(approval)))
    answered = (ApprovalGiven if approved else ApprovalDenied)(
        approval=approval.id,
        signed=signed.model_dump(mode="json"),
        took_s=round(took_s, 3),
        number=len(approval.approved_by) + 1,
        of=approval.approvers,
    )
    return [*entries, answered.entry(actor, **_place(approval))]


def rejected_entry(signed: SignedStatement, approval: Approval, error: Refused) -> NewEntry:
    """The journal entry of a rejected answer, with the reason."""
    event = ApprovalRejected(
        approval=approval.id, problem=error.message, signed=signed.model_dump(mode="json")
    )
    return event.entry("service", **_place(approval))


def put_back_all(edited: dict[str, Any], shown: dict[str, Any], sent: dict[str, Any]) -> dict[str, Any]:
    """The edited arguments; each stand-in at its place in `shown` is replaced by its secret from `sent`.

    Raises:
        BadInput: a stand-in is at another place, where its secret is unknown.
    """
    return {name: _put_back(one, shown.get(name), sent.get(name)) for name, one in edited.items()}


def _put_back(edited: Any, shown: Any, sent: Any) -> Any:
    if isinstance(edited, dict) and edited.keys() == {SECRET_MARK}:
        if edited != shown:
            raise BadInput("A secret's stand-in can only be left where it was; type the secret anew.")
        return sent
    if isinstance(edited, dict):
        return {key: _put_back(one, _at(shown, key), _at(sent, key)) for key, one in edited.items()}
    if isinstance(edited, list):
        return [_put_back(one, _at(shown, place), _at(sent, place)) for place, one in enumerate(edited)]
    return edited


def _at(value: Any, key: str | int) -> Any:
    try:
        return value[key]
    except (KeyError, IndexError, TypeError):
        return None


def check_still_secret(edited: Any, redacted: Any) -> None:
    """Check that each secret that an edit leaves unchanged is still redacted afterwards.

    Raises:
        BadInput: the edit would expose a secret, because it changes the argument that makes it secret.
    """
    if isinstance(edited, dict) and edited.keys() == {SECRET_MARK}:
        if not (isinstance(redacted, dict) and redacted.keys() == {SECRET_MARK}):
            raise BadInput("So changed, a secret would be shown; type it anew, or leave it secret.")
    elif isinstance(redacted, dict) and redacted.keys() == {SECRET_MARK}:
        return
    elif isinstance(edited, dict):
        for key, one in edited.items():
            check_still_secret(one, _at(redacted, key))
    elif isinstance(edited, list):
        for place, one in enumerate(edited):
            check_still_secret(one, _at(redacted, place))


def edited_entry(approval: Approval, redacted: dict[str, Any], by: str) -> NewEntry:
    """The journal entry of an edit by the actor `by`: the redacted arguments before and after."""
    request = approval.request
    event = ApprovalEdited(
        approval=approval.id, digest=request.digest, before=request.parameters, after=redacted
    )
    return event.entry(by, **_place(approval))


def fatigue_entry(fatigue: Fatigue) -> NewEntry:
    """The journal entry of a fatigue warning: the operator decides faster than a person can read."""
    event = FatigueNoted(**fatigue.model_dump(mode="json"))
    return event.entry(f"operator:{fatigue.operator}")


def _place(approval: Approval) -> EntryFields:
    return {
        "run": approval.run,
        "step": approval.step,
        "device": approval.request.device,
        "call_id": approval.request.call_id,
        "tool": approval.request.tool_name,
    }
