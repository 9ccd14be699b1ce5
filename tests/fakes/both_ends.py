"""The device client and the console's own end of the link, together over a real socket."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from core.aip.device_link import DeviceLink, LinkEvents
from core.aip.extensions import Progress
from core.aip.limits import LinkLimits
from core.aip.link_server import DeviceLinkServer, token_table
from core.aip.messages import Command
from core.aip.resumable_link import ResumableLink
from core.device.build import build_router
from core.device.client import DeviceClient
from core.device.config import DeviceConfig
from tests.fakes.bad_line import BadLine, bad_line
from tests.fakes.link_console import QUICK, Bench, running
from tests.fakes.patience import PATIENCE_S

TOKEN = "a-token-of-d1"


class BothEnds:
    """The console's end, the device's tools as a `Bench`, and the network between them."""

    network: BadLine

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.line = ResumableLink("d1")
        self.connected: asyncio.Queue[DeviceLink] = asyncio.Queue()
        self.progress: asyncio.Queue[Progress] = asyncio.Queue()
        self.changed = asyncio.Event()
        self.metrics: asyncio.Queue[Any] = asyncio.Queue()

    async def link(self) -> DeviceLink:
        async with asyncio.timeout(PATIENCE_S):
            return await self.connected.get()

    def events(self) -> LinkEvents:
        def on_connected(link: DeviceLink) -> None:
            self.line.attach(link)
            self.connected.put_nowait(link)

        return LinkEvents(
            on_connected=on_connected,
            on_lost=lambda link, reason: self.line.detach(link, reason),
            on_progress=lambda link, progress: self.progress.put_nowait(progress),
            on_tools_changed=lambda link: self.changed.set(),
        )


@asynccontextmanager
async def both_ends(tmp_path: Path, limits: LinkLimits = LinkLimits()) -> AsyncIterator[BothEnds]:
    """Both ends with a line between them that carries everything at once, until a test makes it a bad one."""
    config = DeviceConfig(roots=(tmp_path,))
    bench = Bench(build_router(config, tmp_path / "state", "d1"))
    ends = BothEnds(bench)
    server = DeviceLinkServer(token_table({"d1": TOKEN}), ends.events(), limits=limits)
    await server.start()
    try:
        async with bad_line(server.port) as ends.network:
            url = f"ws://127.0.0.1:{ends.network.port}/ws"
            client = DeviceClient(url, "d1", bench.router, config, TOKEN, QUICK, state_dir=tmp_path / "state")
            async with running(client):
                yield ends
    finally:
        await server.close()


def work(call_id: str, **parameters: object) -> Command:
    """The tool that waits for `Bench.go`, as an action."""
    return Command(tool_name="work", tool_type="action", parameters=parameters, call_id=call_id)


def watch(call_id: str) -> Command:
    """The same as an observation, which runs beside others."""
    return Command(tool_name="watch", tool_type="data_collection", parameters={}, call_id=call_id)
