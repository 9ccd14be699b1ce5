"""Whatever a device sends, before and after it has registered: no crash, no hang, nothing kept, none hurt."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed

from core.aip.device_link import DeviceLink
from core.aip.extensions import FEATURES, pack_blob
from core.aip.tool_discovery import list_tools
from core.errors import DeviceError, QuarterdeckError
from tests.fakes.aip_house import House, hear, look, running_house, say, soon
from tests.fakes.patience import PATIENCE_S
from tests.fakes.run_size import examples

Frame = str | bytes
RESPONSE, CALL = "<the response id>", "<the call id>"

FUZZ = settings(
    max_examples=examples(150),
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)

odd_numbers = st.sampled_from(
    [0, -1, 2**31, 2**53, 2**64, -(2**200), 10**400, 1e308, -0.0, float("nan"), float("inf")]
)
odd_texts = st.one_of(
    st.text(max_size=20),
    st.sampled_from(
        ["\ud800", "\udfff\ud800", "\0", "NaN", "$blob", "x" * 5000, "d2", "register", RESPONSE, CALL]
    ),
)
leaves = st.one_of(st.none(), st.booleans(), odd_numbers, odd_texts)
values = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(
            st.one_of(odd_texts, st.sampled_from(["$blob", "quarterdeck", "type"])), inner, max_size=4
        ),
    ),
    max_leaves=8,
)
SHA, BLOB = pack_blob(b"a picture, perhaps", "image/png")
RESULT = {"status": "success", "error": None, "result": {"$blob": SHA}, "namespace": "n", "call_id": CALL}
VALID: list[dict[str, Any]] = [
    {
        "type": "register",
        "status": "ok",
        "client_id": "d1",
        "metadata": {"quarterdeck": {"features": ["terms"]}},
    },
    {"type": "heartbeat", "status": "ok", "client_id": "d1", "timestamp": "2026-11-20T10:00:00+00:00"},
    {
        "type": "heartbeat",
        "status": "ok",
        "metadata": {"quarterdeck": {"metrics": {"cpu_percent": 1, "memory_percent": 2}}},
    },
    {"type": "command_results", "status": "ok", "prev_response_id": RESPONSE, "action_results": [RESULT]},
    {"type": "command_results", "status": "ok", "prev_response_id": RESPONSE, "action_results": []},
    {"type": "error", "status": "error", "error": "timeout: x", "prev_response_id": RESPONSE},
    {"type": "task", "status": "continue", "request": "do it"},
    {"type": "quarterdeck.progress", "call_id": CALL, "seq": 0, "text": "out", "done": 1, "total": 2},
    {"type": "quarterdeck.tools_changed"},
    {"type": "device_info_request", "status": "ok", "request_id": "r"},
]


@st.composite
def mutated(draw: st.DrawFn) -> str:
    """A frame that was valid before some of its parts were replaced, dropped or added."""
    frame = json.loads(json.dumps(draw(st.sampled_from(VALID))))
    for _ in range(draw(st.integers(0, 3))):
        place = frame
        while True:
            key = draw(st.sampled_from(sorted(place))) if place else "new"
            if isinstance(place.get(key), dict) and draw(st.booleans()):
                place = place[key]
                continue
            break
        change = draw(st.sampled_from(["replace", "drop", "add"]))
        if change == "drop":
            place.pop(key, None)
        else:
            place[key if change == "replace" else draw(odd_texts)] = draw(values)
    return json.dumps(frame)


@st.composite
def deep(draw: st.DrawFn) -> str:
    opening, closing = draw(st.sampled_from([("[", "]"), ('{"a":', "}"), ('{"quarterdeck.progress":', "}")]))
    depth = draw(st.sampled_from([10, 190, 250, 1100, 50_000]))
    nested = opening * depth + "1" + closing * depth
    where = draw(st.sampled_from(["whole", "result", "metadata", "unclosed"]))
    if where == "result":
        result = '{"status":"success","call_id":"' + CALL + '","result":' + nested + "}"
        start = '{"type":"command_results","status":"ok","prev_response_id":"' + RESPONSE + '"'
        return start + ',"action_results":[' + result + "]}"
    if where == "metadata":
        return '{"type":"heartbeat","status":"ok","metadata":{"quarterdeck":' + nested + "}}"
    return opening * depth if where == "unclosed" else nested


@st.composite
def cut(draw: st.DrawFn) -> Frame:
    whole = draw(st.one_of(mutated(), st.just(BLOB)))
    end = draw(st.integers(0, len(whole)))
    return whole[:end]


blobs = st.builds(
    lambda data, kind: pack_blob(data, kind)[1], st.binary(max_size=2000), st.text(max_size=300)
)
flipped = st.builds(
    lambda place, byte: BLOB[: place % len(BLOB)] + bytes([byte]) + BLOB[place % len(BLOB) + 1 :],
    st.integers(0, 10_000),
    st.integers(0, 255),
)
frames = st.one_of(
    mutated(),
    mutated(),
    deep(),
    cut(),
    st.just(BLOB),
    blobs,
    flipped,
    st.text(max_size=100).filter(lambda text: text.isprintable()),
    st.binary(max_size=100),
    values.map(json.dumps),
)


class Faults(logging.Handler):
    """Everything that an edge caught because nobody else had."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.seen: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.seen.append(f"{record.getMessage()} {record.exc_info}")


