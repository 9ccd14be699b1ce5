"""A few hundred kills of the core at random moments: what the device saw and the journal does not have."""

from __future__ import annotations

import asyncio
import random
import tempfile
import time
from pathlib import Path

from core.home import Home
from tests.bench.journal_bench import Figures
from tests.fakes.kills import Outcome, kill_once, victims

KILLS = 300


def run(kills: int = KILLS) -> Figures:
    """Kill and compare; raises when anything is missing."""
    started = time.perf_counter()
    outcomes = asyncio.run(_kill(kills))
    missing = sum(len(one.missing) for one in outcomes)
    open_ends = sum(len(one.without_result) for one in outcomes)
    unverified = sum(not one.verifies for one in outcomes)
    figures: Figures = [
        (f"commands that devices saw in {kills} kills", f"{sum(one.seen for one in outcomes):,}"),
        ("of these missing in the journal (limit: 0)", f"{missing}"),
        ("of these without a result after recovery (limit: 0)", f"{open_ends}"),
        ("journals that do not verify (limit: 0)", f"{unverified}"),
        ("seconds for a kill, with start and recovery", f"{(time.perf_counter() - started) / kills:.2f} s"),
    ]
    if missing or open_ends or unverified:
        raise AssertionError(f"the journal lost something: {figures}")
    return figures


async def _kill(kills: int) -> list[Outcome]:
    rng = random.Random()
    outcomes = []
    async with victims() as process:
        for number in range(kills):
            with tempfile.TemporaryDirectory(prefix=f"kill-{number}-") as folder:
                outcomes.append(await kill_once(process, Home(Path(folder) / "home"), rng))
    return outcomes


if __name__ == "__main__":
    for name, figure in run():
        print(f"{name:60} {figure}")
