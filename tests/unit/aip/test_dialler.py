"""The console dials a device that listens: over real sockets, with and without TLS."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response

from core.aip.connector import Connector, ConnectorState, ConnectorStatus, DialAddress, dial
from core.aip.device_link import DeviceLink, LinkEvents
from core.aip.limits import LinkLimits
from core.aip.link_events import RefusedAttempt
from core.aip.tls import Identity, load_or_make_identity, server_context
from core.errors import BadInput, DeviceError, ErrorCode, QuarterdeckError, Refused
from core.tasks import TaskGroupOwner
from tests.fakes.aip_house import answer, hear, look, say, soon, success
from tests.fakes.ports import closed_port

TOKEN = "the-devices-own-token"
BUSY = "token-of-another-console"
LIMITS = LinkLimits(register_s=0.5, close_s=0.5)
Story = Callable[[ServerConnection], Awaitable[None]]


async def device(connection: ServerConnection) -> None:
    """A device that registers, and answers whatever it is sent."""
    await say(connection, type="register", status="ok", client_id="d1", metadata={"system_info": {}})
    assert (await hear(connection))["type"] == "heartbeat"
    async for _ in answers(connection):
        pass


async def answers(connection: ServerConnection) -> AsyncIterator[dict[str, Any]]:
    while True:
        try:
            command = await hear(connection)
        except ConnectionClosed:
            return
        await answer(connection, command, success(command["actions"][0]["call_id"]))
        yield command


@dataclass
class Listening:
    """A device's listening end, and who came."""

    url: str = ""
    tokens: list[str | None] = field(default_factory=list)

    def address(self, **more: Any) -> DialAddress:
        return DialAddress(**{"name": "d1", "url": self.url, "token": TOKEN, **more})


@asynccontextmanager
async def listening(story: Story = device, identity: Identity | None = None) -> AsyncIterator[Listening]:
    built = Listening()

    def admit(connection: ServerConnection, request: Request) -> Response | None:
        token = request.headers.get("Authorization")
        built.tokens.append(token)
        if token == f"Bearer {TOKEN}":
            return None
        status = HTTPStatus.CONFLICT if token == f"Bearer {BUSY}" else HTTPStatus.FORBIDDEN
        return connection.respond(status, "no")

    async def handler(connection: ServerConnection) -> None:
        try:
            await story(connection)
        except ConnectionClosed:
            return

    secure = server_context(identity) if identity else None
    async with serve(handler, "127.0.0.1", 0, process_request=admit, ssl=secure) as server:
        scheme = "wss" if identity else "ws"
        built.url = f"{scheme}://127.0.0.1:{server.sockets[0].getsockname()[1]}/ws"
        yield built


@dataclass
class Owner:
    """Who is told what links do."""

    tasks: TaskGroupOwner
    connected: asyncio.Queue[DeviceLink] = field(default_factory=asyncio.Queue)
    lost: asyncio.Queue[str] = field(default_factory=asyncio.Queue)
    refused: asyncio.Queue[RefusedAttempt] = field(default_factory=asyncio.Queue)
    states: asyncio.Queue[ConnectorStatus] = field(default_factory=asyncio.Queue)

    @property
    def events(self) -> LinkEvents:
        return LinkEvents(
            on_connected=self.connected.put_nowait,
            on_lost=lambda link, reason: self.lost.put_nowait(reason),
            on_refused=self.refused.put_nowait,
        )

    def dials(self, address: DialAddress) -> asyncio.Task[str]:
        return self.tasks.spawn("dial", dial(address, self.events, limits=LIMITS))

    def keeps(
        self, address: DialAddress, back_off: tuple[float, float] = (0.01, 0.02)
    ) -> tuple[Connector, asyncio.Task[None]]:
        dialler = Connector(address, self.events, self.states.put_nowait, limits=LIMITS, back_off=back_off)
        return dialler, self.tasks.spawn("keep", dialler.run())

    async def becomes(self, state: ConnectorState) -> ConnectorStatus:
        while True:
            news = await soon(self.states.get())
            if news.state is state:
                return news


@pytest.fixture
async def owner() -> AsyncIterator[Owner]:
    tasks = TaskGroupOwner("test", lambda name, error: None)
    yield Owner(tasks)
    await tasks.close()


