"""A real service that a swarm dials: `python -m tests.bench.fleet_service HOME`.

Lines on its standard input: `memory`, `run N` (one observation on every device, N at once), `steps N` (ten of
them), `act N` (one action). Answers with JSON lines: how long it took, and how long its loop stood.
"""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import time
from pathlib import Path

import psutil
import structlog

from core.batch.models import Batch, Entry, Rollout, Step
from core.event_loop import new_event_loop
from core.home import Home
from core.models.devices import Health
from core.service.local_console import LocalConsole, LocalConsoles
from core.service.rpc.server import ControlServer
from core.service.service import Service
from tests.bench.lines import StallWatch, input_lines
from tests.fakes.swarm import ACTION, OBSERVATION, tell

PATIENCE = 120.0
STEPS = 10


async def main(home: Home) -> None:
    service = await Service.open(home)
    service.garbage.start()
    control = ControlServer(LocalConsoles(service), home)
    await control.open()
    tell("listening", url=service.links.listening().url, pid=os.getpid())
    try:
        await _obey(service)
    finally:
        await control.close()
        await service.close()


def _online(service: Service) -> int:
    """How many devices of the swarm are there and have listed their tools."""
    return sum(
        device.health is Health.ONLINE and device.name.startswith("sim-")
        for device in service.fleet.devices()
    )


async def _obey(service: Service) -> None:
    watch = StallWatch()
    async for line in input_lines(sys.stdin):
        word, _, rest = line.partition(" ")
        if word == "memory":
            gc.collect()
            tell("memory", rss=psutil.Process().memory_info().rss)
        elif word == "there":
            while _online(service) < int(rest):  # noqa: ASYNC110  # a bench; the fleet says how each device is
                await asyncio.sleep(0.05)
            tell("there", stall_ms=watch.take())
        elif word in ("run", "steps", "act"):
            watch.take()
            await _run(service, word, int(rest), watch)
    watch.close()


async def _run(service: Service, word: str, parallel: int, watch: StallWatch) -> None:
    write = Step(id="write", tool=ACTION, parameters={"file_path": "/tmp/nothing", "content": "x"})
    looks = [
        Step(id=f"look{number}", tool=OBSERVATION, parameters={"info_type": "memory"})
        for number in range(STEPS if word == "steps" else 1)
    ]
    steps: list[Entry] = [write] if word == "act" else [*looks]
    batch = Batch(name="Fan out", targets="name:sim-*", rollout=Rollout(parallel=parallel), steps=steps)
    console = LocalConsole(service, "operator:bench")
    started, cpu = time.perf_counter(), time.process_time()
    run = await console.runs.start(batch)
    live = service.runs.find(run.summary.id)
    assert live is not None
    await asyncio.wait_for(live.ended.wait(), PATIENCE)
    ended = time.perf_counter() - started
    # Until then the entries are with the operating system; from then on they are in the journal for good.
    await service.journal.settle()
    took, cpu = time.perf_counter() - started, time.process_time() - cpu
    counts = {state.value: count for state, count in live.summary().counts.items()}
    tell(
        "done",
        results=len(live.cells),
        counts=counts,
        ended_s=ended,
        took_s=took,
        cpu_s=cpu,
        stall_ms=watch.take(),
    )


if __name__ == "__main__":
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(main(Home(Path(sys.argv[1])).create()))
