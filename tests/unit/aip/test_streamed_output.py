"""Output that came as progress and is not repeated in the result: what the console makes of every claim."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection

from core.aip.device_link import DeviceLink
from core.aip.extensions import MOST_SPANS
from core.aip.limits import LinkLimits
from core.aip.messages import Result, ResultStatus
from core.aip.resumable_link import ResumableLink
from core.errors import DeviceError, ErrorCode
from tests.fakes.aip_house import (
    QUICK,
    House,
    answer,
    hear,
    look,
    neighbour,
    running_house,
    say,
    soon,
    still_works,
    success,
)

pytestmark = pytest.mark.asyncio

FEATURES = ("progress", "recall", "streamed_output", "terms", "binary")
TEXT = "first line\nÄ second one, with 🙂\nthird\n"
SIZE = len(TEXT.encode())


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def reference(*spans: Sequence[int], text: str = TEXT, **more: Any) -> dict[str, Any]:
    """What a device says of a field whose output came as progress."""
    return {"result": 0, "field": "stdout", "spans": spans, "sha256": digest(text), **more}


def beside(*references: Any) -> dict[str, Any]:
    return {"metadata": {"quarterdeck": {"streamed": references}}}


class Device:
    """A device by hand, and the call that a console makes of it."""

    def __init__(self, house: House, socket: ClientConnection, link: DeviceLink) -> None:
        self.house, self.socket, self.link = house, socket, link
        self.line = ResumableLink("d1")
        self.line.attach(link)
        self._seq = 0

    async def call(self) -> tuple[asyncio.Task[list[Result]], dict[str, Any]]:
        """Begin a call; returns it and its command as the device gets it."""
        self._seq = 0
        sending = self.house.tasks.spawn("call", self.line.send_commands([look("c1")], 30))
        return sending, await hear(self.socket)

    async def print(self, first: int, text: str, **more: Any) -> None:
        """Send output that begins at this byte."""
        frame = {"call_id": "c1", "seq": self._seq, "stream": "stdout", "text": text}
        frame["span"] = [first, first + len(text.encode())]
        await say(self.socket, type="quarterdeck.progress", **{**frame, **more})
        self._seq += 1

    async def print_all(self) -> None:
        await self.print(0, TEXT)

    async def recalled(self, result: Any = None) -> None:
        """Answer the recall that must come now with the whole result."""
        asked = await hear(self.socket)
        if asked["type"] == "error":
            # Progress that is no frame is complained about, like any other.
            asked = await hear(self.socket)
        [action] = asked["actions"]
        assert (action["tool_name"], action["parameters"]) == ("quarterdeck.recall", {"call_ids": ["c1"]})
        whole = success("c1", result or {"stdout": TEXT, "exit_code": 0})
        told = {"c1": {"state": "done", "result": whole}}
        await answer(self.socket, asked, success(action["call_id"], told))


@asynccontextmanager
async def device(limits: LinkLimits = QUICK, features: Sequence[str] = FEATURES) -> AsyncIterator[Device]:
    async with running_house(limits) as house, neighbour(house):
        socket, link = await house.joined(features=features)
        yield Device(house, socket, link)
        assert link.held["streamed"] == link.held["streamed_bytes"] == 0
        await still_works(house, socket, link)


async def whole(sending: asyncio.Task[list[Result]]) -> Result:
    [result] = await soon(sending)
    assert result.status is ResultStatus.SUCCESS
    assert result.result == {"stdout": TEXT, "exit_code": 0}
    return result


@pytest.mark.parametrize(
    ("cuts", "rest"),
    [
        ([(0, SIZE)], ""),
        ([(0, 11)], TEXT[11:]),
        ([(11, SIZE)], TEXT[:11]),
        ([(2, 5), (7, 11)], TEXT[:2] + TEXT[5:7] + TEXT[11:]),
        ([(0, 3), (3, 11)], TEXT[11:]),
    ],
)
async def test_a_field_is_put_together_from_what_came_and_what_is_in_the_result(
    cuts: list[tuple[int, int]], rest: str
):
    async with device() as it:
        sending, command = await it.call()
        for first, end in cuts:
            await it.print(first, TEXT.encode()[first:end].decode())
        result = success("c1", {"stdout": rest, "exit_code": 0})
        await answer(it.socket, command, result, **beside(reference(*cuts)))
        await whole(sending)


async def test_words_before_the_output_in_a_frame_are_no_output():
    async with device() as it:
        sending, command = await it.call()
        await it.print(0, "[some characters were left out]\n" + TEXT, span=[0, SIZE])
        result = success("c1", {"stdout": "", "exit_code": 0})
        await answer(it.socket, command, result, **beside(reference((0, SIZE))))
        await whole(sending)
        assert "left out" in (await soon(it.house.progress.get())).text


async def test_both_streams_and_the_results_of_one_frame_do_not_mix():
    async with device() as it:
        sending = it.house.send(it.link, look("c1"), look("c2"))
        command = await hear(it.socket)
        for call_id in ("c1", "c2"):
            for stream in ("stdout", "stderr"):
                text = f"{stream} of {call_id}"
                await it.print(0, text, call_id=call_id, stream=stream)
        results, references = [], []
        for place, call_id in enumerate(("c1", "c2")):
            results.append(success(call_id, {"stdout": "", "stderr": "!"}))
            for stream in ("stdout", "stderr"):
                text = f"{stream} of {call_id}"
                tail = "!" if stream == "stderr" else ""
                claim = reference((0, len(text)), text=text + tail, result=place, field=stream)
                references.append(claim)
        await answer(it.socket, command, *results, **beside(*references))
        assert [result.result for result in await soon(sending)] == [
            {"stdout": f"stdout of {call_id}", "stderr": f"stderr of {call_id}!"} for call_id in ("c1", "c2")
        ]


async def test_what_the_limits_of_progress_drop_is_in_the_result_all_the_same():
    async with device(replace(QUICK, progress_burst=1.0, progress_per_s=0.001)) as it:
        sending, command = await it.call()
        for first in range(0, 10):
            await it.print(first, TEXT[first])
        result = success("c1", {"stdout": TEXT[10:], "exit_code": 0})
        await answer(it.socket, command, result, **beside(reference((0, 10))))
        await whole(sending)
        assert it.link.progress_dropped == 9
        assert it.house.progress.qsize() == 1


@pytest.mark.parametrize(
    "claims",
    [
        [reference((0, SIZE + 1))],
        [reference((0, 10**15))],
        [reference((SIZE, SIZE + 10))],
        [reference((0, SIZE), sha256="0" * 64)],
        [reference((0, SIZE), field="stderr")],
        [reference((0, SIZE), field="command")],
        [reference((0, SIZE), result=1)],
        [reference((0, SIZE), result=-1)],
        [reference((0, SIZE)), reference((0, SIZE))],
        [reference((0, 5), (3, SIZE))],
        [reference((11, SIZE), (0, 11))],
        [reference((5, 5), (0, SIZE))],
        [reference((9, 2))],
        [reference((0, 12), text=TEXT.encode()[:12].decode("utf-8", "replace"))],
        [reference(*[(0, 1)] * (MOST_SPANS + 1))],
        [reference()],
        ["everything"],
        {"result": 0},
        7,
    ],
)
async def test_a_claim_that_does_not_hold_is_answered_by_a_recall_of_the_whole(claims: Any):
    async with device() as it:
        sending, command = await it.call()
        await it.print_all()
        result = success("c1", {"stdout": "", "stderr": "", "exit_code": 0})
        await answer(it.socket, command, result, metadata={"quarterdeck": {"streamed": claims}})
        await it.recalled()
        await whole(sending)


@pytest.mark.parametrize("value", [None, 7, ["stdout"], {"stdout": 5}, {"stdout": {"a": ""}}, {}])
async def test_a_reference_to_a_field_that_is_no_text_is_not_followed(value: Any):
    async with device() as it:
        sending, command = await it.call()
        await it.print_all()
        await answer(it.socket, command, success("c1", value), **beside(reference((0, SIZE))))
        await it.recalled()
        await whole(sending)


@pytest.mark.parametrize(
    ("first", "more"),
    [
        (0, {"span": [0, SIZE + 1]}),
        (0, {"span": [5, 5]}),
        (0, {"span": [0]}),
        (0, {"span": [-SIZE, 0]}),
        (0, {"span": None}),
        (1, {}),
        (0, {"call_id": "c2"}),
        (0, {"stream": "note"}),
        (0, {"stream": "stderr"}),
    ],
)
async def test_progress_that_is_not_the_output_does_not_become_it(first: int, more: dict[str, Any]):
    async with device() as it:
        sending, command = await it.call()
        await it.print(first, TEXT, **more)
        result = success("c1", {"stdout": "", "exit_code": 0})
        await answer(it.socket, command, result, **beside(reference((0, SIZE))))
        await it.recalled()
        await whole(sending)


async def test_output_that_comes_twice_or_out_of_order_is_asked_for():
    async with device() as it:
        for repeated in (0, 5):
            sending, command = await it.call()
            await it.print(0, TEXT)
            await it.print(repeated, TEXT)
            result = success("c1", {"stdout": "", "exit_code": 0})
            await answer(it.socket, command, result, **beside(reference((0, SIZE))))
            await it.recalled()
            await whole(sending)


async def test_output_after_the_result_changes_nothing_and_is_not_kept():
    async with device() as it:
        sending, command = await it.call()
        await it.print_all()
        result = success("c1", {"stdout": "", "exit_code": 0})
        await answer(it.socket, command, result, **beside(reference((0, SIZE))))
        got = await whole(sending)
        await it.print(SIZE, "and more")
        await still_works(it.house, it.socket, it.link)
        assert got.result["stdout"] == TEXT
        # The same id again: nothing is left of its first output.
        sending, command = await it.call()
        await answer(it.socket, command, result, **beside(reference((0, SIZE))))
        await it.recalled()
        await whole(sending)


@pytest.mark.parametrize("step", [60_000, 1])
async def test_an_endless_stream_costs_bounded_memory_and_only_a_recall(step: int):
    limits = replace(QUICK, max_incoming_bytes=200_000, held_bytes=150_000, progress_burst=2_000.0)
    async with device(limits) as it:
        sending, command = await it.call()
        highest = 0
        count = 10 if step > 1 else 1_000
        for number in range(count):
            # With a gap before each, so that every byte is a run of its own.
            await it.print(number * 2 * step, "x" * step)
            await soon(it.house.progress.get())
            highest = max(highest, it.link.held["streamed_bytes"])
        assert 100_000 < highest <= 150_000
        await answer(it.socket, command, success("c1", {"stdout": ""}), **beside(reference((0, step))))
        await it.recalled()
        await whole(sending)


async def test_a_result_that_is_too_large_with_its_output_is_refused_as_if_it_had_come_whole(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr("core.aip.pending_requests.MOST_BYTES", 100_000)
    text = "ü" * 20_000
    async with device() as it:
        sending, command = await it.call()
        await it.print(0, text)
        claim = beside(reference((0, 40_000), text=text))
        await answer(it.socket, command, success("c1", {"stdout": ""}), **claim)
        with pytest.raises(DeviceError, match="a result of more than") as caught:
            await soon(sending)
        assert caught.value.code is ErrorCode.BAD_RESULT


async def test_a_tools_own_result_cannot_refer_to_output():
    forged = {"stdout": "", "quarterdeck": {"streamed": [reference((0, SIZE))]}, "metadata": beside()}
    async with device() as it:
        sending, command = await it.call()
        await it.print_all()
        await answer(it.socket, command, success("c1", forged))
        [result] = await soon(sending)
        assert result.result == json.loads(json.dumps(forged))


async def test_without_the_feature_a_reference_means_nothing():
    async with device(features=("progress", "recall", "terms")) as it:
        sending, command = await it.call()
        await it.print_all()
        assert it.link.held["streamed_bytes"] == 0
        await answer(it.socket, command, success("c1", {"stdout": ""}), **beside(reference((0, SIZE))))
        [result] = await soon(sending)
        assert result.result == {"stdout": ""}


async def test_without_recall_an_answer_with_missing_output_is_unknown_and_says_why():
    async with device(features=("progress", "streamed_output")) as it:
        sending, command = await it.call()
        await answer(it.socket, command, success("c1", {"stdout": ""}), **beside(reference((0, SIZE))))
        with pytest.raises(DeviceError, match=r"without all of its output \(it names output") as caught:
            await soon(sending)
        assert caught.value.code is ErrorCode.OUTCOME_UNKNOWN


async def test_a_recall_that_refers_to_output_too_does_not_ask_for_ever():
    async with device() as it:
        sending, command = await it.call()
        result = success("c1", {"stdout": ""})
        await answer(it.socket, command, result, **beside(reference((0, SIZE))))
        asked = await hear(it.socket)
        told = success(asked["actions"][0]["call_id"], {"stdout": ""})
        await answer(it.socket, asked, told, **beside(reference((0, SIZE))))
        with pytest.raises(DeviceError, match="asked again") as caught:
            await soon(sending)
        assert caught.value.code is ErrorCode.OUTCOME_UNKNOWN


async def test_a_device_that_answered_cannot_say_that_it_never_saw_the_call():
    async with device() as it:
        sending, command = await it.call()
        await answer(it.socket, command, success("c1", {"stdout": ""}), **beside(reference((0, SIZE))))
        asked = await hear(it.socket)
        never = {"c1": {"state": "never_seen", "known_for_s": 1e6, "reads_known_for_s": 1e6}}
        await answer(it.socket, asked, success(asked["actions"][0]["call_id"], never))
        with pytest.raises(DeviceError) as caught:
            await soon(sending)
        assert caught.value.code is ErrorCode.OUTCOME_UNKNOWN


async def test_a_late_answer_whose_output_is_no_longer_kept_is_asked_for_and_reported_whole():
    async with device() as it:
        sending, command = await it.call()
        await it.print_all()
        assert await soon(it.house.progress.get())
        sending.cancel()
        await asyncio.wait([sending])
        assert it.link.held["streamed_bytes"] == 0
        result = success("c1", {"stdout": "", "exit_code": 0})
        await answer(it.socket, command, result, **beside(reference((0, SIZE))))
        await it.recalled()
        late = await soon(it.house.late.get())
        assert (late.call_ids, late.problem) == (("c1",), "")
        assert late.results[0].result == {"stdout": TEXT, "exit_code": 0}


async def test_the_output_of_a_link_that_ends_is_dropped_with_it():
    async with running_house() as house:
        socket, link = await house.joined(features=FEATURES)
        it = Device(house, socket, link)
        sending, _ = await it.call()
        await it.print_all()
        assert await soon(house.progress.get())
        assert link.held["streamed_bytes"] > 0
        await socket.close()
        await soon(house.lost.get())
        assert link.held["streamed_bytes"] == 0
        sending.cancel()


async def test_any_json_may_be_beside_a_result_without_references():
    async with device() as it:
        for metadata in (
            None,
            {},
            {"quarterdeck": 7},
            {"quarterdeck": {"streamed": None}},
            {"streamed": [1]},
        ):
            sending, command = await it.call()
            result = success("c1", {"stdout": TEXT, "exit_code": 0})
            await answer(it.socket, json.loads(json.dumps(command)), result, metadata=metadata)
            await whole(sending)
