"""Plans the undo of a run: the fate of each of its calls, in reverse order of what happened. Pure.

A device that keeps what a call replaced returns an undo id with the result; the inverse of the call is
`restore_file` or `undo` with this id. An id works once, and only while the thing is as the call left it: the
device itself refuses otherwise.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from typing import Any, NamedTuple

from core.audit.entries import Entry
from core.audit.events import event_of
from core.audit.projection import CommandState, Projection, keep_values
from core.batch.models import APPROVAL, Batch, Rollout, Run, Step, UndoCell, UndoFate, UndoPlan
from core.canonical_json import digest_of
from core.commands.results import Basis, CommandResult, Verdict
from core.models.tool_names import RESTORE_FILE, UNDO
from core.models.tools import Effect
from core.policy.models import Decision
from core.text import plural

INVERSES = (RESTORE_FILE, UNDO)
_SHELLS = frozenset({"shell_execute", "EXEC_CLI"})
_UNDO_ID = re.compile(r"[A-Za-z0-9_-]{16,64}")
_LONGEST_STEP_ID = 64
_WHY_UNKNOWN = {
    Basis.NO_ANSWER: "No answer came, and so no undo id: it may have happened.",
    Basis.UNUSABLE_ANSWER: "Its answer could not be used, and so has no undo id: it may have happened.",
    Basis.DEVICE_DOES_NOT_KNOW: "Its device does not know how it ended, and has no undo id for it.",
}


class UndoCalls(NamedTuple):
    """The batch of an undo run, and the arguments of its calls by device and step."""

    batch: Batch
    arguments: dict[tuple[str, str], dict[str, Any]]


def undone_by(entries: Iterable[Entry]) -> dict[tuple[str, str], str]:
    """The undo ids that were used, by device and id, with the run that used each.

    `entries`: the entries of all calls of the inverses since the run began, oldest first.
    """
    calls = Projection()
    for entry in entries:
        calls.apply(entry, event_of(entry))
    used: dict[tuple[str, str], str] = {}
    for command in calls.commands.values():
        result = _result_of(command)
        if command.prepared is None or result is None or result.verdict is Verdict.UNKNOWN:
            continue
        undo_id = command.prepared.event.parameters.get("undo_id")
        # An inverse that failed with a result has put the thing back, and names what else went wrong.
        worked = result.error is None or result.result is not None
        if worked and result.basis is not Basis.NOTHING_SENT and isinstance(undo_id, str):
            entry = command.prepared.entry
            used[entry.device or "", undo_id] = entry.run or ""
    return used


def plan_undo(
    run: Run,
    entries: Iterable[Entry],
    undone: Mapping[tuple[str, str], str],
    unavailable: Mapping[tuple[str, str], str],
) -> UndoPlan:
    """Plan the undo of an ended run from its entries, oldest first.

    `undone`: as from `undone_by`. `unavailable`: by device and inverse, why it cannot be called now.
    """
    projection = Projection()
    for entry in keep_values(entries, lambda _, value: _only_undo_id(value)):
        projection.apply(entry, event_of(entry))
    begun = [command for command in projection.commands.values() if command.prepared and command.ended]
    # The order of results is the order of effects also where steps ran at the same time.
    begun.sort(key=lambda command: command.ended.entry.seq if command.ended else 0, reverse=True)
    cells = [
        _cell_of(command, undone, unavailable)
        for command in begun
        if command.prepared and not command.prepared.event.evidence_for
    ]
    seen = {(cell.device, cell.step) for cell in cells}
    cells += [
        UndoCell(
            device=cell.device,
            step=cell.step,
            tool=cell.tool,
            fate=UndoFate.NOTHING,
            why=f"{cell.carried_from} did it." if cell.carried_from else "It was not begun.",
        )
        for cell in reversed(run.cells)
        if (cell.device, cell.step) not in seen and cell.tool != APPROVAL
    ]
    return plan_of(run.summary.id, cells)


def plan_of(run: str, cells: list[UndoCell]) -> UndoPlan:
    """The plan with these cells."""
    calls = [[cell.device, cell.inverse, cell.undo_id] for cell in cells if cell.fate is UndoFate.UNDOES]
    return UndoPlan(run=run, cells=cells, summary=_summary(cells), digest=digest_of(calls))


def undo_calls(plan: UndoPlan, undone: Batch) -> UndoCalls:
    """The calls of the undo run of this plan, which undoes a run of `undone`.

    A step has the id of the step that it undoes. Of several calls of one step on one device, as after a
    retry, the earlier ones have ids with a number.
    """
    reserved = {cell.step for cell in plan.cells}
    numbers: Counter[tuple[str, str]] = Counter()
    orders: dict[str, list[str]] = {}
    tools: dict[str, str] = {}
    arguments: dict[tuple[str, str], dict[str, Any]] = {}
    for cell in plan.calls:
        numbers[cell.device, cell.step] += 1
        number = numbers[cell.device, cell.step]
        step = cell.step if number == 1 else _numbered(cell.step, number, reserved)
        orders.setdefault(cell.device, []).append(step)
        tools[step] = cell.inverse
        arguments[cell.device, step] = {"undo_id": cell.undo_id}
    order = _one_order(list(orders.values()))
    if order is None:
        return _by_place(plan, undone)
    return UndoCalls(_batch(plan, undone, {step: tools[step] for step in order}), arguments)


def _one_order(orders: list[list[str]]) -> list[str] | None:
    """An order of all steps that is each device's order as well; None if devices contradict each other."""
    before: dict[str, set[str]] = {step: set() for order in orders for step in order}
    for order in orders:
        for earlier, later in pairwise(order):
            before[later].add(earlier)
    try:
        return list(TopologicalSorter(before).static_order())
    except CycleError:
        return None


