"""What attached consoles cost the service: its CPU for a command with twenty of them, and with none.

Each console is a client of the socket that takes all events, as a window does; they are in this process.
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from core.home import Home
from core.service.rpc.client import RemoteConsole
from core.tasks import TaskGroupOwner
from tests.bench.figures import Figure, Figures, Peer, Scale
from tests.bench.fleet_bench import swarm_arguments, swarm_home
from tests.bench.lines import Part, part
from tests.fakes.swarm import swarm_process

CONSOLES = 20
DEVICES = 100
ROUNDS = 10


def run(scale: Scale) -> Figures:
    """Runs with and without consoles in turn, on one service."""
    devices = scale.of(DEVICES, 3)
    with tempfile.TemporaryDirectory(prefix="console-bench-") as folder:
        home, tokens = swarm_home(Path(folder), devices)
        return asyncio.run(_measure(home, tokens, devices, scale.of(ROUNDS, 1)))


async def _measure(home: Home, tokens: Path, devices: int, rounds: int) -> Figures:
    alone: list[float] = []
    attached: list[float] = []
    async with part("tests.bench.fleet_service", str(home.path)) as service:
        url = (await service.heard("listening"))["url"]
        async with swarm_process(*swarm_arguments(url, devices, tokens)) as swarm:
            await swarm.heard("connected")
            await service.asked(f"there {devices}", "there")
            for _ in range(rounds):
                alone.append(await _cpu_us(service, devices))
                async with _consoles(home):
                    attached.append(await _cpu_us(service, devices))
    none = Peer("with none", statistics.median(alone))
    name = "CPU of the service for a command, consoles attached"
    return [Figure(name, statistics.median(attached), "µs", none, f"{CONSOLES} consoles, {devices} devices")]


async def _cpu_us(service: Part, devices: int) -> float:
    done = await service.asked(f"run {devices}", "done")
    assert done["counts"] == {"done": devices}, done["counts"]
    return float(done["cpu_s"]) / devices * 1e6


@asynccontextmanager
async def _consoles(home: Home) -> AsyncIterator[None]:
    """Consoles that take events until the end of the block."""
    tasks = TaskGroupOwner("consoles")
    async with AsyncExitStack() as stack:
        stack.push_async_callback(tasks.close)
        for number in range(CONSOLES):
            console = await RemoteConsole.connect(home, "window", "operator:bench", 10.0)
            stack.push_async_callback(console.close)
            tasks.spawn(f"events {number}", _take_all(console))
        yield


async def _take_all(console: RemoteConsole) -> None:
    async for _ in console.events():
        pass
