"""What makes an answer to a request count, and how it stands in the journal. Pure: nothing here waits."""

from __future__ import annotations

from typing import Any

from core.approvals.grants import GrantTerms, SignedGrant, uncovered_request
from core.approvals.models import Approval, Fatigue, Operator
from core.audit.entries import Kind, NewEntry
from core.commitments import SECRET_MARK
from core.errors import BadInput, ErrorCode, Refused
from core.policy.models import Answer, Profile
from core.statements import SignedStatement, Statement, verify_signature


def check_may_approve(operator: str, approval: Approval) -> None:
    """That this operator's approval counts here.

    Raises:
        Refused: they approved already, or asked themselves where more than one must approve.
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
    """Why no grant answers a request like this one; empty where one may."""
    decision = approval.decision
    if always := [hit.id for hit in decision.rules if hit.decision is Answer.ASK]:
        return f"rule {always[0]} asks each time"
    if decision.device_requires_signature:
        return f"{approval.request.device} wants every action signed for"
    return "profile lockdown asks each time" if decision.profile is Profile.LOCKDOWN else ""


def may_go_on_under(terms: GrantTerms, waiting: Approval) -> bool:
    """Whether a grant may answer a request that waits now; the policy judges it again before it does.

    An edited request waits for the operator who edited it, and no grant answers for several operators.
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
    """That a grant goes with this approval, covers what is approved, and is the same operator's.

    Raises:
        Refused: it does not (code `approval_invalid`); says why.
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
    """An answer as the journal has it: the grant, if there is one, before the approval it came with."""
    statement = signed.statement
    approved = statement.verdict == "approve"
    actor = f"operator:{statement.approver}"
    entries = []
    if grant is not None:
        body = {"grant": grant.terms.id, "signed": grant.model_dump(mode="json")}
        entries.append(NewEntry(kind=Kind.GRANT_GIVEN, actor=actor, body=body, **_place(approval)))
    entries.append(
        NewEntry(
            kind=Kind.APPROVAL_GIVEN if approved else Kind.APPROVAL_DENIED,
            actor=actor,
            body={
                "approval": approval.id,
                "signed": signed.model_dump(mode="json"),
                "took_s": round(took_s, 3),
                "number": len(approval.approved_by) + 1,
                "of": approval.approvers,
            },
            **_place(approval),
        )
    )
    return entries


def rejected_entry(signed: SignedStatement, approval: Approval, error: Refused) -> NewEntry:
    """An answer that did not count, and why."""
    return NewEntry(
        kind=Kind.APPROVAL_REJECTED,
        actor="service",
        body={
            "approval": approval.id,
            "problem": error.message,
            "signed": signed.model_dump(mode="json"),
        },
        **_place(approval),
    )


def put_back_all(edited: dict[str, Any], shown: dict[str, Any], sent: dict[str, Any]) -> dict[str, Any]:
    """Edited arguments with each secret put back that was left as it was `shown`, in its own place.

    Raises:
        BadInput: a secret's stand-in is somewhere else: what it stands for is not known there.
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


def check_still_secret(edited: Any, masked: Any) -> None:
    """That each secret which an edit leaves as it was would be masked after it as before.

    Raises:
        BadInput: an edit elsewhere, of an argument that says what is secret, would bare one.
    """
    if isinstance(edited, dict) and edited.keys() == {SECRET_MARK}:
        if not (isinstance(masked, dict) and masked.keys() == {SECRET_MARK}):
            raise BadInput("So changed, a secret would be shown; type it anew, or leave it secret.")
    elif isinstance(masked, dict) and masked.keys() == {SECRET_MARK}:
        return
    elif isinstance(edited, dict):
        for key, one in edited.items():
            check_still_secret(one, _at(masked, key))
    elif isinstance(edited, list):
        for place, one in enumerate(edited):
            check_still_secret(one, _at(masked, place))


def edited_entry(approval: Approval, masked: dict[str, Any], by: str) -> NewEntry:
    """That `by` (an actor) changed what was asked for; both versions."""
    body = {
        "approval": approval.id,
        "digest": approval.request.digest,
        "before": approval.request.parameters,
        "after": masked,
    }
    return NewEntry(kind=Kind.APPROVAL_EDITED, actor=by, body=body, **_place(approval))


def fatigue_entry(fatigue: Fatigue) -> NewEntry:
    """That an operator was seen to decide faster than anybody reads."""
    body = fatigue.model_dump(mode="json")
    return NewEntry(kind=Kind.FATIGUE_NOTED, actor=f"operator:{fatigue.operator}", body=body)


def _place(approval: Approval) -> dict[str, Any]:
    return {
        "run": approval.run,
        "step": approval.step,
        "device": approval.request.device,
        "call_id": approval.request.call_id,
        "tool": approval.request.tool_name,
    }
