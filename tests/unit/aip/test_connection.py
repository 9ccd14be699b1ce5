"""Opening a connection, as both ends and the doctor do it: where the token goes, what bounds it."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from structlog.testing import capture_logs
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed, InvalidStatus

from core.aip import resolve
from core.aip.connection import open_connection
from core.aip.limits import LinkLimits
from core.device.build import build_router
from core.device.client import DeviceClient, Ending
from core.device.config import DeviceConfig
from tests.fakes.link_console import QUICK, TOKEN
from tests.fakes.patience import PATIENCE_S

LIMITS = LinkLimits(close_s=0.5, max_incoming_bytes=1000)


@asynccontextmanager
async def peer(
    story: Callable[[ServerConnection], Awaitable[None]],
) -> AsyncIterator[tuple[str, int]]:
    async with serve(story, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        yield f"ws://127.0.0.1:{port}/ws", port


@asynccontextmanager
async def answers(answer: bytes) -> AsyncIterator[str]:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(talk, "127.0.0.1", 0)
    async with server:
        yield f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}/ws"


async def test_the_token_goes_in_the_header_and_a_redirect_is_not_followed() -> None:
    shown: list[str | None] = []

    async def story(connection: ServerConnection) -> None:
        assert connection.request is not None
        shown.append(connection.request.headers.get("Authorization"))

    async with peer(story) as (url, _), asyncio.timeout(PATIENCE_S):
        async with answers(
            f"HTTP/1.1 302 Found\r\nLocation: {url}\r\nContent-Length: 0\r\n\r\n".encode()
        ) as other:
            with pytest.raises(InvalidStatus):
                await open_connection(other, LIMITS, 10, token="secret")
        assert shown == []
        await (await open_connection(url, LIMITS, 10, token="secret")).close()
        await (await open_connection(url, LIMITS, 10)).close()
    assert shown == ["Bearer secret", None]


async def test_a_frame_has_a_bound() -> None:
    async def story(connection: ServerConnection) -> None:
        await connection.send("x" * 1001)
        await connection.wait_closed()

    async with peer(story) as (url, _), asyncio.timeout(PATIENCE_S):
        connection = await open_connection(url, LIMITS, 10)
        with pytest.raises(ConnectionClosed) as closed:
            await connection.recv()
    assert closed.value.sent is not None
    assert closed.value.sent.code == 1009


async def test_a_peer_that_never_answers_is_given_up() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent, pytest.raises(TimeoutError):
        await open_connection(f"ws://127.0.0.1:{silent.getsockname()[1]}/ws", LIMITS, 0.1)


async def test_a_known_address_is_used_in_place_of_the_name(monkeypatch: pytest.MonkeyPatch) -> None:
    hosts: list[str] = []
    real = resolve._look_up

    def noted(host: str, port: int) -> list[tuple[int, resolve.Address]]:
        hosts.append(host)
        return real(host, port)

    async def story(connection: ServerConnection) -> None:
        assert connection.request is not None
        hosts.append(connection.request.headers["Host"])

    monkeypatch.setattr(resolve, "_look_up", noted)
    async with peer(story) as (_, port), asyncio.timeout(PATIENCE_S):
        url = f"ws://device.example:{port}/ws"
        await (await open_connection(url, LIMITS, 10, address="127.0.0.1")).close()
    assert hosts == ["127.0.0.1", f"device.example:{port}"]


async def test_no_proxy_is_used_unless_the_caller_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(connection: ServerConnection) -> None:
        await connection.wait_closed()

    for name in ("http_proxy", "https_proxy", "all_proxy", "ws_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    async with peer(story) as (url, _), asyncio.timeout(PATIENCE_S):
        await (await open_connection(url, LIMITS, 10)).close()
        with pytest.raises(OSError, match=r"127\.0\.0\.1', 9"):
            await open_connection(url, LIMITS, 10, proxy="http://127.0.0.1:9")


async def test_tls_is_never_left_out_where_the_url_asks_for_it() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent, pytest.raises(ValueError, match="ssl"):
        await open_connection(f"wss://127.0.0.1:{silent.getsockname()[1]}/ws", LIMITS, 5)


async def test_a_device_that_dials_tries_each_address_of_its_console(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as gone:
        port = gone.getsockname()[1]
    tried: list[str] = []
    loop = asyncio.get_running_loop()
    real = loop.sock_connect

    async def noted(sock: socket.socket, address: tuple[str, int]) -> None:
        tried.append(address[0])
        await real(sock, address)

    monkeypatch.setattr(loop, "sock_connect", noted)
    rows = [(socket.AF_INET, (host, port)) for host in ("127.0.0.2", "127.0.0.1")]
    monkeypatch.setattr(resolve, "_look_up", lambda host, port: rows)
    config = DeviceConfig(roots=(tmp_path,))
    router = build_router(config, tmp_path / "state", "d1")
    client = DeviceClient(f"ws://localhost:{port}/ws", "d1", router, config, TOKEN, QUICK)
    with capture_logs() as logs:
        async with asyncio.timeout(PATIENCE_S):
            assert await client.run(once=True) is Ending.UNREACHABLE
    assert tried == ["127.0.0.2", "127.0.0.1"]
    assert logs[-1]["reason"] == "The connection was refused: nothing listens there"
