"""Silent devices while somebody sets the system's clock."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from core.fleet import connections
from core.fleet.connections import ClockJumpDetector
from core.models.devices import Health
from core.service.local_console import LocalConsole
from core.service.service import Service
from tests.fakes.lab_device import FEATURES, pair
from tests.fakes.patience import PATIENCE_S
from tests.fakes.remote_device import make_listening_home, stands
from tests.fakes.scripted_device import scripted
from tests.fakes.signing import signing

NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


@dataclass
class Heard:
    """What of a link is looked at."""

    last_heard: datetime


def seconds(count: float) -> timedelta:
    return timedelta(seconds=count)


@pytest.mark.parametrize("moved", [HOUR, -HOUR, seconds(30), seconds(-30)])
def test_who_was_heard_before_the_clock_was_set_was_heard_as_long_ago_as_before(moved: timedelta) -> None:
    clocks = ClockJumpDetector(NOON, 100.0)
    link: Any = Heard(NOON - seconds(7))
    clocks.look([link], NOON + seconds(1) + moved, 101.0)
    assert NOON + seconds(1) + moved - link.last_heard == seconds(8)
    clocks.look([link], NOON + seconds(2) + moved, 102.0)
    assert NOON + seconds(2) + moved - link.last_heard == seconds(9)


@pytest.mark.parametrize("moved", [HOUR, -HOUR])
def test_who_was_heard_after_the_clock_was_set_is_left_alone(moved: timedelta) -> None:
    clocks = ClockJumpDetector(NOON, 100.0)
    link: Any = Heard(NOON + moved + seconds(0.5))
    clocks.look([link], NOON + seconds(1) + moved, 101.0)
    assert link.last_heard == NOON + moved + seconds(0.5)


def test_a_clock_that_drifts_and_a_look_that_comes_late_change_nothing() -> None:
    clocks = ClockJumpDetector(NOON, 100.0)
    link: Any = Heard(NOON)
    clocks.look([link], NOON + seconds(30.4), 130.0)
    assert link.last_heard == NOON


async def test_a_clock_that_is_set_forward_makes_no_device_silent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The machine's clock is its edge: nobody sets it for a test."""

    class Clock(datetime):
        shift = timedelta()

        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return datetime.now(tz) + cls.shift

    monkeypatch.setattr(connections, "datetime", Clock)
    monkeypatch.setattr(connections, "LOOK_EVERY_S", 0.02)
    service = await Service.open(make_listening_home(tmp_path / "home"))
    looks = asyncio.Semaphore(0)
    look = service.links.look

    def looked(now: datetime, clock: float) -> None:
        look(now, clock)
        looks.release()

    monkeypatch.setattr(service.links, "look", looked)
    try:
        console = signing(LocalConsole(service, "operator:anna"), service.home)
        url, token = await pair(console)
        async with scripted(url, token, "lab-1", features=FEATURES):
            await stands(console, "lab-1", Health.ONLINE)
            Clock.shift = HOUR
            async with asyncio.timeout(PATIENCE_S):
                for _ in range(10):
                    await looks.acquire()
            history = [one.health for one in (await console.devices.details("lab-1")).history]
        assert Health.STALE not in history
    finally:
        await service.close()


async def test_a_device_that_is_silent_for_too_long_is_stale_since_it_was_heard_last_until_it_is_heard_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The service's own looks stay out of the way of these.
    monkeypatch.setattr(connections, "LOOK_EVERY_S", 3600.0)
    service = await Service.open(make_listening_home(tmp_path / "home"))
    try:
        console = signing(LocalConsole(service, "operator:anna"), service.home)
        url, token = await pair(console)
        async with scripted(url, token, "lab-1", features=FEATURES):
            await stands(console, "lab-1", Health.ONLINE)
            heard, clock = datetime.now(UTC), asyncio.get_running_loop().time()
            service.links.look(heard + HOUR, clock + HOUR.total_seconds())
            device = service.fleet.get("lab-1")
            assert (device.health, "nothing was heard for 15 s" in device.reason) == (Health.STALE, True)
            assert datetime.fromisoformat(device.since) <= heard
            service.links.look(datetime.now(UTC), clock)
            assert service.fleet.get("lab-1").health is Health.ONLINE
    finally:
        await service.close()
