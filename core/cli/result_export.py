"""Writes the results of a run to a file, as CSV or as one JSON text; read and written page by page."""

from __future__ import annotations

import csv
import json
from collections.abc import AsyncIterator
from enum import StrEnum
from pathlib import Path
from typing import Any, TextIO

from core.batch.models import Cell, RunSummary
from core.batch.run_state import result_of
from core.cli.output import envelope_json
from core.cli.session import Session
from core.errors import BadInput
from core.files import writing_atomic
from core.service.envelope import envelope_of

COLUMNS = (
    "run", "device", "step", "tool", "state", "status", "verdict", "basis", "error", "message", "started_at",
    "ended_at", "duration_ms", "attempts", "call_id", "note", "result",
)  # fmt: skip
# Spreadsheets read a cell that begins so as a formula, which may call programs.
_FORMULA_SIGNS = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")


class ExportFormat(StrEnum):
    """The formats of an export."""

    CSV = "csv"
    JSON = "json"


async def export_results(session: Session, run: str, wanted: ExportFormat, path: Path) -> int:
    """Write the results of all cells of a run to a new file at `path`, and return their number.

    Raises:
        BadInput: there is no such run, or the file cannot be written.
    """
    runs = session.console.runs
    first = await runs.cells(run)

    async def cells() -> AsyncIterator[Cell]:
        page = first
        while True:
            for cell in page.cells:
                yield cell
            if page.next is None:
                return
            page = await runs.cells(run, page.next)

    try:
        with writing_atomic(path) as file:
            if wanted is ExportFormat.CSV:
                return await _write_csv(file, cells())
            return await _write_json(file, first.run, cells())
    except OSError as error:
        raise BadInput(f"{path} cannot be written: {error.strerror or error}.") from error


async def _write_csv(file: TextIO, cells: AsyncIterator[Cell]) -> int:
    count = 0
    writer = csv.writer(file)
    writer.writerow(COLUMNS)
    async for cell in cells:
        writer.writerow(map(neutral, row_of(cell)))
        count += 1
    return count


async def _write_json(file: TextIO, summary: RunSummary, cells: AsyncIterator[Cell]) -> int:
    """`{run, results: [...]}`: each result with its step and the state of its cell."""
    count = 0
    file.write(f'{{"run": {json.dumps(summary.model_dump(mode="json"))},\n"results": [')
    async for cell in cells:
        result = result_of(cell)
        told = {} if result is None else envelope_json(envelope_of(result, cell.run))
        place = {"device": cell.device, "step": cell.step, "state": cell.state.value}
        file.write(f"{',' if count else ''}\n{json.dumps({**told, **place})}")
        count += 1
    file.write("\n]}\n")
    return count


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


def neutral(value: Any) -> Any:
    """A value for a CSV cell: a text that a spreadsheet would take for a formula gets an apostrophe."""
    if isinstance(value, str) and value.startswith(_FORMULA_SIGNS):
        return f"'{value}"
    return value
