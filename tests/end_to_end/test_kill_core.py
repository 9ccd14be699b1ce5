"""After kill -9 at a random moment, each command that the device saw is in the journal."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from core.home import Home
from tests.fakes.kills import kill_once, victims

KILLS = 12


@pytest.mark.slow
async def test_nothing_that_reached_a_device_is_missing_after_kill_9(tmp_path: Path):
    rng = random.Random(20261120)
    async with victims() as process:
        for number in range(KILLS):
            outcome = await kill_once(process, Home(tmp_path / str(number)), rng)
            assert outcome.seen > 0
            assert outcome.missing == []
            assert outcome.without_result == []
            assert outcome.verifies
