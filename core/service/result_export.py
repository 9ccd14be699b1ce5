"""Writes the results of a run to a file, as CSV or as one JSON text; read and written page by page."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any, TextIO

from core.batch.models import Cell, RunSummary, result_of
from core.service.console import RunsApi
from core.service.envelope import envelope_of
from core.service.export_file import CsvRows, export_file

COLUMNS = (
    "run", "device", "step", "tool", "state", "status", "verdict", "basis", "error", "message", "started_at",
    "ended_at", "duration_ms", "attempts", "call_id", "note", "result",
)  # fmt: skip


class ExportFormat(StrEnum):
    """The formats of an export."""

    CSV = "csv"
    JSON = "json"


def format_of(path: Path) -> ExportFormat:
    """The format that the ending of a file's name asks for; CSV if it asks for none."""
    return ExportFormat.JSON if path.suffix.lower() == ".json" else ExportFormat.CSV


async def export_results(
    runs: RunsApi,
    run: str,
    wanted: ExportFormat,
    path: Path,
    on_page: Callable[[int, int], object] = lambda _done, _total: None,
) -> int:
    """Write the results of all cells of a run to a file at `path`, and return their number.

    `on_page` is told how many of how many devices are written. A file that was there is replaced once all is
    on the disk; when this is cancelled, it stays as it was.

    Raises:
        BadInput: there is no such run, or the file cannot be written.
    """
    page = await runs.cells(run)
    async with export_file(path) as file:
        writer = (_Csv if wanted is ExportFormat.CSV else _Json)(file, page.run)
        while True:
            await asyncio.to_thread(writer.write, page.cells)
            on_page(len(page.run.devices) if page.next is None else page.next, len(page.run.devices))
            if page.next is None:
                break
            page = await runs.cells(run, page.next)
        writer.end()
    return writer.count


class _Csv:
    """A line of `COLUMNS` for each cell."""

    def __init__(self, file: TextIO, summary: RunSummary) -> None:
        del summary
        self.count = 0
        self._rows = CsvRows(file, COLUMNS)

    def write(self, cells: Sequence[Cell]) -> None:
        self._rows.write(map(row_of, cells))
        self.count += len(cells)

    def end(self) -> None:
        """There is nothing to close."""


class _Json:
    """`{run, results: [...]}`: each result with its step and the state of its cell."""

    def __init__(self, file: TextIO, summary: RunSummary) -> None:
        self.count = 0
        self._file = file
        file.write(f'{{"run": {json.dumps(summary.model_dump(mode="json"))},\n"results": [')

    def write(self, cells: Sequence[Cell]) -> None:
        for cell in cells:
            result = result_of(cell)
            told = {} if result is None else envelope_of(result, cell.run).model_dump(mode="json")
            place = {"device": cell.device, "step": cell.step, "state": cell.state.value}
            self._file.write(f"{',' if self.count else ''}\n{json.dumps({**told, **place})}")
            self.count += 1

    def end(self) -> None:
        self._file.write("\n]}\n")


def row_of(cell: Cell) -> list[Any]:
    """The values of a cell in the order of `COLUMNS`; what it does not have is empty."""
    result = result_of(cell)
    error = result.error if result else None
    value = None if result is None else result.result
    return [
        cell.run,
        cell.device,
        cell.step,
        cell.tool,
        cell.state.value,
        result.status.value if result else "",
        result.verdict.value if result else "",
        result.basis.value if result else "",
        error.code.value if error else "",
        error.message if error else "",
        cell.started_at or "",
        cell.ended_at or "",
        result.duration_ms if result else "",
        cell.attempts or "",
        cell.call_id or "",
        cell.note,
        "" if value is None else json.dumps(value, ensure_ascii=False),
    ]
