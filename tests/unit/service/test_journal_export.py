"""The file of an export of entries: exact lines, harmless cells, and never a half of it."""

from __future__ import annotations

import asyncio
import csv
import io
import json
import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from core.audit import search
from core.audit.entries import Kind, NewEntry
from core.audit.merkle import leaf_hash
from core.errors import BadInput
from core.service.console import Console
from core.service.export_file import export_file
from core.service.journal_export import COLUMNS, EntryFormat, Exported, export_entries
from core.service.service import Service

FORMULA = '=HYPERLINK("http://evil.example";"click")'


async def write_some(service: Service, count: int = 30) -> None:
    blob = await service.journal.put_blob(b"a picture")
    await service.journal.append_many(
        [
            NewEntry(
                kind=Kind.RESULT_RECORDED,
                actor="lab-test",
                device="@SUM(A1)" if number % 2 else "lab-1",
                tool=FORMULA,
                step="line\r\nbreak",
                body={"text": "Größe 👋 \u202e", "number": 2**70, "rate": 1e-7},
                blobs=[blob] if number % 3 == 0 else [],
            )
            for number in range(count)
        ]
    )


async def written(console: Console, query: str, wanted: EntryFormat, path: Path) -> Exported:
    async with export_file(path, replace=False) as file:
        return await export_entries(console.journal, query, wanted, file)


async def test_each_line_is_an_entry_as_it_is_hashed(service: Service, console: Console, tmp_path: Path):
    await write_some(service)
    done = await written(console, "actor:lab-test", EntryFormat.JSONL, tmp_path / "out.jsonl")
    lines = (tmp_path / "out.jsonl").read_bytes().split(b"\n")
    assert lines.pop() == b""
    with closing(sqlite3.connect(service.journal.folder / "journal.db")) as database:
        stored = dict(database.execute("SELECT leaf, entry FROM entries").fetchall())
    assert len(lines) == done.entries == 30
    assert [stored[leaf_hash(line)] for line in lines] == lines
    assert done.blobs == 10
    assert (tmp_path / "out.jsonl").stat().st_mode & 0o777 == 0o600


async def test_no_cell_is_a_formula_and_every_value_is_there(
    service: Service, console: Console, tmp_path: Path
):
    await write_some(service)
    done = await written(console, "actor:lab-test", EntryFormat.CSV, tmp_path / "out.csv")
    text = (tmp_path / "out.csv").read_bytes().decode("utf-8")
    rows = list(csv.reader(io.StringIO(text, newline="")))
    assert tuple(rows[0]) == COLUMNS
    assert len(rows) == done.entries + 1 == 31
    for row in rows[1:]:
        told = dict(zip(COLUMNS, row, strict=True))
        assert told["tool"] == f"'{FORMULA}"
        assert told["device"] in ("'@SUM(A1)", "lab-1")
        assert told["step"] == "line\r\nbreak"
        assert json.loads(told["body"]) == {"text": "Größe 👋 \u202e", "number": 2**70, "rate": 1e-7}
        assert not any(cell.startswith(("=", "+", "-", "@", "\t", "\r", "\n")) for cell in row)


async def test_the_columns_are_the_fields_of_an_entry(service: Service, console: Console):
    await write_some(service, 1)
    [text] = (await console.journal.export("actor:lab-test")).entries
    assert set(json.loads(text)) == set(COLUMNS)


@pytest.mark.parametrize("earlier", [None, "kept"])
async def test_an_export_that_is_cancelled_leaves_the_file_as_it_was(
    service: Service,
    console: Console,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    earlier: str | None,
):
    await write_some(service)
    monkeypatch.setattr(search, "EXPORT_ENTRIES", 5)
    path = tmp_path / "out.jsonl"
    if earlier is not None:
        path.write_text(earlier)
    begun = asyncio.Event()

    async def export() -> None:
        async with export_file(path) as file:
            await export_entries(console.journal, "", EntryFormat.JSONL, file, lambda _done: begun.set())

    async with asyncio.TaskGroup() as group:
        exporting = group.create_task(export())
        await begun.wait()
        # Beside its place, while it is written.
        assert len(os.listdir(tmp_path)) == 1 + (earlier is not None)
        assert not path.exists() or path.read_text() == earlier
        exporting.cancel()
    assert exporting.cancelled()
    assert os.listdir(tmp_path) == ([] if earlier is None else ["out.jsonl"])
    assert earlier is None or path.read_text() == earlier


async def test_a_file_that_came_meanwhile_is_not_written_over(
    service: Service, console: Console, tmp_path: Path
):
    path = tmp_path / "out.jsonl"

    async def export() -> None:
        async with export_file(path, replace=False) as file:
            await export_entries(console.journal, "", EntryFormat.JSONL, file)
            path.write_text("another program's")

    with pytest.raises(BadInput, match="there already"):
        await export()
    assert path.read_text() == "another program's"
    assert os.listdir(tmp_path) == ["out.jsonl"]


async def test_a_folder_that_is_not_there_is_named(tmp_path: Path):
    with pytest.raises(BadInput, match=r"nowhere/out\.csv cannot be written: No such file"):
        async with export_file(tmp_path / "nowhere" / "out.csv"):
            pass


async def test_cancelling_while_the_file_is_made_leaves_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    async def export() -> None:
        async with export_file(tmp_path / "out.csv"):
            await asyncio.Event().wait()

    async with asyncio.TaskGroup() as group:
        exporting = group.create_task(export())
        # One turn of the loop: the thread makes the file now.
        await asyncio.sleep(0)
        exporting.cancel()
    assert not os.listdir(tmp_path)
