"""A core that is meant to be killed: dispatches reads and changes to one device as fast as it can.

`python -m tests.fakes.kill_victim` forks one for each home whose path it reads, a line each. That prints
`PORT TOKEN PID` and runs until something kills it; then `gone` is printed.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import sys
from itertools import count
from pathlib import Path

from core.aip.device_link import DeviceLink, LinkEvents
from core.aip.link_server import DeviceLinkServer
from core.commands.channel import WebSocketCommandDispatcher
from core.commands.request import CommandRequest
from core.fleet.fleet import ConnectionInfo
from core.home import Home
from tests.fakes.rig import DEVICE, open_rig


async def run(home: Home) -> None:
    token = secrets.token_hex(8)
    async with open_rig(home) as rig:
        arrived: asyncio.Queue[DeviceLink] = asyncio.Queue()
        server = DeviceLinkServer(
            lambda given: DEVICE if given == token else None, LinkEvents(on_connected=arrived.put_nowait)
        )
        await server.start()
        print(server.port, token, os.getpid(), flush=True)
        channel = WebSocketCommandDispatcher(DEVICE, await arrived.get(), rig.dispatcher.gate)
        await rig.fleet.arrived(DEVICE, ConnectionInfo(channel, "process", "linux", "test", "test", [], None))

        async def worker(number: int) -> None:
            for turn in count():
                path = f"/tmp/{number}-{turn}"
                change = CommandRequest(
                    DEVICE, "write_file", {"file_path": path, "content": "x"}, "operator:anna"
                )
                read = CommandRequest(DEVICE, "read_file", {"file_path": path}, "operator:anna")
                await rig.dispatcher.dispatch(change if turn % 2 else read)

        await asyncio.gather(*(worker(number) for number in range(8)))


if __name__ == "__main__":
    while line := sys.stdin.readline():
        child = os.fork()
        if child == 0:
            asyncio.run(run(Home(Path(line.rstrip("\n"))).create()))
        os.waitpid(child, 0)
        print("gone", flush=True)
