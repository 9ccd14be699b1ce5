"""No fake: a dispatcher with a real device behind it, which hosts MCP servers, over either channel."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from core.aip.device_link import DeviceLink, LinkEvents
from core.aip.link_server import DeviceLinkServer, token_table
from core.commands.channel import LocalCommandDispatcher, WebSocketCommandDispatcher
from core.device.client import DeviceClient
from core.device.in_process import FEATURES, InProcessDevice, Told
from core.fleet.fleet import ConnectionInfo
from core.fleet.registration import arrival_of
from core.home import Home
from tests.fakes import link_console
from tests.fakes.mcp_hosted import Hosted, hosted
from tests.fakes.patience import PATIENCE_S
from tests.fakes.rig import Rig, open_rig

CHANNELS = ["link", "in-process"]
NAME = "hosting"
_TOKEN = "a-token-of-the-hosting-device"


@asynccontextmanager
async def hosting_console(
    home: Home, tmp_path: Path, servers: dict[str, Any], channel: str, **more: Any
) -> AsyncIterator[tuple[Rig, Hosted]]:
    """A rig whose device `NAME` hosts these servers; `more` is for `hosted`.

    The console is not told of changes: a test lists the tools again where it wants that.
    """
    async with hosted(tmp_path, servers, **more) as built, open_rig(home) as rig:
        rig.fleet.add(NAME, ["lab"])
        if channel == "in-process":
            inside = InProcessDevice(built.router, Told())
            local = LocalCommandDispatcher(NAME, inside, rig.dispatcher.gate)
            arrival = ConnectionInfo(
                *(local, "in-process", "linux", "test", "test", [], None),
                features=sorted(FEATURES),
                approvers=built.router.approvers,
            )
            await rig.fleet.arrived(NAME, arrival)
            yield rig, built
            return
        async with _link(built, tmp_path / "link") as link:
            remote = WebSocketCommandDispatcher(NAME, link, rig.dispatcher.gate)
            await rig.fleet.arrived(NAME, arrival_of(link, remote))
            yield rig, built


@asynccontextmanager
async def _link(built: Hosted, state: Path) -> AsyncIterator[DeviceLink]:
    """An AIP link over a real socket, with a real device client at its other end."""
    connected: asyncio.Queue[DeviceLink] = asyncio.Queue()
    server = DeviceLinkServer(token_table({NAME: _TOKEN}), LinkEvents(on_connected=connected.put_nowait))
    await server.start()
    announced = built.router.on_tools_changed
    client = DeviceClient(
        server.url, NAME, built.router, built.config, _TOKEN, link_console.QUICK, state_dir=state
    )
    over_link = built.router.on_tools_changed

    def both() -> None:
        announced()
        over_link()

    built.router.on_tools_changed = both
    try:
        async with link_console.running(client):
            async with asyncio.timeout(PATIENCE_S):
                link = await connected.get()
            yield link
    finally:
        await server.close()
