"""The device client and the console's own ends of the link, together, through cuts."""

from __future__ import annotations

import asyncio
from pathlib import Path

from core.aip.messages import ResultStatus
from core.tasks import TaskGroupOwner
from tests.fakes.both_ends import both_ends, work
from tests.fakes.patience import PATIENCE_S


async def test_an_answer_lost_with_the_link_reaches_its_caller_over_the_next_one(tmp_path: Path) -> None:
    tasks = TaskGroupOwner("test")
    async with both_ends(tmp_path) as ends:
        link = await ends.link()
        sending = tasks.spawn("send", ends.line.send_commands([work("c1")], 20))
        await ends.bench.next()
        link._connection.transport.abort()
        await ends.link()
        ends.bench.answer = {"image": {"media_type": "image/png", "data_bytes": b"\x89PNG"}}
        ends.bench.go.set()
        async with asyncio.timeout(PATIENCE_S):
            [result] = await sending
        assert result.status is ResultStatus.SUCCESS
        assert result.result == {"image": {"media_type": "image/png", "data_bytes": b"\x89PNG"}}
        assert len(ends.bench.ran) == 1
    await tasks.close()


async def test_progress_bytes_and_changed_tools_reach_the_console(tmp_path: Path) -> None:
    tasks = TaskGroupOwner("test")
    async with both_ends(tmp_path) as ends:
        link = await ends.link()
        ends.bench.answer = {"image": {"media_type": "image/png", "data_bytes": b"\x89PNG"}}
        sending = tasks.spawn("send", link.send_commands([work("c1")], 10))
        call = await ends.bench.next()
        call.report("half way", done=1, total=2, unit="files")
        async with asyncio.timeout(PATIENCE_S):
            told = await ends.progress.get()
            assert (told.call_id, told.text, told.done, told.total) == ("c1", "half way", 1, 2)
            ends.bench.router.announce()
            await ends.changed.wait()
            ends.bench.go.set()
            [result] = await sending
        assert result.result["image"]["data_bytes"] == b"\x89PNG"
    await tasks.close()


async def test_cancel_reaches_a_command_that_came_over_an_earlier_link(tmp_path: Path) -> None:
    tasks = TaskGroupOwner("test")
    async with both_ends(tmp_path) as ends:
        link = await ends.link()
        sending = tasks.spawn("send", ends.line.send_commands([work("c1")], 20))
        await ends.bench.next()
        link._connection.transport.abort()
        await ends.link()
        async with asyncio.timeout(PATIENCE_S):
            assert await ends.line.cancel("c1")
            [result] = await sending
        assert (result.error or "").startswith("cancelled: ")
    await tasks.close()
