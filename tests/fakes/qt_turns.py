"""How much the window's thread does without coming back to its loop, counted, however busy the machine is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from PySide6.QtCore import QAbstractEventDispatcher

from tests.fakes.work import TurnCalls


@contextmanager
def most_calls_a_turn(limit: int) -> Iterator[TurnCalls]:
    """Hold each turn of Qt's loop to a number of calls.

    Calls inside Qt are not seen; those from Python to Qt and from Qt to Python are. The numbers in tests are
    two to three times what was counted.

    Raises:
        AssertionError: one turn made more.
    """
    dispatcher, turns = QAbstractEventDispatcher.instance(), TurnCalls()
    dispatcher.awake.connect(turns.next_turn)
    try:
        yield turns
    finally:
        dispatcher.awake.disconnect(turns.next_turn)
        turns.close()
    turns.hold_to(limit)
