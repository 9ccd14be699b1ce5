"""The exit code of a command's result, and of a run."""

from __future__ import annotations

from core.aip.messages import ResultStatus
from core.batch.models import Cell, CellState, Run, RunState, result_of
from core.commands.results import Basis, CommandResult, Verdict
from core.service import exit_codes


def of_result(result: CommandResult) -> int:
    """The exit code of a command's result."""
    # Checked before the error, which only explains why the outcome is unknown (unusable answer, time-out).
    if result.verdict is Verdict.UNKNOWN:
        return exit_codes.OUTCOME_UNKNOWN
    if result.error is not None:
        return exit_codes.exit_code_of(result.error.code)
    return exit_codes.DONE if result.status is ResultStatus.SUCCESS else exit_codes.TOOL_FAILED


# Of several results the first of these is the run's: what must be looked at comes first.
_WORST_FIRST = (
    exit_codes.OUTCOME_UNKNOWN,
    exit_codes.JOURNAL_BAD,
    exit_codes.FAULT,
    exit_codes.TOOL_FAILED,
    exit_codes.DEVICE_OFFLINE,
    exit_codes.BAD_INPUT,
    exit_codes.NOT_APPROVED,
    exit_codes.DENIED,
)
_GOOD = (CellState.DONE, CellState.SKIPPED, CellState.NOT_STARTED)


def of_run(run: Run) -> int:
    """The exit code of an ended run: that of its worst step. A failed step that was recovered is done.

    Bad input says that nothing was sent. In a run that has sent something, a step that could not be called,
    as where some devices lack its tool, is one that failed.
    """
    results = [result_of(cell) for cell in run.cells if cell.state not in _GOOD]
    codes = {of_result(result) for result in results if result is not None}
    if exit_codes.BAD_INPUT in codes and any(_was_sent(cell) for cell in run.cells):
        codes = codes - {exit_codes.BAD_INPUT} | {exit_codes.TOOL_FAILED}
    for code in _WORST_FIRST:
        if code in codes:
            return code
    return exit_codes.DONE if run.summary.state is RunState.DONE else exit_codes.TOOL_FAILED


def _was_sent(cell: Cell) -> bool:
    return cell.result is not None and cell.result.basis is not Basis.NOTHING_SENT
