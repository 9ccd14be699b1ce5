"""Reads all of a run whose cells and results the console API gives in pages."""

from __future__ import annotations

from core.batch.models import Cell, Run
from core.service.console import RunsApi
from core.service.envelope import Envelope


async def whole_run(runs: RunsApi, first: Run, known: dict[tuple[str, str], Cell] | None = None) -> Run:
    """The run of which `first` is the first page, with all its cells.

    They are put into `known` page by page, by device and step, so that the caller can put in what changes
    while the rest is read.
    """
    cells = {} if known is None else known
    cells |= {(cell.device, cell.step): cell for cell in first.cells}
    summary, after = first.summary, first.next
    while after is not None:
        page = await runs.cells(summary.id, after, limit=1_000)
        cells |= {(cell.device, cell.step): cell for cell in page.cells}
        summary, after = page.run, page.next
    return first.model_copy(update={"summary": summary, "cells": list(cells.values()), "next": None})


async def every_result(runs: RunsApi, run: str) -> list[Envelope]:
    """The outcome of each command of a run."""
    page = await runs.results(run)
    envelopes = page.results
    while page.next is not None:
        page = await runs.results(run, page.next)
        envelopes += page.results
    return envelopes
