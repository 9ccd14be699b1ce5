"""One device over successive links: a lost answer is asked for, and nothing is ever sent twice."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection

from core.aip.device_link import DeviceLink
from core.aip.messages import Command, Result
from core.aip.resumable_link import ResumableLink
from core.errors import ErrorCode
from tests.fakes.aip_house import (
    House,
    answer,
    fails,
    hear,
    look,
    running_house,
    soon,
    success,
)

OURS = ["recall", "cancel"]


@pytest.fixture
async def house() -> AsyncIterator[House]:
    async with running_house() as built:
        yield built


async def attached(
    house: House, line: ResumableLink, features: list[str] = OURS
) -> tuple[ClientConnection, DeviceLink]:
    socket, link = await house.joined(features=features)
    line.attach(link)
    return socket, link


async def cut(house: House, line: ResumableLink, socket: ClientConnection, link: DeviceLink) -> None:
    """End a link the hard way, and wait until the console has noticed."""
    socket.transport.abort()
    await soon(house.lost.get())
    line.detach(link, "cut")


def send(
    house: House, line: ResumableLink, *commands: Command, timeout: float = 5
) -> asyncio.Task[list[Result]]:
    return house.tasks.spawn("send", line.send_commands(commands, timeout))


async def recalled(socket: ClientConnection, told: dict[str, Any]) -> list[str]:
    """Answer the next frame, which must be the question what became of the calls of `told`."""
    command = await hear(socket)
    [action] = command["actions"]
    assert action["tool_name"] == "quarterdeck.recall"
    assert action["parameters"] == {"call_ids": list(told)}
    await answer(socket, command, success(None, told))
    return list(told)


LONG = 1_000.0


def never_seen() -> dict[str, Any]:
    """What a device says that would know of every call."""
    return {"state": "never_seen", "known_for_s": LONG, "reads_known_for_s": LONG}


async def test_a_result_that_was_lost_with_the_link_comes_over_the_next(house: House) -> None:
    line = ResumableLink("d1")
    socket, link = await attached(house, line)
    sending = send(house, line, look("c1"), look("c2"))
    assert [action["call_id"] for action in (await hear(socket))["actions"]] == ["c1", "c2"]
    await cut(house, line, socket, link)
    socket, _ = await attached(house, line)
    done = {
        call_id: {"state": "done", "result": success(call_id, call_id.upper())} for call_id in ("c1", "c2")
    }
    await recalled(socket, done)
    assert [result.result for result in await soon(sending)] == ["C1", "C2"]
    assert line.recovering == 0


async def test_a_call_that_still_runs_is_asked_for_again_until_it_is_done(house: House) -> None:
    line = ResumableLink("d1")
    socket, link = await attached(house, line)
    sending = send(house, line, look())
    await hear(socket)
    await cut(house, line, socket, link)
    socket, _ = await attached(house, line)
    await recalled(socket, {"c1": {"state": "running"}})
    await recalled(socket, {"c1": {"state": "running"}})
    await recalled(socket, {"c1": {"state": "done", "result": success("c1", "at last")}})
    assert (await soon(sending))[0].result == "at last"


async def test_a_call_that_the_device_never_saw_was_certainly_not_run(house: House) -> None:
    line = ResumableLink("d1")
    socket, link = await attached(house, line)
    sending = send(house, line, look())
    await hear(socket)
    await cut(house, line, socket, link)
    socket, _ = await attached(house, line)
    await recalled(socket, {"c1": never_seen()})
    assert "nothing was run" in await fails(sending, ErrorCode.DEVICE_OFFLINE)


@pytest.mark.parametrize(
    ("action", "told", "certain"),
    [
        (True, {}, True),
        (True, {"known_for_s": LONG, "reads_known_for_s": 0}, True),
        # Its records were made after the command was sent.
        (True, {"known_for_s": 0, "reads_known_for_s": LONG}, False),
        # It remembers a call that reads while it runs, and may have been started again.
        (False, {}, False),
        (False, {"known_for_s": LONG, "reads_known_for_s": 0}, False),
        (False, {"known_for_s": 0, "reads_known_for_s": LONG}, True),
    ],
)
async def test_nothing_was_run_is_said_only_of_a_call_that_the_device_would_know(
    house: House, action: bool, told: dict[str, float], certain: bool
) -> None:
    line = ResumableLink("d1")
    socket, link = await attached(house, line)
    kind = "action" if action else "data_collection"
    sending = send(house, line, look("c1").model_copy(update={"tool_type": kind}))
    await hear(socket)
    await cut(house, line, socket, link)
    socket, _ = await attached(house, line)
    await recalled(socket, {"c1": {"state": "never_seen", **told}})
    words = await fails(sending, ErrorCode.DEVICE_OFFLINE if certain else ErrorCode.OUTCOME_UNKNOWN)
    assert ("nothing was run" in words) is certain
    assert ("knows nothing of it, or no longer" in words) is not certain


async def test_a_link_lost_while_it_is_asked_is_waited_out_too(house: House) -> None:
    line = ResumableLink("d1")
    socket, link = await attached(house, line)
    sending = send(house, line, look())
    await hear(socket)
    await cut(house, line, socket, link)
    socket, link = await attached(house, line)
    assert (await hear(socket))["actions"][0]["tool_name"] == "quarterdeck.recall"
    await cut(house, line, socket, link)
    socket, _ = await attached(house, line)
    await recalled(socket, {"c1": {"state": "done", "result": success()}})
    assert (await soon(sending))[0].call_id == "c1"


async def test_when_the_device_does_not_come_back_the_outcome_is_unknown(house: House) -> None:
    line = ResumableLink("d1", wait_for_link=0.1)
    socket, link = await attached(house, line)
    sending = send(house, line, look())
    await hear(socket)
    await cut(house, line, socket, link)
    assert "may have run" in await fails(sending, ErrorCode.OUTCOME_UNKNOWN)
    assert line.recovering == 0


async def test_the_commands_own_deadline_bounds_the_wait(house: House) -> None:
    line = ResumableLink("d1", wait_for_link=60)
    socket, link = await attached(house, line)
    sending = send(house, line, look(), timeout=0.4)
    await hear(socket)
    await cut(house, line, socket, link)
    await fails(sending, ErrorCode.OUTCOME_UNKNOWN)
    socket, _ = await attached(house, line)
    sending = send(house, line, look(), timeout=5)
    frame = await hear(socket)
    assert frame["actions"][0]["tool_name"] == "get_system_info"
    await answer(socket, frame, success())
    await soon(sending)


@pytest.mark.parametrize(("first", "second"), [(["cancel"], OURS), (OURS, ["cancel"]), ([], OURS)])
async def test_without_recall_on_both_links_the_outcome_is_unknown_as_ever(
    house: House, first: list[str], second: list[str]
) -> None:
    line = ResumableLink("d1")
    socket, link = await attached(house, line, first)
    sending = send(house, line, look())
    await hear(socket)
    await cut(house, line, socket, link)
    await attached(house, line, second)
    await fails(sending, ErrorCode.OUTCOME_UNKNOWN)


@pytest.mark.parametrize(
    "told",
    [
        {"c1": {"state": "done", "result": None}},
        {"c1": {"state": "done", "result": {"status": "success", "call_id": "other"}}},
        {"c1": {"state": "done", "result": {"status": "excellent", "call_id": "c1"}}},
    ],
)
async def test_a_recalled_result_that_is_none_is_a_bad_result(house: House, told: dict[str, Any]) -> None:
    line = ResumableLink("d1")
    socket, link = await attached(house, line)
    sending = send(house, line, look())
    await hear(socket)
    await cut(house, line, socket, link)
    socket, _ = await attached(house, line)
    await recalled(socket, told)
    await fails(sending, ErrorCode.BAD_RESULT)


async def test_a_part_that_was_never_seen_is_said_beside_the_part_that_was_done(house: House) -> None:
    line = ResumableLink("d1")
    socket, link = await attached(house, line)
    sending = send(house, line, look("c1"), look("c2"))
    await hear(socket)
    await cut(house, line, socket, link)
    socket, _ = await attached(house, line)
    await recalled(socket, {"c1": {"state": "done", "result": success("c1")}, "c2": never_seen()})
    done, never = await soon(sending)
    assert done.status.value == "success"
    assert never.status.value == "failure"
    assert (never.error or "").startswith("device_offline: ")


async def test_a_command_whose_answer_is_being_recovered_can_be_cancelled(house: House) -> None:
    line = ResumableLink("d1")
    socket, link = await attached(house, line)
    sending = send(house, line, look())
    await hear(socket)
    await cut(house, line, socket, link)
    assert await line.cancel("c1") is False
    socket, _ = await attached(house, line)
    await recalled(socket, {"c1": {"state": "running"}})
    cancelling = house.tasks.spawn("cancel", line.cancel("c1"))
    asked = set()
    while "quarterdeck.cancel" not in asked:
        frame = await hear(socket)
        [action] = frame["actions"]
        asked.add(action["tool_name"])
        told = {"cancelled": True} if action["tool_name"] == "quarterdeck.cancel" else None
        await answer(socket, frame, success(None, told or {"c1": {"state": "running"}}))
    assert await soon(cancelling) is True
    await recalled(socket, {"c1": {"state": "done", "result": success()}})
    await soon(sending)


async def test_an_old_links_end_does_not_take_a_newer_one_away(house: House) -> None:
    line = ResumableLink("d1")
    assert not line.is_open
    socket, old = await attached(house, line)
    await socket.close()
    await soon(house.lost.get())
    socket, link = await attached(house, line)
    line.detach(old, "the old one ended")
    assert line.link is link
    sending = send(house, line, look())
    await answer(socket, await hear(socket), success())
    await soon(sending)


async def test_without_a_link_nothing_is_sent(house: House) -> None:
    line = ResumableLink("d1")
    assert "not connected" in await fails(send(house, line, look()), ErrorCode.DEVICE_OFFLINE)
    socket, link = await attached(house, line)
    await cut(house, line, socket, link)
    assert "cut" in await fails(send(house, line, look()), ErrorCode.DEVICE_OFFLINE)
