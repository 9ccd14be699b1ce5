"""`quarterdeck call`: one command to a device and its result, with a request for approval where needed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, Literal

from core.aip.messages import ResultStatus
from core.approvals.models import Approval, ApprovalState
from core.batch.models import Cell, CellState, Run
from core.batch.run_state import result_of
from core.canonical_json import canonical_bytes
from core.cli.arguments import Mistyped, parse_arguments
from core.cli.output import (
    SCOPE_NAMES,
    as_json,
    envelope_json,
    facts,
    note,
    one_line,
    print_error,
    result_text,
    say,
    shown_json,
    styled,
)
from core.cli.prompt import TerminalClosed, ask_line, is_terminal
from core.cli.saving import Saving
from core.cli.session import Session
from core.cli.signing import KeySource, decide, identify, unlock
from core.dispatch.models import Basis, CommandStage, Verdict
from core.errors import BadInput, DeviceError, ErrorCode, ErrorInfo, QuarterdeckError, Refused, ServiceError
from core.fleet.models import Fact, ToolScope
from core.service import exit_codes
from core.service.console import ApprovalChanged, CellChanged, Event, Missed, RunChanged
from core.service.envelope import Envelope, cell_envelope, envelope_error, refused_envelope
from core.statements import check_shown, short_code
from core.tasks import TaskGroupOwner

LOOK_AGAIN = 5.0


async def call(
    session: Session,
    device: str,
    tool: str,
    words: list[str],
    *,
    timeout: float | None,
    wait: float,
    json_wanted: bool,
    unlocking: KeySource,
    saving: Saving | None = None,
) -> int:
    """Call a tool, print its result, and return the exit code.

    A call that is not allowed or not possible also has a result: the dispatcher refuses it and the journal
    records it. Nothing is dispatched only where the device does not exist or the words are no arguments.

    Raises:
        QuarterdeckError: the call could not be started, and no JSON is wanted.
    """
    try:
        parameters = _arguments(words, await _schema(session, device, tool))
        await _identify_where_several_approve(session, device, tool, parameters, unlocking)
        events = session.console.events()
        run = await session.console.runs.call(device, tool, parameters, timeout)
    except QuarterdeckError as error:
        if not json_wanted:
            raise
        # After a lost service it is unknown how far the call came.
        stage = CommandStage.PREPARE if isinstance(error, BadInput | DeviceError) else None
        say(as_json(envelope_json(refused_envelope(device, tool, error.info, stage))))
        return exit_codes.exit_code_of(error.code)
    try:
        return await _follow(session, run, events, wait, json_wanted, unlocking, saving)
    except asyncio.CancelledError:
        await session.console.runs.stop(run.summary.id)
        note(f"Interrupted: run {run.summary.id} was cancelled; what a device has begun may still happen.")
        raise
    except TerminalClosed as closed:
        # If it stayed in the queue, it could be approved after its caller has gone.
        await session.console.runs.stop(run.summary.id)
        raise Refused(
            f"{closed.message} Run {run.summary.id} was cancelled; nothing was sent.",
            ErrorCode.APPROVAL_EXPIRED,
        ) from closed
    except ServiceError as error:
        if error.code is not ErrorCode.SERVICE_UNAVAILABLE:
            raise
        return _service_lost(run, device, tool, json_wanted)
    finally:
        if close := getattr(events, "aclose", None):
            await close()


async def _identify_where_several_approve(
    session: Session, device: str, tool: str, parameters: dict[str, Any], unlocking: KeySource
) -> None:
    """Identify the asker where several operators must approve.

    The asker's own approval does not count then. Without a proof of who asks, one more operator must approve.
    """
    try:
        decision = await session.console.policy.explain(device, tool, parameters)
    except QuarterdeckError:
        # The call itself will fail with this error, and then it is in the journal.
        return
    if decision.approvers == 1:
        return
    try:
        await identify(session, unlocking)
    except QuarterdeckError as error:
        note(f"Asked without a proof of who asks, so one operator more must approve: {error.message}")


async def _schema(session: Session, device: str, tool: str) -> dict[str, Any]:
    """The tool's input schema; empty if it is not known, as for a device that has never connected."""
    try:
        tools = await session.console.devices.tools(device)
    except BadInput:
        # The call itself is refused for this reason, and then it is in the journal.
        return {}
    found = [one for one in tools if tool in (one.tool_name, one.tool_key)]
    return found[0].input_schema if found else {}


