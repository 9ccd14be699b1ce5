"""Trust that ends while a device is between the door and its link; many that come under one name at once."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
from websockets.asyncio.client import connect

from core.aip.pairing import Pairing, encode_pairing
from core.fleet.models import DeviceSettings
from core.service.console import Console
from core.service.local_console import LocalConsole
from core.service.service import Service
from tests.fakes.lab_device import FEATURES, device_when, pair
from tests.fakes.patience import PATIENCE_S
from tests.fakes.remote_device import make_listening_home
from tests.fakes.scripted_device import tool
from tests.fakes.signing import signing

OURS = {
    "client_type": "device",
    "client_id": "lab-1",
    "status": "ok",
    "metadata": {"quarterdeck": {"features": FEATURES}},
}
REGISTER = json.dumps({**OURS, "type": "register"})
Change = Callable[[Console], Awaitable[object]]


@pytest.fixture
async def service(tmp_path: Path) -> AsyncIterator[Service]:
    service = await Service.open(make_listening_home(tmp_path / "home"))
    yield service
    await service.close()


@pytest.fixture
def console(service: Service) -> Console:
    return signing(LocalConsole(service, "operator:anna"), service.home)


async def revoke(console: Console) -> None:
    await console.devices.revoke("lab-1")


async def forget(console: Console) -> None:
    await console.devices.forget("lab-1")


async def pair_anew(console: Console) -> None:
    await pair(console)


async def forget_and_pair(console: Console) -> None:
    await console.devices.forget("lab-1")
    await pair(console)


async def turn_round(console: Console) -> None:
    line = encode_pairing(Pairing("ws://127.0.0.1:1/ws", "lab-1", "token"))
    await console.devices.pair_listening("lab-1", line, DeviceSettings())


@pytest.mark.parametrize("change", [revoke, forget, pair_anew, forget_and_pair, turn_round])
async def test_who_was_let_in_by_a_token_that_is_worthless_by_now_gets_no_link(
    service: Service, console: Console, change: Change
) -> None:
    url, token = await pair(console)
    # Its upgrade was accepted with the token that was good then; it registers when that is over.
    async with connect(f"{url}?token={token}") as connection, asyncio.timeout(PATIENCE_S):
        await change(console)
        await connection.send(REGISTER)
        heard = [json.loads(frame)["type"] async for frame in connection]
    assert "command" not in heard
    assert service.links._live == {}
    assert not (await console.journal.entries("kind:device_connected device:lab-1")).entries
    refused = [one.reason for one in await console.devices.rejected_connections()]
    assert "its token was replaced or revoked while it registered" in refused


async def test_a_device_that_is_forgotten_while_it_is_dialled_is_let_go_at_once(
    service: Service, console: Console
) -> None:
    came, gone = asyncio.Event(), asyncio.Event()

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        came.set()
        while await reader.read(1000):
            pass
        gone.set()
        writer.close()

    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    async with server:
        url = f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}/ws"
        line = encode_pairing(Pairing(url, "lab-1", "token"))
        await console.devices.pair_listening("lab-1", line, DeviceSettings())
        async with asyncio.timeout(PATIENCE_S):
            await came.wait()
            await console.devices.forget("lab-1")
            await gone.wait()
    assert "service: dial lab-1" not in service.tasks.names
    assert "lab-1" not in [one.name for one in service.fleet.devices()]


async def test_of_many_that_register_under_one_name_at_once_one_is_the_device(
    service: Service, console: Console
) -> None:
    url, token = await pair(console)
    done = asyncio.Event()

    async def register() -> None:
        async with connect(f"{url}?token={token}") as connection:
            await connection.send(REGISTER)
            async for frame in connection:
                if "list_tools" in str(frame):
                    asked = json.loads(frame)
                    call_id = asked["actions"][0]["call_id"]
                    answer = {"status": "success", "result": [tool("poke")], "call_id": call_id}
                    more = {"prev_response_id": asked["response_id"], "action_results": [answer]}
                    await connection.send(json.dumps({**OURS, "type": "command_results", **more}))
                    await done.wait()
                    return

    async with asyncio.TaskGroup() as group:
        for _ in range(20):
            group.create_task(register())
        await device_when(console, "device.refused == 19 and device.health is Health.ONLINE")
        assert len(service.links._live) == 1
        assert len((await console.journal.entries("kind:device_connected device:lab-1")).entries) == 1
        done.set()
