"""Somebody in the middle: reads and rewrites what a console and a device say to each other.

    proxy.attack = lambda frame: [frame, frame]       # every command frame arrives twice

It is a WebSocket server to the device and a client to the console, so it needs no key of either; it has what
a network between them has, and the device's token besides.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed

from core.tasks import TaskGroupOwner

Frame = dict[str, Any]
Attack = Callable[[Frame], list[Frame]]


def honest(frame: Frame) -> list[Frame]:
    """What arrives is what was sent."""
    return [frame]


class AlteringProxy:
    """Carries on to the console at a port of loopback, through whatever `attack` makes of it."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._server: Server | None = None
        self._tasks = TaskGroupOwner("altering proxy", lambda name, error: None)
        self._to_device: ServerConnection | None = None
        self.attack: Attack = honest
        # What a device says when it registers can be altered as well.
        self.on_register: Callable[[Frame], Frame] = lambda frame: frame
        self.seen: list[Frame] = []
        self.said: list[Frame] = []

    @property
    def url(self) -> str:
        """Where the device dials."""
        assert self._server is not None
        return f"ws://127.0.0.1:{next(iter(self._server.sockets)).getsockname()[1]}/ws"

    async def start(self) -> None:
        """Begin to listen."""
        self._server = await serve(self._carry, "127.0.0.1", 0, max_size=None)

    async def close(self) -> None:
        """End every link and listen no more."""
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()
        await self._tasks.close()

    async def inject(self, frame: Frame) -> None:
        """Say something to the device that no console has said now."""
        assert self._to_device is not None
        await self._to_device.send(json.dumps(frame))

    async def _carry(self, device: ServerConnection) -> None:
        assert device.request is not None
        token = device.request.headers.get("Authorization", "")
        url = f"ws://127.0.0.1:{self._port}{device.request.path}"
        with contextlib.suppress(ConnectionClosed, OSError):
            async with connect(url, additional_headers={"Authorization": token}, max_size=None) as console:
                self._to_device = device
                flows = [
                    self._tasks.spawn("to the device", self._to_the_device(console, device)),
                    self._tasks.spawn("to the console", self._to_the_console(device, console)),
                ]
                await asyncio.wait(flows, return_when=asyncio.FIRST_COMPLETED)
                for flow in flows:
                    flow.cancel()

    async def _to_the_device(self, console: ClientConnection, device: ServerConnection) -> None:
        with contextlib.suppress(ConnectionClosed):
            async for data in console:
                frame = _read(data)
                if frame.get("type") != "command" or not _acts(frame):
                    await device.send(data)
                    continue
                self.seen.append(copy.deepcopy(frame))
                for altered in self.attack(frame):
                    await device.send(json.dumps(altered))

    async def _to_the_console(self, device: ServerConnection, console: ClientConnection) -> None:
        with contextlib.suppress(ConnectionClosed):
            async for data in device:
                frame = _read(data)
                if frame.get("type") == "register":
                    data = json.dumps(self.on_register(frame))
                elif frame.get("type") == "command_results":
                    self.said.append(frame)
                await console.send(data)


def _read(data: str | bytes) -> Frame:
    try:
        said = json.loads(data)
    except ValueError:
        return {}
    return said if isinstance(said, dict) else {}


def _acts(frame: Frame) -> bool:
    # A console lists tools as an action of whatever agent it addresses.
    return any(
        action.get("tool_type") == "action" and "tools" not in action.get("tool_name", "")
        for action in frame.get("actions") or []
    )


@asynccontextmanager
async def altering_proxy(port: int) -> AsyncIterator[AlteringProxy]:
    """A proxy in front of the console that listens at this port of loopback."""
    proxy = AlteringProxy(port)
    await proxy.start()
    try:
        yield proxy
    finally:
        await proxy.close()
