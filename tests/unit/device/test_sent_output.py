"""Which output a device leaves out of a result, because it has sent it as progress of the call."""

from __future__ import annotations

import asyncio
import hashlib
from typing import Any

import pytest

from core.aip.extensions import MOST_SPANS, Progress
from core.aip.messages import Result, ResultStatus
from core.device.processes.job import OutputReporter
from core.device.progress_sender import CallProgress
from core.device.sent_output import SentOutput, without_sent_output
from core.tasks import TaskGroupOwner
from tests.fakes.patience import PATIENCE_S

LONG = "a line of output\n" * 400


def result(call_id: str | None = "c1", value: Any = None, **fields: Any) -> Result:
    return Result(status=ResultStatus.SUCCESS, result=fields or value, call_id=call_id)


def sent(*spans: tuple[int, int], stream: str = "stdout") -> SentOutput:
    output = SentOutput()
    for span in spans:
        output.add(stream, span)
    return output


def test_what_was_sent_is_left_out_and_the_kept_result_stays_whole():
    kept = result(stdout=LONG, stderr="few", exit_code=0)
    [shorter], [lacking] = without_sent_output([kept], {"c1": sent((0, 2000), (2000, 3000), (4000, 6000))})
    assert shorter.result == {"stdout": LONG[3000:4000] + LONG[6000:], "stderr": "few", "exit_code": 0}
    assert kept.result["stdout"] == LONG
    assert (lacking.result, lacking.field, lacking.spans) == (0, "stdout", ((0, 3000), (4000, 6000)))
    assert lacking.sha256 == hashlib.sha256(LONG.encode()).hexdigest()


def test_places_count_bytes_of_utf_8():
    text = "Ä🙂" * 500
    [shorter], [lacking] = without_sent_output([result(stdout=text)], {"c1": sent((0, 2400))})
    assert shorter.result["stdout"] == "Ä🙂" * 100
    assert lacking.spans == ((0, 2400),)


def test_a_field_that_limits_have_shortened_refers_to_no_more_than_it_has():
    [shorter], [lacking] = without_sent_output(
        [result(stdout=LONG[:5000], truncated=True)], {"c1": sent((0, 3000), (4000, 6000), (6500, 6600))}
    )
    assert shorter.result["stdout"] == LONG[3000:4000]
    assert lacking.spans == ((0, 3000), (4000, 5000))
    assert lacking.sha256 == hashlib.sha256(LONG[:5000].encode()).hexdigest()


@pytest.mark.parametrize(
    ("value", "spans"),
    [
        # A reference would be as long as the output.
        ({"stdout": LONG}, [(0, 1000)]),
        ({"stdout": LONG[:900]}, [(0, 6000)]),
        ({"stdout": None}, [(0, 6000)]),
        ({"stdout": [LONG]}, [(0, 6000)]),
        ({"beginning": LONG}, [(0, 6000)]),
        (LONG, [(0, 6000)]),
        (None, [(0, 6000)]),
        # It is not what was sent: places fall between the bytes of a character.
        ({"stdout": "ü" * 3000}, [(0, 1501)]),
        ({"stdout": "\udcff" + LONG}, [(0, 6000)]),
    ],
)
def test_a_result_that_cannot_or_need_not_refer_to_output_is_whole(value: Any, spans: list[tuple[int, int]]):
    [whole], lacking = without_sent_output([result(value=value)], {"c1": sent(*spans)})
    assert (whole.result, lacking) == (value, [])


def test_only_the_call_whose_output_was_sent_refers_to_it():
    results = [result("c1", stdout=LONG), result("c2", stdout=LONG), result(None, stdout=LONG)]
    shorter, [lacking] = without_sent_output(results, {"c2": sent((0, 6000))})
    assert [len(one.result["stdout"]) for one in shorter] == [len(LONG), len(LONG) - 6000, len(LONG)]
    assert lacking.result == 1


def test_the_number_of_gaps_that_are_remembered_is_bounded():
    output = sent(*[(10 * number, 10 * number + 5) for number in range(10 * MOST_SPANS)])
    assert len(output.within("stdout", 10**9)) == MOST_SPANS


class Sending:
    """The frames of one call's progress."""

    def __init__(self, *, arrives: bool = True, streamed: bool = True) -> None:
        self.frames: list[Progress] = []
        self.go = asyncio.Event()
        self.go.set()
        self.began = asyncio.Event()
        self.tasks = TaskGroupOwner("test")
        self.arrives = arrives
        self.progress = CallProgress("c1", self.send, self.tasks, pause_s=0, streamed=streamed)

    async def send(self, frame: str) -> bool:
        self.frames.append(Progress.model_validate_json(frame))
        self.began.set()
        await self.go.wait()
        return self.arrives

    async def close(self) -> None:
        async with asyncio.timeout(PATIENCE_S):
            await self.progress.close()
        await self.tasks.close()

    def holds(self, output: str) -> None:
        """Check that each frame has the output that it says it has."""
        data = output.encode()
        for frame in self.frames:
            assert frame.span is not None
            first, end = frame.span
            assert frame.text.encode().endswith(data[first:end])


