"""The listener that both ends share: its port, its limits before and after the upgrade, its end."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from core.aip.acceptor import ConnectionGate, HandshakeConnection
from core.aip.limits import LinkLimits
from core.aip.link_events import RefusedAttempt
from core.aip.listener import PATH, Listener
from tests.fakes.patience import PATIENCE_S

LIMITS = LinkLimits(register_s=20.0, close_s=0.5, max_incoming_bytes=1000, door_most=4)


class House:
    """A listener that keeps each link until its peer ends it."""

    def __init__(self, limits: LinkLimits = LIMITS) -> None:
        self.refused: list[RefusedAttempt] = []
        self.links: list[HandshakeConnection] = []
        self.gate = ConnectionGate(
            lambda token: "d1" if token == "right" else None, PATH, limits, None, self.refused.append
        )
        self.listener = Listener(self.gate, self._on_link, "127.0.0.1", 0)

    async def _on_link(self, connection: HandshakeConnection) -> None:
        self.gate.leave(connection.pre_tls)
        self.links.append(connection)
        async for frame in connection:
            await connection.send(frame)

    def dial(self, token: str = "right", **more: object) -> connect:
        headers = {"Authorization": f"Bearer {token}"}
        url = f"ws://127.0.0.1:{self.listener.port}{PATH}"
        return connect(url, additional_headers=headers, proxy=None, **more)

    async def echoes(self, connection: ClientConnection) -> bool:
        await connection.send("hello")
        return await connection.recv() == "hello"


@pytest.fixture
async def house() -> AsyncIterator[House]:
    house = House()
    await house.listener.start()
    async with asyncio.timeout(PATIENCE_S):
        yield house
        await house.listener.close()


async def test_it_has_a_port_while_it_listens(house: House) -> None:
    assert house.listener.port
    await house.listener.close()
    assert house.listener.port == 0
    # A second end is no error.
    await house.listener.close()


async def test_only_the_token_opens_it_and_a_frame_has_a_bound(house: House) -> None:
    with pytest.raises(InvalidStatus):
        await house.dial("wrong")
    assert [attempt.reason for attempt in house.refused] == ["the token is not accepted"]
    async with house.dial() as connection:
        assert await house.echoes(connection)
        await connection.send("x" * 1001)
        with pytest.raises(ConnectionClosed) as closed:
            await connection.recv()
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 1009


async def test_strangers_are_counted_and_do_not_keep_the_right_peer_out(house: House) -> None:
    strangers = [await asyncio.open_connection("127.0.0.1", house.listener.port) for _ in range(9)]
    async with house.dial() as connection:
        assert await house.echoes(connection)
        assert house.gate.waiting <= 4
    for _, writer in strangers:
        writer.close()


async def test_its_end_closes_the_links_as_going_away_and_aborts_who_has_not_registered(
    house: House,
) -> None:
    reader, stranger = await asyncio.open_connection("127.0.0.1", house.listener.port)
    async with house.dial() as connection:
        assert await house.echoes(connection)
        await house.listener.close()
        with pytest.raises(ConnectionClosed) as closed:
            await connection.recv()
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 1001
    assert await reader.read() == b""
    stranger.close()


async def test_the_owner_may_end_the_links_in_its_own_way(house: House) -> None:
    async with house.dial() as connection:
        assert await house.echoes(connection)

        async def end_links() -> None:
            # The link still works, although nothing new is accepted.
            assert await house.echoes(connection)
            with pytest.raises(ConnectionRefusedError):
                await asyncio.open_connection("127.0.0.1", port)
            await house.links[0].close(4000, "enough")

        port = house.listener.port
        await house.listener.close(end_links)
        with pytest.raises(ConnectionClosed) as closed:
            await connection.recv()
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 4000


async def test_a_request_that_never_ends_is_given_up() -> None:
    house = House(replace(LIMITS, register_s=0.1))
    await house.listener.start()
    reader, writer = await asyncio.open_connection("127.0.0.1", house.listener.port)
    async with asyncio.timeout(PATIENCE_S):
        assert await reader.read() == b""
    assert house.gate.waiting == 0
    writer.close()
    await house.listener.close()


async def test_an_address_that_is_taken_is_an_error_of_the_system() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        house = House()
        listener = Listener(house.gate, house._on_link, "127.0.0.1", other.getsockname()[1])
        with pytest.raises(OSError, match="in use"):
            await listener.start()
        assert listener.port == 0
