"""Who gets in at the console's end of a link, who does not, and how a link ends, over real sockets."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from core.aip.device_link import DeviceLink, LinkEvents, LinkLimits
from core.aip.link_server import DeviceLinkServer, token_table
from core.errors import ErrorCode
from tests.fakes.aip_house import (
    HASTY,
    QUICK,
    TOKENS,
    House,
    fails,
    hear,
    look,
    running_house,
    say,
    soon,
    still_works,
)


@pytest.fixture
async def house() -> AsyncIterator[House]:
    async with running_house() as built:
        yield built


@pytest.fixture
async def hasty() -> AsyncIterator[House]:
    async with running_house(HASTY) as built:
        yield built


@pytest.mark.parametrize("token", [None, "wrong", "token-on", "token-one2", "TOKEN-ONE"])
async def test_without_the_right_token_the_upgrade_is_refused(house: House, token: str | None) -> None:
    with pytest.raises(InvalidStatus) as caught:
        await house.dial(token)
    assert caught.value.response.status_code == 403
    assert (await soon(house.refused.get()))[0] == "the token is not accepted"


async def test_a_token_in_the_query_serves_clients_that_can_set_no_header(house: House) -> None:
    socket = await house.dial(None, query="?token=token-two")
    await say(socket, type="register", status="ok", client_id="d2")
    assert (await hear(socket))["status"] == "ok"


@pytest.mark.parametrize(
    "headers",
    [
        [("Authorization", "Bearer token-two")],
        [("Authorization", "Basic token-one")],
    ],
)
async def test_a_second_authorization_header_is_refused(house: House, headers: list[tuple[str, str]]) -> None:
    with pytest.raises(InvalidStatus):
        await house.dial("token-one", headers=headers)


async def test_a_token_in_other_letters_is_refused_like_any_that_is_wrong(house: House) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", house.server.port)
    writer.write(
        b"GET /ws HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n"
        b"Authorization: Bearer \xff\xfe\r\n\r\n"
    )
    assert b" 403 " in await soon(reader.readline())
    assert (await soon(house.refused.get()))[0] == "the token is not accepted"
    writer.close()
    await writer.wait_closed()


async def test_a_browsers_origin_is_refused_even_with_the_token(house: House) -> None:
    for origin in ("https://example.org", "null", ""):
        with pytest.raises(InvalidStatus) as caught:
            await house.dial(headers=[("Origin", origin)])
        assert caught.value.response.status_code == 403
        assert "Origin" in (await soon(house.refused.get()))[0]


async def test_another_path_is_not_found(house: House) -> None:
    with pytest.raises(InvalidStatus) as caught:
        await house.dial(query="/../else")
    assert caught.value.response.status_code == 404


@pytest.mark.parametrize(
    ("first", "said"),
    [
        ('{"type":"register","status":"ok"}', "needs a client_id"),
        ('{"type":"register","status":"ok","client_id":""}', "needs a client_id"),
        ('{"type":"register","status":"ok","client_id":"d2"}', "not the device this token is for"),
        ('{"type":"register","client_id":"d1"}', "Not an AIP frame"),
        ('{"type":"heartbeat","status":"ok","client_id":"d1"}', "must be register"),
        ("nonsense", "Not an AIP frame"),
        (
            '{"type":"register","status":"ok","client_id":"d1","client_type":"constellation"}',
            "constellation is not served",
        ),
        ('{"type":"register","status":"ok","client_id":"d1","client_type":"king"}', "Not an AIP frame"),
    ],
)
async def test_a_bad_registration_is_answered_reported_and_closed(
    house: House, first: str, said: str
) -> None:
    socket = await house.dial()
    await socket.send(first)
    error = await hear(socket)
    assert (error["type"], error["status"]) == ("error", "error")
    assert said in error["error"]
    with pytest.raises(ConnectionClosed) as caught:
        await soon(socket.recv())
    assert caught.value.rcvd is not None
    assert caught.value.rcvd.code == 1000
    assert said in (await soon(house.refused.get()))[0]
    assert house.connected.empty()


async def test_a_second_device_of_the_same_name_is_refused_and_the_first_untouched(house: House) -> None:
    socket, link = await house.joined()
    double = await house.dial()
    await say(double, type="register", status="ok", client_id="d1")
    assert "already registered" in (await hear(double))["error"]
    with pytest.raises(ConnectionClosed):
        await soon(double.recv())
    await still_works(house, socket, link)
    assert house.lost.empty()


async def test_a_name_is_free_again_when_its_link_has_ended(house: House) -> None:
    socket, _ = await house.joined()
    await socket.close()
    await soon(house.lost.get())
    again, link = await house.joined()
    await still_works(house, again, link)


async def test_a_device_that_never_registers_is_put_out(hasty: House) -> None:
    socket = await hasty.dial()
    assert (await hear(socket))["error"].startswith("timeout: ")
    assert "No registration" in (await soon(hasty.refused.get()))[0]


async def test_a_socket_that_never_finishes_its_upgrade_is_closed(hasty: House) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", hasty.server.port)
    writer.write(b"GET /ws HTTP/1.1\r\n")
    await soon(reader.read())
    writer.close()


async def test_the_acknowledgement_comes_before_a_command_sent_at_once(house: House) -> None:
    """Stock devices take whatever comes first for the acknowledgement, and lose it."""

    def send_at_once(link: DeviceLink) -> None:
        house.send(link, look())

    events = LinkEvents(on_connected=send_at_once)
    eager = DeviceLinkServer(token_table(TOKENS), events, limits=QUICK)
    await eager.start()
    async with connect(eager.url + "?token=token-one", proxy=None) as socket:
        await say(socket, type="register", status="ok", client_id="d1")
        assert [(await hear(socket))["type"] for _ in range(2)] == ["heartbeat", "command"]
    await eager.close()


async def test_closing_the_server_ends_links_and_frees_the_port(house: House) -> None:
    socket, link = await house.joined()
    sending = house.send(link, look())
    await hear(socket)
    port = house.server.port
    await house.server.close()
    await fails(sending, ErrorCode.OUTCOME_UNKNOWN)
    with pytest.raises(OSError, match=r"refused|Connect"):
        await asyncio.open_connection("127.0.0.1", port)


async def test_a_device_that_stops_answering_pings_is_lost(house: House) -> None:
    limits = LinkLimits(ping_s=0.05, pong_s=0.1, close_s=0.1)
    events = LinkEvents(
        on_connected=house.connected.put_nowait,
        on_lost=lambda link, reason: house.lost.put_nowait((link.name, reason)),
    )
    server = DeviceLinkServer(token_table(TOKENS), events, limits=limits)
    await server.start()
    socket = await connect(server.url + "?token=token-one", proxy=None)
    await say(socket, type="register", status="ok", client_id="d1")
    link = await soon(house.connected.get())
    sending = house.send(link, look())
    # What a machine that was put to sleep looks like from here.
    socket.transport.pause_reading()
    await fails(sending, ErrorCode.OUTCOME_UNKNOWN)
    assert (await soon(house.lost.get()))[1] == "nothing was heard for 0.15 s"
    socket.transport.abort()
    await server.close()


async def test_a_refused_registration_names_the_client_id_that_was_tried_with_nothing_hidden_in_it(
    house: House,
) -> None:
    claimed = "lab-9\u202e\x1b[2J\n" + "x" * 5_000
    socket = await house.dial()
    await socket.send(json.dumps({"type": "register", "status": "ok", "client_id": claimed}))
    reason, _ = await soon(house.refused.get())
    assert "it registers as 'lab-9[U+202E][U+001B][2J[U+000A]" in reason
    assert reason.isprintable()
    assert len(reason) < 300
