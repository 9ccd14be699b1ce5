"""A console that ends while devices hang, come back, or are about to register."""

from __future__ import annotations

import asyncio
import contextlib
import socket as sockets

import pytest
from websockets.exceptions import ConnectionClosed

from core.aip.device_link import DeviceLink, LinkEvents
from core.aip.limits import LinkLimits
from core.aip.link_server import DeviceLinkServer, token_table
from tests.fakes.aip_house import running_house, say, soon

HALF_OPEN = 6
CLOSE_S = 0.4


async def half_open(port: int, name: str, token: str) -> sockets.socket:
    """A device that registers and then neither reads nor answers anything, its close included."""
    loop = asyncio.get_running_loop()
    end = sockets.socket()
    end.setblocking(False)
    await loop.sock_connect(end, ("127.0.0.1", port))
    upgrade = (
        f"GET /ws HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        f"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n"
        f"Authorization: Bearer {token}\r\n\r\n"
    )
    await loop.sock_sendall(end, upgrade.encode())
    await loop.sock_recv(end, 4096)
    hello = f'{{"type":"register","status":"ok","client_id":"{name}"}}'.encode()
    # Masked with zeros, which is a mask like any.
    await loop.sock_sendall(end, bytes([0x81, 0x80 | len(hello)]) + b"\0\0\0\0" + hello)
    return end


async def closed_at_once(devices: int, monkeypatch: pytest.MonkeyPatch) -> int:
    """How many links a console closes at the same time when it ends while so many devices hang."""
    under_way = most = 0
    close = DeviceLink.close

    async def counted(link: DeviceLink, reason: str) -> None:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        try:
            await close(link, reason)
        finally:
            under_way -= 1

    monkeypatch.setattr(DeviceLink, "close", counted)
    tokens = {f"d{number}": f"token-{number}" for number in range(devices)}
    connected: asyncio.Queue[DeviceLink] = asyncio.Queue()
    events = LinkEvents(on_connected=connected.put_nowait)
    server = DeviceLinkServer(token_table(tokens), events, limits=LinkLimits(close_s=CLOSE_S))
    await server.start()
    ends = [await half_open(server.port, name, token) for name, token in tokens.items()]
    try:
        for _ in ends:
            await soon(connected.get())
        await soon(server.close())
        return most
    finally:
        for end in ends:
            end.close()


async def test_many_devices_that_hang_are_let_go_at_once_and_not_one_after_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert await closed_at_once(HALF_OPEN, monkeypatch) == HALF_OPEN


async def test_a_device_that_registers_while_the_console_ends_does_not_keep_it() -> None:
    async with running_house(LinkLimits(close_s=CLOSE_S)) as house:
        late = await house.dial("token-two")
        end = await half_open(house.server.port, "d1", "token-one")
        try:
            await soon(house.connected.get())
            closing = house.tasks.spawn("close", house.server.close())
            await asyncio.sleep(0)
            with contextlib.suppress(ConnectionClosed):
                await say(late, type="register", status="ok", client_id="d2")
            await soon(closing)
            with pytest.raises(ConnectionClosed):
                await soon(late.recv())
            assert house.connected.empty()
        finally:
            end.close()
