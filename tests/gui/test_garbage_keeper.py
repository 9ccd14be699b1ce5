"""The window's garbage: found in short looks, however much there is that lives long."""

from __future__ import annotations

import gc
import time
import weakref
from collections.abc import Iterator

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication

from app import qt_loop
from app.qt_loop import GuiThreadGarbageCollector
from tests.fakes.pace import within

MANY = 350_000
MOST_S = 0.01


class Knot:
    """A cycle: only the collector can free it."""

    def __init__(self) -> None:
        self.itself = self


class NobodyIsHere:
    """An application that is in the background."""

    @staticmethod
    def applicationState() -> Qt.ApplicationState:
        return Qt.ApplicationState.ApplicationInactive


@pytest.fixture
def keeper(qapp: QApplication) -> Iterator[GuiThreadGarbageCollector]:
    keeper = GuiThreadGarbageCollector()
    keeper._timer.stop()
    yield keeper
    keeper.stop()


def churn() -> None:
    """What a second of a busy window leaves: some cycles, many short-lived objects."""
    for _ in range(2_000):
        Knot()
    assert [[number] for number in range(5_000)]


def test_no_collection_is_longer_than_a_frame_once_the_fleet_is_loaded(
    keeper: GuiThreadGarbageCollector,
) -> None:
    fleet = [[number] for number in range(MANY)]
    keeper.collect()
    for one in within(MOST_S, tries=3, clock=time.thread_time):
        with one:
            times = []
            for _ in range(150):
                churn()
                began = time.thread_time()
                keeper.collect()
                times.append(time.thread_time() - began)
            one.seconds = sorted(times)[-3]
    assert len(fleet) == MANY


def test_young_garbage_is_freed_while_much_is_put_aside(keeper: GuiThreadGarbageCollector) -> None:
    fleet = [[number] for number in range(MANY)]
    keeper.collect()
    assert gc.get_freeze_count() > len(fleet)
    knot = weakref.ref(Knot())
    churn()
    for _ in range(30):
        churn()
        keeper.collect()
    assert knot() is None


def test_what_became_garbage_after_it_was_put_aside_goes_while_nobody_looks(
    keeper: GuiThreadGarbageCollector, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = Knot()
    found = weakref.ref(old)
    gc.freeze()
    del old
    churn()
    keeper.collect()
    assert found() is not None
    # Another test's window may still be the active one.
    monkeypatch.setattr(qt_loop, "QApplication", NobodyIsHere)
    monkeypatch.setattr(qt_loop, "LOOK_EVERY_S", -1.0)
    keeper.collect()
    assert found() is None


def test_a_window_that_is_never_left_is_looked_through_when_twice_as_much_is_aside(
    keeper: GuiThreadGarbageCollector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(qt_loop, "MOST_ASIDE_S", 0.0)
    knots = [Knot() for _ in range(MANY // 2)]
    found = weakref.ref(knots[0])
    keeper.collect()
    del knots
    # The collection took its time and put them aside, where no other one finds them.
    keeper.collect()
    assert found() is None
