"""Requests for approval on a terminal: the card, the question, and its signed answer."""

from __future__ import annotations

import asyncio
from typing import Any, Literal

from core.approvals.models import Approval, ApprovalState
from core.canonical_json import canonical_bytes
from core.cli.output import (
    SCOPE_NAMES,
    Block,
    Prose,
    facts,
    note,
    note_blocks,
    print_error,
    shown_json,
    size_words,
    span,
    state_cell,
)
from core.cli.prompt import TerminalClosed, ask_line
from core.cli.session import Session
from core.cli.signing import KeySource, decide, unlock
from core.cli.terminal import styled
from core.commitments import commitments_in, readable
from core.errors import BadInput, QuarterdeckError, Refused
from core.fleet.models import ToolScope
from core.models.tool_names import CLOSE_APPLICATION
from core.models.tools import Fact
from core.service.console import ApprovalChanged, Missed
from core.statements import check_shown, short_code
from core.tasks import TaskGroupOwner


async def ask_here(session: Session, approval_id: str, unlocking: KeySource) -> None:
    """Show the request and ask for a decision; an answer given elsewhere ends the question.

    Raises:
        Refused: the request's digest does not match the arguments on the card.
    """
    approval = await session.console.approvals.hold(approval_id, True)
    if approval.state is not ApprovalState.WAITING:
        return
    note_blocks(await card_of(session, approval))
    check_shown(approval.request)
    owner = TaskGroupOwner("terminal")
    asking = owner.spawn("ask", _ask(session, approval, unlocking))
    elsewhere = owner.spawn("watch", _until_answered(session, approval_id))
    try:
        await asyncio.wait({asking, elsewhere}, return_when=asyncio.FIRST_COMPLETED)
        if asking.done():
            asking.result()
        else:
            note("\nThis request was answered elsewhere, or is over.")
    finally:
        await owner.close()


async def _ask(session: Session, approval: Approval, unlocking: KeySource) -> None:
    question = 'Type "approve" to allow exactly this once, "deny" with a reason to refuse: '
    while True:
        word, _, reason = (await ask_line(question)).strip().partition(" ")
        verdict: Literal["approve", "deny"] | None = None
        if word == "approve" and not reason:
            verdict = "approve"
        elif word == "deny":
            verdict = "deny"
        if verdict is not None:
            try:
                key = await unlock(session, unlocking)
                await decide(session, key, approval, verdict, reason.strip())
                return
            except TerminalClosed:
                raise
            except (BadInput, Refused) as error:
                # A mistyped passphrase is not a decision: ask again.
                print_error(error.info, False)
        note("Nothing was decided.")


async def _until_answered(session: Session, approval_id: str) -> None:
    events = session.console.events()
    try:
        while (await session.console.approvals.get(approval_id)).state is ApprovalState.WAITING:
            async for event in events:
                if isinstance(event, Missed) or (
                    isinstance(event, ApprovalChanged) and event.approval.id == approval_id
                ):
                    break
            else:
                return
    except QuarterdeckError:
        # The service is lost, which the caller finds out as well.
        return


async def scope_of_request(session: Session, approval: Approval) -> ToolScope | None:
    """The needs and reach of a request's tool; None if its device does not have it any more."""
    request = approval.request
    try:
        return (await session.console.devices.describe(request.device, request.tool_key)).scope
    except QuarterdeckError:
        return None


async def card_of(session: Session, approval: Approval) -> list[Block]:
    """The card of a request, with what its device says of it now."""
    closes = ""
    if approval.request.tool_name == CLOSE_APPLICATION and approval.state is ApprovalState.WAITING:
        try:
            preview = await session.console.approvals.preview(approval.id)
            closes = preview.label or preview.problem
        except QuarterdeckError as error:
            closes = error.message
    return card(approval, await scope_of_request(session, approval), closes)


def card(approval: Approval, scope: ToolScope | None = None, closes: str = "") -> list[Block]:
    """A request as the operator must see it: everything that would be sent, and why approval is needed.

    `scope` is that of its tool: what it needs and reaches, as far as it is known. `closes`: the program that
    it would close.
    """
    request, decision = approval.request, approval.decision
    is_waiting = approval.state is ApprovalState.WAITING
    risk = f"{decision.risk.value}, effect {decision.effect.value}"
    head = facts(
        [
            ("Request", approval.id),
            ("Device", request.device + (" (production)" if approval.production else "")),
            ("Tool", request.tool_key),
            ("Risk", risk),
            ("Asked by", approval.actor),
            ("Program (says)", approval.program),
            ("Effect", decision.summary),
            ("Closes", closes),
            *[("Would", f"{one.text} ({one.risk.value})") for one in decision.findings],
            *[("Asks because", f"{one.text} [{one.origin}]") for one in decision.reasons],
            ("Undo", decision.undo),
            *_reach(scope),
            ("They say", approval.said),
            ("Expires in", span(round(approval.remaining_s)) if is_waiting else ""),
            ("State", state_cell(approval.state)),
            ("Decided by", approval.decided_by or ""),
            ("Reason", approval.reason),
            ("Approvals", of_words(approval)),
            ("Code", short_code(request.digest)),
            ("Digest", request.digest),
        ]
    )
    size = len(canonical_bytes(request.parameters))
    title = styled("Arguments, complete", "bold")
    arguments = shown_json(readable(request.parameters))
    masked = _masked(request.parameters)
    return [head, f"{title} ({size_words(size)}):", arguments, *([Prose(masked)] if masked else [])]


def _masked(parameters: dict[str, Any]) -> str:
    """How many secrets the arguments hold, and the beginnings of their commitments; empty without any."""
    commitments = [f"{digits[:8]}…" for digits in commitments_in(parameters)]
    if not commitments:
        return ""
    secrets = "1 secret" if len(commitments) == 1 else f"{len(commitments)} secrets"
    return (
        f"{styled('Masked', 'bold')}: {secrets}, sent and not shown; the risk is that of what is sent "
        f"(commitment {', '.join(commitments)})"
    )


def _reach(scope: ToolScope | None) -> list[tuple[str, str]]:
    """What the tool needs and reaches; the parts that are none, and those not known, share a line."""
    if scope is None:
        return []
    alone: list[tuple[str, str]] = []
    alike: dict[tuple[str, str], list[str]] = {}
    for key, name in SCOPE_NAMES.items():
        fact: Fact[str] = getattr(scope, key)
        if fact.value in ("none", "not known") and key != "repair":
            alike.setdefault((fact.value.capitalize(), fact.source.value), []).append(name)
        elif key != "repair":
            alone.append((name, f"{fact.value} [{fact.source.value}]"))
    return [*alone, *((said, f"{', '.join(names)} [{source}]") for (said, source), names in alike.items())]


def of_words(approval: Approval) -> str:
    """How many of the required operators have approved; empty where one suffices."""
    if approval.approvers == 1:
        return ""
    by = f" ({', '.join(approval.approved_by)})" if approval.approved_by else ""
    needs = "; needs another operator" if approval.state is ApprovalState.WAITING else ""
    return f"{len(approval.approved_by)} of {approval.approvers}{by}{needs}"
