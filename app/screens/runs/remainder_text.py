"""What is left of an ended run, in words: whether it can be resumed, and what a button for that says."""

from __future__ import annotations

from dataclasses import dataclass, replace

from app.text import count_words, one_line, plural
from core.batch.models import CellState, Run
from core.batch.resume import Remainder, check_resumable, remainder_of
from core.errors import Refused
from core.text import some_names

_FAILED = (CellState.FAILED, CellState.REFUSED, CellState.NO_SUCH_TOOL)
MOST_NAMED = 5


@dataclass(frozen=True, slots=True)
class Left:
    """What is left of one run. `off` is why it cannot be resumed, empty if it can.

    Unknown outcomes are no reason: the devices are asked for them first, or an operator settles them.
    """

    remainder: Remainder
    off: str
    words: str


def left_of(run: Run) -> Left:
    """What is left of a run."""
    try:
        remainder = remainder_of(run)
    except KeyError:
        return Left(Remainder(), "The journal does not have all of its steps.", "Resume")
    words = resume_words(run, remainder)
    if remainder.unknown and not remainder.first:
        return Left(remainder, "", words)
    try:
        check_resumable(run, replace(remainder, unknown=[]))
    except Refused as error:
        return Left(remainder, error.info.sentences, words)
    return Left(remainder, "", words)


def resume_words(run: Run, remainder: Remainder) -> str:
    """Such as `Re-run failed step on 3 devices`; other remainders than failed steps are resumed."""
    where = plural(len(remainder.first), "device")
    states = {(cell.device, cell.step): cell.state for cell in run.cells}
    begun = [(device, step) for device, steps in remainder.first.items() for step in steps]
    if begun and all(states[place] in _FAILED for place in begun):
        one = all(len(steps) == 1 for steps in remainder.first.values())
        return f"Re-run failed step{'' if one else 's'} on {where}"
    return f"Resume on {where}"


def remainder_lines(remainder: Remainder) -> list[str]:
    """One line for each step at which devices go on: `clean on lab-1 and lab-2`."""
    lines = []
    for step in remainder.steps:
        devices = [device for device, steps in remainder.first.items() if step in steps]
        lines.append(f"{one_line(step)} on {one_line(some_names(devices, MOST_NAMED))}")
    return lines


def done_words(remainder: Remainder) -> str:
    """What is taken over: `12 steps are done and are not repeated.`"""
    done = len(remainder.carried)
    if not done:
        return "Nothing of it is done yet."
    return f"{count_words(done)} {'step is' if done == 1 else 'steps are'} done and not repeated."
