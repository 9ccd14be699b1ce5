"""Rules for valid answers to requests, and the journal entries of answers. Pure functions without I/O."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

from core.actors import is_agent
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
from core.commitments import SECRET_MARK, Opening, Places, commitments_in, is_stand_in
from core.errors import BadInput, ErrorCode, Refused
from core.policy.grant_scope import uncovered_request
from core.policy.grants import GrantTerms, SignedGrant
from core.policy.models import Answer, Profile
from core.statements import SignedStatement, Statement, verify_signature
from core.token_formats import Span


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
            f"{operator} {part_of_asker(approval)}; where {approval.approvers} must approve, "
            "the asker does not count.",
            ErrorCode.APPROVAL_INVALID,
        )


def part_of_asker(approval: Approval) -> str:
    """The part of an asker in this request: they asked, let an agent in that asked, or changed a request."""
    if approval.edited_from:
        return "asked for this or changed it"
    return "signed in the agent that asked for this" if is_agent(approval.actor) else "asked for this"


SEVERAL = "what several operators must approve is never granted by one"


def why_no_grant(approval: Approval) -> str:
    """The reason why no grant may answer such a request; empty if a grant may."""
    decision = approval.decision
    if asking_rules := [hit.id for hit in decision.rules if hit.decision is Answer.ASK]:
        return f"rule {asking_rules[0]} asks each time"
    if decision.device_requires_signature:
        return f"{approval.request.device} wants every action signed for"
    return "profile lockdown asks each time" if decision.profile is Profile.LOCKDOWN else ""


def grant_may_answer(terms: GrantTerms, pending: Approval) -> bool:
    """Whether a grant may answer a pending request; the policy must evaluate the request again before.

    A grant answers neither an edited request, because the operator who edited it is to answer it, nor a
    request that several operators must approve.
    """
    if pending.id == terms.approval or pending.approvers > 1 or pending.edited_from or why_no_grant(pending):
        return False
    risk = pending.decision.risk
    return not uncovered_request(terms, pending.request, actor=pending.actor, run=pending.run, risk=risk)


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
    elif obstacle := why_no_grant(approval):
        fault = f"{obstacle}, whatever is granted"
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
        entries.append(given.entry(actor, **_entry_subject(approval)))
    answered = (ApprovalGiven if approved else ApprovalDenied)(
        approval=approval.id,
        signed=signed.model_dump(mode="json"),
        took_s=round(took_s, 3),
        number=len(approval.approved_by) + 1,
        of=approval.approvers,
    )
    return [*entries, answered.entry(actor, **_entry_subject(approval))]


def rejected_entry(signed: SignedStatement, approval: Approval, error: Refused) -> NewEntry:
    """The journal entry of a rejected answer, with the reason."""
    event = ApprovalRejected(
        approval=approval.id, problem=error.message, signed=signed.model_dump(mode="json")
    )
    return event.entry("service", **_entry_subject(approval))


class Restored(NamedTuple):
    """Edited arguments with the secrets that the operator left in them, and where these are."""

    arguments: dict[str, Any]
    places: Places


def restore_secrets(
    edited: dict[str, Any],
    redacted: dict[str, Any],
    sent: dict[str, Any],
    openings: Sequence[Opening] = (),
    declared: Collection[tuple[str | int, ...]] = (),
) -> Restored:
    """The edited arguments; each stand-in at its place in `redacted` is replaced by its secret from `sent`.

    The text around a secret may be edited. `declared` are the places that the caller declared secret, which
    no schema and no name tells.

    Raises:
        BadInput: a stand-in is at another place, where its secret is unknown.
    """
    spans: dict[tuple[str | int, ...], list[Span]] = {}
    for opening in openings:
        spans.setdefault(opening.path, []).extend([opening.span] if opening.span else [])
    places: dict[tuple[str | int, ...], tuple[Span, ...]] = {}

    def restored(value: Any, before: Any, secret: Any, path: tuple[str | int, ...]) -> Any:
        if isinstance(value, dict) and value.keys() == {SECRET_MARK}:
            text, within = _restored_text(value, before, secret, sorted(spans.get(path, [])))
            if path in declared:
                places[path] = within
            return text
        if isinstance(value, dict):
            return {
                key: restored(inner, _member(before, key), _member(secret, key), (*path, key))
                for key, inner in value.items()
            }
        if isinstance(value, list):
            return [
                restored(inner, _member(before, at), _member(secret, at), (*path, at))
                for at, inner in enumerate(value)
            ]
        return value

    return Restored(restored(edited, redacted, sent, ()), places)


def _restored_text(edited: Any, redacted: Any, sent: Any, spans: list[Span]) -> tuple[Any, tuple[Span, ...]]:
    """The value for a stand-in of an edit, and the spans of the secrets in it; none for the whole value."""
    if edited == redacted:
        return sent, tuple(spans)
    parts = edited[SECRET_MARK]
    if not (spans and is_stand_in(edited) and isinstance(parts, list)):
        raise BadInput("A secret's stand-in can only be left where it was; type the secret again.")
    texts = dict(zip(commitments_in(redacted), (sent[start:end] for start, end in spans), strict=True))
    whole, places = "", []
    for part in parts:
        if isinstance(part, str):
            whole += part
            continue
        if part[SECRET_MARK] not in texts:
            raise BadInput("A secret's stand-in can only be left in its text; type the secret again.")
        secret = texts[part[SECRET_MARK]]
        places.append((len(whole), len(whole) + len(secret)))
        whole += secret
    return whole, tuple(places)


def _member(value: Any, key: str | int) -> Any:
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
            raise BadInput("This change would reveal a secret; type a new value, or leave it secret.")
    elif isinstance(redacted, dict) and redacted.keys() == {SECRET_MARK}:
        return
    elif isinstance(edited, dict):
        for key, value in edited.items():
            check_still_secret(value, _member(redacted, key))
    elif isinstance(edited, list):
        for place, value in enumerate(edited):
            check_still_secret(value, _member(redacted, place))


def edited_entry(approval: Approval, redacted: dict[str, Any], by: str) -> NewEntry:
    """The journal entry of an edit by the actor `by`: the redacted arguments before and after."""
    request = approval.request
    event = ApprovalEdited(
        approval=approval.id, digest=request.digest, before=request.parameters, after=redacted
    )
    return event.entry(by, **_entry_subject(approval))


def fatigue_entry(fatigue: Fatigue) -> NewEntry:
    """The journal entry of a fatigue warning: the operator decides faster than a person can read."""
    event = FatigueNoted(**fatigue.model_dump(mode="json"))
    return event.entry(f"operator:{fatigue.operator}")


def _entry_subject(approval: Approval) -> EntryFields:
    return {
        "run": approval.run,
        "step": approval.step,
        "device": approval.request.device,
        "call_id": approval.request.call_id,
        "tool": approval.request.tool_name,
    }
