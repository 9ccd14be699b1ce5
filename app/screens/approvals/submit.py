"""Sends signed answers, one for each member of a group, in one call, and says which of them were taken."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from core.approvals.models import AnswerFate, Approval, ApprovalState
from core.errors import error_from
from core.policy.grants import SignedGrant
from core.service.console import Console
from core.statements import SignedStatement


@dataclass(slots=True)
class Answers:
    """What became of a group's answers: the requests as they stand, and the answers that were not taken."""

    taken: list[Approval] = field(default_factory=list)
    refused: list[AnswerFate] = field(default_factory=list)


async def answer_all(
    console: Console,
    members: Sequence[Approval],
    signed: Sequence[SignedStatement],
    grant: SignedGrant | None = None,
) -> Answers:
    """Send the statements, one for each member; one that is not taken does not keep the others back.

    A grant can only be given with the answer to a single request. The first member is told last: it is the
    card's own, which stays open until all are through.

    Raises:
        QuarterdeckError: not one of them was taken; the first error.
    """
    if grant is not None or len(signed) == 1:
        [statement] = signed
        return Answers([await console.approvals.decide(statement, grant)])
    answers = Answers()
    asked = [*zip(members, signed, await console.approvals.decide_many(list(signed)), strict=True)]
    for member, statement, fate in [*asked[1:], *asked[:1]]:
        if fate.error is not None:
            answers.refused.append(fate)
        else:
            answers.taken.append(_answered(member, statement, fate))
    if not answers.taken and answers.refused and (error := answers.refused[0].error) is not None:
        raise error_from(error)
    return answers


def _answered(member: Approval, signed: SignedStatement, fate: AnswerFate) -> Approval:
    """The request with the answer that was taken; the service's own word of it comes as an event."""
    statement = signed.statement
    update = {"approved_by": fate.approved_by, "signed": [*member.signed, signed]}
    if fate.state is not None and fate.state is not ApprovalState.WAITING:
        approved = fate.state is ApprovalState.APPROVED
        update |= {
            "state": fate.state,
            "decided_by": " and ".join(fate.approved_by) if approved else statement.approver,
            "decided_at": datetime.now(UTC).isoformat(),
            "reason": statement.reason,
        }
    return member.model_copy(update=update)
