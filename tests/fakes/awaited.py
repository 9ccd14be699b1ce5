"""Entries of a real journal, as soon as they are there."""

from __future__ import annotations

import asyncio

from core.audit.entries import Entry
from core.audit.journal import Journal
from tests.fakes.patience import PATIENCE_S


async def entries_when(journal: Journal, query: str, count: int = 1) -> list[Entry]:
    """What matches, oldest first, as soon as there are so many; entries that come late are waited for."""
    committed = asyncio.Event()
    leave = journal.watch(committed.set)
    try:
        async with asyncio.timeout(PATIENCE_S):
            while True:
                committed.clear()
                found = (await journal.query(query, limit=500)).entries
                if len(found) >= count:
                    return found[::-1]
                await committed.wait()
    finally:
        leave()


async def until_writable(journal: Journal) -> None:
    """Wait until it can be written again, as it tells those who watch it."""
    told = asyncio.Event()
    leave = journal.watch(told.set)
    try:
        async with asyncio.timeout(PATIENCE_S):
            while not journal.state.writable:
                told.clear()
                await told.wait()
    finally:
        leave()
