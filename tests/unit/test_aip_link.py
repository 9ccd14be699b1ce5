"""The console's end of a link against real sockets: good devices, odd devices and attackers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from core.aip.console_end import DeviceLinkServer, LinkEvents, token_table
from core.aip.link import DeviceLink, LinkLimits
from core.aip.messages import Command, Result, ResultStatus
from core.errors import BadInput, DeviceError, ErrorCode
from core.tasks import TaskGroupOwner

QUICK = LinkLimits(register_s=0.3, close_s=0.5, max_incoming_bytes=1024 * 1024, max_outgoing_bytes=200_000)
TOKENS = {"d1": "token-one", "d2": "token-two"}


@dataclass
class House:
    """A running server and what it told its owner."""

    server: DeviceLinkServer
    tasks: TaskGroupOwner
    connected: asyncio.Queue[DeviceLink] = field(default_factory=asyncio.Queue)
    lost: asyncio.Queue[tuple[str, str]] = field(default_factory=asyncio.Queue)
    refused: asyncio.Queue[tuple[str, str]] = field(default_factory=asyncio.Queue)
    late: asyncio.Queue[list[Result]] = field(default_factory=asyncio.Queue)

    async def dial(self, token: str | None = "token-one", **more: Any) -> ClientConnection:
        headers = [("Authorization", f"Bearer {token}")] if token else []
        headers += more.pop("headers", [])
        return await connect(
            self.server.url + more.pop("query", ""), additional_headers=headers, proxy=None, **more
        )

    async def joined(self, name: str = "d1") -> tuple[ClientConnection, DeviceLink]:
        socket = await self.dial(TOKENS[name])
        await say(socket, type="register", status="ok", client_id=name, metadata={"a": 1})
        assert (await hear(socket))["type"] == "heartbeat"
        return socket, await soon(self.connected.get())

    def send(self, link: DeviceLink, *commands: Command, timeout: float = 5) -> asyncio.Task[list[Result]]:
        return self.tasks.spawn("send", link.send_commands(commands, timeout))


@pytest.fixture
async def house() -> AsyncIterator[House]:
    tasks = TaskGroupOwner("test", lambda name, error: None)
    events = LinkEvents(
        on_connected=lambda link: built.connected.put_nowait(link),
        on_lost=lambda link, reason: built.lost.put_nowait((link.name, reason)),
        on_refused=lambda reason, peer: built.refused.put_nowait((reason, peer)),
        on_late=lambda link, results: built.late.put_nowait(results),
    )
    built = House(DeviceLinkServer(token_table(TOKENS), events, limits=QUICK), tasks)
    await built.server.start()
    yield built
    await built.server.close()
    await tasks.close()


async def soon(wanted: Any, seconds: float = 5) -> Any:
    async with asyncio.timeout(seconds):
        return await wanted


async def say(socket: ClientConnection, **frame: Any) -> None:
    await socket.send(json.dumps(frame))


async def hear(socket: ClientConnection) -> dict[str, Any]:
    frame = json.loads(await soon(socket.recv()))
    assert isinstance(frame, dict)
    return frame


def look(call_id: str = "c1", **parameters: Any) -> Command:
    return Command(
        tool_name="get_system_info", tool_type="data_collection", parameters=parameters, call_id=call_id
    )


def success(call_id: str | None = "c1", result: Any = 1) -> dict[str, Any]:
    return {"status": "success", "error": None, "result": result, "namespace": "n", "call_id": call_id}


async def answer(socket: ClientConnection, command: dict[str, Any], *results: Any, **more: Any) -> None:
    frame = {
        "type": "command_results",
        "status": "continue",
        "client_id": "d1",
        "session_id": command["session_id"],
        "prev_response_id": command["response_id"],
        "action_results": list(results),
    }
    await say(socket, **{**frame, **more})


async def fails(sending: asyncio.Task[list[Result]], code: ErrorCode) -> str:
    with pytest.raises(DeviceError) as caught:
        await soon(sending)
    assert caught.value.code is code
    return caught.value.message


async def still_works(house: House, socket: ClientConnection, link: DeviceLink) -> None:
    sending = house.send(link, look("alive"))
    await answer(socket, await hear(socket), success("alive"))
    assert (await soon(sending))[0].status is ResultStatus.SUCCESS


# Commands


async def test_a_command_frame_is_what_stock_devices_expect(house: House) -> None:
    socket, link = await house.joined()
    assert link.metadata == {"a": 1}
    sending = house.send(link, look("c1", info_type="cpu"), look("c2"))
    frame = await hear(socket)
    assert frame["type"] == "command"
    assert frame["status"] == "continue"
    assert (frame["agent_name"], frame["process_name"], frame["root_name"]) == ("LinuxAgent", "", "")
    assert frame["session_id"] == link.session_id
    assert [action["call_id"] for action in frame["actions"]] == ["c1", "c2"]
    await answer(socket, frame, success("c1", {"x": 1}), success("c2", None))
    assert [result.result for result in await soon(sending)] == [{"x": 1}, None]


async def test_answers_find_their_commands_in_whatever_order_they_come(house: House) -> None:
    socket, link = await house.joined()
    sendings = [house.send(link, look(f"c{index}")) for index in range(20)]
    frames = [await hear(socket) for _ in sendings]
    assert len({frame["response_id"] for frame in frames}) == 20
    for frame in reversed(frames):
        call_id = frame["actions"][0]["call_id"]
        await answer(socket, frame, success(call_id, call_id))
    for index, sending in enumerate(sendings):
        assert (await soon(sending))[0].result == f"c{index}"


async def test_an_empty_batch_is_answered_with_no_results(house: House) -> None:
    socket, link = await house.joined()
    sending = house.send(link)
    await answer(socket, await hear(socket))
    assert await soon(sending) == []


@pytest.mark.parametrize("results", [[], [success("c1"), success("c2")], [success("other")], [success(None)]])
async def test_results_that_do_not_fit_the_commands_are_a_bad_result(
    house: House, results: list[Any]
) -> None:
    socket, link = await house.joined()
    sending = house.send(link, look())
    await answer(socket, await hear(socket), *results)
    await fails(sending, ErrorCode.BAD_RESULT)
    await still_works(house, socket, link)


async def test_malformed_results_fail_the_command_that_they_name(house: House) -> None:
    socket, link = await house.joined()
    sending = house.send(link, look())
    await answer(socket, await hear(socket), {"status": "excellent", "call_id": "c1"})
    await fails(sending, ErrorCode.BAD_RESULT)
    assert (await hear(socket))["type"] == "error"
    await still_works(house, socket, link)


@pytest.mark.parametrize("word", ["NaN", "Infinity", "-Infinity"])
async def test_a_result_with_a_number_json_does_not_have_is_a_bad_result(house: House, word: str) -> None:
    socket, link = await house.joined()
    sending = house.send(link, look())
    response_id = (await hear(socket))["response_id"]
    await socket.send(
        '{"type":"command_results","status":"ok","prev_response_id":"%s",'
        '"action_results":[{"status":"success","call_id":"c1","result":%s}]}' % (response_id, word)
    )
    await fails(sending, ErrorCode.BAD_RESULT)
    assert (await hear(socket))["type"] == "error"


async def test_the_words_nan_and_infinity_inside_a_text_are_harmless(house: House) -> None:
    socket, link = await house.joined()
    sending = house.send(link, look())
    await answer(socket, await hear(socket), success(result="NaN and Infinity"))
    assert (await soon(sending))[0].result == "NaN and Infinity"


async def test_a_result_that_is_not_json_leaves_the_deadline_to_catch_it(house: House) -> None:
    socket, link = await house.joined()
    sending = house.send(link, look(), timeout=0.3)
    await hear(socket)
    await socket.send("{this is not JSON")
    assert (await hear(socket))["error"].startswith("protocol_error: ")
    await fails(sending, ErrorCode.OUTCOME_UNKNOWN)
    await still_works(house, socket, link)


async def test_a_late_answer_is_reported_and_breaks_nothing(house: House) -> None:
    socket, link = await house.joined()
    await fails(house.send(link, look(), timeout=0.05), ErrorCode.OUTCOME_UNKNOWN)
    frame = await hear(socket)
    await answer(socket, frame, success(result="late"))
    assert (await soon(house.late.get()))[0].result == "late"
    await answer(socket, frame, success(result="again"))
    assert (await hear(socket))["type"] == "error"
    assert house.late.empty()
    await still_works(house, socket, link)


async def test_losing_the_link_makes_the_outcome_unknown_and_later_commands_offline(house: House) -> None:
    socket, link = await house.joined()
    sending = house.send(link, look())
    await hear(socket)
    socket.transport.abort()
    await fails(sending, ErrorCode.OUTCOME_UNKNOWN)
    assert (await soon(house.lost.get()))[0] == "d1"
    await fails(house.send(link, look()), ErrorCode.DEVICE_OFFLINE)
    assert dict(house.server.links) == {}


async def test_closing_a_link_tells_its_reason(house: House) -> None:
    socket, link = await house.joined()
    sending = house.send(link, look())
    await hear(socket)
    await link.close("the operator took it off")
    assert "the operator took it off" in await fails(sending, ErrorCode.OUTCOME_UNKNOWN)
    assert await soon(house.lost.get()) == ("d1", "the operator took it off")
    with pytest.raises(ConnectionClosed):
        await soon(socket.recv())


async def test_a_frame_too_large_for_a_device_is_never_sent(house: House) -> None:
    socket, link = await house.joined()
    with pytest.raises(BadInput) as caught:
        await link.send_commands([look(x="y" * 300_000)], 5)
    assert caught.value.code is ErrorCode.TOO_LARGE
    await still_works(house, socket, link)


async def test_a_frame_too_large_for_the_console_ends_the_link_with_1009(house: House) -> None:
    socket, link = await house.joined()
    sending = house.send(link, look())
    await answer(socket, await hear(socket), success(result="x" * 1_100_000))
    await fails(sending, ErrorCode.OUTCOME_UNKNOWN)
    assert "1009" in (await soon(house.lost.get()))[1]


async def test_a_device_error_about_a_frame_ends_the_wait_for_it(house: House) -> None:
    socket, link = await house.joined()
    sending = house.send(link, look())
    response_id = (await hear(socket))["response_id"]
    await say(socket, type="error", status="error", error="cannot", prev_response_id=response_id)
    assert "cannot" in await fails(sending, ErrorCode.BAD_RESULT)
    await still_works(house, socket, link)


# Heartbeats and frames nobody asked for


async def test_a_heartbeat_is_answered_also_while_a_command_runs(house: House) -> None:
    socket, link = await house.joined()
    heard = link.last_heard
    sending = house.send(link, look())
    command = await hear(socket)
    await say(socket, type="heartbeat", status="ok")
    beat = await hear(socket)
    assert (beat["type"], beat["status"]) == ("heartbeat", "ok")
    assert link.last_heard > heard
    await answer(socket, command, success())
    await soon(sending)


@pytest.mark.parametrize(
    "data",
    [
        "",
        "{",
        "[]",
        "7",
        '{"type":"heartbeat"}',
        '{"type":"dance","status":"ok"}',
        '{"type":"heartbeat","status":"ok","client_id":7}',
        '{"a":"\\ud800"}',
        "[" * 5000,
        b"\xff\xfe",
    ],
)
async def test_a_malformed_frame_gets_an_error_and_the_link_stays(house: House, data: str | bytes) -> None:
    socket, link = await house.joined()
    await socket.send(data)
    error = await hear(socket)
    assert (error["type"], error["status"]) == ("error", "error")
    assert error["error"].startswith("protocol_error: Not an AIP frame")
    await still_works(house, socket, link)


@pytest.mark.parametrize(
    ("frame", "said"),
    [
        ({"type": "heartbeat", "client_id": "d2"}, "client_id does not match"),
        ({"type": "heartbeat", "client_type": "constellation"}, "client_type does not match"),
        ({"type": "register", "client_id": "d1"}, "registered already"),
        ({"type": "task", "request": "do it"}, "not served here"),
        ({"type": "command_results", "prev_response_id": "invented"}, "answer no command"),
    ],
)
async def test_a_frame_out_of_place_gets_an_error_and_the_link_stays(
    house: House, frame: dict[str, Any], said: str
) -> None:
    socket, link = await house.joined()
    await say(socket, status="ok", **frame)
    assert said in (await hear(socket))["error"]
    await still_works(house, socket, link)


async def test_results_in_another_devices_name_are_not_taken(house: House) -> None:
    socket, link = await house.joined()
    sending = house.send(link, look())
    command = await hear(socket)
    await answer(socket, command, success(result="forged"), client_id="d2")
    assert "client_id" in (await hear(socket))["error"]
    await answer(socket, command, success(result="true"))
    assert (await soon(sending))[0].result == "true"


async def test_one_device_cannot_answer_anothers_command(house: House) -> None:
    first, link = await house.joined("d1")
    second, _ = await house.joined("d2")
    sending = house.send(link, look())
    command = await hear(first)
    await answer(second, command, success(result="forged"), client_id="d2")
    assert "answer no command" in (await hear(second))["error"]
    await answer(first, command, success(result="true"))
    assert (await soon(sending))[0].result == "true"


async def test_a_binary_frame_is_read_as_json(house: House) -> None:
    socket, link = await house.joined()
    await socket.send(b'{"type":"heartbeat","status":"ok"}')
    assert (await hear(socket))["type"] == "heartbeat"
    await still_works(house, socket, link)


async def test_a_flood_of_unasked_frames_ends_the_link_with_1008(house: House) -> None:
    socket, _ = await house.joined()
    with pytest.raises(ConnectionClosed) as caught:
        for _ in range(2000):
            await say(socket, type="heartbeat", status="ok")
            await hear(socket)
    assert caught.value.rcvd is not None
    assert caught.value.rcvd.code == 1008
    assert "more frames" in (await soon(house.lost.get()))[1]


async def test_many_answers_to_commands_are_no_flood(house: House) -> None:
    socket, link = await house.joined()
    for _ in range(300):
        await still_works(house, socket, link)


# The door


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


async def test_a_device_that_never_registers_is_put_out(house: House) -> None:
    socket = await house.dial()
    assert (await hear(socket))["error"].startswith("timeout: ")
    assert "No registration" in (await soon(house.refused.get()))[0]


async def test_a_socket_that_never_finishes_its_upgrade_is_closed(house: House) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", house.server.port)
    writer.write(b"GET /ws HTTP/1.1\r\n")
    await soon(reader.read())
    writer.close()


async def test_the_acknowledgement_comes_before_a_command_sent_at_once(house: House) -> None:
    """Stock devices take whatever comes first for the acknowledgement, and lose it."""
    events = LinkEvents(on_connected=lambda link: house.send(link, look()) and None)
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
    with pytest.raises(OSError, match="refused|Connect"):
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
    assert "1011" in (await soon(house.lost.get()))[1]
    socket.transport.abort()
    await server.close()