async def test_each_frame_says_which_bytes_it_has_also_after_text_was_dropped():
    it = Sending()
    it.go.clear()
    output = ""
    for number in range(2_000):
        line = f"{number:06} Ä🙂 " + "x" * 1000 + "\n"
        output += line
        it.progress(line, stream="stdout")
        await asyncio.sleep(0)
    # More than all that waits, at once.
    output += (much := "yü" * 200_000)
    it.progress(much, stream="stdout")
    it.go.set()
    await it.close()
    it.holds(output)
    spans = it.progress.sent.within("stdout", len(output.encode()))
    assert len(spans) == 2
    assert spans[0][0] == 0
    assert spans[-1][1] == len(output.encode())


async def test_two_streams_are_counted_each_for_itself():
    it = Sending()
    for number in range(300):
        it.progress(f"{number}\n", stream="stdout")
        it.progress(f"error {number}\n", stream="stderr")
        it.progress("a note", done=number)
        await asyncio.sleep(0)
    await it.close()
    whole = {"stdout": "", "stderr": ""}
    for number in range(300):
        whole["stdout"] += f"{number}\n"
        whole["stderr"] += f"error {number}\n"
    assert {frame.span for frame in it.frames if frame.stream == "note"} == {None}
    for stream, text in whole.items():
        assert it.progress.sent.within(stream, 10**6) == ((0, len(text)),)


async def test_bytes_that_are_not_utf_8_count_as_they_are_in_the_result():
    it = Sending()
    output = bytes(range(256)) * 20 + "🙂Ä".encode() * 100 + b"\xf0\x9f"
    reporter = OutputReporter(it.progress, "stdout")
    # Every border of a chunk falls somewhere else in a character.
    at, size = 0, 1
    while at < len(output):
        reporter.tell(output[at : at + size])
        at, size = at + size, size % 7 + 1
        await asyncio.sleep(0)
    reporter.tell(b"", final=True)
    await it.close()
    text = output.decode("utf-8", "replace")
    it.holds(text)
    [rest], [lacking] = without_sent_output([result(stdout=text)], {"c1": it.progress.sent})
    assert rest.result["stdout"] == ""
    assert lacking.spans == ((0, len(text.encode())),)


async def test_output_that_went_over_another_link_is_not_left_out():
    it = Sending(arrives=False)
    it.progress(LONG, stream="stdout")
    await it.close()
    assert it.frames
    assert not it.progress.sent.is_worth_leaving_out


async def test_without_the_feature_frames_are_as_before():
    it = Sending(streamed=False)
    it.progress(LONG, stream="stdout")
    await it.close()
    assert [frame.span for frame in it.frames] == [None]
    assert "span" not in it.frames[0].model_dump_json()
    assert not it.progress.sent.is_worth_leaving_out


async def test_a_frame_under_way_is_sent_whole_before_the_result_and_counts():
    it = Sending()
    it.go.clear()
    it.progress(LONG, stream="stdout")
    await it.began.wait()
    closing = it.tasks.spawn("close", it.progress.close())
    await asyncio.sleep(0)
    assert not closing.done()
    it.go.set()
    async with asyncio.timeout(PATIENCE_S):
        await closing
    assert it.progress.sent.within("stdout", len(LONG)) == ((0, len(LONG)),)
    await it.close()


async def test_a_frame_on_a_line_that_stands_still_is_not_waited_for_and_does_not_count(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr("core.device.progress_sender._LAST_TEXT_S", 0.05)
    it = Sending()
    it.go.clear()
    it.progress(LONG, stream="stdout")
    await it.began.wait()
    await it.close()
    assert not it.progress.sent.is_worth_leaving_out


async def test_frames_of_a_slow_line_are_small_and_those_of_an_unknown_one_smaller_than_of_a_fast_one():
    sizes = []
    for takes_s in (lambda size: 0.0, lambda size: size / 16_384, lambda size: None):
        it = Sending()
        it.progress = CallProgress("c1", it.send, it.tasks, 0, takes_s, streamed=True)
        it.progress("x" * 100_000, stream="stdout")
        await it.began.wait()
        sizes.append(len(it.frames[0].text))
        await it.close()
    assert sizes == [65_536, 16_384, 8_192]
