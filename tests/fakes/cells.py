"""Cells of a run, as after their commands."""

from __future__ import annotations

from typing import Any

from core.aip.messages import ResultStatus
from core.batch.models import Batch, Cell, CellState, Run, RunState, RunSummary, rows
from core.batch.waves import recorded_sizes
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


def run_of(cells: list[Cell], state: RunState = RunState.DONE, **batch: Any) -> Run:
    """A run of these cells; its batch has a step for each of theirs, unless `batch` has others."""
    devices = list(dict.fromkeys(cell.device for cell in cells))
    steps = [{"id": step, "tool": "t"} for step in dict.fromkeys(cell.step for cell in cells)]
    made = Batch.model_validate({"name": "b", "targets": "name:*", "steps": steps, **batch})
    return Run(
        summary=RunSummary(
            id="r",
            name=made.name,
            kind="batch",
            actor="operator:anna",
            state=state,
            devices=devices,
            devices_hash="",
            steps=[row.id for row in rows(made.steps)],
            tools=[row.tool for row in rows(made.steps)],
            counts={},
            started_at="2026-11-28T12:00:00Z",
            waves=recorded_sizes(made.rollout, len(devices)),
        ),
        batch=made,
        cells=cells,
    )
