"""Hundreds of real WebSocket devices on one real service: all answer, and the bad ones hurt nobody else."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from core.audit.entries import Kind
from core.batch.models import Batch, Cell, CellState, Rollout, Run, Step
from core.debounce import UPDATES_A_SECOND
from core.errors import ErrorCode
from core.home import Home
from core.models.devices import Health
from core.service.console import CellChanged, Console, DeviceChanged, Event, Missed, RunChanged
from core.service.local_console import LocalConsole
from core.service.service import Service
from tests.fakes.pace import slowness
from tests.fakes.signing import accepted, signing
from tests.fakes.swarm import ACTION, OBSERVATION, SwarmProcess, name_of, pair_swarm, swarm_process

COUNT = 200
PATIENCE = 60.0
LOOK = Step(id="look", tool=OBSERVATION, parameters={"info_type": "memory"})


def a_write(timeout_s: float) -> Step:
    return Step(
        id="write", tool=ACTION, parameters={"file_path": "/tmp/nothing", "content": "x"}, timeout=timeout_s
    )


@asynccontextmanager
async def swarm(home: Home, tmp_path: Path, *how: str) -> AsyncIterator[tuple[Service, SwarmProcess]]:
    """A service with a swarm that is online."""
    await accepted(home, 'profile = "trusted"\n')
    (home.path / "settings.toml").write_text('this_computer = "in-process"\nlisten = "127.0.0.1:0"\n')
    tokens = tmp_path / "tokens.json"
    await pair_swarm(home, COUNT, tokens)
    service = await Service.open(home)
    try:
        events = signing(LocalConsole(service, "operator:test"), service.home).events()
        url = service.links.listening().url
        given = ("--url", url, "--count", str(COUNT), "--tokens", str(tokens), *how)
        async with swarm_process(*given) as process:
            await process.heard("connected")
            async with asyncio.timeout(PATIENCE):
                while online(service) < COUNT:
                    await anext(events)
            yield service, process
    finally:
        await service.close()


def online(service: Service) -> int:
    return sum(one.health is Health.ONLINE for one in service.fleet.devices() if one.name.startswith("sim-"))


async def run_over_all(console: Console, step: Step) -> Run:
    batch = Batch(name="all", targets="name:sim-*", rollout=Rollout(parallel=1000), steps=[step])
    run = await console.runs.start(batch)
    ended = await console.runs.wait(run.summary.id, PATIENCE)
    assert ended.summary.ended_at is not None
    return ended


def states(run: Run) -> dict[CellState, int]:
    return dict(Counter(cell.state for cell in run.cells))


async def test_every_device_answers_once_and_every_command_is_whole_in_the_journal(
    home: Home, tmp_path: Path
):
    """And whoever watches is told the newest state, at a bounded rate."""
    async with swarm(home, tmp_path, "--features", "cancel,terms") as (service, process):
        console = signing(LocalConsole(service, "operator:anna"), service.home)
        events = console.events()
        began = asyncio.get_running_loop().time()
        run = await run_over_all(console, LOOK)
        assert states(run) == {CellState.DONE: COUNT}
        assert len({cell.call_id for cell in run.cells}) == COUNT
        await is_told_the_newest_state(events, run, began)
        await service.journal.settle()
        entries = await service.journal.entries_of_run(run.summary.id)
        kinds = Counter(entry.kind for entry in entries)
        for kind in (Kind.COMMAND_PREPARED, Kind.INTENT_RECORDED, Kind.COMMAND_SENT, Kind.RESULT_RECORDED):
            assert kinds[kind] == COUNT
        # Listing and asking, and nothing else, has reached the devices.
        assert (await process.end())["commands"] == 2 * COUNT


async def is_told_the_newest_state(events: AsyncIterator[Event], run: Run, began: float) -> None:
    """What a watcher was sent since `began`, the loop's time: every cell's last state, few summaries."""
    summaries, cells = 0, {}
    async with asyncio.timeout(PATIENCE):
        async for event in events:
            assert not isinstance(event, Missed)
            if isinstance(event, CellChanged):
                cells[event.cell.device] = event.cell.state
            elif isinstance(event, RunChanged):
                summaries += 1
                if event.run.ended_at is not None:
                    break
            else:
                assert isinstance(event, DeviceChanged) or event.event in ("journal", "control")
        while len(cells) < COUNT or set(cells.values()) != {CellState.DONE}:
            event = await anext(events)
            if isinstance(event, CellChanged):
                cells[event.cell.device] = event.cell.state
    assert summaries <= (asyncio.get_running_loop().time() - began) * UPDATES_A_SECOND + 3
    assert cells == {cell.device: cell.state for cell in run.cells}


async def test_silent_and_vanishing_devices_are_unknown_and_keep_nobody_else_waiting(
    home: Home, tmp_path: Path
):
    async with swarm(home, tmp_path, "--features", "cancel", "--silent", "5", "--drop", "5") as (service, _):
        console = signing(LocalConsole(service, "operator:anna"), service.home)
        # The silent ones let it pass; those that answer need to be within it, on a busy machine too.
        timeout_s = slowness(for_s=0.05)
        run = await run_over_all(console, a_write(timeout_s))
        assert states(run) == {CellState.DONE: COUNT - 10, CellState.UNKNOWN: 10}
        unknown = {cell.device: cell for cell in run.cells if cell.state is CellState.UNKNOWN}
        assert set(unknown) == {name_of(number) for number in range(COUNT - 9, COUNT + 1)}
        for cell in unknown.values():
            assert error_of(cell) is ErrorCode.OUTCOME_UNKNOWN
            kinds = [entry.kind for entry in (await console.journal.command(cell.call_id or "")).entries]
            assert kinds.count(Kind.COMMAND_SENT) == 1
        took = [cell.result.duration_ms for cell in run.cells if cell.result and cell.state is CellState.DONE]
        # Those that answer do so long before the silent ones' time is over.
        assert sorted(took)[len(took) // 2] < 1000 * timeout_s


async def test_stock_devices_in_hundreds_are_asked_one_frame_at_a_time(home: Home, tmp_path: Path):
    async with swarm(home, tmp_path, "--slow", "0.01") as (service, _):
        console = signing(LocalConsole(service, "operator:anna"), service.home)
        runs = await asyncio.gather(*(run_over_all(console, LOOK) for _ in range(2)))
        assert [states(run) for run in runs] == [{CellState.DONE: COUNT}] * 2


def error_of(cell: Cell) -> ErrorCode | None:
    return cell.result.error.code if cell.result and cell.result.error else None
