"""Derives from an ended run which cells a resuming run takes over, and which it begins."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from core.batch.live_run import SWITCHED_OFF, Carried, already_resumed
from core.batch.models import ApprovalStep, Cell, CellState, Entry, Run, calls, flatten
from core.batch.step_values import holds_mask
from core.commitments import holds_stand_in
from core.errors import ErrorCode, Refused

_SUCCEEDED = (CellState.DONE, CellState.SKIPPED)
_MOST_NAMED = 5


@dataclass(frozen=True, slots=True)
class Remainder:
    """The remainder of an ended run.

    `carried` are the cells that are taken over. `first` is, by device, the steps at which it goes on; a
    device that has nothing left is not in it. `unknown` are the cells that need an operator's word first.
    """

    carried: dict[tuple[str, str], Carried] = field(default_factory=dict)
    first: dict[str, list[str]] = field(default_factory=dict)
    unknown: list[Cell] = field(default_factory=list)

    @property
    def steps(self) -> list[str]:
        """The steps at which some device goes on, without duplicates."""
        return list(dict.fromkeys(step for steps in self.first.values() for step in steps))


def remainder_of(run: Run) -> Remainder:
    """The remainder of an ended run."""
    remainder = Remainder()
    cells = {(cell.device, cell.step): cell for cell in run.cells}
    for device in run.summary.devices:
        _add_device(remainder, run, device, cells)
    remainder.unknown.extend(cell for cell in run.cells if cell.state is CellState.UNKNOWN)
    return remainder


def _not_said(cell: Cell) -> str:
    return "no answer came"


def check_resumable(run: Run, remainder: Remainder, why_unknown: Callable[[Cell], str] = _not_said) -> None:
    """Check that a run can be resumed; `why_unknown` says why the outcome of a cell is still unknown.

    Raises:
        Refused: it goes on, was resumed, has nothing left, has unknown outcomes, or its arguments are secret.
    """
    summary = run.summary
    if not summary.state.ended:
        raise Refused(
            f"{summary.id} has not ended; it cannot be resumed.",
            ErrorCode.WRONG_STATE,
            "Wait for its end, or cancel it.",
        )
    if summary.undoes:
        raise Refused(
            f"{summary.id} undoes {summary.undoes}; it cannot be resumed.",
            ErrorCode.WRONG_STATE,
            f"Undo {summary.undoes} again: what is left is undone.",
        )
    if summary.resumed_by:
        raise already_resumed(summary.id, summary.resumed_by)
    if remainder.unknown:
        shown = remainder.unknown[:_MOST_NAMED]
        places = [f"{cell.step} on {cell.device}" for cell in shown]
        rest = len(remainder.unknown) - len(shown)
        more = f" and {rest} more" if rest else ""
        whys = dict.fromkeys(f"{cell.device}: {why_unknown(cell)}" for cell in shown)
        raise Refused(
            f"Whether {', '.join(places)}{more} happened is unknown ({'; '.join(whys)}).",
            ErrorCode.OUTCOME_UNKNOWN,
            "Resume it when that is told, or say of each: "
            f"quarterdeck runs settle {summary.id} DEVICE STEP done|not-done.",
        )
    if not remainder.first:
        raise Refused(
            f"Nothing of {summary.id} is left to do.",
            ErrorCode.WRONG_STATE,
            "Start the batch again to run all of it.",
        )
    secret = [
        step.id
        for step in flatten(run.batch.steps)
        if holds_stand_in(step.parameters) or holds_mask(step.parameters)
    ]
    if secret:
        raise Refused(
            f"The arguments of {', '.join(secret)} are secret and were not stored.",
            ErrorCode.WRONG_STATE,
            "Start the batch again, and give them once more.",
        )


def _add_device(remainder: Remainder, run: Run, device: str, cells: dict[tuple[str, str], Cell]) -> None:
    """Add what one device has done, and where it goes on."""
    for entry in run.batch.steps:
        tops = [cells[device, step] for step in _top_steps(entry)]
        left = [cell for cell in tops if cell.state not in _SUCCEEDED]
        begun = device in remainder.first
        for cell in tops:
            # After the step that did not succeed, a condition may have another value this time.
            if cell.state is CellState.DONE or (cell.state is CellState.SKIPPED and not begun):
                _carry(remainder, run, entry, cell, cells)
        if left and not begun:
            remainder.first[device] = [cell.step for cell in left]


def _top_steps(entry: Entry) -> list[str]:
    return [entry.id] if isinstance(entry, ApprovalStep) else [step.id for step in calls(entry)]


def _carry(
    remainder: Remainder, run: Run, entry: Entry, cell: Cell, cells: dict[tuple[str, str], Cell]
) -> None:
    recovery = [inner.id for step in calls(entry) if step.id == cell.step for inner in step.recover]
    for step in (cell.step, *recovery):
        taken = cells[cell.device, step]
        if taken.note != SWITCHED_OFF:
            origin = taken.carried_from or run.summary.id
            remainder.carried[cell.device, step] = Carried(origin, taken.state)
