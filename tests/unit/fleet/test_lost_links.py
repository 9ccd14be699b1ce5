"""Links that are lost again and again: what they have in common, and where it is said."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from core.fleet.connections import FLAPS_FROM, WITHIN_S, LostLinks
from core.fleet.models import CheckState
from core.models.devices import Health
from core.service.local_console import LocalConsole
from core.service.service import Service
from tests.fakes.lab_device import AWAY, FEATURES, pair
from tests.fakes.remote_device import make_listening_home, stands
from tests.fakes.scripted_device import scripted
from tests.fakes.signing import signing


def lost(links: LostLinks, idle: list[float], every_s: float = 20.0) -> float:
    clock = 1000.0
    for seconds in idle:
        clock += every_s
        links.lost("lab-1", seconds, clock)
    return clock


def test_a_few_losses_are_not_told() -> None:
    links = LostLinks()
    clock = lost(links, [20.0] * (FLAPS_FROM - 1))
    assert links.words("lab-1", clock) == ""
    assert links.words("lab-2", clock) == ""


def test_losses_after_the_same_idle_time_point_at_what_is_between() -> None:
    links = LostLinks()
    clock = lost(links, [15.2, 15.9, 19.0, 15.4, 17.0])
    words = links.words("lab-1", clock)
    assert words.startswith("lost 5 times in 2 minutes, each time after 15 s or more without a byte")
    assert "heartbeat_s" in words


def test_losses_in_the_middle_of_traffic_do_not() -> None:
    links = LostLinks()
    clock = lost(links, [15.2, 0.1, 19.0, 15.4])
    assert links.words("lab-1", clock) == "lost 4 times in 2 minutes"


def test_what_is_long_ago_does_not_count() -> None:
    links = LostLinks()
    clock = lost(links, [15.0] * 8)
    assert links.words("lab-1", clock + WITHIN_S + 1) == ""
    assert lost(links, [15.0] * 200, every_s=0.1)
    links.forget("lab-1")
    assert links.words("lab-1", clock) == ""


@pytest_asyncio.fixture
async def service(tmp_path: Path) -> AsyncIterator[Service]:
    service = await Service.open(make_listening_home(tmp_path / "home"))
    yield service
    await service.close()


@pytest.mark.parametrize("who", ["nobody", "the device", "the console"])
async def test_it_is_said_of_the_device_and_by_the_doctor(service: Service, who: str) -> None:
    """Losses that somebody wanted are none."""
    console = signing(LocalConsole(service, "operator:anna"), service.home)
    url, token = await pair(console)
    for _ in range(FLAPS_FROM):
        with contextlib.suppress(ExceptionGroup):
            async with scripted(url, token, "lab-1", features=FEATURES) as device:
                await stands(console, "lab-1", Health.ONLINE)
                if who == "nobody":
                    device.connection.transport.abort()
                elif who == "the console":
                    await service.links.disconnect("lab-1", "it was disconnected")
        await stands(console, "lab-1", *AWAY)
    on_purpose = who != "nobody"
    said = f"lost {FLAPS_FROM} times in 2 minutes"
    assert (said in service.fleet.get("lab-1").reason) is not on_purpose
    found = [one for one in await console.devices.diagnose("lab-1") if one.name == "flapping"]
    assert [one.state for one in found] == ([] if on_purpose else [CheckState.FAILED])
