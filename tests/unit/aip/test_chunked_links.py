"""Parts of frames on the console's links: hostile devices, and peers that know no parts."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from core.aip.chunks import LEAST_PART, MOST_STREAMS, pack_abandoned, pack_chunk
from core.aip.device_link import DeviceLink
from core.errors import ErrorCode
from core.fleet.doctor import Doctor
from core.fleet.known_devices import KnownDevices
from core.fleet.models import CheckState, Listening
from core.fleet.rejected_connections import RejectedConnections
from core.models.devices import Device, Health
from tests.fakes.aip_house import (
    QUICK,
    House,
    answer,
    fails,
    hear,
    look,
    neighbour,
    running_house,
    say,
    soon,
    success,
)
from tests.fakes.bad_line import bad_line
from tests.fakes.patience import PATIENCE_S

pytestmark = pytest.mark.asyncio

NEW = ("chunks", "recall", "cancel", "terms")
OLD = ("recall", "cancel", "terms")
LARGE = "y" * 150_000


def results(asked: dict[str, Any], result: Any) -> bytes:
    frame = {
        "type": "command_results",
        "status": "continue",
        "client_id": "d1",
        "prev_response_id": asked["response_id"],
        "action_results": [success("c1", result)],
    }
    return json.dumps(frame).encode()


async def send_parts(socket: ClientConnection, stream: int, frame: bytes, subject: str = "") -> None:
    for at in range(0, len(frame), 4096):
        await socket.send(pack_chunk(stream, len(frame), at, frame[at : at + 4096], subject))


async def sent_until_closed(house: House, socket: ClientConnection, parts: list[bytes]) -> ConnectionClosed:
    """Send until the console closes the link; how it closed it."""

    async def read() -> None:
        async for _ in socket:
            pass

    async def send() -> None:
        for part in parts:
            await socket.send(part)

    reading, sending = house.tasks.spawn("read", read()), house.tasks.spawn("send", send())
    await asyncio.wait({reading, sending}, timeout=PATIENCE_S)
    closed = reading.exception()
    assert isinstance(closed, ConnectionClosed)
    return closed


@pytest.mark.parametrize("mends", [slice(0, 1), slice(1, 3)])
async def test_a_part_that_is_missing_or_foreign_ends_the_link_in_words_and_no_answer_is_made_of_it(mends):
    async with running_house() as house, neighbour(house):
        socket, link = await house.joined(features=NEW)
        sending = house.send(link, look("c1"), timeout=60)
        frame = results(await hear(socket), LARGE)
        parts = [pack_chunk(1, len(frame), at, frame[at : at + 4096]) for at in range(0, len(frame), 4096)]
        del parts[mends]
        closed = await sent_until_closed(house, socket, parts)
        assert closed.rcvd is not None
        assert closed.rcvd.reason.startswith("A part of a frame does not fit: ")
        assert "does not fit" in await fails(sending, ErrorCode.OUTCOME_UNKNOWN)
        assert (await soon(house.lost.get()))[1].startswith("A part of a frame does not fit: ")


async def test_a_frame_larger_than_a_device_may_send_is_refused_at_its_first_part():
    async with running_house() as house, neighbour(house):
        socket, link = await house.joined(features=NEW)
        await socket.send(pack_chunk(1, QUICK.max_incoming_bytes + 1, 0, bytes(4096)))
        assert "at most 1048576 bytes" in (await soon(house.lost.get()))[1]
        assert link.held["part_bytes"] == 0


async def test_frames_that_never_end_are_bounded_and_the_command_ends_by_its_own_limit():
    async with running_house() as house, neighbour(house):
        socket, link = await house.joined(features=NEW)
        sending = house.send(link, look("c1"), timeout=0.5)
        asked = await hear(socket)
        for stream in range(1, MOST_STREAMS + 1):
            await socket.send(pack_chunk(stream, 1_000_000, 0, bytes(LEAST_PART), asked["response_id"]))
        await socket.send(b'{"type":"heartbeat","status":"ok","client_id":"d1"}')
        await hear(socket)
        assert (link.held["parts"], link.held["part_bytes"]) == (MOST_STREAMS, MOST_STREAMS * LEAST_PART)
        await socket.send(pack_chunk(MOST_STREAMS + 1, 1_000_000, 0, bytes(LEAST_PART)))
        await fails(sending, ErrorCode.OUTCOME_UNKNOWN)
        assert "incomplete already" in (await soon(house.lost.get()))[1]


async def test_an_answer_that_drips_is_given_up_when_it_comes_too_slowly():
    limits = replace(QUICK, slowest_per_s=1_000_000.0)
    async with running_house(limits) as house, neighbour(house):
        socket, link = await house.joined(features=NEW)
        sending = house.send(link, look("c1"), timeout=0.3)
        frame = results(asked := await hear(socket), LARGE)
        dripping = house.tasks.spawn("drip", _drip(socket, frame, asked["response_id"], sending))
        await fails(sending, ErrorCode.OUTCOME_UNKNOWN)
        await dripping
        assert link.is_open


async def _drip(socket: ClientConnection, frame: bytes, subject: str, until: asyncio.Task[Any]) -> None:
    """Send parts of an answer, each a moment after the last, and never all of it."""
    for at in range(0, len(frame) - 2 * LEAST_PART, LEAST_PART):
        await socket.send(pack_chunk(1, len(frame), at, frame[at : at + LEAST_PART], subject))
        done, _ = await asyncio.wait({until}, timeout=0.05)
        if done:
            return


@pytest.mark.parametrize("kind", ["tiny frames", "abandoned"])
async def test_a_flood_of_parts_ends_the_link_like_any_other_flood(kind: str):
    async with running_house() as house, neighbour(house):
        socket, _ = await house.joined(features=NEW)
        streams = range(1, 2_000)
        if kind == "tiny frames":
            await sent_until_closed(house, socket, [pack_chunk(stream, 2, 0, b"{}") for stream in streams])
        else:
            parts = [pack_abandoned(stream, 5_000, 2_048) for stream in streams]
            await sent_until_closed(house, socket, parts)
        assert (await soon(house.lost.get()))[1] == "it sent more frames than a device may"


async def test_a_message_of_endless_fragments_ends_the_link():
    async def endless() -> AsyncIterator[bytes]:
        while True:
            yield b"x"
            # The console reads in the same event loop.
            await asyncio.sleep(0)

    async with running_house() as house, neighbour(house):
        socket, _ = await house.joined(features=NEW)
        with pytest.raises(ConnectionClosed):
            await soon(socket.send(endless()))
        assert "1009" in (await soon(house.lost.get()))[1]


@pytest.mark.parametrize("features", [(), OLD])
async def test_a_large_answer_of_a_peer_without_parts_is_waited_for_while_it_comes(features):
    async with running_house() as house, bad_line(house.server.port) as line:
        socket, link = await _joined_through(house, line.port, features)
        sending = house.send(link, look("c1"), timeout=0.5)
        asked = await hear(socket)
        # Four times as long as the time-out.
        line.to_console.rate = 2 * len(LARGE)
        await answer(socket, asked, success("c1", LARGE * 4))
        assert (await soon(sending))[0].result == LARGE * 4
        socket.transport.abort()


@pytest.mark.parametrize("features", [(), OLD])
async def test_a_peer_without_parts_gets_one_message_in_fragments_and_its_answer_is_whole(features):
    async with running_house() as house:
        socket, link = await house.joined(features=features)
        sending = house.send(link, look("c1", text=LARGE), timeout=60)
        async with asyncio.timeout(PATIENCE_S):
            fragments = [fragment async for fragment in socket.recv_streaming()]
        assert len(fragments) > 2
        command = json.loads("".join(fragments))
        assert command["actions"][0]["parameters"] == {"text": LARGE}
        await answer(socket, command, success("c1", LARGE))
        assert (await soon(sending))[0].result == LARGE


async def test_a_cancelled_caller_leaves_a_message_to_a_peer_without_parts_whole():
    async with running_house() as house:
        socket, link = await house.joined()
        sending = house.send(link, look("c1", text=LARGE), timeout=60)
        async with asyncio.timeout(PATIENCE_S):
            stream = socket.recv_streaming()
            first = await anext(stream)
            sending.cancel()
            rest = [fragment async for fragment in stream]
        assert json.loads(first + "".join(rest))["actions"][0]["parameters"] == {"text": LARGE}
        after = house.send(link, look("c2"), timeout=60)
        await answer(socket, await hear(socket), success("c2"))
        assert (await soon(after))[0].result == 1


async def test_parts_mean_nothing_on_a_link_that_has_not_agreed_on_them():
    async with running_house() as house:
        socket, link = await house.joined(features=OLD)
        await send_parts(socket, 1, b'{"type":"heartbeat","status":"ok","client_id":"d1"}')
        assert (await hear(socket))["type"] == "error"
        assert link.is_open


async def ping_check(link: DeviceLink, folder: Path, within_s: float) -> Any:
    """What the doctor finds of a connected device's link."""
    refusals = RejectedConnections(lambda entry: None, lambda name: True, lambda name, count: None)
    registry = KnownDevices(folder / "devices.json", folder / "dial")
    doctor = Doctor(registry, refusals, lambda: Listening(address=""), within_s)
    device = Device(name="d1", health=Health.BUSY, since="2026-01-01T00:00:00Z")
    return (await doctor.examine(device, link))[0]