def _arguments(words: list[str], schema: dict[str, Any]) -> dict[str, Any]:
    """Parse the arguments; a value of another type than the schema's remains a text and is refused later."""
    try:
        return parse_arguments(words, schema)
    except Mistyped as error:
        if error.hint:
            note(error.message)
        return parse_arguments(words, schema, lenient=True)


def _service_lost(run: Run, device: str, tool: str, json_wanted: bool) -> int:
    """Report that the service was lost during a run: sent commands may have taken effect."""
    wanted = run.summary.id
    error = ErrorInfo(
        code=ErrorCode.OUTCOME_UNKNOWN,
        message=f"The service ended while run {wanted} was going on: what was sent may have happened.",
        next=f"quarterdeck runs show {wanted} says what is known of it; look before you run this again.",
    )
    lost = refused_envelope(device, tool, error, None).model_copy(
        update={
            "run": wanted,
            "status": ResultStatus.NONE,
            "verdict": Verdict.UNKNOWN,
            "basis": Basis.NO_ANSWER,
        }
    )
    _print_failure(lost, error, json_wanted)
    return exit_codes.OUTCOME_UNKNOWN


def _print_failure(envelope: Envelope, error: ErrorInfo, json_wanted: bool) -> None:
    if json_wanted:
        say(as_json(envelope_json(envelope)))
    else:
        print_error(error, False)


async def _follow(
    session: Session,
    run: Run,
    events: AsyncIterator[Event],
    wait: float,
    json_wanted: bool,
    unlocking: KeySource,
    saving: Saving | None,
) -> int:
    clock = asyncio.get_running_loop().time
    give_up: float | None = None
    asked: set[str] = set()
    while not run.summary.state.ended:
        waiting = next(
            (cell for cell in run.cells if cell.state is CellState.WAITING and cell.approval), None
        )
        if waiting is not None and waiting.approval not in asked:
            if is_terminal():
                asked.add(str(waiting.approval))
                await _ask_here(session, str(waiting.approval), unlocking)
            elif session.hosted or (give_up := give_up or clock() + wait) <= clock():
                return await _nobody_here(session, run, waiting, json_wanted)
        elif waiting is None:
            give_up = None
        await _next_change(events, run.summary.id, give_up - clock() if give_up else LOOK_AGAIN)
        run = await session.console.runs.get(run.summary.id)
    return await _print_end(session, run, json_wanted, saving)


async def _next_change(events: AsyncIterator[Event], run: str, timeout: float) -> None:
    """Wait for a change of this run, at most `timeout` or `LOOK_AGAIN` seconds."""
    try:
        async with asyncio.timeout(max(0.0, min(timeout, LOOK_AGAIN))):
            async for event in events:
                match event:
                    case RunChanged() if event.run.id == run:
                        return
                    case CellChanged() if event.cell.run == run:
                        return
                    case ApprovalChanged() if event.approval.run == run:
                        return
                    case Missed():
                        return
    except TimeoutError:
        return


async def _nobody_here(session: Session, run: Run, cell: Cell, json_wanted: bool) -> int:
    """End without an approval: the request stays queued, or is cancelled if this command hosts the core."""
    if session.hosted:
        await session.console.runs.stop(run.summary.id)
        error = ErrorInfo(
            code=ErrorCode.APPROVAL_EXPIRED,
            message="This needs an operator's approval, and none can be given: no service runs for this "
            "home and this is no terminal. Nothing was sent.",
            next="Run quarterdeck service start, then call again; or call from a terminal.",
        )
        refused = refused_envelope(cell.device, cell.tool, error, CommandStage.APPROVE)
        named = refused.model_copy(update={"call_id": cell.call_id, "run": run.summary.id})
        _print_failure(named, error, json_wanted)
        return exit_codes.NOT_APPROVED
    error = ErrorInfo(
        code=ErrorCode.APPROVAL_PENDING,
        message=f"Not approved yet: request {cell.approval} of run {run.summary.id} stays in the queue.",
        next=f"quarterdeck approvals show {cell.approval}, then approve or deny it.",
    )
    _print_failure(cell_envelope(cell), error, json_wanted)
    return exit_codes.APPROVAL_PENDING