def beside_a_healthy_link(scenario: Callable[[House], Awaitable[None]]) -> None:
    """Run a scenario in a house where another device must work all the same."""

    async def play() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: faults.seen.append(str(context)))
        async with running_house() as house:
            socket, link = await house.joined("d2")
            async with asyncio.timeout(PATIENCE_S):
                await scenario(house)
            sending = house.send(link, look("alive"))
            command = await hear(socket)
            result = {"status": "success", "call_id": "alive"}
            answer = {"prev_response_id": command["response_id"], "action_results": [result]}
            await say(socket, type="command_results", status="ok", **answer)
            assert (await soon(sending))[0].call_id == "alive"
            assert set(house.server.links) == {"d2"}
            assert house.server.unregistered == 0
            await socket.close()

    faults = Faults()
    logger = logging.getLogger("websockets.server")
    logger.addHandler(faults)
    try:
        asyncio.run(play())
    finally:
        logger.removeHandler(faults)
    assert faults.seen == []


async def deliver(socket: ClientConnection, sent: list[Frame], names: dict[str, str]) -> None:
    """Send frames and read whatever comes back, until all are sent or the link is closed."""

    async def read_away() -> None:
        with contextlib.suppress(ConnectionClosed):
            while True:
                await socket.recv()

    async def write() -> None:
        with contextlib.suppress(ConnectionClosed):
            for frame in sent:
                await socket.send(filled(frame, names))
        # The close comes after every frame, so all of them have been looked at when the far end answers.
        await socket.close()

    await asyncio.gather(read_away(), write())


def filled(frame: Frame, names: dict[str, str]) -> Frame:
    for word, name in names.items():
        frame = (
            frame.replace(word, name)
            if isinstance(frame, str)
            else frame.replace(word.encode(), name.encode())
        )
    if isinstance(frame, str):
        # A text frame with a lone surrogate cannot be sent; its bytes can.
        return frame if frame.isascii() else frame.encode("utf-8", "surrogatepass")
    return frame


def nothing_held(link: DeviceLink) -> bool:
    held = dict(link.held)
    return held.pop("given_up") <= 2 and not any(held.values())


@FUZZ
@given(st.lists(frames, min_size=1, max_size=12), st.booleans())
def test_after_registering(sent: list[Frame], ours: bool) -> None:
    async def scenario(house: House) -> None:
        socket, link = await house.joined("d1", features=FEATURES if ours else ())
        sending = house.send(link, look("c1"), timeout=10)
        command = await hear(socket)
        await deliver(socket, sent, {RESPONSE: command["response_id"], CALL: "c1"})
        assert (await soon(house.lost.get()))[0] == "d1"
        with contextlib.suppress(DeviceError):
            assert [result.call_id for result in await soon(sending)] == ["c1"]
        assert nothing_held(link)

    beside_a_healthy_link(scenario)


@FUZZ
@given(frames, st.lists(frames, max_size=3))
def test_before_registering(first: Frame, more: list[Frame]) -> None:
    async def scenario(house: House) -> None:
        socket = await house.dial()
        await deliver(socket, [first, *more], {})
        # Either it was refused, or it registered by chance and its link has ended.
        ends = {house.tasks.spawn("end", end.get()) for end in (house.refused, house.lost)}
        ended, _ = await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        assert ended

    beside_a_healthy_link(scenario)


@FUZZ
@given(st.binary(max_size=300), st.booleans())
def test_bytes_that_are_no_upgrade(data: bytes, polite: bool) -> None:
    async def scenario(house: House) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", house.server.port)
        start = b"GET /ws?token=token-one HTTP/1.1\r\n" if polite else b""
        writer.write(start + data + b"\r\n\r\n")
        writer.write_eof()
        with contextlib.suppress(OSError):
            await soon(reader.read())
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
        await soon(house.refused.get())

    beside_a_healthy_link(scenario)


@FUZZ
@given(values, values)
def test_answers_of_any_content_to_questions_of_our_own(told: Any, more: Any) -> None:
    """A recall and a listing end with an answer or with an error of ours, whatever the device says."""

    async def scenario(house: House) -> None:
        socket, link = await house.joined("d1", features=["recall"])
        for asking in (link.recall(["c1"], 5), list_tools(link, 5)):
            question = house.tasks.spawn("ask", asking)
            # What was wrong with the last answer is said before the next question.
            while (command := await hear(socket))["type"] != "command":
                assert command["type"] == "error"
            result = {"status": "success", "result": told if more else [more, told], "call_id": None}
            names = {RESPONSE: command["response_id"], CALL: "c1"}
            frame = {"prev_response_id": RESPONSE, "action_results": [result]}
            text = json.dumps({"type": "command_results", "status": "ok", **frame})
            await socket.send(filled(text, names))
            with contextlib.suppress(QuarterdeckError):
                await soon(question)
        await socket.close()
        await soon(house.lost.get())
        assert nothing_held(link)

    beside_a_healthy_link(scenario)
