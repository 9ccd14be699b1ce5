"""From a command's result to the state of its cell, and from a cell to what programs read of it."""

from __future__ import annotations

from core.aip.messages import ResultStatus
from core.batch.models import Cell, CellState
from core.dispatch.models import Basis, CommandResult, Verdict
from core.errors import ErrorCode, ErrorInfo

# Nothing was sent, but because of a fault, not because somebody said no.
_FAULTS = frozenset(
    {
        ErrorCode.DEVICE_OFFLINE,
        ErrorCode.UNKNOWN_DEVICE,
        ErrorCode.INVALID_ARGUMENTS,
        ErrorCode.TOO_LARGE,
        ErrorCode.PATH_NOT_ALLOWED,
        ErrorCode.JOURNAL_UNAVAILABLE,
        ErrorCode.INTERNAL,
    }
)


def cell_state_of(result: CommandResult) -> CellState:
    """Where a step stands when its command has ended."""
    if result.verdict is Verdict.CANCELLED:
        return CellState.CANCELLED
    if result.verdict is Verdict.UNKNOWN:
        reads = result.status is ResultStatus.FAILURE
        return CellState.FAILED if reads else CellState.UNKNOWN
    if result.basis is Basis.NOTHING_SENT and result.error is not None:
        if result.error.code is ErrorCode.UNKNOWN_TOOL:
            return CellState.NO_SUCH_TOOL
        return CellState.FAILED if result.error.code in _FAULTS else CellState.REFUSED
    if result.status is ResultStatus.SKIPPED:
        return CellState.SKIPPED
    return CellState.DONE if result.status is ResultStatus.SUCCESS else CellState.FAILED


def result_of(cell: Cell) -> CommandResult | None:
    """The result of a step on a device; None while it has not ended.

    A step that was not begun has AIP's status `skipped`, no call id, and the reason in its error.
    """
    if cell.result is not None or cell.state not in (CellState.NOT_STARTED, CellState.SKIPPED):
        return cell.result
    why = cell.note or "the run ended before it was its turn"
    return CommandResult(
        call_id="",
        device=cell.device,
        tool_name=cell.tool,
        status=ResultStatus.SKIPPED,
        verdict=Verdict.CANCELLED,
        basis=Basis.NOTHING_SENT,
        error=ErrorInfo.of(ErrorCode.SKIPPED, f"Not begun: {why}."),
    )
