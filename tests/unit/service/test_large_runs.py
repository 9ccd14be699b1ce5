"""Runs of thousands of cells that are read from the journal: in a thread, and entry by entry."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest

from core.audit import search
from core.audit.entries import Entry, NewEntry
from core.audit.events import RunStarted, StepSkipped
from core.batch import history
from core.batch.models import Batch
from core.errors import BadInput, ErrorCode, JournalCorrupt
from core.home import Home
from core.service.local_console import LocalConsole
from core.service.service import Service
from tests.fakes.desk import open_service

DEVICES = [f"d-{number:03d}" for number in range(200)]


async def write_run(service: Service) -> None:
    batch = Batch.model_validate({"name": "test", "steps": [{"id": "a", "tool": "read"}]})
    started = RunStarted(
        batch=batch.model_dump(mode="json", by_alias=True),
        kind_="batch",
        devices=DEVICES,
        devices_hash="",
        said="",
    )
    entries: list[NewEntry] = [started.entry("operator:anna", run="r-0001")]
    for device in DEVICES:
        skipped = StepSkipped(why="cancelled")
        entries.append(skipped.entry("service", run="r-0001", step="a", device=device, tool="read"))
    await service.journal.append_many(entries)


@pytest.fixture
def alive(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many entries had been decoded whenever one was applied, beyond those applied."""
    decoded = applied = 0
    ahead: list[int] = []
    real_decode, real_event = search.decode, history.event_of

    def decode(data: bytes) -> Entry:
        nonlocal decoded
        decoded += 1
        return real_decode(data)

    def event_of(entry: Entry) -> object:
        nonlocal applied
        applied += 1
        ahead.append(decoded - applied)
        return real_event(entry)

    monkeypatch.setattr(search, "decode", decode)
    monkeypatch.setattr(history, "event_of", event_of)
    return ahead


async def test_a_run_is_read_one_entry_after_the_other_and_not_on_the_loop(
    home: Home, alive: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_service(home) as service:
        await write_run(service)
        threads: list[threading.Thread] = []
        real = history._begin

        def begin(*arguments: object) -> object:
            threads.append(threading.current_thread())
            return real(*arguments)

        monkeypatch.setattr(history, "_begin", begin)
        run = await LocalConsole(service, "operator:anna").runs.get("r-0001")
        assert [cell.note for cell in run.cells] == ["cancelled"] * len(DEVICES)
        # Once for the states of its cells, and once for the values of a page.
        assert len(alive) == 2 * (len(DEVICES) + 1)
        # The service's start decodes entries of its own.
        assert set(alive) == {alive[0]}
        assert threading.main_thread() not in threads


async def test_a_read_that_fails_in_the_middle_leaves_the_journal_readable(home: Home) -> None:
    async with open_service(home) as service:
        await write_run(service)

        def fails(entries: Iterator[Entry]) -> None:
            next(entries)
            raise JournalCorrupt("No.")

        for _ in range(10):
            with pytest.raises(JournalCorrupt):
                await service.journal.fold_run("r-0001", fails)
        await write_run(service)
        entries = await asyncio.gather(*(service.journal.entries_of_run("r-0001") for _ in range(6)))
        assert {len(found) for found in entries} == {2 * len(DEVICES) + 2}


async def test_a_run_that_is_not_there_is_not_found(home: Home) -> None:
    async with open_service(home) as service:
        with pytest.raises(BadInput) as refused:
            await LocalConsole(service, "operator:anna").runs.get("r-0009")
        assert refused.value.code is ErrorCode.NOT_FOUND
