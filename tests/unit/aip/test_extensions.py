"""What both our ends understand beyond AIP, as the console speaks it, over real sockets."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection

from core.aip.device_link import DeviceLink
from core.aip.extensions import CommandProof
from core.aip.frames import clock_offset_ms
from core.aip.limits import LinkLimits
from core.aip.messages import Result, ServerMessage
from core.errors import ErrorCode
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

MOST = LinkLimits(
    progress_burst=5, progress_per_s=0.001, held_blobs=3, held_bytes=50_000, flood_burst=20, flood_per_s=0.001
)


@pytest.fixture
async def house() -> AsyncIterator[House]:
    async with running_house(MOST) as built:
        yield built


async def progress(socket: ClientConnection, seq: int, call_id: str = "c1", **more: Any) -> None:
    await say(socket, type="quarterdeck.progress", call_id=call_id, seq=seq, **more)


def nothing_held(link: DeviceLink) -> bool:
    return not any(count for name, count in link.held.items() if name != "given_up")


# Negotiation


@pytest.mark.parametrize(
    ("announced", "agreed"),
    [
        (["terms", "recall", "from_the_future"], ["recall", "terms"]),
        (["from_the_future"], None),
        (["terms", 7, None, ["recall"]], ["terms"]),
        ("terms", None),
        ({"terms": True}, None),
    ],
)
async def test_both_sides_features_are_agreed_and_only_those_who_announce_are_told(
    house: House, announced: Any, agreed: list[str] | None
) -> None:
    socket = await house.dial()
    metadata = {"quarterdeck": {"features": announced}}
    await say(socket, type="register", status="ok", client_id="d1", metadata=metadata)
    result = (await hear(socket))["result"]
    link = await soon(house.connected.get())
    assert link.features == set(agreed or [])
    if agreed is None:
        assert result is None
    else:
        assert result["quarterdeck"]["features"] == agreed
        assert result["quarterdeck"]["heartbeat_s"] == MOST.heartbeat_s


async def test_a_device_with_terms_is_told_its_deadline_and_what_the_command_was_permitted_on(
    house: House,
) -> None:
    socket, link = await house.joined(features=["terms"])
    ground = CommandProof("d" * 64, {"signature": "s"})
    sending = house.tasks.spawn("send", link.send_commands([look("c1"), look("c2")], 8, [ground]))
    command = await hear(socket)
    first, second = (action["quarterdeck"] for action in command["actions"])
    assert 7 <= first["deadline_s"] < 8
    assert (first["digest"], first["approval"]) == ("d" * 64, {"signature": "s"})
    assert (second["digest"], second["approval"]) == ("", None)
    # Written without a model, it is nothing but what the model writes.
    assert ServerMessage.model_validate(command).model_dump(mode="json") == command
    assert list(command) == list(ServerMessage.model_fields)
    await answer(socket, command, success("c1"), success("c2"))
    await soon(sending)


async def test_without_terms_grounds_stay_here(house: House) -> None:
    socket, link = await house.joined(features=["progress"])
    sending = house.tasks.spawn("send", link.send_commands([look()], 5, [CommandProof("d" * 64)]))
    command = await hear(socket)
    assert "quarterdeck" not in command["actions"][0]
    await answer(socket, command, success())
    await soon(sending)


# Progress


async def test_progress_of_a_pending_call_is_passed_on_in_order(house: House) -> None:
    socket, link = await house.joined(features=["progress"])
    sending = house.send(link, look())
    command = await hear(socket)
    await progress(socket, 0, text="one", stream="stdout")
    await progress(socket, 3, done=1, total=2, unit="files")
    assert (await soon(house.progress.get())).text == "one"
    assert (await soon(house.progress.get())).done == 1
    await answer(socket, command, success())
    await soon(sending)
    assert nothing_held(link)


async def test_repeated_foreign_broken_and_late_progress_is_dropped_and_the_link_stays(house: House) -> None:
    socket, link = await house.joined(features=["progress"])
    sending = house.send(link, look())
    command = await hear(socket)
    await progress(socket, 1)
    await progress(socket, 1)
    await progress(socket, 0)
    await progress(socket, 2, call_id="somebody else's")
    await progress(socket, 2, text="last")
    assert [(await soon(house.progress.get())).seq for _ in range(2)] == [1, 2]
    assert link.progress_dropped == 3
    await answer(socket, command, success())
    await soon(sending)
    await progress(socket, 3)
    await still_works(house, socket, link)
    assert house.progress.empty()


async def test_too_much_progress_is_dropped_and_counted_and_never_costs_the_link(house: House) -> None:
    socket, link = await house.joined(features=["progress"])
    sending = house.send(link, look())
    command = await hear(socket)
    for seq in range(200):
        await progress(socket, seq, text="x" * 100)
    await answer(socket, command, success())
    await soon(sending)
    assert house.progress.qsize() == MOST.progress_burst
    assert link.progress_dropped == 200 - MOST.progress_burst
    await still_works(house, socket, link)


@pytest.mark.parametrize(
    "nonsense",
    [{"seq": -1}, {"seq": "x"}, {"seq": 0, "text": "x" * 70_000}, {"seq": 0, "stream": "other"}, {}],
)
async def test_progress_that_is_none_is_a_malformed_frame(house: House, nonsense: dict[str, Any]) -> None:
    socket, link = await house.joined(features=["progress"])
    await say(socket, type="quarterdeck.progress", call_id="c1", **nonsense)
    assert (await hear(socket))["type"] == "error"
    assert house.progress.empty()
    await still_works(house, socket, link)


async def test_a_stock_devices_progress_is_a_malformed_frame(house: House) -> None:
    socket, link = await house.joined()
    await progress(socket, 0)
    assert (await hear(socket))["error"].startswith("protocol_error: ")
    await still_works(house, socket, link)


# Recall, tool changes, heartbeats


async def test_recall_asks_what_became_of_calls(house: House) -> None:
    socket, link = await house.joined(features=["recall"])
    asking = house.tasks.spawn("recall", link.recall(["a", "b"], 5))
    command = await hear(socket)
    [action] = command["actions"]
    assert (action["tool_name"], action["parameters"]) == ("quarterdeck.recall", {"call_ids": ["a", "b"]})
    told = {"a": {"state": "done", "result": success("a")}, "b": {"state": "never_seen"}}
    await answer(socket, command, success(None, told))
    recalled = await soon(asking)
    assert (recalled["a"].state, recalled["b"].state) == ("done", "never_seen")
    assert Result.model_validate(recalled["a"].result).call_id == "a"


@pytest.mark.parametrize("told", [None, [], {}, {"a": {"state": "lost"}}, {"b": {"state": "running"}}])
async def test_a_recall_that_is_answered_wrongly_is_a_bad_result(house: House, told: Any) -> None:
    socket, link = await house.joined(features=["recall"])
    asking = house.tasks.spawn("recall", link.recall(["a"], 5))
    await answer(socket, await hear(socket), success(None, told))
    await fails(asking, ErrorCode.BAD_RESULT)


async def test_changed_tools_are_told(house: House) -> None:
    socket, link = await house.joined(features=["tools_changed"])
    await say(socket, type="quarterdeck.tools_changed")
    assert await soon(house.changed.get()) == "d1"
    await still_works(house, socket, link)


async def test_a_heartbeat_carries_metrics_and_the_clocks_offset(house: House) -> None:
    socket, link = await house.joined(features=["metrics"])
    metrics = {"quarterdeck": {"metrics": {"cpu_percent": 12.5, "memory_percent": 50}}}
    ahead = (datetime.now(UTC) + timedelta(seconds=90)).isoformat()
    await say(socket, type="heartbeat", status="ok", timestamp=ahead, metadata=metrics)
    beat = await soon(house.beats.get())
    assert beat.metrics is not None
    assert (beat.metrics.cpu_percent, beat.metrics.memory_percent) == (12.5, 50)
    assert beat.clock_offset_ms == pytest.approx(90_000, abs=5_000)
    assert link.clock_offset_ms == beat.clock_offset_ms


@pytest.mark.parametrize(
    "metrics",
    [
        None,
        7,
        {"cpu_percent": 101, "memory_percent": 1},
        {"cpu_percent": "NaN", "memory_percent": 1},
        {"cpu_percent": 1},
    ],
)
async def test_nonsense_in_a_heartbeat_is_no_metrics_and_no_offset(house: House, metrics: Any) -> None:
    socket, _ = await house.joined(features=["metrics"])
    metadata = {"quarterdeck": {"metrics": metrics}}
    await say(socket, type="heartbeat", status="ok", timestamp="yesterday", metadata=metadata)
    beat = await soon(house.beats.get())
    assert (beat.clock_offset_ms, beat.metrics) == (None, None)


@pytest.mark.parametrize(
    "stamp",
    ["", "soon", "2026-11-20T10:00:00", "9999-12-31T23:59:59-23:59", "0001-01-01T00:00:00+23:59", "2" * 5000],
)
def test_a_timestamp_that_says_nothing_gives_no_offset_and_no_error(stamp: str) -> None:
    offset = clock_offset_ms(stamp, datetime.now(UTC), 0.0)
    assert offset is None or abs(offset) > 1e12


def test_half_the_round_trip_is_taken_off_the_offset() -> None:
    now = datetime.now(UTC)
    assert clock_offset_ms(now.isoformat(), now, 0.2) == 100.0


async def test_results_that_are_too_large_together_are_recalled_one_by_one(house: House) -> None:
    socket, link = await house.joined(features=["recall"])
    asking = house.tasks.spawn("recall", link.recall(["a", "b"], 5))
    refusal = {"status": "failure", "error": "too_large: ask for fewer at once", "call_id": None}
    await answer(socket, await hear(socket), refusal)
    for call_id in "ab":
        command = await hear(socket)
        assert command["actions"][0]["parameters"] == {"call_ids": [call_id]}
        await answer(socket, command, success(None, {call_id: {"state": "running"}}))
    assert set(await soon(asking)) == {"a", "b"}