async def refusal(dialling: asyncio.Task[str], kind: type[QuarterdeckError], code: ErrorCode) -> str:
    with pytest.raises(kind) as caught:
        await soon(dialling)
    assert caught.value.code is code
    return caught.value.message


async def test_a_dialled_device_speaks_first_and_serves_commands_like_any(owner: Owner) -> None:
    async with listening() as there:
        dialling = owner.dials(there.address())
        link = await soon(owner.connected.get())
        assert (link.name, link.direction, link.is_open, link.secure) == ("d1", "out", True, False)
        assert (await soon(link.send_commands([look()], 5)))[0].call_id == "c1"
        await link.close("enough")
        assert await soon(dialling) == "enough"
        assert await soon(owner.lost.get()) == "enough"
        assert there.tokens == [f"Bearer {TOKEN}"]


async def test_over_tls_the_one_pinned_certificate_is_accepted(owner: Owner, tmp_path: Path) -> None:
    identity = load_or_make_identity(tmp_path)
    async with listening(identity=identity) as there:
        dialling = owner.dials(there.address(fingerprint=identity.fingerprint))
        link = await soon(owner.connected.get())
        assert link.secure
        assert (await soon(link.send_commands([look()], 5)))[0].call_id == "c1"
        await link.close("enough")
        await soon(dialling)


async def test_another_certificate_is_refused_before_the_token_is_sent(owner: Owner, tmp_path: Path) -> None:
    mine, other = load_or_make_identity(tmp_path / "a"), load_or_make_identity(tmp_path / "b")
    async with listening(identity=other) as there:
        dialling = owner.dials(there.address(fingerprint=mine.fingerprint))
        assert "not the one that was paired" in await refusal(dialling, Refused, ErrorCode.DENIED_BY_POLICY)
        assert there.tokens == []


async def test_without_the_device_s_certificate_known_tls_is_not_even_tried(owner: Owner) -> None:
    for url in ("wss://127.0.0.1:1/ws", "ws://192.0.2.7:1/ws", "http://127.0.0.1/", "ws://"):
        await refusal(owner.dials(DialAddress("d1", url, TOKEN)), BadInput, ErrorCode.INVALID_ARGUMENTS)


async def test_a_token_that_the_device_does_not_accept_is_said(owner: Owner) -> None:
    async with listening() as there:
        message = await refusal(
            owner.dials(there.address(token="wrong")), Refused, ErrorCode.DENIED_BY_DEVICE
        )
        assert "does not accept our token" in message
        assert "wrong" not in message


async def test_a_device_that_has_another_console_says_so_in_words(owner: Owner) -> None:
    async with listening() as there:
        dialling = owner.dials(there.address(token=BUSY))
        message = await refusal(dialling, DeviceError, ErrorCode.DEVICE_OFFLINE)
        assert "another console is connected to it" in message
        # The port of the address may have these digits in it.
        assert there.url in message
        assert "409" not in message.replace(there.url, "")


async def test_nobody_there_is_offline(owner: Owner) -> None:
    with closed_port() as port:
        address = DialAddress("d1", f"ws://127.0.0.1:{port}/ws", TOKEN)
        await refusal(owner.dials(address), DeviceError, ErrorCode.DEVICE_OFFLINE)


async def test_plain_where_tls_was_expected_and_the_reverse_are_told_apart(
    owner: Owner, tmp_path: Path
) -> None:
    identity = load_or_make_identity(tmp_path)
    async with listening() as there:
        url = there.url.replace("ws:", "wss:")
        dialling = owner.dials(there.address(url=url, fingerprint=identity.fingerprint))
        assert "TLS" in await refusal(dialling, DeviceError, ErrorCode.PROTOCOL_ERROR)
    async with listening(identity=identity) as there:
        dialling = owner.dials(there.address(url=there.url.replace("wss:", "ws:")))
        await refusal(dialling, DeviceError, ErrorCode.PROTOCOL_ERROR)


async def test_somebody_who_never_answers_is_given_up(owner: Owner) -> None:
    async def deaf(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    server = await asyncio.start_server(deaf, "127.0.0.1", 0)
    async with server:
        url = f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}/ws"
        await refusal(owner.dials(DialAddress("d1", url, TOKEN)), DeviceError, ErrorCode.TIMEOUT)


