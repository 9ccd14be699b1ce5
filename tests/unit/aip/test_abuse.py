"""Abuse at the door and on links: each is refused with a reason, and the links of others survive it."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from core.aip.acceptor import TokenRefused
from core.aip.device_link import LinkEvents
from core.aip.link_events import RefusedAttempt
from core.aip.link_server import DeviceLinkServer
from tests.fakes.aip_house import (
    HASTY_TOO,
    QUICK,
    TIGHT,
    House,
    hear,
    look,
    neighbour,
    raw,
    refused,
    running_house,
    say,
    soon,
    still_works,
)


@pytest.fixture
async def house() -> AsyncIterator[House]:
    async with running_house(TIGHT) as built:
        yield built


@pytest.fixture
async def hasty() -> AsyncIterator[House]:
    async with running_house(HASTY_TOO) as built:
        yield built


async def test_a_registration_is_not_as_large_as_a_result_may_be(house: House) -> None:
    socket = await house.dial("token-one")
    await say(socket, type="register", status="ok", client_id="d1", metadata={"x": "y" * 600_000})
    assert "at most" in (await hear(socket))["error"]
    assert "at most" in (await soon(house.refused.get()))[0]


async def test_a_device_that_comes_and_goes_without_end_is_refused_and_others_are_not() -> None:
    async with running_house(replace(QUICK, returns_burst=3, returns_per_s=0.001)) as house:
        for _ in range(3):
            socket, _ = await house.joined("d1")
            await socket.close()
            await soon(house.lost.get())
        socket = await house.dial("token-one")
        await say(socket, type="register", status="ok", client_id="d1")
        assert "too often" in (await hear(socket))["error"]
        assert "too often" in (await soon(house.refused.get()))[0]
        other, link = await house.joined("d2")
        assert link.is_open
        await other.close()


@pytest.mark.parametrize(
    ("headers", "said"),
    [
        ({}, "the token is not accepted"),
        ({"Authorization": "Bearer wrong"}, "the token is not accepted"),
        ({"Authorization": "Bearer token-one", "Origin": "https://example.org"}, "browser's Origin"),
    ],
)
async def test_who_may_not_come_in_leaves_others_alone(
    house: House, headers: dict[str, str], said: str
) -> None:
    async with neighbour(house):
        with pytest.raises(InvalidStatus):
            await connect(house.server.url, additional_headers=headers, proxy=None)
        await refused(house, said)


async def test_a_revoked_token_is_refused_under_the_name_whose_it_was() -> None:
    told: asyncio.Queue[RefusedAttempt] = asyncio.Queue()

    def authorise(token: str | None) -> str | None:
        raise TokenRefused("the token was revoked", "old-laptop")

    server = DeviceLinkServer(authorise, LinkEvents(on_refused=told.put_nowait), limits=QUICK)
    await server.start()
    with pytest.raises(InvalidStatus):
        await connect(f"{server.url}?token=x", proxy=None)
    attempt = await soon(told.get())
    assert (attempt.reason, attempt.name) == ("the token was revoked", "old-laptop")
    await server.close()


async def test_a_duplicate_name_is_refused_under_its_name_and_the_holder_stays(house: House) -> None:
    async with neighbour(house):
        socket, link = await house.joined()
        double = await house.dial()
        await say(double, type="register", status="ok", client_id="d1")
        assert "already registered" in (await hear(double))["error"]
        await refused(house, "already registered")
        await still_works(house, socket, link)
        await double.close()


async def test_a_device_that_comes_back_before_its_dead_link_is_noticed_takes_its_name_back(
    house: House,
) -> None:
    async with neighbour(house):
        socket, old = await house.joined()
        # The far end hangs: the connection is there, but nothing is read or answered any more.
        socket.transport.pause_reading()
        again, link = await house.joined()
        assert link is not old
        assert await soon(house.lost.get()) == ("d1", "the device came back over another connection")
        assert dict(house.server.links)["d1"] is link
        await still_works(house, again, link)
        socket.transport.abort()


async def test_a_foreign_client_id_later_on_is_reported_and_the_link_stays(house: House) -> None:
    async with neighbour(house):
        socket, link = await house.joined()
        await say(socket, type="heartbeat", status="ok", client_id="d2")
        assert "client_id does not match" in (await hear(socket))["error"]
        await refused(house, "client_id does not match")
        await still_works(house, socket, link)


@pytest.mark.parametrize("registered", [True, False])
async def test_a_frame_over_the_limit_ends_its_own_link_only(house: House, registered: bool) -> None:
    async with neighbour(house):
        socket = (await house.joined())[0] if registered else await house.dial()
        with contextlib.suppress(ConnectionClosed):
            await socket.send("x" * (TIGHT.max_incoming_bytes + 1))
        with pytest.raises(ConnectionClosed) as caught:
            await soon(socket.recv())
        assert caught.value.rcvd is not None
        assert caught.value.rcvd.code == 1009
        await refused(house, "frame larger" if registered else "first frame is too large")


async def test_a_flood_ends_its_own_link_only_and_is_reported(house: House) -> None:
    async with neighbour(house):
        socket, _ = await house.joined()
        with contextlib.suppress(ConnectionClosed):
            for _ in range(2000):
                await say(socket, type="dance", status="ok")
                await hear(socket)
        assert socket.close_code == 1008
        await refused(house, "more frames than a device may")


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"G",
        b"GET /ws HTTP/1.1\r\nHost: x\r\n",
        b"GET /ws HTTP/1.1\r\nAuthorization: Bearer token-one\r\nX: ",
    ],
)
async def test_a_slow_upgrade_is_ended_and_reported(hasty: House, data: bytes) -> None:
    async with neighbour(hasty):
        assert await raw(hasty, data) == b""
        await refused(hasty, "did not finish its upgrade in time")


async def test_an_upgrade_in_drops_is_ended_all_the_same(hasty: House) -> None:
    """Each byte comes in time, all of them together do not."""
    async with neighbour(hasty):
        reader, writer = await asyncio.open_connection("127.0.0.1", hasty.server.port)
        with contextlib.suppress(OSError):
            for byte in b"GET /ws HTTP/1.1\r\n" + b"X-Header: y\r\n" * 100:
                writer.write(bytes([byte]))
                await writer.drain()
                if reader.at_eof():
                    break
                # The drops themselves: a peer that is slow on purpose.
                await asyncio.sleep(0.01)
        # A reset is an end too.
        with contextlib.suppress(OSError):
            await soon(reader.read())
        writer.close()
        await refused(hasty, "did not finish its upgrade in time")


@pytest.mark.parametrize(
    "data",
    [
        b"\x00\xff\x00\xff\r\n\r\n",
        b"POST /ws HTTP/1.1\r\n\r\n",
        b"GET /ws HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer token-one\r\n\r\n",
        b"GET /ws HTTP/1.1\r\n" + b"X: y\r\n" * 1000 + b"\r\n",
        b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\n\r\n",
        b"GET http://[ HTTP/1.1\r\nHost: x\r\n\r\n",
    ],
)
async def test_what_is_no_upgrade_is_answered_or_closed_and_reported(house: House, data: bytes) -> None:
    async with neighbour(house):
        answer = await raw(house, data)
        assert b"101" not in answer[:20]
        await soon(house.refused.get())


async def test_when_too_many_have_not_registered_who_waited_longest_makes_room(house: House) -> None:
    async with neighbour(house):
        waiting = [await house.dial() for _ in range(TIGHT.door_most)]
        socket, link = await house.joined()
        await refused(house, "too many connections")
        with pytest.raises(ConnectionClosed):
            await soon(waiting[0].recv())
        await still_works(house, socket, link)
        assert house.server.unregistered == TIGHT.door_most - 1
        for one in waiting[1:]:
            await one.close()
        for _ in waiting[1:]:
            await refused(house, "closed before it had registered")
        assert house.refused.empty()
        await socket.close()


async def test_nobody_counts_as_unregistered_after_registering_or_leaving(house: House) -> None:
    for _ in range(TIGHT.door_most * 2):
        socket, _ = await house.joined()
        await socket.close()
        await soon(house.lost.get())
    assert house.server.unregistered == 0


async def test_a_thousand_commands_at_once_on_one_link_leave_the_others_working(house: House) -> None:
    async with neighbour(house):
        socket, link = await house.joined(features=["terms"])
        sendings = [house.send(link, look(f"c{number}")) for number in range(1000)]
        for _ in sendings:
            command = await hear(socket)
            call_id = command["actions"][0]["call_id"]
            await socket.send(
                json.dumps(
                    {
                        "type": "command_results",
                        "status": "ok",
                        "prev_response_id": command["response_id"],
                        "action_results": [{"status": "success", "call_id": call_id}],
                    }
                )
            )
        for sending in sendings:
            await soon(sending)
        assert link.waiting == 0
