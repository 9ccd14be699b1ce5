"""A run touches the devices that it began with: none that joined since, nor when it is resumed."""

from __future__ import annotations

from pathlib import Path

from core.batch.models import Batch, CellState, Run
from core.fleet.models import DeviceSettings
from core.service.local_console import LocalConsole
from core.service.service import Service
from tests.fakes.desk import approve, next_approval
from tests.fakes.patience import PATIENCE_S
from tests.fakes.remote_device import make_listening_home
from tests.fakes.signing import anna, signing

BATCH = Batch.model_validate(
    {
        "name": "Asks, then pokes",
        "targets": "name:lab-*",
        "steps": [{"id": "ask", "approval": {"question": "Go on?"}}, {"id": "poke", "tool": "poke"}],
    }
)


def devices_of(run: Run) -> list[str]:
    assert {cell.device for cell in run.cells} == set(run.summary.devices)
    return run.summary.devices


async def test_a_device_that_joins_while_a_run_waits_is_not_touched_nor_when_it_is_resumed(
    memory_path: Path,
):
    home = make_listening_home(memory_path / "home")
    service = await Service.open(home)
    try:
        console = signing(LocalConsole(service, "operator:anna"), home)
        for name in ("lab-1", "lab-2"):
            await console.devices.pair(name, DeviceSettings())
        run = await console.runs.start(BATCH)
        approval = await next_approval(console)
        await console.devices.pair("lab-3", DeviceSettings())
        assert len(await console.devices.match("name:lab-*")) == 3
        await approve(console, approval, anna(home))
        ended = await console.runs.wait(run.summary.id, PATIENCE_S)
        assert devices_of(ended) == ["lab-1", "lab-2"]
        assert ended.summary.counts[CellState.FAILED] == 2  # both are away
        again = await console.runs.resume(run.summary.id)
        assert devices_of(await console.runs.wait(again.summary.id, PATIENCE_S)) == ["lab-1", "lab-2"]
    finally:
        await service.close()
