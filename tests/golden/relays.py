"""Relays that stand between two real ends of a WebSocket and keep what passes, in both directions."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from websockets.asyncio.client import ClientConnection, connect, unix_connect
from websockets.asyncio.server import ServerConnection, serve, unix_serve
from websockets.exceptions import ConnectionClosed, InvalidHandshake

from core.home import Home
from core.service.rpc import protocol
from core.service.rpc.transport import own_folder

Frame = dict[str, Any]
Dial = Callable[[ServerConnection], Awaitable[ClientConnection]]


@dataclass(slots=True)
class Recording:
    """Frames in the order in which they passed; `from` is the end that sent it."""

    frames: list[Frame] = field(default_factory=list)

    def keep(self, sender: str, data: str | bytes) -> None:
        """Keep one frame: its JSON, or how many bytes it was."""
        if isinstance(data, str):
            frame = json.loads(data)
        else:
            frame = {"id": int.from_bytes(data[: protocol.ID_BYTES], "big"), "bytes": len(data)}
        self.frames.append({"from": sender, "frame": frame})


async def _pass_on(
    source: ServerConnection | ClientConnection,
    to: ServerConnection | ClientConnection,
    sender: str,
    recording: Recording,
) -> None:
    with contextlib.suppress(ConnectionClosed):
        async for data in source:
            recording.keep(sender, data)
            await to.send(data)


def _relaying(
    dial: Dial, recording: Recording, ends: tuple[str, str]
) -> Callable[[ServerConnection], Awaitable[None]]:
    async def relay(near: ServerConnection) -> None:
        with contextlib.suppress(ConnectionClosed, InvalidHandshake, OSError):
            async with await dial(near) as far, asyncio.TaskGroup() as group:
                ways = [
                    group.create_task(_pass_on(near, far, ends[0], recording)),
                    group.create_task(_pass_on(far, near, ends[1], recording)),
                ]
                await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
                await near.close()
                await far.close()

    return relay


@asynccontextmanager
async def relayed_socket(front: Home, home: Home, recording: Recording) -> AsyncIterator[None]:
    """The control socket of `home`, reachable as the one of `front`."""

    async def dial(_near: ServerConnection) -> ClientConnection:
        return await unix_connect(str(home.socket), compression=None, max_size=protocol.MAX_FRAME)

    own_folder(front)
    relay = _relaying(dial, recording, ("client", "service"))
    async with unix_serve(relay, str(front.socket), compression=None, max_size=protocol.MAX_FRAME):
        front.socket.chmod(0o600)
        yield


@asynccontextmanager
async def relayed_link(port: int, recording: Recording) -> AsyncIterator[int]:
    """The port of a relay to the console that listens at `port` of loopback."""

    async def dial(near: ServerConnection) -> ClientConnection:
        assert near.request is not None
        asked = near.request.headers
        headers = [(name, asked[name]) for name in ("Authorization", "User-Agent") if name in asked]
        address = f"ws://127.0.0.1:{port}{near.request.path}"
        return await connect(
            address,
            additional_headers=headers,
            max_size=None,
            compression=None,
            proxy=None,
            ping_interval=None,
        )

    relay = _relaying(dial, recording, ("device", "console"))
    async with serve(relay, "127.0.0.1", 0, max_size=None, compression=None, ping_interval=None) as server:
        yield server.sockets[0].getsockname()[1]
