"""Large frames over a slow line: they arrive, others pass them, and they can be stopped, in both directions.

No test measures a time: the network lets a number of bytes pass and holds the rest, and what is claimed is
which frames arrive while the large one is still under way.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from core.aip.device_link import DeviceLink
from core.aip.limits import LinkLimits
from core.aip.messages import Command, Result, ResultStatus
from core.errors import DeviceError, ErrorCode, Refused
from core.tasks import TaskGroupOwner
from tests.fakes.bad_line import Direction
from tests.fakes.both_ends import BothEnds, both_ends, watch, work
from tests.fakes.patience import PATIENCE_S

LARGE = "0123456789abcdef" * 131_072
# So much passes of it before the line is held: few parts were acknowledged, so the window is still small.
SOME = 8_000
STEP = 2_048
# A device takes arguments of up to 1 MiB.
ARGUMENT = LARGE[:1_000_000]
TALKATIVE = LinkLimits(transfer_report_s=0.0)


def info(call_id: str) -> Command:
    given = {"info_type": "os"}
    return Command(
        tool_name="get_system_info", tool_type="data_collection", parameters=given, call_id=call_id
    )


def write(call_id: str, path: Path, content: str) -> Command:
    given = {"file_path": str(path), "content": content}
    return Command(tool_name="write_file", tool_type="action", parameters=given, call_id=call_id)


class Desk:
    """Both ends, and calls that go on in the background."""

    def __init__(self, ends: BothEnds, link: DeviceLink, tasks: TaskGroupOwner) -> None:
        self.ends, self.link = ends, link
        self._tasks = tasks

    def begin(self, command: Command, timeout: float = PATIENCE_S) -> asyncio.Task[list[Result]]:
        return self._tasks.spawn(command.call_id or "call", self.ends.line.send_commands([command], timeout))

    def spawn(self, work: Coroutine[Any, Any, bool]) -> asyncio.Task[bool]:
        return self._tasks.spawn("other", work)

    async def call(self, command: Command) -> Result:
        async with asyncio.timeout(PATIENCE_S):
            [result] = await self.ends.line.send_commands([command], PATIENCE_S)
        return result

    async def both_under_way(self) -> bool:
        """Wait until the console gets two large frames at once."""
        while len(self.link.transfers) < 2:
            await self.ends.progress.get()
        return True

    async def trickle(self, direction: Direction, until: asyncio.Task[Any]) -> None:
        """Let a little pass, again and again, until a task has ended."""
        async with asyncio.timeout(PATIENCE_S):
            while not until.done():
                direction.allow(STEP)
                held = self._tasks.spawn("held", direction.is_held())
                await asyncio.wait({held, until}, return_when=asyncio.FIRST_COMPLETED)
                held.cancel()

    async def reading(self, timeout: float = PATIENCE_S) -> asyncio.Task[list[Result]]:
        """A call whose large answer is under way, its rest held by the line."""
        self.ends.bench.answer = {"text": LARGE}
        self.ends.bench.go.set()
        to_console = self.ends.network.to_console
        to_console.cut()
        to_console.allow(SOME)
        sending = self.begin(watch("large"), timeout)
        await to_console.is_held()
        return sending

    async def recalled(self, command: Command) -> asyncio.Task[list[Result]]:
        """A call whose link was lost, and whose large result is under way for a recall, its rest held."""
        self.ends.bench.answer = {"text": LARGE}
        sending = self.begin(command)
        await self.ends.bench.next()
        await self.link.close("cut")
        to_console = self.ends.network.to_console
        self.link = await self.ends.link()
        to_console.cut()
        to_console.allow(SOME)
        self.ends.bench.go.set()
        await to_console.is_held()
        return sending

    async def writing(self, path: Path) -> asyncio.Task[list[Result]]:
        """A call whose large argument is under way, its rest held by the line."""
        to_device = self.ends.network.to_device
        to_device.cut()
        to_device.allow(SOME)
        sending = self.begin(write("large", path, ARGUMENT))
        await to_device.is_held()
        return sending


async def soon(sending: asyncio.Task[list[Result]]) -> Result:
    async with asyncio.timeout(PATIENCE_S):
        [result] = await sending
    return result


@asynccontextmanager
async def desk(tmp_path: Path, limits: LinkLimits = LinkLimits()) -> AsyncIterator[Desk]:
    tasks = TaskGroupOwner("test", lambda name, error: None)
    async with both_ends(tmp_path, limits) as ends:
        try:
            yield Desk(ends, await ends.link(), tasks)
        finally:
            # A link that is cut takes its time to close.
            ends.network.restore()
    await tasks.close()


async def test_a_small_answer_passes_a_large_one(tmp_path: Path):
    async with desk(tmp_path) as it:
        large = await it.reading()
        small = it.begin(info("small"))
        await it.trickle(it.ends.network.to_console, until=small)
        assert (await soon(small)).status is ResultStatus.SUCCESS
        assert not large.done()
        assert it.ends.network.to_console.passed < len(LARGE) / 2
        it.ends.network.restore()
        assert (await soon(large)).result == {"text": LARGE}


async def test_a_small_command_passes_a_large_argument(tmp_path: Path):
    async with desk(tmp_path) as it:
        large = await it.writing(tmp_path / "large")
        small = it.begin(info("small"))
        await it.trickle(it.ends.network.to_device, until=small)
        assert (await soon(small)).status is ResultStatus.SUCCESS
        assert not large.done()
        assert it.ends.network.to_device.passed < len(ARGUMENT) / 2
        it.ends.network.restore()
        assert (await soon(large)).status is ResultStatus.SUCCESS
        assert (tmp_path / "large").read_text() == ARGUMENT


async def test_a_held_line_keeps_little_of_a_large_frame_in_its_buffers(tmp_path: Path):
    async with desk(tmp_path, TALKATIVE) as it:
        await it.reading()
        async with asyncio.timeout(PATIENCE_S):
            await it.ends.progress.get()
        [state] = it.link.transfers
        assert (state.outgoing, state.total > len(LARGE)) == (False, True)
        # What the device has handed to its computer and the network, and nobody can overtake any more.
        assert it.ends.network.to_console.taken - SOME < 64_000
        assert state.done < SOME


async def test_several_large_answers_share_the_line(tmp_path: Path):
    async with desk(tmp_path, TALKATIVE) as it:
        first = await it.reading()
        second = it.begin(watch("second"))
        begun = it.spawn(it.both_under_way())
        await it.trickle(it.ends.network.to_console, until=begun)
        assert not first.done()
        it.ends.network.restore()
        assert (await soon(first)).result == (await soon(second)).result == {"text": LARGE}


async def test_a_stop_ends_a_call_whose_large_answer_is_under_way_and_says_that_it_had_run(tmp_path: Path):
    async with desk(tmp_path) as it:
        large = await it.reading()
        stopping = it.spawn(it.ends.line.cancel("large"))
        await it.trickle(it.ends.network.to_console, until=large)
        result = await soon(large)
        assert await stopping
        assert result.status is ResultStatus.SUCCESS
        assert result.result == {
            "not_kept": "it had ended, and was cancelled while its answer was being sent"
        }
        assert it.link.transfers == []
        assert it.ends.network.to_console.passed < len(LARGE) / 2
        it.ends.network.restore()
        assert (await it.call(info("after"))).status is ResultStatus.SUCCESS


async def test_a_stop_ends_a_command_that_is_not_sent_whole_and_it_never_runs(tmp_path: Path):
    async with desk(tmp_path) as it:
        large = await it.writing(tmp_path / "large")
        # Nothing has to pass for it: the rest is not sent.
        assert await it.ends.line.cancel("large")
        with pytest.raises(DeviceError, match="nothing was run") as caught:
            await soon(large)
        assert caught.value.code is ErrorCode.CANCELLED
        it.ends.network.restore()
        assert (await it.call(info("after"))).status is ResultStatus.SUCCESS
        assert not (tmp_path / "large").exists()


async def test_a_caller_that_leaves_takes_the_rest_of_its_command_along(tmp_path: Path):
    async with desk(tmp_path) as it:
        large = await it.writing(tmp_path / "large")
        large.cancel()
        it.ends.network.restore()
        assert (await it.call(info("after"))).status is ResultStatus.SUCCESS
        assert not (tmp_path / "large").exists()
        assert it.link.transfers == []


async def test_an_answer_whose_bytes_come_is_waited_for_beyond_the_time_out(tmp_path: Path):
    async with desk(tmp_path) as it:
        it.ends.network.to_console.rate = 1_000_000
        it.ends.bench.answer = {"text": LARGE}
        it.ends.bench.go.set()
        # It takes eight times as long as it may take to come.
        result = await soon(it.begin(watch("large"), timeout=0.25))
        assert result.result == {"text": LARGE}


async def test_an_answer_that_comes_too_slowly_for_ever_ends_at_a_bound(tmp_path: Path):
    strict = LinkLimits(slowest_per_s=10_000_000.0)
    async with desk(tmp_path, strict) as it:
        large = await it.reading(timeout=0.5)
        with pytest.raises(DeviceError, match=r"did not answer within 0\.5 s") as caught:
            await soon(large)
        assert caught.value.code is ErrorCode.OUTCOME_UNKNOWN


async def test_a_command_that_the_line_does_not_take_in_time_is_known_not_to_have_run(tmp_path: Path):
    strict = LinkLimits(slowest_per_s=10_000_000.0)
    async with desk(tmp_path, strict) as it:
        it.ends.network.to_device.cut()
        sending = it.begin(write("large", tmp_path / "large", ARGUMENT), timeout=0.5)
        with pytest.raises(Refused, match="did not take the whole command in time; nothing was run"):
            await soon(sending)
        it.ends.network.restore()
        assert (await it.call(info("after"))).status is ResultStatus.SUCCESS
        assert not (tmp_path / "large").exists()


async def test_a_recall_waits_as_long_as_its_bytes_come(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("core.aip.resumable_link.RECALL_TIMEOUT", 0.25)
    async with desk(tmp_path) as it:
        large = await it.reading()
        it.ends.network.reset()
        it.ends.network.restore()
        it.ends.network.to_console.rate = 1_000_000
        assert (await soon(large)).result == {"text": LARGE}
        assert len(it.ends.bench.ran) == 1


async def test_an_answer_lost_after_its_time_out_while_it_came_is_recalled(tmp_path: Path):
    async with desk(tmp_path, TALKATIVE) as it:
        it.ends.network.to_console.rate = 1_000_000
        it.ends.bench.answer = {"text": LARGE}
        it.ends.bench.go.set()
        large = it.begin(watch("large"), timeout=0.25)
        async with asyncio.timeout(PATIENCE_S):
            # More than the line carries within the time-out.
            while ((await it.ends.progress.get()).done or 0) < 500:
                pass
        it.ends.network.reset()
        it.ends.network.restore()
        assert (await soon(large)).result == {"text": LARGE}
        assert len(it.ends.bench.ran) == 1


async def test_a_transfer_is_told_as_progress_of_its_call_both_ways(tmp_path: Path):
    async with desk(tmp_path, TALKATIVE) as it:
        large = await it.reading()
        it.ends.network.restore()
        await soon(large)
        received = _drained(it.ends.progress)
        assert {told.call_id for told in received} == {"large"}
        assert [told.done for told in received] == sorted(told.done for told in received)
        assert received[-1].done == received[-1].total == pytest.approx(len(LARGE) / 1000, rel=0.01)
        assert received[-1].unit.startswith("kB of the answer received")
        await it.call(write("written", tmp_path / "large", ARGUMENT))
        sent = [told for told in _drained(it.ends.progress) if "sent" in told.unit]
        assert {told.call_id for told in sent} == {"written"}
        assert sent[-1].done == sent[-1].total


def _drained(queue: asyncio.Queue[Any]) -> list[Any]:
    return [queue.get_nowait() for _ in range(queue.qsize())]


@pytest.mark.parametrize("tool", [watch, work])
async def test_a_stop_ends_a_recall_whose_large_answer_is_under_way(
    tmp_path: Path, tool: Callable[[str], Command]
):
    async with desk(tmp_path) as it:
        large = await it.recalled(tool("large"))
        small = it.begin(info("small"))
        await it.trickle(it.ends.network.to_console, until=small)
        assert (await soon(small)).status is ResultStatus.SUCCESS
        assert not large.done()
        stopping = it.spawn(it.ends.line.cancel("large"))
        await it.trickle(it.ends.network.to_console, until=large)
        result = await soon(large)
        assert await stopping
        assert result.status is ResultStatus.SUCCESS
        assert result.result == {
            "not_kept": "it had ended, and was cancelled while its answer was being sent"
        }
        assert it.ends.network.to_console.passed < len(LARGE) / 2
        it.ends.network.restore()
        assert (await it.call(info("after"))).status is ResultStatus.SUCCESS


async def test_a_recall_whose_answer_is_not_stopped_brings_the_whole_result(tmp_path: Path):
    async with desk(tmp_path) as it:
        large = await it.recalled(work("large"))
        assert not await it.ends.line.cancel("another")
        it.ends.network.restore()
        assert (await soon(large)).result == {"text": LARGE}
