"""A link is alive as long as bytes arrive, however slow the line; without any it ends, in words."""

from __future__ import annotations

from dataclasses import replace

import pytest
from websockets.asyncio.client import ClientConnection, connect

from core.aip.device_link import DeviceLink
from core.errors import ErrorCode
from tests.fakes.aip_house import (
    QUICK,
    TOKENS,
    House,
    answer,
    fails,
    hear,
    look,
    running_house,
    say,
    soon,
    success,
)
from tests.fakes.bad_line import BadLine, bad_line

pytestmark = pytest.mark.asyncio

IMPATIENT = replace(QUICK, ping_s=0.05, pong_s=0.15, close_s=0.1, max_outgoing_bytes=20_000_000)
LONG = "x" * 40_000


async def joined(house: House, line: BadLine) -> tuple[ClientConnection, DeviceLink]:
    """A stock device behind the line, without a keepalive of its own."""
    socket = await connect(
        f"ws://127.0.0.1:{line.port}/ws?token={TOKENS['d1']}", proxy=None, ping_interval=None
    )
    await say(socket, type="register", status="ok", client_id="d1")
    await hear(socket)
    return socket, await soon(house.connected.get())


async def test_a_frame_that_takes_longer_than_every_ping_arrives():
    async with running_house(IMPATIENT) as house, bad_line(house.server.port) as line:
        socket, link = await joined(house, line)
        sending = house.send(link, look("c1"), timeout=60)
        asked = await hear(socket)
        # Pongs of the device wait behind its answer, for ten times as long as a pong may take.
        line.to_console.rate = len(LONG) / (10 * (IMPATIENT.ping_s + IMPATIENT.pong_s))
        await answer(socket, asked, success("c1", LONG))
        [result] = await soon(sending)
        assert (result.result, link.is_open, house.lost.empty()) == (LONG, True, True)
        await socket.close()


async def test_a_line_on_which_nothing_arrives_ends_and_says_for_how_long():
    async with running_house(IMPATIENT) as house, bad_line(house.server.port) as line:
        socket, link = await joined(house, line)
        line.to_console.cut()
        assert await soon(house.lost.get()) == ("d1", "nothing was heard for 0.2 s")
        assert not link.is_open
        socket.transport.abort()


async def test_a_line_cut_while_the_console_sends_ends_as_well():
    async with running_house(IMPATIENT) as house, bad_line(house.server.port) as line:
        socket, link = await joined(house, line)
        line.cut()
        # More than every buffer takes: a ping would wait for room.
        sending = house.send(link, look(text="y" * 10_000_000), timeout=60)
        assert (await soon(house.lost.get()))[1] == "nothing was heard for 0.2 s"
        assert "lost" in await fails(sending, ErrorCode.OUTCOME_UNKNOWN)
        socket.transport.abort()


async def test_counts_the_bytes_of_both_directions():
    async with running_house() as house, bad_line(house.server.port) as line:
        socket, link = await joined(house, line)
        sending = house.send(link, look("c1"))
        await answer(socket, await hear(socket), success("c1", LONG))
        await soon(sending)
        connection = link._connection
        assert connection.received_bytes == line.to_console.passed
        await line.to_device.passed_in_all(connection.sent_bytes)
        await socket.close()
