"""An export has exactly the entries that a query matches when it begins, as they are hashed."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from core.audit import search
from core.audit.checkpoint import read_checkpoint
from core.audit.entries import Kind, NewEntry
from core.audit.journal import Journal
from core.audit.merkle import leaf_hash, root_of
from core.audit.models import ExportCursor, ExportPage
from core.errors import BadInput

KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
COUNT = 240
QUERIES = (
    "",
    "device:lab-1",
    "device:lab-* status:failure",
    "dur:>100ms",
    "!tool:click seq:20..200",
    "since:1h needle",
    "until:1h",
    "device:nowhere",
)


def made(number: int) -> NewEntry:
    return NewEntry(
        kind=Kind.RESULT_RECORDED,
        actor="device:lab-1",
        device=f"lab-{number % 3}",
        tool=("click", "type_text")[number % 2],
        status="failure" if number % 7 == 0 else "success",
        duration_ms=float(number),
        body={"text": "needle ü \u202e" if number % 5 == 0 else "hay"},
    )


@pytest.fixture
async def journal(memory_path: Path):
    opened = await Journal.open(memory_path / "home", KEY, "desk")
    await opened.append_many([made(number) for number in range(COUNT)])
    yield opened
    await opened.close()


async def exported(journal: Journal, query: str) -> list[ExportPage]:
    pages = [await journal.export(query)]
    while (cursor := pages[-1].next) is not None:
        pages.append(await journal.export(query, cursor))
    return pages


def texts(pages: list[ExportPage]) -> list[str]:
    return [text for page in pages for text in page.entries]


def stored(journal: Journal) -> list[tuple[int, bytes, bytes]]:
    with closing(sqlite3.connect(journal.folder / "journal.db")) as database:
        return database.execute("SELECT seq, entry, leaf FROM entries ORDER BY seq").fetchall()


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("page", [1, 7, 100, 10_000])
async def test_pages_together_have_each_match_once(
    journal: Journal, monkeypatch: pytest.MonkeyPatch, query: str, page: int
):
    wanted = {entry.seq async for entry in journal.entries(query)}
    monkeypatch.setattr(search, "EXPORT_ENTRIES", page)
    pages = await exported(journal, query)
    assert all(len(one.entries) <= page for one in pages)
    assert texts(pages) == [entry.decode() for seq, entry, _ in stored(journal) if seq in wanted]


async def test_a_search_that_runs_out_of_time_goes_on_where_it_was(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(search, "BUDGET_SECONDS", -1.0)
    monkeypatch.setattr(search, "_FIRST_SPAN", 10)
    pages = await exported(journal, "status:failure")
    assert len(pages) > 2
    assert len(texts(pages)) == len([number for number in range(COUNT) if number % 7 == 0])


async def test_large_entries_make_small_pages(journal: Journal, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(search, "EXPORT_BYTES", 1_000)
    pages = await exported(journal, "")
    assert len(texts(pages)) == COUNT
    assert max(len(page.entries) for page in pages) < 10


async def test_a_stranger_computes_the_signed_root_from_the_lines(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(search, "EXPORT_ENTRIES", 50)
    pages = await exported(journal, "")
    leaves = [leaf_hash(text.encode()) for text in texts(pages)]
    assert leaves == [leaf for _, _, leaf in stored(journal)]
    checkpoint = read_checkpoint(pages[0].checkpoint, KEY.public_key())
    assert (checkpoint.size, checkpoint.root) == (len(leaves), root_of(leaves))


async def test_what_is_written_meanwhile_is_not_in_it(journal: Journal, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(search, "EXPORT_ENTRIES", 100)
    first = await journal.export("")
    assert first.next is not None
    await journal.append_many([made(number) for number in range(COUNT)])
    second = await journal.export("", first.next)
    assert second.next is not None
    third = await journal.export("", second.next)
    assert third.next is None
    assert len(texts([first, second, third])) == first.through == third.through == COUNT


async def test_an_age_means_the_same_from_page_to_page(journal: Journal, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(search, "EXPORT_ENTRIES", 100)
    first = await journal.export("since:1h")
    assert first.next is not None
    # A day later, nothing would be younger than an hour.
    late = first.next.model_copy(update={"at": "2999-01-01T00:00:00Z"})
    assert not (await journal.export("since:1h", late)).entries
    rest = texts([await journal.export("since:1h", first.next)])
    assert len(rest) == 100


@pytest.mark.parametrize("at", ["", "yesterday", "2026-13-01", "0001-01-01T00:00:00+23:00"])
async def test_a_cursor_that_no_page_had_is_refused_or_finds_its_entries(journal: Journal, at: str):
    cursor = ExportCursor(after=COUNT - 1, through=COUNT, at=at)
    if at.startswith("0001"):
        assert len((await journal.export("", cursor)).entries) == 1
        return
    with pytest.raises(BadInput, match="cursor"):
        await journal.export("", cursor)


async def test_a_cursor_beyond_the_end_ends(journal: Journal):
    page = await journal.export("", ExportCursor(after=0, through=2**62, at="2026-01-01T00:00:00Z"))
    assert (len(page.entries), page.next) == (COUNT, None)


async def test_a_fault_in_the_query_is_named(journal: Journal):
    with pytest.raises(BadInput, match="Column 6: there is no kind"):
        await journal.export("kind:nothing_of_the_kind")


async def test_an_export_does_not_delay_the_writer(journal: Journal):
    pages, entry = await asyncio.gather(exported(journal, ""), journal.append(made(1)))
    assert entry.seq == COUNT + 1
    assert len(texts(pages)) in (COUNT, COUNT + 1)
