"""The window's garbage: found in short looks, however much there is that lives long."""

from __future__ import annotations

import gc
import math
import weakref
from collections.abc import Iterator

import pytest
from PySide6.QtCore import Qt, QTimer
from PySide6.QtWidgets import QApplication

from app import qt_loop
from app.qt_loop import GuiThreadGarbageCollector

MANY = 350_000
# Of what the fleet is made of: about what a second of a busy window leaves.
MOST_LOOKED_AT = MANY // 10


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
    timer = keeper.findChild(QTimer)
    assert isinstance(timer, QTimer)
    timer.stop()
    yield keeper
    keeper.stop()


def churn() -> None:
    """What a second of a busy window leaves: some cycles, many short-lived objects.

    More than 2,000 cycles, after which Python 3.13 collects; 3.11 does after 700.
    """
    for _ in range(3_000):
        Knot()
    assert [[number] for number in range(5_000)]


def test_no_collection_looks_at_the_fleet_once_it_is_loaded(
    keeper: GuiThreadGarbageCollector, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet = [[number] for number in range(MANY)]
    monkeypatch.setattr(qt_loop, "SLOW_S", 0.0)
    monkeypatch.setattr(qt_loop, "MOST_ASIDE_S", math.inf)
    monkeypatch.setattr(qt_loop, "LOOK_EVERY_S", math.inf)
    keeper.collect()
    looked_at: list[int] = []

    def counted(phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            looked_at.append(sum(len(gc.get_objects(one)) for one in range(info["generation"] + 1)))

    gc.callbacks.append(counted)
    try:
        for _ in range(150):
            churn()
            keeper.collect()
    finally:
        gc.callbacks.remove(counted)
    assert len(looked_at) > 100
    assert max(looked_at) < MOST_LOOKED_AT
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
