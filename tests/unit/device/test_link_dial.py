"""A device that dials: what goes wrong told apart, its token kept from strangers, its pace."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs
from websockets.asyncio.server import serve

from core.aip.tls import load_or_make_identity
from core.device.build import build_router
from core.device.client import DeviceClient, Ending
from core.device.config import DeviceConfig
from core.errors import BadInput
from tests.fakes.link_console import QUICK, TOKEN, tls_console, welcome
from tests.fakes.patience import PATIENCE_S


async def attempt(url: str, tmp_path: Path, **more: Any) -> Ending:
    config = DeviceConfig(roots=(tmp_path,))
    router = build_router(config, tmp_path / "state", "d1")
    client = DeviceClient(url, "d1", router, config, TOKEN, QUICK, **more)
    async with asyncio.timeout(PATIENCE_S):
        return await client.run(once=True)


async def test_what_goes_wrong_with_a_link_is_told_apart(tmp_path: Path) -> None:
    assert await attempt("wss://no-such-host.invalid/ws", tmp_path) is Ending.UNKNOWN_HOST
    assert await attempt("ws://127.0.0.1:9/ws", tmp_path) is Ending.UNREACHABLE
    for no_name in ("a" * 70, "a..b", "\udcff"):
        assert await attempt(f"wss://{no_name}.example/ws", tmp_path) is Ending.UNKNOWN_HOST

    async def http(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answers[-1])
        await writer.drain()
        writer.close()

    answers: list[bytes] = []
    server = await asyncio.start_server(http, "127.0.0.1", 0)
    url = f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}/ws"
    for answer, ending in (
        (b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", Ending.PROTOCOL),
        (b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n", Ending.REFUSED),
        (b"SSH-2.0-OpenSSH_9.9\r\n\r\n", Ending.PROTOCOL),
    ):
        answers.append(answer)
        assert await attempt(url, tmp_path) is ending
    server.close()
    await server.wait_closed()


@pytest.mark.parametrize(
    "proxy", ["junk", "socks5://u:secret@127.0.0.1:1", "http://u:secret@[::1", "http://127.0.0.1:99999"]
)
async def test_a_proxy_that_cannot_be_used_is_told_and_not_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, proxy: str
) -> None:
    monkeypatch.setattr("core.device.client.find_spec", lambda name: None)
    monkeypatch.setenv("https_proxy", proxy)
    with capture_logs() as logs:
        assert await attempt("wss://192.0.2.1/ws", tmp_path) is Ending.UNREACHABLE
    assert "the environment names" in logs[-1]["reason"]
    assert "secret" not in str(logs)
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:9")
    with capture_logs() as logs:
        assert await attempt("wss://192.0.2.1/ws", tmp_path) is Ending.UNREACHABLE
    assert logs[-1]["reason"].startswith("The proxy that the environment names: ")


@pytest.mark.parametrize(
    ("answer", "ending"),
    [
        ('{"type":"error","status":"error","error":"not now"}', Ending.LOST),
        ('{"type":"error","status":"error","error":"invalid_arguments: not this name"}', Ending.REFUSED),
        ("what?", Ending.PROTOCOL),
        ('{"type":"error","status":"error","error":"protocol_error: too old"}', Ending.PROTOCOL),
    ],
)
async def test_what_a_console_answers_is_told_apart(tmp_path: Path, answer: str, ending: Ending) -> None:
    async def handler(connection: Any) -> None:
        await connection.recv()
        await connection.send(answer)
        await connection.wait_closed()

    async with serve(handler, "127.0.0.1", 0) as server:
        url = f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}/ws"
        assert await attempt(url, tmp_path) is ending


async def test_only_the_pinned_certificate_is_shown_the_token(tmp_path: Path) -> None:
    right = load_or_make_identity(tmp_path / "right", "console")
    wrong = load_or_make_identity(tmp_path / "wrong", "console")
    async with tls_console(wrong) as (url, shown):
        assert await attempt(url, tmp_path, fingerprint=right.fingerprint) is Ending.UNTRUSTED
        # Without a fingerprint the system's authorities decide, and they do not know it.
        assert await attempt(url, tmp_path) is Ending.UNTRUSTED
        assert shown == []
    async with tls_console(right) as (url, shown):
        assert await attempt(url, tmp_path, fingerprint=right.fingerprint) is Ending.DONE
        assert shown == [f"Bearer {TOKEN}"]


async def test_a_redirect_is_not_followed_with_the_token(tmp_path: Path) -> None:
    reached: list[str] = []

    async def elsewhere(connection: Any) -> None:
        reached.append(connection.request.path)

    async with serve(elsewhere, "127.0.0.1", 0) as trap:
        target = f"ws://127.0.0.1:{trap.sockets[0].getsockname()[1]}/ws"

        async def http(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(f"HTTP/1.1 302 Found\r\nLocation: {target}\r\nContent-Length: 0\r\n\r\n".encode())
            await writer.drain()
            writer.close()

        server = await asyncio.start_server(http, "127.0.0.1", 0)
        url = f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}/ws"
        assert await attempt(url, tmp_path) is Ending.PROTOCOL
        server.close()
        await server.wait_closed()
    assert reached == []


@pytest.mark.parametrize("url", ["ws://10.0.0.7/ws", "ws://console.lab/ws", "http://127.0.0.1/", "ws://"])
def test_an_unencrypted_link_to_elsewhere_is_refused_before_anything_is_sent(
    tmp_path: Path, url: str
) -> None:
    with pytest.raises(BadInput):
        DeviceClient(url, "d1", None, DeviceConfig(), TOKEN)  # type: ignore[arg-type]  # never reached


async def test_a_console_that_drops_us_at_once_is_not_dialled_at_full_speed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def handler(connection: Any) -> None:
        await connection.recv()
        await connection.send(welcome())

    waits: list[int] = []

    async def noted(self: DeviceClient) -> None:
        waits.append(self._backoff.failures)
        if len(waits) == 4:
            self.stop()

    monkeypatch.setattr(DeviceClient, "_wait", noted)
    config = DeviceConfig(roots=(tmp_path,))
    for good, expected in ((30.0, [1, 2, 3, 4]), (0.0, [0, 0, 0, 0])):
        waits.clear()
        async with serve(handler, "127.0.0.1", 0) as server:
            url = f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}/ws"
            router = build_router(config, tmp_path / "state", "d1")
            client = DeviceClient(url, "d1", router, config, TOKEN, replace(QUICK, good=good))
            async with asyncio.timeout(PATIENCE_S):
                assert await client.run() is Ending.DONE
        assert waits == expected
