"""The doctor before far ends that stop half-way, say odd things at length, or are not where a link may go."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.server import ServerConnection, serve

from core.aip.limits import LinkLimits
from core.aip.tls import Identity, load_or_make_identity, server_context
from core.fleet.doctor import Doctor
from core.fleet.known_devices import KnownDevice, KnownDevices
from core.fleet.models import Check, CheckState, Listening
from core.fleet.rejected_connections import RejectedConnections
from core.models.devices import Device, Health
from tests.fakes.known_devices import pair_listening
from tests.fakes.patience import PATIENCE_S

REGISTER: dict[str, Any] = {"type": "register", "client_type": "device", "client_id": "lab-1", "status": "ok"}


class Desk:
    """A doctor with one device that is dialled."""

    def __init__(self, folder: Path) -> None:
        self.registry = KnownDevices(folder / "devices.json", folder / "dial")
        self.refusals = RejectedConnections(lambda entry: None, lambda name: True, lambda name, count: None)

    async def failed(self, url: str, fingerprint: str = "", within_s: float = 20.0) -> Check:
        """The check that fails; what can be seen of it is short and plain."""
        checks = await self.examined(url, fingerprint, within_s)
        [failed] = [check for check in checks if check.state is CheckState.FAILED]
        return failed

    async def examined(self, url: str, fingerprint: str = "", within_s: float = 20.0) -> list[Check]:
        pair_listening(self.registry, KnownDevice(name="lab-1"), url, "secret-token", fingerprint)
        doctor = Doctor(self.registry, self.refusals, lambda: Listening(address=""), within_s)
        device = Device(name="lab-1", health=Health.OFFLINE, since="2026-01-01T00:00:00Z")
        async with asyncio.timeout(PATIENCE_S):
            checks = await doctor.examine(device, None)
        for check in checks:
            assert check.found.isprintable(), check
            assert len(check.found) < 500, check
        return checks


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


@contextmanager
def deaf_after_tls(identity: Identity) -> Iterator[int]:
    """A port that ends the TLS handshake as it should, and neither reads nor says anything afterwards."""
    context = server_context(identity)
    kept: list[ssl.SSLSocket] = []

    def take(listening: socket.socket) -> None:
        while True:
            try:
                connection, _ = listening.accept()
                kept.append(context.wrap_socket(connection, server_side=True))
            except ssl.SSLError:
                continue
            except OSError:
                return

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=take, args=(listening,), daemon=True)
        thread.start()
        try:
            yield listening.getsockname()[1]
        finally:
            # What waits for the next one wakes up only by it.
            listening.shutdown(socket.SHUT_RDWR)
            thread.join(PATIENCE_S)
            for connection in kept:
                connection.close()


@asynccontextmanager
async def says(answer: bytes) -> AsyncIterator[int]:
    """A port that answers whatever it is asked like this, and keeps the connection."""
    done = asyncio.Event()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if await reader.read(1):
            writer.write(answer)
            await done.wait()
        writer.close()

    server = await asyncio.start_server(talk, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        done.set()
        server.close()
        await server.wait_closed()


async def test_a_far_end_that_is_deaf_after_its_tls_handshake_is_not_said_to_fail_at_tls(desk, tmp_path):
    identity = load_or_make_identity(tmp_path / "tls")
    with deaf_after_tls(identity) as port:
        failed = await desk.failed(f"wss://127.0.0.1:{port}/ws", identity.fingerprint, 1.0)
    assert failed.name == "token"
    assert "not answered" in failed.found


@pytest.mark.parametrize(
    "answer",
    [
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"-ERR unknown command 'GET'\r\n",
        b"HTTP/1.0 101 Switching Protocols\r\n\r\n",
        b"HTTP/1.1 \xff\xfe\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n",
    ],
)
async def test_who_answers_with_something_else_is_told_from_who_says_nothing(desk, answer):
    async with says(answer) as port:
        failed = await desk.failed(f"ws://127.0.0.1:{port}/ws", within_s=1.0)
    assert failed.name == "token"
    assert "is not a device link" in failed.found


async def test_the_words_of_a_far_end_fill_no_screen_and_play_no_tricks(desk):
    odd = b"HTTP/1.1 101 X\r\nUpgrade: \x9b2J\xff" + b"A" * 7000 + b"\r\nConnection: Upgrade\r\n\r\n"
    async with says(odd) as port:
        failed = await desk.failed(f"ws://127.0.0.1:{port}/ws")
    assert "[U+009B]2J" in failed.found


@pytest.mark.parametrize(
    ("hello", "found"),
    [
        ({"client_id": "x\x1b[2J" + "y" * 400_000}, "[U+001B][2J"),
        ({"metadata": {"text": "y" * 2_000_000}}, f"more than {LinkLimits().register_bytes} bytes"),
        ({"client_id": None}, "registers as ''"),
    ],
)
async def test_what_a_device_says_of_itself_is_shown_shortly(desk, hello, found):
    async def registers(connection: ServerConnection) -> None:
        await connection.send(json.dumps({**REGISTER, **hello}))
        await connection.wait_closed()

    async with serve(registers, "127.0.0.1", 0) as server:
        failed = await desk.failed(f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}/ws")
    assert failed.name == "protocol"
    assert found in failed.found


async def test_a_version_is_shown_shortly(desk):
    ours = {"metadata": {"quarterdeck": {"version": "\x1b[2J" + "9" * 400_000}}}

    async def registers(connection: ServerConnection) -> None:
        await connection.send(json.dumps({**REGISTER, **ours}))
        await connection.wait_closed()

    async with serve(registers, "127.0.0.1", 0) as server:
        checks = await desk.examined(f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}/ws")
    assert "[U+001B][2J" in checks[-1].found


@pytest.mark.parametrize(
    "url",
    [
        "ws://127.0.0.1:99999/ws",
        "wss://[::1/ws",
        "ws:///ws",
        "nonsense",
        "",
        "http://127.0.0.1:1/ws",
        "wss://127.0.0.1:1/ws",
        "ws://anna:word@127.0.0.1:1/ws",
    ],
)
async def test_an_address_that_was_edited_to_nonsense_is_told(desk, url):
    failed = await desk.failed(url)
    assert failed.name == "address"
    assert "air lab-1 again" in failed.next


async def test_the_doctor_sends_nothing_where_a_link_would_not_go(desk):
    """An address edited by hand must not carry the token over the network in the clear."""
    heard: list[bytes] = []

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(await reader.read(100))
        writer.close()

    server = await asyncio.start_server(listen, "0.0.0.0", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        # By name this computer is as far away as any other.
        failed = await desk.failed(f"ws://{socket.gethostname()}:{port}/ws")
    assert failed.name == "address"
    assert "not encrypted" in failed.found
    assert heard == []
