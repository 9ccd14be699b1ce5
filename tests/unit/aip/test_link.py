"""Commands, answers and frames nobody asked for, at the console's end of a link, over real sockets."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed

from core.aip.extensions import features_of
from core.errors import BadInput, ErrorCode
from tests.fakes.aip_house import (
    House,
    answer,
    fails,
    hear,
    look,
    running_house,
    say,
    soon,
    still_works,
    success,
)


@pytest.fixture
async def house() -> AsyncIterator[House]:
    async with running_house() as built:
        yield built


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
    socket, link = await house.joined(features=["cancel"])
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
        '{"type":"command_results","status":"ok","prev_response_id":"' + response_id + '",'
        '"action_results":[{"status":"success","call_id":"c1","result":' + word + "}]}"
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
    assert (await soon(house.late.get())).results[0].result == "late"
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


async def test_a_stock_device_is_never_asked_to_cancel(house: House) -> None:
    socket, link = await house.joined()
    sending = house.send(link, look("c1"))
    command = await hear(socket)
    assert await link.cancel("c1") is False
    await answer(socket, command, success("c1"))
    await soon(sending)


@pytest.mark.parametrize("nonsense", [{}, {"quarterdeck": 1}, {"quarterdeck": {"features": {"cancel": 1}}}])
def test_features_are_read_from_what_is_a_list_of_words_only(nonsense: dict[str, Any]) -> None:
    assert features_of(nonsense) == frozenset()
    assert features_of({"quarterdeck": {"features": ["cancel", 7]}}) == {"cancel"}


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
        '{"type":"heartbeat","status":"ok","n":' + "9" * 4_301 + "}",
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

    async def flood() -> None:
        for _ in range(2000):
            await say(socket, type="heartbeat", status="ok")
            await hear(socket)

    with pytest.raises(ConnectionClosed) as caught:
        await flood()
    assert caught.value.rcvd is not None
    assert caught.value.rcvd.code == 1008
    assert "more frames" in (await soon(house.lost.get()))[1]


async def test_many_answers_to_commands_are_no_flood(house: House) -> None:
    socket, link = await house.joined()
    for _ in range(300):
        await still_works(house, socket, link)


async def test_a_cancel_asked_for_in_the_same_turn_comes_behind_its_command(house: House) -> None:
    socket, link = await house.joined(features=["cancel"])
    sending = house.send(link, look("c1"))
    cancelling = house.tasks.spawn("cancel", link.cancel("c1"))
    command, cancel = await hear(socket), await hear(socket)
    assert command["actions"][0]["call_id"] == "c1"
    assert cancel["actions"][0]["parameters"] == {"call_id": "c1"}
    await answer(socket, cancel, {"status": "success", "result": {"cancelled": True}, "call_id": None})
    assert await soon(cancelling) is True
    await answer(socket, command, success())
    await soon(sending)


async def test_what_a_device_says_when_it_closes_plays_no_tricks(house: House) -> None:
    socket, link = await house.joined(features=["cancel"])
    sending = house.send(link, look("c1"))
    await hear(socket)
    await socket.close(4000, "bye\u202e\x1b[2J")
    said = await fails(sending, ErrorCode.OUTCOME_UNKNOWN)
    assert "bye[U+202E][U+001B][2J" in said
