"""Dialling where names cannot be looked up, addresses swallow connections, or something of ours fails."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from core.aip import resolve
from core.aip.connector import Connector, ConnectorState, ConnectorStatus, DialAddress, dial
from core.aip.device_link import DeviceLink, LinkEvents
from core.aip.limits import LinkLimits
from core.aip.resolve import MOST_LOOKUPS, addresses_of, first_connection
from core.errors import DeviceError
from tests.fakes.aip_house import soon
from tests.fakes.patience import PATIENCE_S
from tests.unit.aip.test_dialler import listening

LIMITS = LinkLimits(register_s=20.0, close_s=0.5)
PIN = "0" * 64


class SilentNameServer:
    """The machine's resolver, of which some names are never answered for until they are let go."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked, self.answers = threading.Semaphore(0), threading.Event()
        self._real = socket.getaddrinfo
        monkeypatch.setattr(socket, "getaddrinfo", self._look_up)

    def _look_up(self, host: Any, *args: Any, **kwargs: Any) -> Any:
        if host == "silent.example":
            self.asked.release()
            self.answers.wait()
            raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
        return self._real(host, *args, **kwargs)


@pytest.fixture
def name_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[SilentNameServer]:
    server = SilentNameServer(monkeypatch)
    yield server
    server.answers.set()


async def test_names_that_cannot_be_looked_up_take_no_thread_from_anybody_else(
    name_server: SilentNameServer,
) -> None:
    address = DialAddress("d1", "wss://silent.example:5001/ws", "token", PIN)
    diallers = [Connector(address, LinkEvents(), lambda news: None, limits=LIMITS) for _ in range(60)]
    async with asyncio.TaskGroup() as group:
        running = [group.create_task(one.run()) for one in diallers]
        for _ in range(MOST_LOOKUPS):
            await soon(asyncio.to_thread(name_server.asked.acquire))
        # As many as asyncio has threads of its own on any machine, all at once.
        gate = threading.Barrier(4)
        await soon(asyncio.gather(*(asyncio.to_thread(gate.wait, PATIENCE_S) for _ in range(4))))
        for one in diallers:
            one.stop()
        await soon(asyncio.wait(running))


async def test_an_address_that_swallows_connections_does_not_keep_the_next_from_being_tried(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No address of a test machine can be counted on to swallow connections; this is the machine's edge."""
    loop = asyncio.get_running_loop()
    real = loop.sock_connect

    async def connects(sock: socket.socket, address: Any) -> None:
        if address[0] == "192.0.2.1":
            await asyncio.Event().wait()
        await real(sock, address)

    monkeypatch.setattr(loop, "sock_connect", connects)
    monkeypatch.setattr(resolve, "NEXT_ADDRESS_AFTER_S", 0.05)
    server = socket.create_server(("127.0.0.1", 0))
    found = [(socket.AF_INET, ("192.0.2.1", 1)), (socket.AF_INET, server.getsockname())]
    monkeypatch.setattr(resolve, "_look_up", lambda host, port: found)
    with server, await soon(first_connection(await addresses_of("two.example", 1))) as sock:
        assert sock.getpeername() == server.getsockname()


@pytest.mark.parametrize("slow_first", [True, False])
async def test_a_slow_address_is_not_given_up_while_others_are_tried(
    monkeypatch: pytest.MonkeyPatch, slow_first: bool
) -> None:
    """An address that answers after its turn wins over one that never does, wherever it stands."""
    loop = asyncio.get_running_loop()
    real = loop.sock_connect
    others_tried = asyncio.Event()

    async def connects(sock: socket.socket, address: Any) -> None:
        if address[0] == "192.0.2.1":
            others_tried.set()
            await asyncio.Event().wait()
        await others_tried.wait()
        await real(sock, address)

    monkeypatch.setattr(loop, "sock_connect", connects)
    monkeypatch.setattr(resolve, "NEXT_ADDRESS_AFTER_S", 0.01)
    with socket.create_server(("127.0.0.1", 0)) as server:
        found = [(socket.AF_INET, server.getsockname()), (socket.AF_INET, ("192.0.2.1", 1))]
        with await soon(first_connection(found if slow_first else found[::-1])) as sock:
            assert sock.getpeername() == server.getsockname()


async def test_the_error_of_addresses_that_all_refuse_is_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        closed = server.getsockname()
    with pytest.raises(ConnectionRefusedError):
        await soon(first_connection([(socket.AF_INET, closed), (socket.AF_INET, closed)]))


def test_families_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    six, four = socket.AF_INET6, socket.AF_INET
    rows = [(six, "a"), (six, "b"), (six, "c"), (four, "d"), (four, "e")]
    given = [(family, socket.SOCK_STREAM, 6, "", (host, 1)) for family, host in rows]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *args, **more: given)
    assert [address[0] for _, address in resolve._look_up("many.example", 1)] == ["a", "d", "b", "e", "c"]


async def test_a_name_is_dialled_like_a_number() -> None:
    connected = asyncio.Queue[DeviceLink]()
    async with listening() as device:
        url = device.url.replace("127.0.0.1", "localhost")
        # Of its two addresses it listens at one only.
        events = LinkEvents(on_connected=connected.put_nowait)
        async with asyncio.TaskGroup() as group:
            group.create_task(dial(device.address(url=url), events, limits=LIMITS))
            link = await soon(connected.get())
            own: socket.socket = link._connection.transport.get_extra_info("socket")
            # A small frame goes at once, and waits for no other one.
            assert own.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
            await link.close("enough")


async def test_a_fault_of_our_own_in_one_attempt_is_not_the_last_attempt() -> None:
    states: list[ConnectorStatus] = []

    def told(news: ConnectorStatus) -> None:
        states.append(news)
        if [one.state for one in states].count(ConnectorState.WAITING) == 2:
            dialler.stop()

    def fails(link: DeviceLink) -> None:
        raise ZeroDivisionError

    async with listening() as device:
        events = LinkEvents(on_connected=fails)
        dialler = Connector(device.address(), events, told, limits=LIMITS, back_off=(0.01, 0.01))
        await soon(dialler.run())
    waits = [one for one in states if one.state is ConnectorState.WAITING]
    assert len(waits) == 2
    assert "ZeroDivisionError" in waits[0].reason


@asynccontextmanager
async def says(answer: bytes) -> AsyncIterator[str]:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        writer.close()

    server = await asyncio.start_server(talk, "127.0.0.1", 0)
    async with server:
        yield f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}/ws"


async def test_what_a_far_end_says_in_place_of_a_link_is_told_shortly_and_visibly() -> None:
    odd = b"HTTP/1.1 101 X\r\nUpgrade: \x9b2J\xff" + b"A" * 7000 + b"\r\nConnection: Upgrade\r\n\r\n"
    async with says(odd) as url:
        with pytest.raises(DeviceError) as caught:
            await soon(dial(DialAddress("d1", url, "token"), limits=LIMITS))
    assert "[U+009B]2J" in caught.value.message
    assert caught.value.message.isprintable()
    assert len(caught.value.message) < 500
