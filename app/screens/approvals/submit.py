"""Sends signed answers, one for each member of a group, and says which of them were taken."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from core.approvals.models import Approval
from core.errors import QuarterdeckError
from core.policy.grants import SignedGrant
from core.service.console import Console
from core.statements import SignedStatement


@dataclass(slots=True)
class Answers:
    """What became of a group's answers, in the order in which they were sent."""

    taken: list[Approval] = field(default_factory=list)
    refused: list[tuple[SignedStatement, QuarterdeckError]] = field(default_factory=list)


async def answer_all(
    console: Console, signed: Sequence[SignedStatement], grant: SignedGrant | None = None
) -> Answers:
    """Send every answer; one that is refused does not keep the others back.

    The first one is sent last: it is the card's own, which stays open until all are through.

    Raises:
        QuarterdeckError: not one of them was taken; the first error.
    """
    answers = Answers()
    for one in [*signed[1:], *signed[:1]]:
        try:
            answers.taken.append(await console.approvals.decide(one, grant))
        except QuarterdeckError as error:
            answers.refused.append((one, error))
    if not answers.taken and answers.refused:
        raise answers.refused[0][1]
    return answers
