"""A thousand devices on one console, one command each: results a second, memory, and how long loops stand.

The devices are real WebSocket clients in one process of their own. The peer is the same swarm asked by a bare
websockets server, with no dispatcher, policy or journal. How long a loop with nothing to do stood meanwhile
is the peer of the stalls: that much is the machine's.
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core.home import Home
from tests.bench.figures import Figure, Figures, Peer, Scale
from tests.bench.fleet_service import STEPS
from tests.bench.goals import SCREENS
from tests.bench.lines import Part, StallWatch, part
from tests.fakes.signing import accepted
from tests.fakes.swarm import pair_swarm, swarm_process

FEATURES = "cancel,terms"
FEW = 100
# The window paints what came last after the run has ended.
AFTERWARDS = 1.0


@dataclass(frozen=True, slots=True)
class _Size:
    """How many devices, and how many rounds of each kind of run."""

    devices: int
    rounds: int
    step_rounds: int
    window_rounds: int


def run(scale: Scale) -> Figures:
    """Measure a swarm on a service, and windows that look on."""
    size = _Size(scale.of(1_000, 5), scale.of(7, 1), scale.of(3, 1), scale.of(5, 1))
    with tempfile.TemporaryDirectory(prefix="fleet-bench-") as folder:
        home, tokens = swarm_home(Path(folder), size.devices)
        return asyncio.run(_measure(home, tokens, size))


def swarm_home(folder: Path, devices: int) -> tuple[Home, Path]:
    """A home whose service takes that many devices of a swarm, and the file of their tokens."""
    home = Home(folder / "home").create()
    (home.path / "settings.toml").write_text('this_computer = "in-process"\nlisten = "127.0.0.1:0"\n')
    tokens = folder / "tokens.json"
    asyncio.run(accepted(home, 'profile = "trusted"\n'))
    asyncio.run(pair_swarm(home, devices, tokens))
    return home, tokens


def swarm_arguments(url: str, devices: int, tokens: Path) -> tuple[str, ...]:
    """The command line of a swarm for `swarm_home`."""
    return ("--url", url, "--count", str(devices), "--tokens", str(tokens), "--features", FEATURES)


async def _measure(home: Home, tokens: Path, size: _Size) -> Figures:
    peer = Peer("a bare server", await _bare_rate(size))
    async with part("tests.bench.fleet_service", str(home.path)) as service:
        url = (await service.heard("listening"))["url"]
        before = (await service.asked("memory", "memory"))["rss"]
        async with swarm_process(*swarm_arguments(url, size.devices, tokens)) as swarm:
            connected = await swarm.heard("connected")
            there = await service.asked(f"there {size.devices}", "there")
            after = (await service.asked("memory", "memory"))["rss"]
            lines: Figures = [
                Figure(
                    "devices arrived, tools listed and pinned", connected["took_s"], "s", remark=_of(size)
                ),
                Figure("longest stall of the service meanwhile", there["stall_ms"], "ms"),
                Figure(
                    "memory of the service for each device", (after - before) / size.devices / 1024, "KiB"
                ),
                *await _fan_out(service, peer, size),
                *await _many_steps(service, size),
            ]
            for screen in SCREENS:
                lines += await _watched(service, home, screen, size)
    return lines


def _of(size: _Size) -> str:
    return f"{size.devices:,} devices"


async def _bare_rate(size: _Size) -> float:
    async with part("tests.bench.fleet_peer") as peer:
        url = (await peer.heard("listening"))["url"]
        async with swarm_process("--url", url, "--count", str(size.devices)) as swarm:
            await swarm.heard("connected")
            rounds = [await peer.asked("go", "done") for _ in range(size.rounds)]
    return statistics.median(done["results"] / done["took_s"] for done in rounds)


async def _fan_out(service: Part, peer: Peer, size: _Size) -> Figures:
    reads = await _runs(service, "run", size.devices, size.devices, size.rounds)
    few = await _runs(service, "run", min(FEW, size.devices), size.devices, size.rounds)
    acts = await _runs(service, "act", size.devices, size.devices, size.rounds)
    rate = _median_rate(reads, "ended_s")
    best = max(done["results"] / done["ended_s"] for done in reads)
    cpu_us = _median(reads, "cpu_s") / size.devices * 1e6
    return [
        Figure("one observation on each device", rate, "results/s", None, _of(size)),
        Figure("one observation on each device, against a bare server", rate, "results/s", peer),
        Figure("the same in the least disturbed round", best, "results/s", peer),
        Figure("the same until every entry is in the journal for good", _median_rate(reads), "results/s"),
        Figure(f"the same, {FEW} at once", _median_rate(few, "ended_s"), "results/s"),
        Figure(
            "one action on each device, durable before it leaves", _median_rate(acts, "ended_s"), "results/s"
        ),
        Figure("CPU of the service for each observation", cpu_us, "µs"),
        Figure("longest stall of the service in a run", _median(reads, "stall_ms"), "ms"),
    ]


async def _many_steps(service: Part, size: _Size) -> Figures:
    """Runs of ten observations on each device, and what their results keep in memory."""
    count = size.devices * STEPS
    before = (await service.asked("memory", "memory"))["rss"]
    steps = await _runs(service, "steps", size.devices, count, size.step_rounds)
    kept = (await service.asked("memory", "memory"))["rss"] - before
    # By now the runs before have more cells than are kept, so that as many older ones go.
    await _runs(service, "steps", size.devices, count, size.step_rounds)
    more = (await service.asked("memory", "memory"))["rss"] - before - kept
    results = size.step_rounds * count
    first = Peer("of the first ones", kept / 2**20)
    return [
        Figure(f"{STEPS} observations on each device, one run", _median_rate(steps, "ended_s"), "results/s"),
        Figure("longest stall of the service in it", _median(steps, "stall_ms"), "ms"),
        Figure("memory of each result, while it is kept", kept / results / 1024, "KiB"),
        Figure("memory of as many results after these, for which older go", more / 2**20, "MiB", first),
    ]


async def _runs(service: Part, word: str, parallel: int, count: int, rounds: int) -> list[dict[str, Any]]:
    return [_checked(await service.asked(f"{word} {parallel}", "done"), count) for _ in range(rounds)]


async def _watched(service: Part, home: Home, screen: str, size: _Size) -> Figures:
    """How long the loop of a real window stands while the run goes that it shows."""
    arguments = ("tests.bench.fleet_window", str(home.path), screen)
    stalls: list[tuple[float, float]] = []
    rates: list[dict[str, Any]] = []
    watch = StallWatch()
    async with part(*arguments, QT_QPA_PLATFORM="offscreen", QT_LOGGING_RULES="*=false") as window:
        await window.heard("usable")
        for _ in range(size.window_rounds):
            await asyncio.sleep(AFTERWARDS)
            await window.asked("stall", "stall")
            watch.take()
            rates += await _runs(service, "run", size.devices, size.devices, 1)
            await asyncio.sleep(AFTERWARDS)
            stalls.append(((await window.asked("stall", "stall"))["worst_ms"], watch.take()))
    watch.close()
    # The round in which the window stood longest beyond what an idle loop stood, which is the machine's.
    worst, machine = max(stalls, key=lambda pair: pair[0] - pair[1])
    median = statistics.median(stall for stall, _ in stalls)
    idle = Peer("an idle loop in the same round", machine)
    return [
        Figure(f"longest stall of the window on {screen}", worst, "ms", idle, f"median {median:.0f} ms"),
        Figure(
            f"one observation on each device, the window on {screen}",
            _median_rate(rates, "ended_s"),
            "results/s",
            None,
            _of(size),
        ),
    ]


def _checked(done: dict[str, Any], count: int) -> dict[str, Any]:
    assert done["counts"] == {"done": count}, done["counts"]
    return done


def _median(rounds: list[dict[str, Any]], what: str) -> float:
    return float(statistics.median(done[what] for done in rounds))


def _median_rate(rounds: list[dict[str, Any]], until: str = "took_s") -> float:
    return float(statistics.median(done["results"] / done[until] for done in rounds))