def _by_place(plan: UndoPlan, undone: Batch) -> UndoCalls:
    """The calls where steps ran at the same time and ended in another order on each device.

    The first step undoes each device's last call, and so on.
    """
    counts: Counter[str] = Counter()
    tools: dict[str, str] = {}
    arguments: dict[tuple[str, str], dict[str, Any]] = {}
    for cell in plan.calls:
        counts[cell.device] += 1
        # `undo` takes every undo id, and a step is the same tool on all devices.
        step = f"undo-{counts[cell.device]}"
        tools[step] = UNDO
        arguments[cell.device, step] = {"undo_id": cell.undo_id}
    return UndoCalls(_batch(plan, undone, tools), arguments)


def _batch(plan: UndoPlan, undone: Batch, tools: dict[str, str]) -> Batch:
    return Batch(
        name=f"Undo of {plan.run}: {undone.name}"[:200],
        targets=undone.targets,
        rollout=Rollout(parallel=undone.rollout.parallel),
        # Each inverse is of a thing of its own, and the device refuses those that no longer fit.
        on_failure="continue",
        steps=[Step(id=step, tool=tool) for step, tool in tools.items()],
    )


def _numbered(step: str, number: int, reserved: set[str]) -> str:
    end = f"-{number}"
    while (name := step[: _LONGEST_STEP_ID - len(end)] + end) in reserved:
        end = f"_{end}"
    return name


def _cell_of(
    command: CommandState,
    undone: Mapping[tuple[str, str], str],
    unavailable: Mapping[tuple[str, str], str],
) -> UndoCell:
    assert command.prepared is not None
    entry, result = command.prepared.entry, _result_of(command)
    decision = None if command.decision is None else Decision.model_validate(command.decision)
    cell = UndoCell(
        device=entry.device or "",
        step=entry.step or "",
        tool=entry.tool or "",
        fate=UndoFate.NOTHING,
        what=decision.summary if decision else "",
        call_id=command.call_id,
    )

    def with_fate(fate: UndoFate, why: str, **more: Any) -> UndoCell:
        return cell.model_copy(update={"fate": fate, "why": why, **more})

    if result is None or result.basis in (Basis.NOTHING_SENT, Basis.DEVICE_REFUSED):
        return with_fate(UndoFate.NOTHING, "Nothing was sent, so there is nothing to undo.")
    if decision is not None and decision.effect is Effect.OBSERVE:
        return with_fate(UndoFate.NOTHING, "It changes nothing, so there is nothing to undo.")
    undo_id = _undo_id_in(result.result)
    if undo_id and decision is not None and decision.reversible:
        inverse = RESTORE_FILE if cell.tool == "write_file" else UNDO
        found = {"inverse": inverse, "undo_id": undo_id}
        if by := undone.get((cell.device, undo_id)):
            return with_fate(UndoFate.UNDONE, f"It was undone by {by}.", **found)
        if away := unavailable.get((cell.device, inverse)):
            return with_fate(UndoFate.UNAVAILABLE, away, **found)
        return with_fate(UndoFate.UNDOES, decision.undo, **found)
    if result.verdict is Verdict.UNKNOWN:
        next_step = result.error.next if result.error is not None else ""
        return with_fate(UndoFate.UNKNOWN, f"{_WHY_UNKNOWN[result.basis]} {next_step}".rstrip())
    if result.verdict is Verdict.CANCELLED:
        return with_fate(UndoFate.UNKNOWN, "It was cancelled while it ran; what it did until then stays.")
    if result.error is not None and decision is not None and decision.reversible:
        return with_fate(UndoFate.NOTHING, "It failed, and the device kept nothing to put back.")
    why = decision.undo if decision is not None and not decision.reversible else ""
    return with_fate(UndoFate.CANNOT, why or "Cannot be undone: its result has no undo id.")


def _result_of(command: CommandState) -> CommandResult | None:
    return None if command.result is None else CommandResult.model_validate(command.result)


def _undo_id_in(value: Any) -> str:
    undo_id = value.get("undo") if isinstance(value, dict) else None
    return undo_id if isinstance(undo_id, str) and _UNDO_ID.fullmatch(undo_id) else ""


def _only_undo_id(value: Any) -> Any:
    undo_id = _undo_id_in(value)
    return {"undo": undo_id} if undo_id else None


def _summary(cells: list[UndoCell]) -> str:
    """Such as "3 files restored, 1 shell command cannot be undone"."""
    files = [cell for cell in cells if cell.inverse == RESTORE_FILE]
    others = [cell for cell in cells if cell.inverse != RESTORE_FILE]
    counts = Counter(cell.fate for cell in cells)
    restored = sum(cell.fate is UndoFate.UNDOES for cell in files)
    undone = counts[UndoFate.UNDOES] - restored
    cannot = [cell for cell in others if cell.fate is UndoFate.CANNOT]
    shells = sum(cell.tool in _SHELLS for cell in cannot)
    parts = [
        (restored, f"{plural(restored, 'file')} restored"),
        (undone, f"{plural(undone, 'change')} undone"),
        (shells, f"{plural(shells, 'shell command')} cannot be undone"),
        (len(cannot) - shells, f"{plural(len(cannot) - shells, 'other change')} cannot be undone"),
        (counts[UndoFate.UNKNOWN], f"{plural(counts[UndoFate.UNKNOWN], 'call')} may have happened"),
        (counts[UndoFate.UNDONE], f"{counts[UndoFate.UNDONE]} undone already"),
        (counts[UndoFate.UNAVAILABLE], f"{counts[UndoFate.UNAVAILABLE]} cannot be asked for now"),
    ]
    return ", ".join(text for count, text in parts if count) or "there is nothing to undo"
