"""A device that listens, attacked at its door."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from core.aip.connector import DialAddress, dial
from core.aip.device_link import DeviceLink, LinkEvents
from core.aip.messages import Command
from core.aip.tls import Identity, load_or_make_identity, pinned_client_context, server_context
from core.device.build import build_router
from core.device.config import DeviceConfig
from core.device.listener import DeviceListener, ListenAddress, read_address
from core.device.runtime import DeviceRuntime
from core.errors import BadInput, Refused
from core.tasks import TaskGroupOwner
from tests.fakes.link_console import QUICK, TOKEN, Bench, Wire, command, welcome
from tests.fakes.patience import PATIENCE_S
from tests.fakes.ports import free_port
from tests.fakes.read_shell import NO_READ_SHELL


class Listening:
    """A listening device in this process."""

    def __init__(self, listener: DeviceListener, bench: Bench, secure: bool) -> None:
        self.bench = bench
        self.url = f"{'wss' if secure else 'ws'}://127.0.0.1:{listener.port}/ws"
        self.port = listener.port
        self.listener = listener

    @asynccontextmanager
    async def dialled(self, **more: Any) -> AsyncIterator[Wire]:
        """A console that has dialled, with the right token."""
        headers = {"Authorization": f"Bearer {TOKEN}"}
        async with connect(self.url, additional_headers=headers, proxy=None, **more) as connection:
            wire = Wire(connection)
            wire.hello = await wire.hear()
            await connection.send(welcome())
            yield wire

    async def refused(self, path: str = "/ws", **headers: str) -> tuple[int, str]:
        """The status and the words with which an upgrade is refused."""
        url = self.url.removesuffix("/ws") + path
        with pytest.raises(InvalidStatus) as caught:
            await connect(url, additional_headers=headers, proxy=None)
        return caught.value.response.status_code, (caught.value.response.body or b"").decode().strip()


@asynccontextmanager
async def listening(tmp_path: Path, identity: Identity | None = None) -> AsyncIterator[Listening]:
    config = DeviceConfig(roots=(tmp_path,), tools_off=NO_READ_SHELL)
    bench = Bench(build_router(config, tmp_path / "state", "d1"))
    bench.go.set()
    secure = None if identity is None else server_context(identity)
    desk = DeviceRuntime("d1", bench.router, config)
    listener = DeviceListener(desk, ListenAddress("127.0.0.1", 0), TOKEN, secure, QUICK)
    await listener.start()
    tasks = TaskGroupOwner("test")
    run = tasks.spawn("listener", listener.run())
    try:
        yield Listening(listener, bench, identity is not None)
    finally:
        listener.stop()
        async with asyncio.timeout(PATIENCE_S):
            await run
        await tasks.close()


async def test_it_speaks_first_and_serves_the_console_that_dialled(tmp_path: Path) -> None:
    async with listening(tmp_path) as device, device.dialled() as wire:
        assert (wire.hello["type"], wire.hello["client_id"]) == ("register", "d1")
        [result] = await wire.ask(command("work"))
        assert result["status"] == "success"


async def test_the_consoles_own_dialler_reaches_it(tmp_path: Path) -> None:
    identity = load_or_make_identity(tmp_path / "tls", "d1")
    connected: asyncio.Queue[DeviceLink] = asyncio.Queue()
    tasks = TaskGroupOwner("test")
    async with listening(tmp_path, identity) as device:
        address = DialAddress("d1", device.url, TOKEN, identity.fingerprint)
        dialling = tasks.spawn("dial", dial(address, LinkEvents(on_connected=connected.put_nowait)))
        async with asyncio.timeout(PATIENCE_S):
            link = await connected.get()
            [result] = await link.send_commands(
                [Command(tool_name="work", tool_type="action", parameters={}, call_id="c1")], 10
            )
            assert result.result == "done"
            await link.close("the test is over")
            await dialling
    await tasks.close()


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        ("/ws", {}, 403),
        ("/ws", {"Authorization": "Bearer wrong"}, 403),
        ("/ws", {"Authorization": TOKEN}, 403),
        ("/ws", {"Authorization": f"Basic {TOKEN}"}, 403),
        ("/ws?token=wrong", {}, 403),
        (f"/ws?token={TOKEN}&token={TOKEN}", {}, 403),
        (f"/ws?token={TOKEN}", {"Authorization": "Bearer wrong"}, 403),
        ("/ws", {"Authorization": f"Bearer {TOKEN}", "Origin": "http://127.0.0.1"}, 403),
        ("/ws", {"Authorization": f"Bearer {TOKEN}", "Origin": "null"}, 403),
        (f"/other?token={TOKEN}", {}, 404),
    ],
)
async def test_whoever_has_not_the_token_hears_nothing_of_the_device(
    tmp_path: Path, path: str, headers: dict[str, str], status: int
) -> None:
    async with listening(tmp_path) as device:
        got, words = await device.refused(path, **headers)
        assert got == status
        assert words
        assert "d1" not in words
        async with connect(f"{device.url}?token={TOKEN}", proxy=None) as connection:
            assert (await Wire(connection).hear())["type"] == "register"


async def test_a_second_console_is_refused_while_the_first_lives(tmp_path: Path) -> None:
    async with listening(tmp_path) as device:
        async with device.dialled() as first:
            status, words = await device.refused(Authorization=f"Bearer {TOKEN}")
            assert status == 409
            assert words == "another console is connected to this device"
            [result] = await first.ask(command("work"))
            assert result["status"] == "success"
        async with device.dialled() as second:
            [result] = await second.ask(command("work"))
            assert result["status"] == "success"


async def test_a_console_that_died_without_a_word_is_replaced(tmp_path: Path) -> None:
    async with listening(tmp_path) as device, device.dialled(ping_interval=None) as first:
        # It reads nothing any more, as a machine that was unplugged.
        first.connection.transport.pause_reading()
        async with asyncio.timeout(PATIENCE_S), device.dialled() as second:
            [result] = await second.ask(command("work"))
            assert result["status"] == "success"
        first.connection.transport.abort()


async def test_a_command_survives_its_console_and_is_recalled_by_the_next_link(tmp_path: Path) -> None:
    async with listening(tmp_path) as device:
        device.bench.go.clear()
        async with device.dialled() as wire:
            await wire.send(command("work", call_id="c1"))
            await device.bench.next()
            await wire.cut()
        device.bench.go.set()
        async with device.dialled() as wire:
            [result] = await wire.ask(command("work", call_id="c1"))
            assert result["result"] == "done"
        assert len(device.bench.ran) == 1


async def test_silent_strangers_are_sent_away_and_do_not_keep_a_console_out(tmp_path: Path) -> None:
    async with listening(tmp_path) as device:
        strangers = [await asyncio.open_connection("127.0.0.1", device.port) for _number in range(40)]
        # The door holds 32: those who said nothing for longest had to go.
        for reader, _ in strangers[:8]:
            async with asyncio.timeout(PATIENCE_S):
                with suppress(ConnectionResetError):
                    assert await reader.read() == b""
        async with device.dialled() as wire:
            [result] = await wire.ask(command("work"))
            assert result["status"] == "success"
        for _, writer in strangers:
            writer.close()


async def test_strangers_who_never_begin_tls_are_counted_and_do_not_keep_a_console_out(
    tmp_path: Path,
) -> None:
    identity = load_or_make_identity(tmp_path / "keys")
    async with listening(tmp_path, identity) as device:
        strangers = [await asyncio.open_connection("127.0.0.1", device.port) for _number in range(40)]
        # Long before their handshakes would be given up, for each costs this device a file.
        async with asyncio.timeout(QUICK.register / 2):
            for reader, _ in strangers[:8]:
                with suppress(ConnectionResetError):
                    assert await reader.read() == b""
        async with device.dialled(ssl=pinned_client_context(identity.fingerprint)) as wire:
            [result] = await wire.ask(command("work"))
            assert result["status"] == "success"
        for _, writer in strangers:
            writer.close()


async def test_a_console_that_never_answers_the_registration_is_left(tmp_path: Path) -> None:
    config = DeviceConfig(roots=(tmp_path,))
    router = build_router(config, tmp_path / "state", "d1")
    desk = DeviceRuntime("d1", router, config)
    listener = DeviceListener(desk, ListenAddress("127.0.0.1", 0), TOKEN, None, replace(QUICK, register=0.2))
    await listener.start()
    async with connect(f"ws://127.0.0.1:{listener.port}/ws?token={TOKEN}", proxy=None) as connection:
        await connection.recv()
        async with asyncio.timeout(PATIENCE_S):
            await connection.wait_closed()
    await desk.close()
    await listener.close()


def test_beyond_this_computer_it_never_listens_without_tls(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="TLS"):
        DeviceListener(None, ListenAddress("0.0.0.0", 0), TOKEN)  # type: ignore[arg-type]  # never reached
    with pytest.raises(BadInput, match="token"):
        DeviceListener(None, ListenAddress("127.0.0.1", 0), "")  # type: ignore[arg-type]  # never reached


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("127.0.0.1:5001", "127.0.0.1", 5001),
        ("[::1]:7", "::1", 7),
        (":9", "127.0.0.1", 9),
        ("lab:1", "lab", 1),
    ],
)
def test_an_address_is_read(text: str, host: str, port: int) -> None:
    assert read_address(text) == ListenAddress(host, port)


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="needs IPv6")
async def test_every_address_is_every_address_of_both_kinds(tmp_path: Path) -> None:
    config = DeviceConfig(roots=(tmp_path,))
    desk = DeviceRuntime("d1", build_router(config, tmp_path / "state", "d1"), config)
    secure = server_context(load_or_make_identity(tmp_path, "d1"))
    listener = DeviceListener(desk, ListenAddress("::", free_port()), TOKEN, secure)
    await listener.start()
    # The pairing string of `[::]` names an IPv4 address.
    for host in ("127.0.0.1", "::1"):
        _, writer = await asyncio.open_connection(host, listener.port)
        writer.close()
        await writer.wait_closed()
    await desk.close()
    await listener.close()


async def test_an_address_that_is_none_is_bad_input(tmp_path: Path) -> None:
    for no_name in ("a..b", "a" * 70):
        secure = server_context(load_or_make_identity(tmp_path, "d1"))
        listener = DeviceListener(None, ListenAddress(no_name, 1), "t", secure)  # type: ignore[arg-type]
        with pytest.raises(BadInput, match="not an address"):
            await listener.start()


async def test_another_certificate_gets_no_byte_of_a_consoles_token(tmp_path: Path) -> None:
    ours = load_or_make_identity(tmp_path / "ours", "d1")
    theirs = load_or_make_identity(tmp_path / "theirs", "d1")
    async with listening(tmp_path, theirs) as device:
        with pytest.raises(Refused) as caught:
            await dial(DialAddress("d1", device.url, TOKEN, ours.fingerprint))
        assert "certificate" in caught.value.message
