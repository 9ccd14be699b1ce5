"""What is put aside by collections while runs go on, and when it is looked at."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Iterator

import pytest

from core.service import garbage
from core.service.garbage import ENOUGH, FAR_TOO_MANY, RESULTS, YOUNG, GarbageCollector
from tests.fakes.patience import PATIENCE_S


class Knot:
    """An object that only the collector can free."""

    def __init__(self) -> None:
        self.itself = self


class Busy:
    """Whether a run is active, as the test says."""

    def __init__(self) -> None:
        self.now = True

    def __call__(self) -> bool:
        return self.now


@pytest.fixture
def busy() -> Busy:
    return Busy()


@pytest.fixture
def collector(busy: Busy) -> Iterator[GarbageCollector]:
    collector = GarbageCollector(busy)
    collector.start()
    # The suite collects only where it says so.
    gc.enable()
    yield collector
    gc.disable()
    collector.stop()


def put_aside(times: int = 1) -> None:
    for _ in range(times):
        gc.collect(0)


def test_young_garbage_is_freed_while_a_run_goes_on(collector: GarbageCollector) -> None:
    gone = weakref.ref(Knot())
    kept = [[number] for number in range(2 * YOUNG)]
    assert gone() is None
    assert kept


def test_what_survives_is_looked_at_by_no_later_collection(collector: GarbageCollector) -> None:
    kept = [Knot()]
    put_aside()
    assert not any(one is kept[0] for one in gc.get_objects())
    gone = weakref.ref(kept.pop())
    gc.collect(1)
    assert gone() is not None


def test_while_results_come_python_looks_at_nothing(collector: GarbageCollector) -> None:
    looks: list[str] = []
    gc.callbacks.append(lambda phase, info: looks.append(phase))
    kept: list[Knot] = []
    try:
        for _ in range(4 * RESULTS):
            kept += [Knot() for _ in range(YOUNG // RESULTS // 2)]
            collector.result_came()
    finally:
        gc.callbacks.pop()
    assert len(kept) >= 2 * YOUNG
    assert looks == []
    assert not {id(one) for one in kept} & {id(one) for one in gc.get_objects()}


def test_what_results_put_aside_counts(collector: GarbageCollector, busy: Busy) -> None:
    kept = [Knot()]
    for _ in range(RESULTS):
        collector.result_came()
    gone = weakref.ref(kept.pop())
    gc.disable()
    much: list[list[int]] = [[] for _ in range(ENOUGH)]
    for _ in range(RESULTS):
        collector.result_came()
    busy.now = False
    collector.look()
    assert gone() is None
    assert much


def test_a_collector_that_was_not_started_leaves_python_s_alone() -> None:
    collector, kept = GarbageCollector(), Knot()
    for _ in range(RESULTS):
        collector.result_came()
    assert any(one is kept for one in gc.get_objects())


def test_what_was_put_aside_is_looked_at_between_runs_once_it_is_much(
    collector: GarbageCollector, busy: Busy
) -> None:
    kept = [Knot()]
    put_aside()
    gone = weakref.ref(kept.pop())
    busy.now = False
    collector.look()
    assert gone() is not None
    put_aside(ENOUGH // YOUNG)
    busy.now = True
    collector.look()
    assert gone() is not None
    busy.now = False
    collector.look()
    assert gone() is None


def test_a_run_that_never_ends_does_not_let_garbage_grow_for_ever(collector: GarbageCollector) -> None:
    kept = [Knot()]
    put_aside()
    gone = weakref.ref(kept.pop())
    put_aside(FAR_TOO_MANY // YOUNG)
    collector.look()
    assert gone() is None


async def test_it_looks_by_itself(
    collector: GarbageCollector, busy: Busy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(garbage, "LOOK_EVERY_S", 0.0)
    kept = [Knot()]
    put_aside(ENOUGH // YOUNG)
    freed = asyncio.Event()
    weakref.finalize(kept.pop(), freed.set)
    busy.now = False
    async with asyncio.TaskGroup() as group:
        looking = group.create_task(collector.run())
        async with asyncio.timeout(PATIENCE_S):
            await freed.wait()
        looking.cancel()


def test_afterwards_python_collects_as_before() -> None:
    before = (gc.get_threshold(), list(gc.callbacks))
    collector = GarbageCollector()
    collector.start()
    collector.stop()
    assert (gc.get_threshold(), gc.callbacks) == before
    assert gc.get_freeze_count() == 0
