"""A few hundred kills of the core at random moments: what the device saw and the journal does not have."""

from __future__ import annotations

import asyncio
import random
import tempfile
import time
from pathlib import Path

from core.home import Home
from tests.bench.figures import Figure, Figures, Scale
from tests.fakes.kills import Outcome, kill_once, victims


def run(scale: Scale) -> Figures:
    """Kill and compare."""
    kills = scale.of(scale.kills, 2)
    started = time.perf_counter()
    outcomes = asyncio.run(_kill(kills))
    took_s = (time.perf_counter() - started) / kills
    return [
        Figure(
            "commands that devices saw", sum(one.seen for one in outcomes), "commands", None, f"{kills} kills"
        ),
        Figure("commands missing in the journal", sum(len(one.missing) for one in outcomes), "commands"),
        Figure(
            "commands without a result after recovery",
            sum(len(one.without_result) for one in outcomes),
            "commands",
        ),
        Figure("journals that do not verify", sum(not one.verifies for one in outcomes), "journals"),
        Figure("one kill, with start and recovery", took_s, "s"),
    ]


async def _kill(kills: int) -> list[Outcome]:
    rng = random.Random()
    outcomes = []
    async with victims() as process:
        for number in range(kills):
            with tempfile.TemporaryDirectory(prefix=f"kill-{number}-") as folder:
                outcomes.append(await kill_once(process, Home(Path(folder) / "home"), rng))
    return outcomes
