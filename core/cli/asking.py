"""Requests for approval on a terminal: the card, the question, and its signed answer."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from core.approvals.models import Approval, ApprovalState
from core.canonical_json import canonical_bytes
from core.cli.group_card import Verdict, alike, answer_all, fates_table, note_group, problem_of
from core.cli.output import (
    SCOPE_NAMES,
    Block,
    Prose,
    facts,
    note,
    note_blocks,
    one_line,
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

# Seconds without another request that is alike, after which the card is shown, and the longest wait for them.
GATHER_S = 0.25
LONGEST_GATHER_S = 3.0


async def ask_here(
    session: Session, approval_id: str, unlocking: KeySource, more_may_come: bool = False
) -> set[str]:
    """Show a request with those alike, and ask for a decision; an answer given elsewhere ends the question.

    `more_may_come`: other devices may ask the same in a moment, and are waited for shortly. Returns the
    requests that need no further question here.

    Raises:
        Refused: a request's digest does not match the arguments on the card.
    """
    approval = await session.console.approvals.hold(approval_id, True)
    if approval.state is not ApprovalState.WAITING:
        return {approval_id}
    members = await (_gather(session, approval) if more_may_come else alike(session, approval))
    note_blocks(await card_of(session, approval))
    for one in members:
        check_shown(one.request)
    if len(members) > 1:
        note_group(members)
        # Read together, and so they expire together.
        for one in members[1:]:
            await session.console.approvals.hold(one.id, True)
    owner = TaskGroupOwner("terminal")
    asking: asyncio.Task[set[str]] = owner.spawn("ask", _ask(session, members, unlocking))
    elsewhere = owner.spawn("watch", _until_answered(session, approval_id))
    try:
        await asyncio.wait({asking, elsewhere}, return_when=asyncio.FIRST_COMPLETED)
        if asking.done():
            return asking.result()
        note("\nThis request was answered elsewhere, or is over.")
        return {approval_id}
    finally:
        await owner.close()


async def _gather(session: Session, approval: Approval) -> tuple[Approval, ...]:
    """The requests alike, once no more of them come; a run asks for its devices within a moment."""
    members = await alike(session, approval)
    clock = asyncio.get_running_loop().time
    until = clock() + LONGEST_GATHER_S
    while clock() < until:
        await asyncio.sleep(GATHER_S)
        now = await alike(session, approval)
        if len(now) <= len(members):
            return now
        members = now
    return members


async def _ask(session: Session, members: Sequence[Approval], unlocking: KeySource) -> set[str]:
    leader = members[0]
    while True:
        line = (await ask_line(_question(members))).strip()
        if line == "show" and len(members) > 1:
            for one in members:
                note_blocks(await card_of(session, one))
            continue
        answer = _answer_in(line, several=len(members) > 1)
        if answer is not None:
            verdict, for_all, reason = answer
            try:
                key = await unlock(session, unlocking)
                if not for_all:
                    await decide(session, key, leader, verdict, reason)
                    return {leader.id}
                fates = await answer_all(session, key, members, verdict, reason)
                _, problem = problem_of(fates)
                note(fates_table(fates))
                if problem is not None:
                    print_error(problem, False)
                # What was not taken and still waits is asked again.
                return {fate.approval for fate in fates if fate.error is None} | {leader.id}
            except TerminalClosed:
                raise
            except (BadInput, Refused) as error:
                # A mistyped passphrase is not a decision: ask again.
                print_error(error.info, False)
        note("Nothing was decided.")


def _question(members: Sequence[Approval]) -> str:
    if len(members) == 1:
        return 'Type "approve" to allow exactly this once, "deny" with a reason to refuse: '
    device = one_line(members[0].request.device)
    return (
        f'Type "approve all" to allow exactly these {len(members):,} once, "approve" for {device} alone, '
        '"deny all" or "deny" with a reason to refuse, "show" for each card: '
    )


def _answer_in(line: str, several: bool) -> tuple[Verdict, bool, str] | None:
    """The verdict in a line, whether it is about all requests, and the reason; None if it is no answer."""
    word, _, rest = line.partition(" ")
    first, _, reason = rest.strip().partition(" ")
    if word == "approve" and not rest:
        return "approve", False, ""
    if word == "approve" and several and first == "all" and not reason:
        return "approve", True, ""
    if word == "deny":
        for_all = several and first == "all"
        return "deny", for_all, reason.strip() if for_all else rest.strip()
    return None


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
