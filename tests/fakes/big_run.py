"""A run over a thousand devices, invented: its summary, its cells, and how they go on."""

from __future__ import annotations

from core.aip.messages import ResultStatus
from core.batch.models import Batch, Cell, CellState, Run, RunState, RunSummary, Step
from core.commands.results import Basis, CommandResult, Verdict

TOOL = "get_system_info"
STEP = "look"
STARTED, ENDED = "2026-11-22T08:00:00.000Z", "2026-11-22T08:00:01.000Z"


def big_run(number: int, devices: list[str]) -> Run:
    """One step on each device; all of them are running."""
    run = f"r-{number:04d}"
    cells = [
        Cell(
            run=run,
            device=device,
            step=STEP,
            tool=TOOL,
            state=CellState.RUNNING,
            call_id=f"{run}-{device}",
            started_at=STARTED,
        )
        for device in devices
    ]
    summary = RunSummary(
        id=run,
        name="Fan out",
        kind="batch",
        actor="operator:anna",
        state=RunState.RUNNING,
        devices=devices,
        devices_hash="0" * 64,
        steps=[STEP],
        tools=[TOOL],
        counts={CellState.RUNNING: len(cells)},
        started_at=STARTED,
    )
    return Run(summary=summary, batch=Batch(name="Fan out", steps=[Step(id=STEP, tool=TOOL)]), cells=cells)


def ended(cell: Cell) -> Cell:
    """The cell when its device has answered."""
    result = CommandResult(
        call_id=cell.call_id or "",
        device=cell.device,
        tool_name=cell.tool,
        status=ResultStatus.SUCCESS,
        verdict=Verdict.CONFIRMED,
        basis=Basis.READ_RESPONSE,
        result={"memory": {"total": 16_000_000_000, "percent": 41.5}},
        duration_ms=12.0,
    )
    return cell.model_copy(update={"state": CellState.DONE, "ended_at": ENDED, "result": result})


def ended_run(run: Run) -> Run:
    """The run when every device has answered."""
    counts = {CellState.DONE: len(run.cells)}
    summary = run.summary.model_copy(update={"state": RunState.DONE, "counts": counts, "ended_at": ENDED})
    return run.model_copy(update={"summary": summary, "cells": [ended(cell) for cell in run.cells]})
