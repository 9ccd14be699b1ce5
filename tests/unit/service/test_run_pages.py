"""A large run goes to clients in pages, while it runs and when only the journal has it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from core.aip.messages import ResultStatus
from core.audit.events import EntryFields, ResultRecorded, RunFinished
from core.batch.models import Batch, Cell, CellState, Run, RunState
from core.commands.results import Basis, CommandResult, Verdict
from core.fleet.models import DeviceSettings
from core.home import Home
from core.service.api import run_reader
from core.service.api.client import Client
from core.service.console import Console
from core.service.local_console import LocalConsole
from core.service.pages import every_result, whole_run
from core.service.service import Service
from tests.fakes.desk import open_service
from tests.fakes.journalled_runs import run_start
from tests.fakes.patience import PATIENCE_S
from tests.fakes.remote_device import make_listening_home
from tests.fakes.signing import signing

AWAY = [f"lab-{number}" for number in range(1, 6)]
STEPS = [{"id": "a", "tool": "poke"}, {"id": "b", "tool": "prod"}]


async def run_over_devices_that_are_away(console: Console) -> Run:
    for name in AWAY:
        await console.devices.pair(name, DeviceSettings())
    batch = Batch.model_validate({"name": "Away", "targets": "name:lab-*", "steps": STEPS})
    run = await console.runs.start(batch)
    return await console.runs.wait(run.summary.id, PATIENCE_S)


async def test_every_answer_has_a_page_and_all_pages_have_every_cell_once(
    memory_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(run_reader, "MOST_CELLS", 4)
    home = make_listening_home(memory_path / "home")
    service = await Service.open(home)
    try:
        console = signing(LocalConsole(service, "operator:anna"), home)
        first = await run_over_devices_that_are_away(console)
        assert ([cell.device for cell in first.cells], first.next) == (["lab-1"] * 2 + ["lab-2"] * 2, 2)
        places = [(device, step) for device in AWAY for step in ("a", "b")]
        called = [(device, tool) for device in AWAY for tool in ("poke", "prod")]
        number = first.summary.id
        in_memory = await whole_run(console.runs, await console.runs.get(number))
        assert [(cell.device, cell.step) for cell in in_memory.cells] == places
        assert in_memory.next is None
        results = await every_result(console.runs, number)
        assert [(one.device, one.tool_name) for one in results] == called
        assert (await console.runs.results(number)).next == 2
        service.runs._runs.clear()  # as after many more runs
        again = await whole_run(console.runs, await console.runs.get(number))
        assert [cell.call_id for cell in again.cells] == [cell.call_id for cell in in_memory.cells]
        read = await every_result(console.runs, number)
        assert [one.call_id for one in read] == [one.call_id for one in results]
    finally:
        await service.close()


DEVICES = ["d-1", "d-2", "d-3"]
TEXT = "x" * 300


async def write_run(
    service: Service, number: str, change: str = "", status: ResultStatus = ResultStatus.SUCCESS
) -> None:
    """Write a run of two steps on three devices, each with a value of some 300 bytes."""
    batch = Batch.model_validate({"name": "Looks", "steps": [{"id": step, "tool": "look"} for step in "ab"]})
    entries = [run_start(number, batch, DEVICES)]
    for device in DEVICES:
        for step in "ab":
            result = CommandResult(
                call_id=f"{number}-{device}-{step}",
                device=device,
                tool_name="look",
                status=status,
                verdict=Verdict.CONFIRMED,
                basis=Basis.READ_RESPONSE,
                result={"text": TEXT, "seen": f"{device} {step} {change}"},
            )
            recorded = ResultRecorded(result=result.model_dump(mode="json"))
            place: EntryFields = {"run": number, "device": device, "step": step, "tool": "look"}
            entries.append(recorded.entry(f"device:{device}", **place, call_id=result.call_id))
    await service.journal.append_many(entries)


def seen(cells: list[Cell]) -> list[str]:
    return [cell.result.result["seen"] if cell.result and cell.result.result else "" for cell in cells]


async def test_a_page_has_no_more_values_than_fit_and_all_pages_have_all(
    home: Home, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(run_reader, "MOST_BYTES", 1_000)
    async with open_service(home) as service:
        await write_run(service, "r-0001")
        console = LocalConsole(service, "operator:anna")
        first = await console.runs.get("r-0001")
        assert (seen(first.cells), first.next) == (["d-1 a ", "d-1 b "], 1)
        whole = await whole_run(console.runs, first)
        assert seen(whole.cells) == [f"{device} {step} " for device in DEVICES for step in "ab"]


async def test_values_of_one_device_that_are_more_than_a_page_are_said_to_be_left_out(
    home: Home, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(run_reader, "MOST_BYTES", 500)
    async with open_service(home) as service:
        for number, change in (("r-0001", ""), ("r-0002", "changed")):
            await write_run(service, number, change)
        console = LocalConsole(service, "operator:anna")
        page = await console.runs.cells("r-0001")
        assert (seen(page.cells), page.next) == (["d-1 a ", ""], 1)
        assert [cell.state for cell in page.cells] == [CellState.DONE] * 2
        assert page.cells[1].result is not None
        assert "Its value is left out: d-1 gave too much for one page." in page.cells[1].result.note
        # What is left out of a page is not left out of a comparison.
        compared = await console.runs.compare("r-0001", "r-0002")
        assert [(one.device, one.step) for one in compared.cells] == [
            (device, step) for device in DEVICES for step in "ab"
        ]
        assert [one.differences[0].path for one in compared.cells] == ["$.seen"] * 6


async def test_what_needs_no_values_reads_none(home: Home):
    async with open_service(home) as service:
        await write_run(service, "r-0001")
        states = await run_reader.RunReader(Client(service, "operator:anna")).states("r-0001")
        assert [cell.state for cell in states.cells] == [CellState.DONE] * 6
        assert [cell.result.result for cell in states.cells if cell.result] == [None] * 6


async def test_a_step_that_is_said_to_be_done_keeps_its_value(home: Home):
    async with open_service(home) as service:
        await write_run(service, "r-0001", status=ResultStatus.FAILURE)
        console = LocalConsole(service, "operator:anna")
        cell = await console.runs.settle("r-0001", "d-2", "b", "done")
        assert (cell.state, cell.settled_by, seen([cell])) == (CellState.DONE, "operator:anna", ["d-2 b "])
        assert seen((await console.runs.get("r-0001")).cells)[3] == "d-2 b "


async def test_a_run_that_is_settled_while_it_is_read_is_listed_as_it_is_then(
    home: Home, monkeypatch: pytest.MonkeyPatch
):
    async with open_service(home) as service:
        await write_run(service, "r-0001", status=ResultStatus.FAILURE)
        console = LocalConsole(service, "operator:anna")
        read, settled = asyncio.Event(), asyncio.Event()
        fold = service.journal.fold_run

        async def slowly(*arguments: Any) -> Any:
            found = await fold(*arguments)
            read.set()
            await settled.wait()
            return found

        monkeypatch.setattr(service.journal, "fold_run", slowly)
        async with asyncio.timeout(PATIENCE_S), asyncio.TaskGroup() as group:
            listing = group.create_task(console.runs.list())
            await read.wait()
            monkeypatch.setattr(service.journal, "fold_run", fold)
            await console.runs.settle("r-0001", "d-2", "b", "done")
            settled.set()
        assert [run.counts for run in listing.result()] == [{CellState.FAILED: 6}]
        counts = {CellState.FAILED: 5, CellState.DONE: 1}
        assert [run.counts for run in await console.runs.list()] == [counts]
        assert [run.counts for run in await console.runs.list()] == [counts]


async def test_a_run_whose_end_is_not_in_the_journal_yet_is_read_again(home: Home):
    async with open_service(home) as service:
        await write_run(service, "r-0001")
        console = LocalConsole(service, "operator:anna")
        assert [run.ended_at for run in await console.runs.list()] == [None]
        finished = RunFinished(state=RunState.DONE, counts={CellState.DONE.value: 6})
        entry = await service.journal.append(finished.entry("service", run="r-0001"))
        assert [run.ended_at for run in await console.runs.list()] == [entry.time]
