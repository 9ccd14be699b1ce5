"""The Runs screen in the real window: opened on a run or a cell, and cells to show on it."""

from __future__ import annotations

from typing import Any

from app.main import ConsoleApplication
from app.screens.runs.cell_details import CellDetails
from app.screens.runs.screen import RunsScreen
from app.screens.targets import OpenRun, Target
from core.batch.models import Cell
from tests.fakes.console import FakeConsole
from tests.fakes.window import seen

CLEAN = "r-0418"


async def runs_of(desk: ConsoleApplication, target: Target | None = None) -> RunsScreen:
    desk.window.open("runs", target)
    screen = desk.window.current
    assert isinstance(screen, RunsScreen)
    await seen(lambda: screen.matrix.cells.total() and screen.matrix.current_cell() is not None)
    return screen


async def drawer_of(desk: ConsoleApplication, device: str, step: str, run: str = CLEAN) -> CellDetails:
    desk.window.open("runs", OpenRun(run, device, step))
    screen = desk.window.current
    assert isinstance(screen, RunsScreen)
    drawer = screen.drawer
    await seen(lambda: drawer.isVisible() and drawer.title.text() == f"{device}, {step}")
    return drawer


def change_cell(console: FakeConsole, device: str, step: str, run: str = CLEAN, **changes: Any) -> Cell:
    """Change the result of a made-up cell before the window sees it."""
    known = console.work.find(run)
    cells = []
    for cell in known.cells:
        if (cell.device, cell.step) == (device, step):
            assert cell.result is not None
            cell = cell.model_copy(update={"result": cell.result.model_copy(update=changes)})
            changed = cell
        cells.append(cell)
    console.work.add(known.model_copy(update={"cells": cells}))
    return changed
