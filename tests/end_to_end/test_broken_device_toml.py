"""A broken device.toml: the device is offline and says why, until the file changes; the service goes on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from core.fleet import this_computer
from core.fleet.this_computer import _how_it_ended, _in_words
from core.home import Home
from core.models.devices import Device, Health
from core.service.console import DeviceChanged
from core.service.local_console import LocalConsole
from core.service.service import Service
from tests.fakes.desk import choose_channel, online
from tests.fakes.patience import PATIENCE_S
from tests.fakes.signing import signing

CHANNELS = ["process", "in-process"]
BROKEN = '[limits]\nmax_processes = "many"\n'


@pytest.fixture(autouse=True)
def looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(this_computer, "LOOK_EVERY", 0.05)


@asynccontextmanager
async def opened(home: Home) -> AsyncIterator[Service]:
    service = await Service.open(home)
    try:
        yield service
    finally:
        await service.close()


async def waiting(service: Service, words: str) -> Device:
    """The device, once it waits for its file because of `words`."""
    console = signing(LocalConsole(service, "operator:test"), service.home)
    events = console.events()
    async with asyncio.timeout(PATIENCE_S):
        [device] = (await console.service.state()).devices
        if words in device.reason and "waits" in device.reason:
            return device
        async for event in events:
            device = event.device if isinstance(event, DeviceChanged) else device
            if words in device.reason and "waits" in device.reason:
                return device
    raise AssertionError("it never waited")


@pytest.mark.parametrize("channel", CHANNELS)
async def test_the_device_says_why_it_is_offline_and_comes_back_when_the_file_is_mended(
    home: Home, channel: str
):
    choose_channel(home, channel)
    config = home.device_state / "device.toml"
    config.write_text(BROKEN)
    async with opened(home) as service:
        device = await waiting(service, "limits.max_processes")
        assert device.health is Health.OFFLINE
        assert device.restarts == 0
        assert device.reason.endswith("; waits until device.toml changes")
        assert "{" not in device.reason
        # Broken in another way: still offline, with the new reason.
        config.write_text("roots = [")
        again = await waiting(service, "cannot be used")
        assert again.health is Health.OFFLINE
        config.write_text("[limits]\nmax_processes = 3\n")
        await online(service)
        assert service.fleet.get("this-computer").reason == ""


@pytest.mark.parametrize("channel", CHANNELS)
async def test_without_the_broken_file_the_defaults_hold(home: Home, channel: str):
    choose_channel(home, channel)
    config = home.device_state / "device.toml"
    config.write_text(BROKEN)
    async with opened(home) as service:
        await waiting(service, "limits.max_processes")
        config.unlink()
        await online(service)


@pytest.mark.parametrize("channel", CHANNELS)
async def test_while_the_file_stays_broken_nothing_is_started_again(
    home: Home, channel: str, monkeypatch: pytest.MonkeyPatch
):
    choose_channel(home, channel)
    (home.device_state / "device.toml").write_text(BROKEN)
    looks, often = 0, asyncio.Event()
    stamp = this_computer.ThisComputer._stamp

    def counted(this: this_computer.ThisComputer) -> this_computer.Stamp:
        nonlocal looks
        looks += 1
        if looks > 12:
            often.set()
        return stamp(this)

    monkeypatch.setattr(this_computer.ThisComputer, "_stamp", counted)
    async with opened(home) as service:
        device = await waiting(service, "limits.max_processes")
        await asyncio.wait_for(often.wait(), PATIENCE_S)
        assert service.this_computer.pid is None
        assert service.fleet.get("this-computer").since == device.since


def test_the_last_line_of_a_log_is_said_in_words():
    line = '{"console": "ws://x", "reason": "HTTP 401", "event": "no link", "level": "warning"}'
    assert _how_it_ended(1, _in_words(line)) == "its process ended with code 1: no link: HTTP 401"
    assert _in_words("quarterdeck-device: device.toml is odd") == "device.toml is odd"
    assert _in_words("7") == "7"
    assert _in_words("") == ""
    assert _how_it_ended(-9, "") == "its process was killed by SIGKILL"