async def test_the_doctor_says_what_is_under_way(tmp_path: Path):
    async with running_house() as house:
        socket, link = await house.joined(features=NEW)
        await socket.send(pack_chunk(1, 900_000, 0, bytes(300_000), "r"))
        await say(socket, type="heartbeat", status="ok")
        await hear(socket)
        check = await ping_check(link, tmp_path, PATIENCE_S)
        assert check.state is CheckState.PASSED
        assert "; it sends 300 of 900 kB at " in check.found


async def test_the_doctor_tells_a_link_that_carries_bytes_from_one_that_hangs(tmp_path: Path):
    async with running_house() as house, bad_line(house.server.port) as line:
        socket, link = await _joined_through(house, line.port)
        line.to_console.cut()
        hangs = await ping_check(link, tmp_path, 0.3)
        assert (hangs.state, hangs.next) == (
            CheckState.FAILED,
            "The link hangs: reconnect, or restart its client.",
        )
        # A large frame of a peer without parts: its pong waits behind.
        await socket.send("x" * 100_000)
        line.to_console.restore()
        line.to_console.rate = 100_000
        busy = await ping_check(link, tmp_path, 0.3)
        assert busy.state is CheckState.PASSED
        assert " and sends: " in busy.found
        socket.transport.abort()


async def _joined_through(
    house: House, port: int, features: Sequence[str] = ()
) -> tuple[ClientConnection, DeviceLink]:
    socket = await connect(f"ws://127.0.0.1:{port}/ws?token=token-one", proxy=None, ping_interval=None)
    metadata = {"quarterdeck": {"features": list(features)}} if features else {}
    await say(socket, type="register", status="ok", client_id="d1", metadata=metadata)
    await hear(socket)
    return socket, await soon(house.connected.get())
