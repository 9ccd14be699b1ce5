"""Writes the entries that match a journal query, page by page: one canonical text a line, or rows of CSV.

A line of JSON Lines is an entry as it is hashed: SHA-256 over a zero byte and the line's bytes, without its
end, is the entry's leaf in the journal's Merkle tree (RFC 6962). Pictures and large outputs are not written:
an entry names them by their SHA-256.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from core.service.console import JournalApi
from core.service.export_file import CsvRows, Target

COLUMNS = (
    "seq", "time", "kind", "actor", "run", "step", "device", "tool", "call_id", "status", "verdict",
    "duration_ms", "blobs", "body",
)  # fmt: skip


class EntryFormat(StrEnum):
    """The formats of an export of entries."""

    JSONL = "jsonl"
    CSV = "csv"


@dataclass(slots=True)
class Exported:
    """What was written so far.

    `searched` is the last entry that was looked at, of those up to `through`; `checkpoint` is the signed head
    that covers them. `blobs` counts the names of pictures and large outputs, which are left out.
    """

    entries: int = 0
    blobs: int = 0
    searched: int = 0
    through: int = 0
    checkpoint: str = ""


async def export_entries(
    journal: JournalApi,
    query: str,
    wanted: EntryFormat,
    file: Target,
    on_page: Callable[[Exported], object] = lambda _exported: None,
) -> Exported:
    """Write the entries that match a query, oldest first, as they were when this began.

    `on_page` is told after each page how far it is.

    Raises:
        BadInput: the query is invalid.
        OSError: the file cannot be written.
    """
    page = await journal.export(query)
    done = Exported(through=page.through, checkpoint=page.checkpoint)
    writer = (_Csv if wanted is EntryFormat.CSV else _Lines)(file)
    while True:
        done.blobs += await asyncio.to_thread(writer.write, page.entries)
        done.entries += len(page.entries)
        done.searched = page.through if page.next is None else page.next.after
        on_page(done)
        if page.next is None:
            return done
        page = await journal.export(query, page.next)


class _Lines:
    """An entry a line, exactly as it is hashed. Canonical JSON has no line ends."""

    def __init__(self, file: Target) -> None:
        self._file = file

    def write(self, texts: list[str]) -> int:
        """Write entries; returns how many blobs they name."""
        self._file.write("".join(f"{text}\n" for text in texts))
        return sum(len(json.loads(text)["blobs"]) for text in texts)


class _Csv:
    """An entry a row, with the columns `COLUMNS`."""

    def __init__(self, file: Target) -> None:
        self._rows = CsvRows(file, COLUMNS)

    def write(self, texts: list[str]) -> int:
        """Write entries; returns how many blobs they name."""
        entries = [json.loads(text) for text in texts]
        self._rows.write(map(row_of, entries))
        return sum(len(entry["blobs"]) for entry in entries)


def row_of(entry: dict[str, Any]) -> list[Any]:
    """The values of an entry in the order of `COLUMNS`; what it does not have is empty."""
    plain = [_empty(entry[name]) for name in COLUMNS[:-2]]
    body = json.dumps(entry["body"], ensure_ascii=False, separators=(",", ":"))
    return [*plain, " ".join(entry["blobs"]), body]


def _empty(value: Any) -> Any:
    return "" if value is None else value
