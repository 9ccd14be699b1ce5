"""Events on their way to a watcher that may be slower than they are."""

from __future__ import annotations

import asyncio
import gc
import json

import pytest

from core.batch.models import Cell, CellState
from core.service.console import CellChanged, Event, Missed
from core.service.event_hub import EventHub, Pending
from core.service.rpc.protocol import encode_events


def cell(step: str, state: CellState = CellState.QUEUED) -> CellChanged:
    return CellChanged(cell=Cell(run="r1", device="d1", step=step, tool="t", state=state))


async def test_a_newer_state_takes_the_place_of_the_older_one():
    pending = Pending()
    for event in (cell("a"), cell("b"), cell("a", CellState.DONE)):
        pending.add(event)
    assert pending.take() == [cell("a", CellState.DONE), cell("b")]
    assert pending.take() == []


async def test_a_reader_may_take_a_part_and_the_rest_is_ready_for_it():
    pending = Pending()
    for name in "abc":
        pending.add(cell(name))
    assert pending.take(2) == [cell("a"), cell("b")]
    assert pending.ready.is_set()
    assert pending.take(2) == [cell("c")]
    assert not pending.ready.is_set()


async def test_past_the_bound_everything_is_one_missed_with_the_count_of_what_was_dropped():
    pending = Pending(bound=3)
    for number in range(10):
        pending.add(cell(f"s{number}"))
    assert pending.pop() == Missed(count=10)
    assert pending.pop() is None
    pending.add(cell("later"))
    assert pending.pop() == cell("later")


async def test_the_bound_is_for_things_not_for_their_changes():
    pending = Pending(bound=1)
    for _ in range(10):
        pending.add(cell("a"))
    assert pending.take() == [cell("a")]


async def test_what_was_missed_further_up_is_passed_on_and_added():
    pending = Pending()
    pending.add(cell("a"))
    pending.add(Missed(count=5))
    pending.add(cell("b"))
    assert pending.take() == [Missed(count=7)]


async def test_every_watcher_gets_what_happens_from_when_it_began():
    hub = EventHub()
    early = hub.subscribe()
    hub.publish(cell("a"))
    late = hub.subscribe()
    hub.publish(cell("b"))
    assert [await anext(early), await anext(early)] == [cell("a"), cell("b")]
    assert await anext(late) == cell("b")


async def test_one_that_never_reads_does_not_change_what_another_gets():
    hub = EventHub()
    never, reading = hub.subscribe(bound=2), hub.subscribe()
    for number in range(5):
        hub.publish(cell(str(number)))
    assert await anext(reading) == cell("0")
    assert await anext(never) == Missed(count=5)


async def test_closing_wakes_whoever_waits_and_frees_the_hub():
    hub = EventHub()
    one, other = hub.subscribe(), hub.subscribe()

    async def read() -> list[Event]:
        return [event async for event in one]

    async with asyncio.TaskGroup() as group:
        reading = group.create_task(read())
        await asyncio.sleep(0)
        await one.aclose()
    assert reading.result() == []
    assert len(hub) == 1
    hub.close()
    with pytest.raises(StopAsyncIteration):
        await anext(other)
    with pytest.raises(StopAsyncIteration):
        await anext(hub.subscribe())


async def test_a_watcher_that_is_only_forgotten_is_not_fed_for_ever():
    hub = EventHub()
    hub.subscribe()
    gc.collect()
    assert len(hub) == 0


def test_an_event_is_encoded_once_for_all_clients() -> None:
    event = cell("a")
    frames = [json.loads(encode_events(stream, [event])) for stream in (1, 2)]
    assert [frame["events"] for frame in frames] == [[event.model_dump(mode="json", by_alias=True)]] * 2
    assert event.encoded is event.encoded
