"""Copying rows: what is marked, read again where it is not here any more."""

from __future__ import annotations

import json
from collections.abc import Callable

from PySide6.QtGui import QGuiApplication

from app.items.table_model import cell_text, spoken, tab_line
from app.screens.journal.entry_table import MOST_COPIED, EntryTable
from app.screens.journal.entry_text import BY, COLUMNS
from app.service_client import ConsoleLink
from app.text import count_words, plural
from core.audit.entries import Entry
from core.errors import QuarterdeckError
from core.service.console import Console

PAGE = 200


def copy_rows(
    table: EntryTable,
    link: ConsoleLink,
    query: str,
    as_json: bool,
    toast: Callable[[str], None],
    fail: Callable[[str, str], None],
) -> None:
    """Put the marked rows on the clipboard, as tab-separated lines or as JSON Lines, and say so."""
    marked = table.marked_places()
    places, cut = marked[:MOST_COPIED], len(marked) > MOST_COPIED
    wanted = [seq for place in places if (seq := table.entries.seq_at(place)) is not None]
    here = {one.seq: one for place in places if (one := table.entries.entry_at(place)) is not None}
    if not wanted:
        return

    def done(entries: dict[int, Entry]) -> None:
        found = [entries[seq] for seq in wanted if seq in entries]
        write = json_line if as_json else tsv_line
        QGuiApplication.clipboard().setText("\n".join(write(one) for one in found))
        words = plural(len(found), "row")
        toast(f"Copied the first {count_words(MOST_COPIED)} rows" if cut else f"Copied {words}")

    def failed(error: QuarterdeckError) -> None:
        fail("copy the rows", error.info.sentences)

    if len(here) == len(wanted):
        done(here)
    else:
        link.ask(lambda console: _read(console, query, wanted, here), done, failed, what="read the rows")


async def _read(console: Console, query: str, wanted: list[int], here: dict[int, Entry]) -> dict[int, Entry]:
    """Read what is missing, a page at a time from the newest missing one down."""
    found = dict(here)
    missing = [seq for seq in wanted if seq not in found]
    while missing:
        bounds = f"{query} seq:{missing[-1]}..{missing[0]}".lstrip()
        page = await console.journal.entries(bounds, None, PAGE)
        if not page.entries:
            break
        found.update((one.seq, one) for one in page.entries)
        oldest = page.entries[-1].seq
        missing = [seq for seq in missing if seq < oldest]
    return found


def json_line(entry: Entry) -> str:
    """The whole entry on one line."""
    return json.dumps(entry.model_dump(mode="json"), ensure_ascii=False, separators=(",", ":"))


def tsv_line(entry: Entry) -> str:
    """The words of the row, without the column that joins two others; a tab in one becomes a space."""
    shown = (column for number, column in enumerate(COLUMNS) if number != BY)
    return tab_line(spoken(one.kind, cell_text(one.cell(entry))) for one in shown if one.cell is not None)
