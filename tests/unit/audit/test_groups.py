"""How long noted entries wait for company: little by themselves, longer in a crowd, never when awaited."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from core.audit import writer
from core.audit.entries import Kind, NewEntry
from core.audit.journal import Journal
from tests.fakes.patience import PATIENCE_S

KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
LONG = 3600.0


def new(number: int) -> NewEntry:
    return NewEntry(kind=Kind.COMMAND_SENT, actor="service", body={"number": number})


@pytest.fixture
async def journal(memory_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Journal]:
    monkeypatch.setattr(writer, "DELAY_OF_MANY", LONG)
    opened = await Journal.open(memory_path / "home", KEY, "desk")
    yield opened
    await opened.close()


def committed(journal: Journal, count: int) -> asyncio.Future[int]:
    """Resolves at the first commit after which at least so many entries are durable, with their number."""
    done: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def look() -> None:
        if journal.state.entries >= count and not done.done():
            done.set_result(journal.state.entries)

    journal.watch(look)
    return done


async def test_a_few_do_not_wait_for_a_crowd(journal: Journal) -> None:
    few = committed(journal, writer.MANY_ENTRIES - 1)
    journal.note_all([new(number) for number in range(writer.MANY_ENTRIES - 1)])
    assert await asyncio.wait_for(few, PATIENCE_S) == writer.MANY_ENTRIES - 1


async def test_a_crowd_waits_but_never_when_somebody_awaits_one(journal: Journal) -> None:
    commits: list[int] = []
    journal.watch(lambda: commits.append(journal.state.entries))
    journal.note_all([new(number) for number in range(writer.MANY_ENTRIES)])
    # With an hour to wait, only what is awaited can have ended it; and all of it shares one commit.
    entry = await asyncio.wait_for(journal.append(new(-1)), PATIENCE_S)
    assert entry.seq == writer.MANY_ENTRIES + 1
    await journal.settle()
    assert commits[0] == writer.MANY_ENTRIES + 1


async def test_whoever_reads_does_not_wait_for_the_crowd(journal: Journal) -> None:
    journal.note_all([new(number) for number in range(writer.MANY_ENTRIES)])
    await asyncio.wait_for(journal.settle(), PATIENCE_S)
    assert journal.state.entries == writer.MANY_ENTRIES


async def test_closing_does_not_wait_for_the_crowd(journal: Journal) -> None:
    journal.note_all([new(number) for number in range(writer.MANY_ENTRIES)])
    await asyncio.wait_for(journal.close(), PATIENCE_S)
    assert journal.state.entries == writer.MANY_ENTRIES


async def test_a_full_group_does_not_wait(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "GROUP_ENTRIES", writer.MANY_ENTRIES)
    full = committed(journal, writer.MANY_ENTRIES)
    journal.note_all([new(number) for number in range(writer.MANY_ENTRIES)])
    assert await asyncio.wait_for(full, PATIENCE_S) == writer.MANY_ENTRIES


async def test_even_a_crowd_waits_no_longer_than_it_may(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "DELAY_OF_MANY", 2 * writer.NOTE_DELAY)
    crowd = committed(journal, writer.MANY_ENTRIES)
    journal.note_all([new(number) for number in range(writer.MANY_ENTRIES)])
    assert await asyncio.wait_for(crowd, PATIENCE_S) == writer.MANY_ENTRIES
