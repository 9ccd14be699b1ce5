"""Device clients as processes of their own, as a console meets them: paired, dialling in or listening."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from core.approvals.operator_keys import OperatorKey
from core.fleet.models import DeviceSettings
from core.home import Home
from core.models.devices import Device, Health
from core.service.console import Console
from core.service.local_console import LocalConsole
from core.service.service import Service
from tests.fakes.patience import PATIENCE_S
from tests.fakes.program import ROOT, environment
from tests.fakes.signing import signing
from tests.fakes.warm import DEVICES, Fork


def make_listening_home(path: Path, address: str = "127.0.0.1:0") -> Home:
    """A home that listens at an address of its own; its computer costs no process and no sandbox."""
    home = Home(path).create()
    (home.path / "settings.toml").write_text(f'this_computer = "in-process"\nlisten = "{address}"\n')
    (home.path / "device.toml").write_text('tools_off = ["shell_execute_read"]\n')
    return home


@dataclass(frozen=True, slots=True)
class Expected:
    """A device that was paired and has not come yet: its service, a door of that, and how it dials in."""

    service: Service
    console: Console
    port: int
    token: str


@asynccontextmanager
async def expecting(home: Home, key: OperatorKey, name: str) -> AsyncIterator[Expected]:
    """A service that listens and knows this operator, and a device that it waits for."""
    service = await Service.open(make_listening_home(home.path))
    try:
        console = signing(LocalConsole(service, "operator:anna"), service.home)
        await console.approvals.register_operator(key.operator)
        address = urlsplit((await console.devices.pair(name, DeviceSettings())).stock_url)
        assert address.port
        yield Expected(service, console, address.port, parse_qs(address.query)["token"][0])
    finally:
        await service.close()


@dataclass(slots=True)
class RemoteDevice:
    """A device client's process with a state of its own."""

    process: Fork

    async def ended(self) -> int:
        """Its exit code, when it ends by itself."""
        return await asyncio.to_thread(self.process.wait, PATIENCE_S)

    async def stop(self) -> None:
        """End it and wait until it is gone."""
        self.process.kill()
        await self.ended()


def _words(state: Path, *words: str) -> list[str]:
    state.mkdir(parents=True, exist_ok=True)
    config = state / "device.toml"
    if not config.exists():
        (state / "root").mkdir()
        config.write_text(f'roots = ["{state}/root"]\ntools_off = ["shell_execute_read"]\n')
    return ["--state", str(state), "--config", str(config), *words]


async def told(state: Path, *words: str, stdin: str = "") -> str:
    """What the device client prints when it is run to its end."""
    code, out, err = await asyncio.to_thread(_run, state, _words(state, *words), stdin)
    assert code == 0, err
    return out


def _machine_of(state: Path) -> Path:
    """Where the machine that has this state keeps its own installation of the client."""
    return state.with_name(f"{state.name}.machine")


def _on_its_machine(state: Path) -> dict[str, str]:
    return {**environment(), "XDG_STATE_HOME": str(_machine_of(state))}


def on_one_machine(state: Path, other: Path) -> None:
    """Let a further client, with a state of its own, be on the machine of the first."""
    _machine_of(other).symlink_to(_machine_of(state))


def _run(state: Path, words: list[str], stdin: str) -> tuple[int, str, str]:
    DEVICES.loaded_in(environment())
    return DEVICES.run(words, _on_its_machine(state), ROOT, said=stdin)


def _start(state: Path, words: list[str]) -> Fork:
    DEVICES.loaded_in(environment())
    return DEVICES.start(words, _on_its_machine(state), ROOT)


def copied(state: Path, to: Path) -> Path:
    """A copy of a device's state folder, as a clone of the machine has it; its installation is not copied."""
    shutil.copytree(state, to)
    return to


@asynccontextmanager
async def running(state: Path, *words: str) -> AsyncIterator[RemoteDevice]:
    """The device client with this state, for as long as the context lasts."""
    process = await asyncio.to_thread(_start, state, _words(state, *words))
    device = RemoteDevice(process)
    try:
        yield device
    finally:
        await device.stop()


@asynccontextmanager
async def paired(state: Path, string: str, *words: str) -> AsyncIterator[RemoteDevice]:
    """A device client that was given a console's pairing string, and dials it."""
    await told(state, "--pair", "-", stdin=string)
    async with running(state, *words) as device:
        yield device


async def stands(console: Console, name: str, *healths: Health, reason: str = "") -> Device:
    """The device once its health is one of these, and `reason` is in why."""
    async with asyncio.timeout(PATIENCE_S):
        events = console.events()
        while True:
            for device in (await console.service.state()).devices:
                if device.name == name and device.health in healths and reason in device.reason:
                    return device
            await anext(events)
