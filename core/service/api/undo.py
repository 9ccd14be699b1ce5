"""The undo of a run: its plan from the journal and from what devices offer now, and its start."""

from __future__ import annotations

from collections.abc import AsyncIterator

from core.audit.entries import Entry, Kind
from core.audit.query import quoted
from core.batch.live_run import LiveRun
from core.batch.models import Run, UndoCell, UndoFate, UndoPlan
from core.batch.runs import Undoing
from core.batch.undo_plan import INVERSES, plan_of, plan_undo, undo_calls, undone_by
from core.errors import BadInput, ErrorCode, QuarterdeckError, Refused
from core.service.service import Service
from core.tasks import in_turns


async def make_undo_plan(service: Service, run: Run, actor: str) -> UndoPlan:
    """Plan the undo of a run, with the policy's decision about each call if `actor` makes it now.

    Raises:
        Refused: the run has not ended.
    """
    summary = run.summary
    if not summary.state.ended:
        raise Refused(
            f"{summary.id} has not ended.",
            ErrorCode.WRONG_STATE,
            "Wait for its end, or cancel it, then undo it.",
        )
    await service.journal.settle()
    start = await service.journal.query(f"kind:{Kind.RUN_STARTED} run:{quoted(summary.id)}", limit=1)
    inverses = [entry async for entry in _inverses_since(service, start.entries[0].seq)]
    unavailable: dict[tuple[str, str], str] = {}
    for device in summary.devices:
        unavailable |= _unavailable(service, device)
    undone = undone_by(inverses)
    plan = await service.journal.fold_run(
        summary.id, lambda entries: plan_undo(run, entries, undone, unavailable)
    )
    cells = [await _decided(service, cell, actor) async for cell in in_turns(plan.cells)]
    return plan_of(summary.id, cells)


async def start_undo(service: Service, run: Run, actor: str, operator: str, digest: str) -> LiveRun:
    """Start the undo of a run; `digest` is that of the plan that was shown, empty for none.

    Raises:
        Refused: the run has not ended, is being undone, or its plan is another one now.
        BadInput: there is nothing to undo.
    """
    number = run.summary.id
    for live in service.runs.active:
        if live.undoes == number:
            raise Refused(
                f"{number} is being undone by {live.id}.",
                ErrorCode.WRONG_STATE,
                "Wait for its end, then undo what is left.",
            )
    plan = await make_undo_plan(service, run, actor)
    if digest and digest != plan.digest:
        raise Refused(
            f"What an undo of {number} would do has changed since it was shown.",
            ErrorCode.WRONG_STATE,
            "Look at it again, then undo it.",
        )
    if not plan.calls:
        raise BadInput(f"Nothing of {number} can be undone: {plan.summary}.", ErrorCode.NOT_FOUND)
    calls = undo_calls(plan, run.batch)
    devices = list(dict.fromkeys(cell.device for cell in plan.calls))
    undoing = Undoing(number, calls.arguments)
    return await service.runs.start(
        calls.batch, (tuple(devices),), actor, "undo", operator=operator, undoing=undoing
    )


def _inverses_since(service: Service, seq: int) -> AsyncIterator[Entry]:
    """The entries, since entry `seq`, of the calls of inverses, oldest first."""
    kinds = f"{Kind.COMMAND_PREPARED},{Kind.RESULT_RECORDED},{Kind.LATE_ANSWER_RECEIVED}"
    return service.journal.entries(f"tool:{','.join(INVERSES)} kind:{kinds}", after=seq)


def _unavailable(service: Service, device: str) -> dict[tuple[str, str], str]:
    """By device and inverse: why this device cannot be asked for it now."""
    try:
        offered = {tool.tool_name for tool in service.fleet.tools(device)}
        connected = service.fleet.channel(device) is not None
    except QuarterdeckError as error:
        return {(device, inverse): error.message for inverse in INVERSES}
    if not connected:
        why = f"{device} is not connected; it alone keeps what was there before."
        return {(device, inverse): why for inverse in INVERSES}
    missing = set(INVERSES) - offered
    return {(device, inverse): f"{device} does not offer {inverse} now." for inverse in missing}


async def _decided(service: Service, cell: UndoCell, actor: str) -> UndoCell:
    """The cell with the policy's decision about its inverse."""
    if cell.fate is not UndoFate.UNDOES:
        return cell
    parameters = {"undo_id": cell.undo_id}
    try:
        leads = await service.dispatcher.look_ahead([cell.device], cell.inverse, parameters)
        decision = service.dispatcher.explain(cell.device, cell.inverse, parameters, actor, leads)
    except QuarterdeckError as error:
        return cell.model_copy(update={"why": error.message})
    return cell.model_copy(update={"answer": decision.answer})
