"""Entries of one turn of the loop are written at once, in the order of the calls, and none is lost."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from core.audit.checkpoint import load_or_create_journal_key
from core.audit.entries import Kind, NewEntry
from core.audit.journal import Journal
from core.canonical_json import encoded
from core.errors import BadInput, JournalUnavailable
from core.tasks import TaskGroupOwner


def new(number: int) -> NewEntry:
    return NewEntry(kind=Kind.COMMAND_SENT, actor="service", body={"number": number})


@pytest.fixture
async def journal(tmp_path: Path) -> AsyncIterator[Journal]:
    journal = await Journal.open(tmp_path, load_or_create_journal_key(tmp_path / "journal.key"), "test")
    yield journal
    await journal.close()


async def numbers(journal: Journal) -> list[int]:
    await journal.settle()
    return [entry.body["number"] for entry in (await journal.query("", after=0)).entries]


async def test_all_entries_of_a_turn_are_written_by_one_call(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, writes = os.write, 0

    def counted(descriptor: int, data: bytes) -> int:
        nonlocal writes
        writes += b'"kind":"command_sent"' in data
        return write(descriptor, data)

    monkeypatch.setattr(os, "write", counted)
    await asyncio.gather(*(journal.noted([new(2 * n), new(2 * n + 1)]) for n in range(5)))
    assert writes == 1
    assert await numbers(journal) == list(range(10))


async def test_what_is_written_in_another_way_comes_after_what_was_noted_before(journal: Journal) -> None:
    async def noted(number: int) -> None:
        await journal.noted([new(number)])

    async def note(number: int) -> None:
        journal.note(new(number))

    async def late(number: int) -> None:
        await journal.noted_late([new(number)])

    async def append(number: int) -> None:
        await journal.append(new(number))

    ways = [noted, note, late, append, noted, late, note, noted]
    await asyncio.gather(*(way(number) for number, way in enumerate(ways)))
    assert await numbers(journal) == list(range(len(ways)))
    assert (await journal.verify()).ok


async def test_a_caller_that_is_cancelled_cancels_neither_its_entries_nor_another_caller(
    journal: Journal,
) -> None:
    tasks = TaskGroupOwner("test")
    first = tasks.spawn("first", journal.noted_late([new(0)]))
    second = tasks.spawn("second", journal.noted([new(1)]))
    await asyncio.sleep(0)
    first.cancel()
    await second
    await tasks.close()
    assert first.cancelled()
    assert await numbers(journal) == [0, 1]


async def test_an_entry_without_a_canonical_form_fails_its_caller_only(journal: Journal) -> None:
    wrong = NewEntry(kind=Kind.COMMAND_SENT, actor="service", body={"number": float("nan")})
    told = await asyncio.gather(
        journal.noted([new(0)]),
        journal.noted([new(1), wrong]),
        journal.noted([new(2)]),
        return_exceptions=True,
    )
    assert [type(one) for one in told] == [type(None), BadInput, type(None)]
    assert await numbers(journal) == [0, 2]


async def test_closing_writes_what_was_gathered_and_takes_no_more(tmp_path: Path) -> None:
    key = load_or_create_journal_key(tmp_path / "journal.key")
    journal = await Journal.open(tmp_path, key, "test")
    tasks = TaskGroupOwner("test")
    noting = tasks.spawn("noting", journal.noted([new(0)]))
    await asyncio.sleep(0)
    await journal.close()
    await noting
    with pytest.raises(JournalUnavailable):
        await journal.noted([new(1)])
    again = await Journal.open(tmp_path, key, "test")
    assert await numbers(again) == [0]
    await again.close()


async def test_an_appended_entry_comes_back_as_it_is_read(journal: Journal) -> None:
    body = {"decision": encoded({"answer": "allow", "reasons": [1, 2.5]}), "tags": ["a"]}
    entry = await journal.append(NewEntry(kind=Kind.COMMAND_DECIDED, actor="policy", body=body))
    assert entry == await journal.entry(entry.seq)
