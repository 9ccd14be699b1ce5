"""A device that listens, attacked at its door; and a device that dials, told apart by what goes wrong."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.asyncio.server import serve
from websockets.exceptions import InvalidStatus

from core.aip.dialler import DialAddress, dial
from core.aip.events import LinkEvents
from core.aip.link import DeviceLink
from core.aip.messages import Command
from core.aip.pairing import Pairing, decode_pairing, encode_pairing
from core.aip.tls import Identity, load_or_make_identity, pinned_client_context, server_context
from core.device.assembly import build_router
from core.device.client import DeviceClient, Ending
from core.device.config import DeviceConfig
from core.device.desk import Desk
from core.device.listener import DeviceListener, ListenAddress, read_address
from core.device.trust import TrustStore
from core.errors import BadInput, Refused
from core.tasks import TaskGroupOwner
from tests.fakes.device_process import HERE
from tests.fakes.link_console import QUICK, Bench, Wire, command, welcome
from tests.fakes.remote_device import free_port

TOKEN = "a-token-that-only-the-console-knows"


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
    config = DeviceConfig(roots=(tmp_path,))
    bench = Bench(build_router(config, tmp_path / "state", "d1"))
    bench.go.set()
    secure = None if identity is None else server_context(identity)
    desk = Desk("d1", bench.router, config)
    listener = DeviceListener(desk, ListenAddress("127.0.0.1", 0), TOKEN, secure, QUICK)
    await listener.start()
    tasks = TaskGroupOwner("test")
    run = tasks.spawn("listener", listener.run())
    try:
        yield Listening(listener, bench, identity is not None)
    finally:
        listener.stop()
        async with asyncio.timeout(10):
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
        async with asyncio.timeout(10):
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
        async with asyncio.timeout(20), device.dialled() as second:
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
            async with asyncio.timeout(20):
                with suppress(ConnectionResetError):
                    assert await reader.read() == b""
        async with device.dialled() as wire:
            [result] = await wire.ask(command("work"))
            assert result["status"] == "success"
        for _, writer in strangers:
            writer.close()


async def test_a_console_that_never_answers_the_registration_is_left(tmp_path: Path) -> None:
    config = DeviceConfig(roots=(tmp_path,))
    router = build_router(config, tmp_path / "state", "d1")
    desk = Desk("d1", router, config)
    listener = DeviceListener(desk, ListenAddress("127.0.0.1", 0), TOKEN, None, replace(QUICK, register=0.2))
    await listener.start()
    async with connect(f"ws://127.0.0.1:{listener.port}/ws?token={TOKEN}", proxy=None) as connection:
        await connection.recv()
        async with asyncio.timeout(20):
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


async def test_another_certificate_gets_no_byte_of_a_consoles_token(tmp_path: Path) -> None:
    ours = load_or_make_identity(tmp_path / "ours", "d1")
    theirs = load_or_make_identity(tmp_path / "theirs", "d1")
    async with listening(tmp_path, theirs) as device:
        with pytest.raises(Refused) as caught:
            await dial(DialAddress("d1", device.url, TOKEN, ours.fingerprint))
        assert "certificate" in caught.value.message


async def attempt(url: str, tmp_path: Path, **more: Any) -> Ending:
    config = DeviceConfig(roots=(tmp_path,))
    router = build_router(config, tmp_path / "state", "d1")
    client = DeviceClient(url, "d1", router, config, TOKEN, QUICK, **more)
    async with asyncio.timeout(15):
        return await client.run(once=True)


async def test_what_goes_wrong_with_a_link_is_told_apart(tmp_path: Path) -> None:
    assert await attempt("wss://no-such-host.invalid/ws", tmp_path) is Ending.UNKNOWN_HOST
    assert await attempt("ws://127.0.0.1:9/ws", tmp_path) is Ending.UNREACHABLE

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


@asynccontextmanager
async def tls_console(identity: Identity) -> AsyncIterator[tuple[str, list[str | None]]]:
    """A console that encrypts; yields its address and the tokens that it was shown."""
    shown: list[str | None] = []

    def admit(connection: Any, request: Any) -> None:
        shown.append(request.headers.get("Authorization"))

    async def handler(connection: Any) -> None:
        await connection.recv()
        await connection.send(welcome())

    context = server_context(identity)
    async with serve(handler, "127.0.0.1", 0, ssl=context, process_request=admit) as server:
        yield f"wss://127.0.0.1:{server.sockets[0].getsockname()[1]}/ws", shown


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


def run(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "core.device", *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        cwd=HERE,
        timeout=30,
        check=False,
    )


async def test_a_paired_device_dials_with_what_was_pasted(tmp_path: Path) -> None:
    identity = load_or_make_identity(tmp_path / "console", "console")
    async with tls_console(identity) as (url, shown):
        string = encode_pairing(Pairing(url, "d1", TOKEN, identity.fingerprint))
        state = ("--state", str(tmp_path / "state"))
        done = await asyncio.to_thread(
            lambda: run("--pair", "-", *state, stdin=f"  {string[:50]}\n{string[50:]}\n")
        )
        assert done.returncode == 0, done.stderr
        assert TOKEN not in done.stdout + done.stderr
        ended = await asyncio.to_thread(lambda: run("--once", *state))
        assert ended.returncode == 0, ended.stderr
        assert TOKEN not in ended.stderr
        assert shown == [f"Bearer {TOKEN}"]
    for path in (tmp_path / "state" / "trust").iterdir():
        assert path.stat().st_mode & 0o077 == 0


def test_a_listening_device_prints_the_string_that_a_console_needs(tmp_path: Path) -> None:
    state = ("--state", str(tmp_path / "state"), "--name", "bench-7")
    port = free_port()
    told = run("--listen", f"127.0.0.1:{port}", "--pair", *state)
    assert told.returncode == 0, told.stderr
    local = decode_pairing(told.stdout)
    assert (local.url, local.name, local.fingerprint) == (f"ws://127.0.0.1:{port}/ws", "bench-7", "")
    told = run("--listen", f"0.0.0.0:{port}", "--advertise", "lab.example", "--pair", *state)
    remote = decode_pairing(told.stdout)
    assert remote.url == f"wss://lab.example:{port}/ws"
    assert len(remote.fingerprint) == 64
    assert remote.token == local.token
    checked = json.loads(run("--check", "--json", *state).stdout)
    assert checked["link"]["state"] == "listening"
    assert checked["link"]["fingerprint"] == remote.fingerprint
    assert remote.token not in json.dumps(checked)


def test_an_address_in_use_is_no_bad_input_and_a_service_may_try_again(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        ended = run("--listen", f"127.0.0.1:{taken.getsockname()[1]}", "--state", str(tmp_path / "state"))
    assert ended.returncode == 1
    assert "cannot be listened on" in ended.stderr
    assert "Traceback" not in ended.stderr


async def test_a_console_that_drops_us_at_once_is_not_dialled_at_full_speed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def handler(connection: Any) -> None:
        await connection.recv()
        await connection.send(welcome())

    waits: list[int] = []

    async def noted(self: DeviceClient, attempt: int) -> None:
        waits.append(attempt)
        if len(waits) == 4:
            self.stop()

    monkeypatch.setattr(DeviceClient, "_wait_a_little", noted)
    config = DeviceConfig(roots=(tmp_path,))
    for good, expected in ((30.0, [0, 1, 2, 3]), (0.0, [0, 0, 0, 0])):
        waits.clear()
        async with serve(handler, "127.0.0.1", 0) as server:
            url = f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}/ws"
            router = build_router(config, tmp_path / "state", "d1")
            client = DeviceClient(url, "d1", router, config, TOKEN, replace(QUICK, good=good))
            async with asyncio.timeout(10):
                assert await client.run() is Ending.DONE
        assert waits == expected


async def test_the_listening_process_shows_the_pinned_certificate(tmp_path: Path) -> None:
    state = ("--state", str(tmp_path / "state"), "--name", "d1")
    port = free_port()
    told = await asyncio.to_thread(
        lambda: run("--listen", f"0.0.0.0:{port}", "--advertise", "127.0.0.1", "--pair", *state)
    )
    pairing = decode_pairing(told.stdout)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "core.device", *state), stderr=asyncio.subprocess.PIPE, cwd=HERE
    )
    try:
        assert process.stderr is not None
        async with asyncio.timeout(10):
            while b"listening" not in await process.stderr.readline():
                continue
        wrong = pinned_client_context("ab" * 32)
        with pytest.raises(ssl.SSLCertVerificationError):
            await connect(pairing.url, ssl=wrong, proxy=None)
        connection: ClientConnection = await connect(
            pairing.url,
            ssl=pinned_client_context(pairing.fingerprint),
            additional_headers={"Authorization": f"Bearer {pairing.token}"},
            proxy=None,
        )
        assert (await Wire(connection).hear())["client_id"] == "d1"
        await connection.close()
    finally:
        process.terminate()
        assert await process.wait() == 0


def test_secrets_that_others_can_read_are_refused(tmp_path: Path) -> None:
    store = TrustStore(tmp_path)
    store.save_pairing(Pairing("ws://127.0.0.1:1/ws", "d1", TOKEN))
    assert store.pairing() == Pairing("ws://127.0.0.1:1/ws", "d1", TOKEN)
    (tmp_path / "trust" / "pairing").chmod(0o644)
    with pytest.raises(BadInput, match="others"):
        store.pairing()
    token = store.listening_token()
    assert token == store.listening_token()
    (tmp_path / "trust" / "listening-token").write_text("short\n")
    with pytest.raises(BadInput, match="no token"):
        store.listening_token()