async def _print_end(session: Session, run: Run, json_wanted: bool, saving: Saving | None) -> int:
    cell = run.cells[0]
    result = result_of(cell)
    if result is None:
        said = cell.note or run.summary.note or f"The run ended as {run.summary.state.value}."
        error = ErrorInfo.of(ErrorCode.CANCELLED, said)
        ended = cell_envelope(cell).model_copy(update={"error": envelope_error(error, may_repeat=False)})
        _print_failure(ended, error, json_wanted)
        return exit_codes.TOOL_FAILED
    code = exit_codes.of_result(result)
    if saving is not None:
        await saving.save(session, [result])
        code = saving.code(code)
    [envelope] = await session.console.runs.results(run.summary.id)
    if json_wanted:
        say(as_json(envelope_json(envelope, saving.files if saving else None)))
    elif code != exit_codes.BAD_INPUT or result.basis is not Basis.NOTHING_SENT:
        # For words that were not understood, the error alone says everything.
        say(result_text(result))
    if result.error is not None and not json_wanted:
        print_error(result.error, False)
        for other in envelope.error.alternatives if envelope.error is not None else ():
            note(one_line(f"Could be called now: {other.tool} on {other.device}. {other.why}"))
    return code


async def _ask_here(session: Session, approval_id: str, unlocking: KeySource) -> None:
    """Show the request and ask for a decision; an answer given elsewhere ends the question.

    Raises:
        Refused: the request's digest does not match the arguments on the card.
    """
    approval = await session.console.approvals.hold(approval_id, True)
    if approval.state is not ApprovalState.WAITING:
        return
    note(card(approval, await scope_of_request(session, approval)))
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
        # The service is lost, which `_follow` reports.
        return


async def scope_of_request(session: Session, approval: Approval) -> ToolScope | None:
    """What the tool of a request needs and reaches; None if its device does not have it any more."""
    request = approval.request
    try:
        return (await session.console.devices.describe(request.device, request.tool_key)).scope
    except QuarterdeckError:
        return None


def card(approval: Approval, scope: ToolScope | None = None) -> str:
    """A request as the operator must see it: everything that would be sent, and why approval is needed.

    `scope` is that of its tool: what it needs and reaches, as far as it is known.
    """
    request, decision = approval.request, approval.decision
    risk = f"{decision.risk.value}, effect {decision.effect.value}"
    head = facts(
        [
            ("Request", approval.id),
            ("Device", request.device + (" (production)" if approval.production else "")),
            ("Tool", request.tool_key),
            ("Risk", risk),
            ("Asked by", approval.actor),
            ("Effect", decision.summary),
            *[("Would", f"{one.text} ({one.risk.value})") for one in decision.findings],
            *[("Asks because", f"{one.text} [{one.origin}]") for one in decision.reasons],
            ("Undo", decision.undo),
            *[(name, f"{fact.value} [{fact.source.value}]") for name, fact in _reach(scope)],
            ("They say", approval.said),
            ("Expires in", f"{approval.remaining_s:.0f} s"),
            ("State", approval.state.value),
            ("Decided by", approval.decided_by or ""),
            ("Reason", approval.reason),
            ("Approvals", of_words(approval)),
            ("Code", short_code(request.digest)),
            ("Digest", request.digest),
        ]
    )
    size = len(canonical_bytes(request.parameters))
    title = styled("Arguments, complete", "bold")
    return f"{head}\n{title} ({size} bytes):\n{shown_json(request.parameters)}"


def _reach(scope: ToolScope | None) -> list[tuple[str, Fact[str]]]:
    if scope is None:
        return []
    return [(name, getattr(scope, key)) for key, name in SCOPE_NAMES.items() if key != "repair"]


def of_words(approval: Approval) -> str:
    """How many of the required operators have approved; empty where one suffices."""
    if approval.approvers == 1:
        return ""
    by = f" ({', '.join(approval.approved_by)})" if approval.approved_by else ""
    needs = "; needs another operator" if approval.state is ApprovalState.WAITING else ""
    return f"{len(approval.approved_by)} of {approval.approvers}{by}{needs}"