@pytest.mark.parametrize(
    ("first", "said"),
    [
        ({"type": "register", "client_id": "d2"}, "client_id is not"),
        ({"type": "register", "client_id": "d1", "client_type": "constellation"}, "not served"),
        ({"type": "heartbeat"}, "must be register"),
        ({"type": "register"}, "needs a client_id"),
    ],
)
async def test_another_device_at_the_address_is_refused_and_told(
    owner: Owner, first: dict[str, Any], said: str
) -> None:
    told: asyncio.Queue[dict[str, Any]] = asyncio.Queue()

    async def other(connection: ServerConnection) -> None:
        await say(connection, status="ok", **first)
        told.put_nowait(await hear(connection))

    async with listening(other) as there:
        with pytest.raises(QuarterdeckError, match=said):
            await soon(owner.dials(there.address()))
        assert said in (await soon(told.get()))["error"]
        assert said in (await soon(owner.refused.get())).reason
        assert owner.connected.empty()


async def test_a_device_that_says_nothing_is_given_up(owner: Owner) -> None:
    async def silent(connection: ServerConnection) -> None:
        await connection.wait_closed()

    async with listening(silent) as there:
        await refusal(owner.dials(there.address()), DeviceError, ErrorCode.TIMEOUT)


async def test_a_dialler_dials_again_after_each_end_until_it_is_stopped(owner: Owner) -> None:
    async with listening() as there:
        dialler, running = owner.keeps(there.address())
        for _ in range(3):
            link = await soon(owner.connected.get())
            assert dialler.link is link
            await link.close("cut")
        last = await soon(owner.connected.get())
        dialler.stop()
        await soon(running)
        assert not last.is_open
        assert dialler.link is None
        assert [await soon(owner.lost.get()) for _ in range(4)] == [*["cut"] * 3, "the console hangs up"]
        assert (await owner.becomes(ConnectorState.STOPPED)).state is ConnectorState.STOPPED


async def test_a_dialler_waits_longer_after_each_failure_and_says_for_how_long_and_why(
    owner: Owner,
) -> None:
    with closed_port() as port:
        dialler, running = owner.keeps(DialAddress("d1", f"ws://127.0.0.1:{port}/ws", TOKEN), (0.01, 0.05))
        waits = [await owner.becomes(ConnectorState.WAITING) for _ in range(5)]
        assert [news.attempt for news in waits] == [1, 2, 3, 4, 5]
        for news, most in zip(waits, (0.01, 0.02, 0.04, 0.05, 0.05), strict=True):
            assert most / 2 <= news.wait_s <= most
            assert "cannot be reached" in news.reason
        dialler.stop()
        await soon(running)


async def test_a_kick_ends_the_wait_and_a_stop_does_too(owner: Owner) -> None:
    with closed_port() as port:
        dialler, running = owner.keeps(DialAddress("d1", f"ws://127.0.0.1:{port}/ws", TOKEN), (3600, 3600))
        for attempt in (1, 2):
            assert (await owner.becomes(ConnectorState.WAITING)).attempt == attempt
            dialler.retry_now()
        await owner.becomes(ConnectorState.WAITING)
        dialler.stop()
        await soon(running)


async def test_a_device_that_drops_us_at_once_is_not_dialled_at_full_speed(owner: Owner) -> None:
    async def drops(connection: ServerConnection) -> None:
        await say(connection, type="register", status="ok", client_id="d1")
        await hear(connection)

    async with listening(drops) as there:
        dialler, running = owner.keeps(there.address(), (0.01, 10))
        waits = [await owner.becomes(ConnectorState.WAITING) for _ in range(4)]
        assert waits[3].wait_s > waits[0].wait_s
        dialler.stop()
        await soon(running)


def test_the_pinned_context_checks_no_names_and_no_authorities_but_the_one_certificate(
    tmp_path: Path,
) -> None:
    identity = load_or_make_identity(tmp_path)
    assert server_context(identity).minimum_version is ssl.TLSVersion.TLSv1_2
    assert "token" not in repr(DialAddress("d1", "ws://127.0.0.1:1/ws", TOKEN))
