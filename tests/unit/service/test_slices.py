"""Long answers and bursts of events are read in pages: other tasks of the loop get a turn between them."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from core import tasks
from core.errors import ErrorCode, QuarterdeckError
from core.home import Home
from core.service.console import CellChanged, Event
from core.service.rpc import client, protocol, server
from core.service.rpc.client import RemoteConsole
from core.service.rpc.server import ControlServer
from core.tasks import TaskGroupOwner
from tests.fakes.big_run import big_run, ended_run
from tests.fakes.control_socket import FakeHost
from tests.fakes.patience import PATIENCE_S
from tests.fakes.turns import Turns

DEVICES = [f"d-{number:04d}" for number in range(1000)]


@pytest.fixture(autouse=True)
def _every_page_takes_its_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """However fast the machine is, a page is all that is done in one turn of the loop."""
    monkeypatch.setattr(tasks, "TURN_S", 0.0)


@asynccontextmanager
async def attached(folder: Path, host: FakeHost) -> AsyncIterator[RemoteConsole]:
    home = Home(folder / "h").create()
    door = ControlServer(host, home)
    await door.open()
    console = await RemoteConsole.connect(home, "test", "operator:anna")
    try:
        yield console
    finally:
        host.gate.set()
        await console.close()
        await door.close()


def note_when(
    monkeypatch: pytest.MonkeyPatch, name: str, turns: Turns, noted: Callable[[int, Any], None]
) -> None:
    """Tell in which turn `wire` read something, and what."""
    real = getattr(protocol, name)

    def read(value: Any) -> Any:
        made = real(value)
        noted(turns.count, made)
        return made

    monkeypatch.setattr(protocol, name, read)


async def test_others_get_a_turn_for_every_page_of_a_long_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = FakeHost()
    run = ended_run(big_run(1, DEVICES))
    host.fake.work.add(run)
    async with attached(tmp_path, host) as console:
        turns = Turns()
        arrived: list[int] = []

        def note(turn: int, frame: Any) -> None:
            if "result" in frame:
                arrived.append(turn)

        note_when(monkeypatch, "decode", turns, note)
        answer = await console.runs.get("r-0001")
        assert answer == run
        assert turns.count - arrived[-1] >= len(DEVICES) / protocol.PAGE
        turns.close()


async def test_a_burst_of_events_is_read_in_pages_in_its_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = FakeHost()
    cells = ended_run(big_run(1, DEVICES)).cells
    async with attached(tmp_path, host) as console:
        events = console.events()
        await console.approvals.list()  # the subscription went before it
        turns = Turns()
        read: Counter[int] = Counter()
        note_when(monkeypatch, "decode_events", turns, lambda turn, made: read.update({turn: len(made)}))
        for cell in cells:
            host.hub.publish(CellChanged(cell=cell))
        seen = []
        async with asyncio.timeout(PATIENCE_S):
            async for event in events:
                assert isinstance(event, CellChanged)
                seen.append(event.cell)
                if len(seen) == len(cells):
                    break
        assert seen == cells
        assert max(read.values()) <= protocol.PAGE
        turns.close()


@pytest.mark.parametrize("count", [0, 1, protocol.PAGE, 2 * protocol.PAGE + 1])
async def test_a_long_answer_is_encoded_in_pages_and_is_the_same_answer(count: int) -> None:
    method = protocol.methods()["run"]
    run = ended_run(big_run(1, [f"d-{number:04d}" for number in range(count)]))
    turns = Turns()
    answer = protocol.decode(await protocol.encode_result(7, method, run))
    assert turns.count >= (count - 1) // protocol.PAGE
    turns.close()
    assert answer == {"id": 7, "result": method.result.dump_python(run, mode="json", by_alias=True)}


async def test_a_long_list_is_encoded_in_pages_and_is_the_same_list() -> None:
    method = protocol.methods()["tools"]
    tool = FakeHost().fake.tools_of["this-computer"][0]
    many = [tool] * (protocol.PAGE + 1)
    answer = protocol.decode(await protocol.encode_result(7, method, many))
    assert answer["result"] == method.result.dump_python(many, mode="json", by_alias=True)


async def test_a_burst_of_events_is_sent_in_several_frames(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = FakeHost()
    names = [f"d-{number:04d}" for number in range(3 * server.EVENTS_A_FRAME + 1)]
    cells = ended_run(big_run(1, names)).cells
    frames: list[int] = []
    real = protocol.encode_events

    def encode(stream: int, events: list[Event]) -> bytes:
        frames.append(len(events))
        return real(stream, events)

    monkeypatch.setattr(protocol, "encode_events", encode)
    async with attached(tmp_path, host) as console:
        events = console.events()
        await console.approvals.list()  # the subscription went before it
        for cell in cells:
            host.hub.publish(CellChanged(cell=cell))
        async with asyncio.timeout(PATIENCE_S):
            seen = [await anext(events) for _ in cells]
        assert [event.cell for event in seen if isinstance(event, CellChanged)] == cells
        assert max(frames) <= server.EVENTS_A_FRAME


async def test_frames_that_arrived_together_are_not_read_in_one_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = FakeHost()
    async with attached(tmp_path, host) as console:
        turns = Turns()
        read: Counter[int] = Counter()
        note_when(monkeypatch, "decode", turns, lambda turn, frame: read.update([turn] * ("result" in frame)))
        # The service answers on this very loop, so its frames wait in the client's queue in heaps.
        await asyncio.gather(*(console.devices.tools("this-computer") for _ in range(40)))
        assert max(read.values()) == 1
        turns.close()


async def test_an_answer_of_another_shape_fails_its_call_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = FakeHost()
    host.fake.work.add(ended_run(big_run(1, DEVICES)))
    async with attached(tmp_path, host) as console:
        real = protocol.decode

        def spoiled(data: str | bytes) -> dict[str, Any]:
            frame = real(data)
            if isinstance(frame.get("result"), dict) and "cells" in frame["result"]:
                frame["result"]["cells"][-1]["state"] = "melted"
            return frame

        monkeypatch.setattr(protocol, "decode", spoiled)
        with pytest.raises(QuarterdeckError, match="cannot be read") as failed:
            await console.runs.get("r-0001")
        assert failed.value.code is ErrorCode.INTERNAL
        assert [tool.tool_name for tool in await console.devices.tools("this-computer")] == ["echo", "change"]


async def test_whoever_leaves_while_the_answer_is_read_harms_nobody(tmp_path: Path) -> None:
    host = FakeHost()
    run = ended_run(big_run(1, DEVICES))
    host.fake.work.add(run)
    async with attached(tmp_path, host) as console:
        real = client._in_pages
        owner = TaskGroupOwner("whoever")
        asked = owner.spawn("ask", console.runs.get("r-0001"))

        async def left_meanwhile(build: Any, values: Any) -> Any:
            asked.cancel()
            await asyncio.sleep(0)
            return await real(build, values)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(client, "_in_pages", left_meanwhile)
            with pytest.raises(asyncio.CancelledError):
                await asked
            await console.approvals.list()
        assert await console.runs.get("r-0001") == run
