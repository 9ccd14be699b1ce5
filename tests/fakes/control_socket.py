"""The control socket of a console in memory, and clients of it: well-behaved ones and raw ones."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from pydantic_core import to_json
from websockets.asyncio.client import ClientConnection, unix_connect

from core.home import Home
from core.service.console import API_VERSION
from core.service.rpc import protocol
from core.service.rpc.client import RemoteConsole
from core.service.rpc.server import ControlServer
from tests.fakes.memory_console import AGENT_TOKEN, MemoryHost
from tests.fakes.patience import PATIENCE_S

Attach = Callable[..., Any]


@asynccontextmanager
async def serving(home: Home, host: MemoryHost) -> AsyncIterator[ControlServer]:
    """The service's end of the socket; nothing that waits at its gate keeps it from closing."""
    one = ControlServer(host, home)
    await one.open()
    try:
        yield one
    finally:
        host.gate.set()
        await one.close()


@asynccontextmanager
async def attaching(home: Home) -> AsyncIterator[Attach]:
    """Makes consoles that are attached to the socket; all of them are closed at the end."""
    consoles = []

    async def one(
        client: protocol.Client = "test",
        actor: str = "operator:anna",
        timeout: float = 30,
        token: str = AGENT_TOKEN,
    ) -> Any:
        console = await RemoteConsole.connect(home, client, actor, request_timeout=timeout, token=token)
        consoles.append(console)
        return console

    try:
        yield one
    finally:
        for console in consoles:
            await console.close()


async def raw(home: Home, **hello: Any) -> ClientConnection:
    connection = await unix_connect(str(home.socket), compression=None, max_size=protocol.MAX_FRAME)
    await connection.send(
        to_json(
            {
                "hello": {
                    "api_version": API_VERSION,
                    "client": "test",
                    "actor": "cli:x",
                    "token": AGENT_TOKEN,
                    **hello,
                }
            }
        ),
        text=True,
    )
    return connection


async def within(event: asyncio.Event) -> None:
    async with asyncio.timeout(PATIENCE_S):
        await event.wait()
