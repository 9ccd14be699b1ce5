"""Output while a command runs, and afterwards: real processes that print, are cancelled, and are killed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from core.batch.models import CellState, OutputChunk, Run
from core.errors import BadInput, ErrorCode
from core.fleet.models import DeviceSettings
from core.home import Home
from core.models.devices import Health
from core.service.console import Console
from tests.fakes.desk import approve, next_approval
from tests.fakes.patience import PATIENCE_S
from tests.fakes.remote_device import RemoteDevice, make_listening_home, paired, stands
from tests.fakes.service_process import service_process
from tests.fakes.signing import accepted, anna

# Prints at once, then a line for each file `go-N` that appears, and goes on for ever.
LINES = (
    "echo begun; echo warned >&2; n=1; while :; do while [ ! -e {gate}-$n ]; do sleep 0.02; done; "
    "echo line $n; n=$((n+1)); done"
)


@asynccontextmanager
async def device_of(console: Console, folder: Path, name: str = "lab-1") -> AsyncIterator[RemoteDevice]:
    pairing = await console.devices.pair(name, DeviceSettings())
    async with paired(folder / name, pairing.string) as device:
        await stands(console, name, Health.ONLINE)
        yield device


@pytest.fixture
async def home(tmp_path: Path) -> Home:
    home = make_listening_home(tmp_path / "home")
    await accepted(home)
    return home


async def begin(console: Console, home: Home, gate: Path) -> str:
    run = await console.runs.call(
        "lab-1", "shell_execute", {"command": LINES.format(gate=gate), "timeout": 300}
    )
    await approve(console, await next_approval(console), anna(home))
    return run.summary.id


async def output_until(console: Console, run: str, done: Callable[[OutputChunk, Run], bool]) -> OutputChunk:
    """Follow as a client does, by the events; the whole output once `done`."""
    events = console.events()
    async with asyncio.timeout(PATIENCE_S * 3):
        while True:
            chunk = await console.runs.output(run, "lab-1", "call")
            if done(chunk, await console.runs.get(run)):
                return chunk
            await anext(events)


def has(text: str) -> Callable[[OutputChunk, Run], bool]:
    return lambda chunk, _: text in chunk.text


Ends = Callable[[Console, str, RemoteDevice], Awaitable[object]]


async def cancels(console: Console, run: str, _: RemoteDevice) -> object:
    return await console.runs.stop(run)


async def kills(_: Console, __: str, device: RemoteDevice) -> object:
    return await device.stop()


@pytest.mark.parametrize(("end", "state"), [(cancels, CellState.CANCELLED), (kills, CellState.UNKNOWN)])
async def test_what_came_before_the_end_is_kept_whole(
    home: Home, tmp_path: Path, end: Ends, state: CellState
):
    gate = tmp_path / "go"
    async with service_process(home) as service:
        console = await service.console()
        async with device_of(console, tmp_path) as device:
            run = await begin(console, home, gate)
            first = await output_until(
                console,
                run,
                lambda chunk, _: {"begun\n", "warned\n"} <= {piece.text for piece in chunk.pieces},
            )
            assert {piece.text: piece.stream for piece in first.pieces} == {
                "begun\n": "stdout",
                "warned\n": "stderr",
            }
            assert all(piece.time for piece in first.pieces)
            # Far more often than the journal gets an entry.
            for number in range(1, 6):
                gate.with_name(f"go-{number}").touch()
                await output_until(console, run, has(f"line {number}\n"))
            since = await console.runs.output(run, "lab-1", "call", first.next)
            assert since.text == "".join(f"line {number}\n" for number in range(1, 6))
            await end(console, run, device)
            async with asyncio.timeout(PATIENCE_S * 3):
                ended = await console.runs.wait(run, PATIENCE_S * 3)
            assert ended.cells[0].state is state
            kept = await console.runs.output(run, "lab-1", "call")
            # A shell may say in the end that its child was killed.
            assert kept.text.startswith(first.text + since.text)
            assert kept.ended
    # The next service has it from the journal alone.
    async with service_process(home) as service:
        console = await service.console()
        again = await console.runs.output(run, "lab-1", "call")
        assert (again.text, again.ended, again.next) == (kept.text, True, kept.next)


async def test_output_is_kept_where_the_service_is_killed(home: Home, tmp_path: Path):
    gate = tmp_path / "go"
    async with service_process(home) as service:
        console = await service.console()
        async with device_of(console, tmp_path):
            run = await begin(console, home, gate)
            await output_until(console, run, has("begun\n"))
            await service.kill()
    async with service_process(home) as service:
        console = await service.console()
        chunk = await console.runs.output(run, "lab-1", "call")
        assert chunk.text.startswith("begun\n")
        assert chunk.ended


async def test_the_output_of_a_cell_that_is_not_there_is_not_found(home: Home, tmp_path: Path):
    async with service_process(home) as service:
        console = await service.console()
        run = await console.runs.call("this-computer", "get_system_info", {"info_type": "memory"})
        await console.runs.wait(run.summary.id, PATIENCE_S)
        none = await console.runs.output(run.summary.id, "this-computer", "call")
        assert (none.pieces, none.ended) == ([], True)
        with pytest.raises(BadInput) as caught:
            await console.runs.output(run.summary.id, "elsewhere", "call")
        assert caught.value.code is ErrorCode.NOT_FOUND
