"""Cells of a run, as after their commands."""

from __future__ import annotations

from typing import Any

from core.aip.messages import ResultStatus
from core.batch.models import Cell, CellState
from core.commands.results import Basis, CommandResult, Verdict


def cell_with(device: str, step: str, value: Any, state: CellState = CellState.DONE) -> Cell:
    """A cell whose command has ended with this value."""
    result = CommandResult(
        call_id=f"{device}-{step}",
        device=device,
        tool_name="t",
        status=ResultStatus.SUCCESS,
        verdict=Verdict.CONFIRMED,
        basis=Basis.READ_RESPONSE,
        result=value,
    )
    return Cell(run="r", device=device, step=step, tool="t", state=state, result=result)
