"""Reads all of a run whose cells and results the console API gives in pages."""

from __future__ import annotations

from collections.abc import AsyncIterator

from core.batch.models import Cell, Run, RunSummary
from core.service.console import RunsApi
from core.service.envelope import Envelope, cell_envelope


async def cell_pages(runs: RunsApi, first: Run) -> AsyncIterator[tuple[RunSummary, list[Cell]]]:
    """All cells of the run of which `first` is the first page, with the run as it was for each page."""
    yield first.summary, first.cells
    after = first.next
    while after is not None:
        page = await runs.cells(first.summary.id, after, limit=1_000)
        yield page.run, page.cells
        after = page.next


async def whole_run(runs: RunsApi, first: Run) -> Run:
    """The run of which `first` is the first page, with all its cells."""
    cells: list[Cell] = []
    async for summary, page in cell_pages(runs, first):
        cells += page
        first = first.model_copy(update={"summary": summary})
    return first.model_copy(update={"cells": cells, "next": None})


async def every_result(runs: RunsApi, run: str) -> list[Envelope]:
    """The outcome of each command of a run."""
    page = await runs.results(run)
    envelopes = page.results
    while page.next is not None:
        page = await runs.results(run, page.next)
        envelopes += page.results
    return envelopes


async def results_of(runs: RunsApi, first: Run) -> list[Envelope]:
    """The outcome of each command of the run of which `first` is the first page.

    They are in its cells, except those of further devices, and the alternatives to what failed.
    """
    failed = any(cell.result is not None and cell.result.error is not None for cell in first.cells)
    if failed or first.next is not None:
        return await every_result(runs, first.summary.id)
    return [cell_envelope(cell) for cell in first.cells]
