"""A hostile device over a real socket: while it lists what takes longest to read, the others are answered."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from core.aip.pairing import decode_pairing
from core.fleet.models import DeviceSettings
from core.models.devices import Health
from core.service.console import Console
from core.service.local_console import LocalConsole
from core.service.service import Service
from tests.fakes.lab_device import FEATURES
from tests.fakes.patience import PATIENCE_S
from tests.fakes.remote_device import make_listening_home, stands
from tests.fakes.scripted_device import scripted, tool
from tests.fakes.signing import signing
from tests.fakes.work import longest_turn


def worst(description: str) -> list[dict[str, Any]]:
    """Sixty thousand numbers that are written in an unusual way: nothing else takes as long to be read."""
    schema = {"type": "object", "default": [1e22] * 1_000}
    return [{**tool(f"t{n}", description), "input_schema": schema} for n in range(60)]


async def paired(console: Console, name: str) -> tuple[str, str]:
    pairing = await console.devices.pair(name, DeviceSettings())
    return pairing.url, decode_pairing(pairing.string).token


async def test_others_are_answered_while_a_device_lists_what_takes_longest_to_read(tmp_path: Path) -> None:
    service = await Service.open(make_listening_home(tmp_path / "home"))
    try:
        console = signing(LocalConsole(service, "operator:anna"), service.home)
        first, second = await paired(console, "lab-1"), await paired(console, "lab-2")
        async with scripted(*first, "lab-1") as other, scripted(*second, "lab-2", features=FEATURES) as bad:
            await stands(console, "lab-1", Health.ONLINE)
            await stands(console, "lab-2", Health.ONLINE)
            bad.tools, pings = worst("changed"), 0
            await bad.say(type="quarterdeck.tools_changed")
            # The device lives on this loop, too: what it takes to write its frame is its own.
            await bad.has_listed.wait()

            async def until_listed() -> None:
                nonlocal pings
                while (await console.devices.tools("lab-2"))[0].description != "changed":
                    async with asyncio.timeout(PATIENCE_S):
                        await (await other.connection.ping())
                    pings += 1

            share = await longest_turn(until_listed)
            assert share.of_all < 0.2, share
            assert pings > 5
    finally:
        await service.close()
