"""A large run goes to clients in pages, while it runs and when only the journal has it."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.batch.models import Batch, Run
from core.fleet.models import DeviceSettings
from core.service.api import runs as runs_api
from core.service.console import Console
from core.service.local_console import LocalConsole
from core.service.pages import every_result, whole_run
from core.service.service import Service
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
    monkeypatch.setattr(runs_api, "MOST_CELLS", 4)
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
        service.runner._runs.clear()  # as after many more runs
        again = await whole_run(console.runs, await console.runs.get(number))
        assert [cell.call_id for cell in again.cells] == [cell.call_id for cell in in_memory.cells]
        read = await every_result(console.runs, number)
        assert [one.call_id for one in read] == [one.call_id for one in results]
    finally:
        await service.close()
