"""A canary and several waves on device clients in processes of their own: order, and exact stops."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from core.batch.models import Batch, Cell, CellState, Run, RunState
from core.fleet.models import DeviceSettings
from core.models.devices import Health
from core.service.console import Console
from tests.fakes.patience import PATIENCE_S
from tests.fakes.remote_device import make_listening_home, paired, stands
from tests.fakes.service_process import service_process
from tests.fakes.signing import accepted

pytestmark = pytest.mark.asyncio(loop_scope="module")
DEVICES = [f"lab-{number}" for number in range(1, 7)]
WAVES = [DEVICES[:1], DEVICES[1:3], DEVICES[3:5], DEVICES[5:]]


@dataclass
class Lab:
    """A console with six devices, which all read below one folder."""

    console: Console
    folder: Path

    def has(self, *devices: str) -> None:
        """Let the step of `batch` succeed on these devices, and fail on the others."""
        for device in DEVICES:
            path = self.folder / f"{device}.txt"
            path.unlink(missing_ok=True)
            if device in devices:
                path.write_text(device)

    async def ran(self, **rollout: Any) -> Run:
        run = await self.console.runs.start(batch(self.folder, rollout))
        return await self.ended(run)

    async def ended(self, run: Run) -> Run:
        run = await self.console.runs.wait(run.summary.id, PATIENCE_S)
        assert run.summary.state.ended
        return run

    async def sent(self, run: Run) -> list[str]:
        """The devices to which a command of this run was sent."""
        page = await self.console.journal.entries(f"run:{run.summary.id} kind:command_sent")
        return sorted(entry.device or "" for entry in page.entries)


def batch(folder: Path, rollout: dict[str, Any]) -> Batch:
    path = f"{folder}/${{{{ device.name }}}}.txt"
    step = {"id": "look", "tool": "read_file", "with": {"file_path": path}}
    return Batch.model_validate(
        {
            "name": "waves",
            "targets": "name:lab-*",
            "rollout": {"canary": 1, "wave": 2, **rollout},
            "steps": [step],
        }
    )


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def lab(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Lab]:
    folder = tmp_path_factory.mktemp("waves")
    home = make_listening_home(folder / "home")
    await accepted(home)
    shared = folder / "shared"
    shared.mkdir()
    async with AsyncExitStack() as stack:
        service = await stack.enter_async_context(service_process(home))
        console = await service.console()
        for name in DEVICES:
            pairing = await console.devices.pair(name, DeviceSettings())
            (folder / name).mkdir()
            config = f'roots = ["{shared}"]\ntools_off = ["shell_execute_read"]\n'
            (folder / name / "device.toml").write_text(config)
            await stack.enter_async_context(paired(folder / name, pairing.string))
        for name in DEVICES:
            await stands(console, name, Health.ONLINE)
        yield Lab(console, shared)


def states(run: Run) -> dict[str, CellState]:
    return {cell.device: cell.state for cell in run.cells}


def times(cells: list[Cell]) -> list[tuple[str, str]]:
    return [(cell.started_at or "", cell.ended_at or "") for cell in cells]


async def test_a_wave_begins_when_the_one_before_it_has_ended(lab: Lab):
    lab.has(*DEVICES)
    run = await lab.ran(parallel=2)
    assert run.summary.state is RunState.DONE
    assert run.summary.devices == DEVICES
    before = ""
    for wave in WAVES:
        began_and_ended = times([cell for cell in run.cells if cell.device in wave])
        assert min(began for began, _ in began_and_ended) >= before
        before = max(ended for _, ended in began_and_ended)
    assert await lab.sent(run) == DEVICES


async def test_a_canary_that_fails_is_the_only_one_that_got_anything(lab: Lab):
    lab.has(*DEVICES[1:])
    run = await lab.ran(stop={"wave": {"failed": 1}})
    assert await lab.sent(run) == ["lab-1"]
    assert set(states(run).values()) == {CellState.FAILED, CellState.NOT_STARTED}
    assert run.summary.note == "Stopped: 1 of 1 devices of wave 1 failed; the batch stops at 1."
    assert {cell.note for cell in run.cells if cell.state is CellState.NOT_STARTED} == {
        "stopped: 1 of 1 devices of wave 1 failed; the batch stops at 1"
    }


@pytest.mark.parametrize(("limit", "sent"), [(1, 3), (2, 4), (3, 6), ("50%", 6)])
async def test_a_run_stops_at_exactly_the_number_that_its_batch_says(lab: Lab, limit: int | str, sent: int):
    lab.has("lab-1", "lab-2", "lab-5")
    run = await lab.ran(parallel=1, stop={"run": {"failed": limit}})
    # lab-3, lab-4 and lab-6 fail, one after the other.
    assert await lab.sent(run) == DEVICES[:sent]
    assert [device for device, state in states(run).items() if state is CellState.NOT_STARTED] == DEVICES[
        sent:
    ]


async def test_what_is_in_flight_when_a_run_stops_is_answered_and_nothing_more_begins(lab: Lab):
    lab.has("lab-1", "lab-2", "lab-3")
    run = await lab.ran(parallel=2, stop={"wave": {"failed": 1}})
    sent = await lab.sent(run)
    # Of the third wave both may have been on their way; of the fourth none.
    assert DEVICES[:4] == sent[:4] or [*DEVICES[:3], "lab-5"] == sent
    assert "lab-6" not in sent
    assert states(run)["lab-6"] is CellState.NOT_STARTED
    assert CellState.RUNNING not in states(run).values()


async def test_a_stopped_run_goes_on_where_it_failed_and_with_the_waves_that_were_left(lab: Lab):
    lab.has("lab-1", "lab-2")
    run = await lab.ran(parallel=1, stop={"run": {"failed": 1}})
    assert await lab.sent(run) == DEVICES[:3]
    lab.has(*DEVICES)
    again = await lab.ended(await lab.console.runs.resume(run.summary.id))
    assert again.summary.state is RunState.DONE
    assert await lab.sent(again) == DEVICES[2:]
    assert {cell.device for cell in again.cells if cell.carried_from == run.summary.id} == {"lab-1", "lab-2"}
