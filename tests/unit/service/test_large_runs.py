"""Runs of thousands of cells that are read from the journal: in a thread, and entry by entry."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from core.audit import search
from core.audit.entries import Entry, NewEntry
from core.audit.events import CommandDecided, EntryFields, RunFinished, StepSkipped
from core.batch import run_history
from core.batch.models import Batch, CellState, RunState
from core.errors import BadInput, ErrorCode, JournalCorrupt
from core.home import Home
from core.service.api import run_reader
from core.service.local_console import LocalConsole
from core.service.service import Service
from tests.fakes.desk import open_service
from tests.fakes.journalled_runs import run_start

DEVICES = [f"d-{number:03d}" for number in range(200)]


async def write_run(service: Service, devices: list[str] = DEVICES, *more: NewEntry) -> None:
    """Write a run of one step, which is skipped on each device, and what else is given."""
    batch = Batch.model_validate({"name": "test", "steps": [{"id": "a", "tool": "read"}]})
    entries = [run_start("r-0001", batch, devices)]
    for device in devices:
        skipped = StepSkipped(why="cancelled")
        entries.append(skipped.entry("service", run="r-0001", step="a", device=device, tool="read"))
    await service.journal.append_many([*entries, *more])


@pytest.fixture
def alive(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many entries had been decoded whenever one was applied, beyond those applied."""
    decoded = applied = 0
    ahead: list[int] = []
    real_decode, real_event = search.decode, run_history.event_of

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
    monkeypatch.setattr(run_history, "event_of", event_of)
    return ahead


async def test_a_run_is_read_one_entry_after_the_other_and_not_on_the_loop(
    home: Home, alive: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_service(home) as service:
        await write_run(service)
        threads: list[threading.Thread] = []
        real = run_history._begin

        def begin(*arguments: object) -> object:
            threads.append(threading.current_thread())
            return real(*arguments)

        monkeypatch.setattr(run_history, "_begin", begin)
        run = await LocalConsole(service, "operator:anna").runs.get("r-0001")
        assert [cell.note for cell in run.cells] == ["cancelled"] * len(DEVICES)
        # Once for the states of its cells, as it has no end, and once for a page of values; its start alone.
        assert len(alive) == 2 * (len(DEVICES) + 1) + 1
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


async def entries_read(home: Home, devices: list[str], monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many entries of a run over these devices are decoded to list it, and then for its first page."""
    decoded: list[bytes] = []
    real = search.decode
    async with open_service(home) as service:
        decided = CommandDecided(decision={"summary": "reads the disk"}, tags=None, production=None)
        counts = {CellState.NOT_STARTED.value: len(devices)}
        place: EntryFields = {"run": "r-0001", "step": "a", "device": devices[0], "tool": "read"}
        end = RunFinished(state=RunState.CANCELLED, counts=counts, note="Enough.")
        decision = decided.entry("policy", **place, call_id="c-1")
        await write_run(service, devices, decision, end.entry("service", run="r-0001"))
        monkeypatch.setattr(search, "decode", lambda data: decoded.append(data) or real(data))
        [run] = await LocalConsole(service, "operator:anna").runs.list()
        assert (run.counts, run.effect) == ({CellState.NOT_STARTED: len(devices)}, "reads the disk")
        assert (run.state, run.note, run.devices) == (RunState.CANCELLED, "Enough.", devices)
        for_list = len(decoded)
        page = await LocalConsole(service, "operator:anna").runs.get("r-0001")
        assert (page.summary, [cell.device for cell in page.cells]) == (run, devices[:2])
    return [for_list, len(decoded) - for_list]


async def test_the_list_and_the_first_page_of_a_run_take_no_more_entries_when_it_has_more_cells(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_reader, "MOST_CELLS", 2)
    small, large = [
        await entries_read(Home(tmp_path / str(count)).create(), DEVICES[:count], monkeypatch)
        for count in (3, len(DEVICES))
    ]
    assert small == large
