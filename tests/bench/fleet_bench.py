"""A thousand devices on one console, one command each: results a second, memory, and how long loops stand.

The devices are real WebSocket clients in one process of their own. The peer is the same swarm asked by a bare
websockets server, with no dispatcher, policy or journal. How long a loop with nothing to do stood meanwhile
is printed beside the stalls: that much is the machine's.
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
from pathlib import Path
from typing import Any

from core.home import Home
from tests.bench.fleet_service import STEPS
from tests.bench.journal_bench import Figures
from tests.bench.lines import Part, StallWatch, part
from tests.fakes.signing import accepted
from tests.fakes.swarm import pair_swarm, swarm_process

DEVICES = 1000
FEATURES = "cancel,terms"
ROUNDS = 7
STEP_ROUNDS = 3
WINDOW_ROUNDS = 5
# The window paints what came last after the run has ended.
AFTERWARDS = 1.0


def run() -> Figures:
    """Measure; gives names and figures to print."""
    with tempfile.TemporaryDirectory(prefix="fleet-bench-") as folder:
        home = Home(Path(folder) / "home").create()
        (home.path / "settings.toml").write_text('this_computer = "in-process"\nlisten = "127.0.0.1:0"\n')
        tokens = Path(folder) / "tokens.json"
        asyncio.run(accepted(home, 'profile = "trusted"\n'))
        asyncio.run(pair_swarm(home, DEVICES, tokens))
        return asyncio.run(_measure(home, tokens))


async def _measure(home: Home, tokens: Path) -> Figures:
    peer = await _peer()
    own = ("--tokens", str(tokens), "--features", FEATURES)
    figures: Figures = [(f"{DEVICES:,} devices asked by a bare server (peer)", f"{peer:,.0f} results/s")]
    async with part("tests.bench.fleet_service", str(home.path)) as service:
        url = (await service.heard("listening"))["url"]
        before = (await service.asked("memory", "memory"))["rss"]
        async with swarm_process("--url", url, "--count", str(DEVICES), *own) as swarm:
            connected = await swarm.heard("connected")
            there = await service.asked(f"there {DEVICES}", "there")
            after = (await service.asked("memory", "memory"))["rss"]
            figures += [
                (
                    f"{DEVICES:,} devices have arrived, tools listed and pinned",
                    f"{connected['took_s']:.2f} s",
                ),
                ("longest stall of the service meanwhile", f"{there['stall_ms']:.0f} ms"),
                ("memory of the service for each device", f"{(after - before) / DEVICES / 1024:.0f} KiB"),
            ]
            figures += await _fan_out(service, peer)
            for screen in ("fleet", "runs"):
                figures += await _watched(service, home, screen)
    return figures


async def _peer() -> float:
    async with part("tests.bench.fleet_peer") as peer:
        url = (await peer.heard("listening"))["url"]
        async with swarm_process("--url", url, "--count", str(DEVICES)) as swarm:
            await swarm.heard("connected")
            rounds = [await peer.asked("go", "done") for _ in range(ROUNDS)]
    return statistics.median(done["results"] / done["took_s"] for done in rounds)


async def _fan_out(service: Part, peer: float) -> Figures:
    reads = [_checked(await service.asked(f"run {DEVICES}", "done")) for _ in range(ROUNDS)]
    few = [_checked(await service.asked("run 100", "done")) for _ in range(ROUNDS)]
    acts = [_checked(await service.asked(f"act {DEVICES}", "done")) for _ in range(ROUNDS)]
    before = (await service.asked("memory", "memory"))["rss"]
    steps = [
        _checked(await service.asked(f"steps {DEVICES}", "done"), DEVICES * STEPS) for _ in range(STEP_ROUNDS)
    ]
    kept = (await service.asked("memory", "memory"))["rss"] - before
    # By now the runs before have more cells than are kept, so that as many older ones go.
    for _ in range(STEP_ROUNDS):
        _checked(await service.asked(f"steps {DEVICES}", "done"), DEVICES * STEPS)
    more = (await service.asked("memory", "memory"))["rss"] - before - kept
    rate = _median_rate(reads, "ended_s")
    best = max(done["results"] / done["ended_s"] for done in reads)
    return [
        ("one observation each, start to end of the run (goal: 2,000)", f"{rate:,.0f} results/s"),
        (f"the same in the least disturbed of {ROUNDS} rounds", f"{best:,.0f} results/s"),
        ("the same until every entry is in the journal for good", f"{_median_rate(reads):,.0f} results/s"),
        ("the same, 100 at once", f"{_median_rate(few, 'ended_s'):,.0f} results/s"),
        ("one action each, durable before it leaves", f"{_median_rate(acts, 'ended_s'):,.0f} results/s"),
        (
            f"{STEPS} observations each, in one run (goal: 2,000)",
            f"{_median_rate(steps, 'ended_s'):,.0f} results/s",
        ),
        ("longest stall of the service in it", f"{_median(steps, 'stall_ms'):.0f} ms"),
        (
            "memory of each result of it, kept until 50,000 newer ones or 32 MB of values have come",
            f"{kept / (STEP_ROUNDS * DEVICES * STEPS) / 1024:.1f} KiB",
        ),
        (
            f"memory of the {STEP_ROUNDS * DEVICES * STEPS:,} results after these, for which older ones go",
            f"{more / 2**20:.0f} MiB, of these {kept / 2**20:.0f} MiB",
        ),
        ("bare peer / observation", f"{peer / rate:.1f}"),
        ("CPU of the service for each observation", f"{_median(reads, 'cpu_s') / DEVICES * 1e6:.0f} µs"),
        ("longest stall of the service in a run, median of rounds", f"{_median(reads, 'stall_ms'):.0f} ms"),
    ]


async def _watched(service: Part, home: Home, screen: str) -> Figures:
    """How long the loop of a real window stands while the run goes that it shows."""
    arguments = ("tests.bench.fleet_window", str(home.path), screen)
    worst: list[float] = []
    machine: list[float] = []
    rates: list[dict[str, Any]] = []
    watch = StallWatch()
    async with part(*arguments, QT_QPA_PLATFORM="offscreen", QT_LOGGING_RULES="*=false") as window:
        await window.heard("usable")
        for _ in range(WINDOW_ROUNDS):
            await asyncio.sleep(AFTERWARDS)
            await window.asked("stall", "stall")
            watch.take()
            rates.append(_checked(await service.asked(f"run {DEVICES}", "done")))
            await asyncio.sleep(AFTERWARDS)
            worst.append((await window.asked("stall", "stall"))["worst_ms"])
            machine.append(watch.take())
    watch.close()
    figure = f"{statistics.median(worst):.0f} ms median, {max(worst):.0f} ms worst of {WINDOW_ROUNDS}"
    return [
        (f"longest stall of the window, {screen} open (goal: under 50 ms)", figure),
        ("an idle loop at the same time (peer)", f"{statistics.median(machine):.0f} ms median"),
        ("results with the window attached", f"{_median_rate(rates, 'ended_s'):,.0f} results/s"),
    ]


def _checked(done: dict[str, Any], count: int = DEVICES) -> dict[str, Any]:
    assert done["counts"] == {"done": count}, done["counts"]
    return done


def _median(rounds: list[dict[str, Any]], what: str) -> float:
    return float(statistics.median(done[what] for done in rounds))


def _median_rate(rounds: list[dict[str, Any]], until: str = "took_s") -> float:
    return float(statistics.median(done["results"] / done[until] for done in rounds))


if __name__ == "__main__":
    for name, figure in run():
        print(f"{name:62} {figure}")
