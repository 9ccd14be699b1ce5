"""Alike requests on a terminal: one card for all of them, one call that answers them, the fate of each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from core.approvals.models import AnswerFate, Approval, ApprovalState
from core.approvals.operator_keys import OperatorKey, statement_for
from core.approvals.request_groups import (
    count_words_of,
    device_words,
    differing,
    group_of,
    summary_of_all,
)
from core.cli.output import Table, note, one_line, table
from core.cli.session import Session
from core.errors import ErrorCode, ErrorInfo
from core.service import exit_codes
from core.statements import short_code

Verdict = Literal["approve", "deny"]


async def alike(session: Session, approval: Approval) -> tuple[Approval, ...]:
    """The requests that one act answers together with this one, itself first; production stays apart."""
    return group_of(approval, await session.console.approvals.list()).members


def devices_table(members: Sequence[Approval]) -> Table:
    """The device and the code of each request, and the arguments in which they differ, whole."""
    shown = differing(members)
    rows = shown.rows or ((),) * len(members)
    return table(
        ("DEVICE", "REQUEST", "CODE", *(name.upper() for name in shown.columns)),
        [
            (
                one.request.device + (" (production)" if one.production else ""),
                one.id,
                short_code(one.request.digest),
                *row,
            )
            for one, row in zip(members, rows, strict=True)
        ],
    )


def note_group(members: Sequence[Approval]) -> None:
    """Say what the requests would do together, and list them."""
    note(f"\n{one_line(summary_of_all(members) + count_words_of(members))}:")
    note(devices_table(members))


async def answer_all(
    session: Session, key: OperatorKey, members: Sequence[Approval], verdict: Verdict, reason: str
) -> list[AnswerFate]:
    """Sign a statement for each of these requests, and send all of them in one call.

    Raises:
        Refused: a digest does not fit what is shown of its request; nothing was sent.
    """
    signed = [key.sign(statement_for(one, verdict, key.name, reason)) for one in members]
    return await session.console.approvals.decide_many(signed)


def fates_table(fates: Sequence[AnswerFate]) -> Table:
    """What became of each answer, by device."""
    return table(
        ("DEVICE", "REQUEST", "ANSWER", "REASON"),
        [(fate.device, fate.approval, fate_words(fate), _reason(fate)) for fate in fates],
    )


def fate_words(fate: AnswerFate) -> str:
    """What became of one answer: `approved`, `1 of 2 approved`, `not taken: ended`."""
    if fate.why is not None:
        return f"not taken: {fate.why.value.replace('_', ' ')}"
    if fate.state is ApprovalState.WAITING:
        return f"{len(fate.approved_by)} of {fate.approvers} approved"
    return fate.state.value if fate.state is not None else ""


def _reason(fate: AnswerFate) -> str:
    if fate.error is not None:
        return fate.error.message
    return "needs another operator" if fate.state is ApprovalState.WAITING else ""


def problem_of(fates: Sequence[AnswerFate]) -> tuple[int, ErrorInfo | None]:
    """The exit code of these answers, and an error that says on which devices they were not taken."""
    refused = [fate for fate in fates if fate.error is not None]
    if not refused:
        return exit_codes.DONE, None
    devices = device_words(fate.device for fate in refused)
    errors = [fate.error for fate in refused if fate.error is not None]
    verb = "was" if len(refused) == 1 else "were"
    text = f"{len(refused):,} of {len(fates):,} answers {verb} not taken: {devices}. {errors[0].message}"
    # What was not there beside what was refused: the refusal is what an operator has to look at.
    codes = {error.code for error in errors}
    code = ErrorCode.NOT_FOUND if codes == {ErrorCode.NOT_FOUND} else ErrorCode.APPROVAL_INVALID
    error = ErrorInfo.of(code, text, "Run quarterdeck approvals list, and answer what still waits.")
    return exit_codes.exit_code_of(code), error
