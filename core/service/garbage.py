"""Collection of cyclic garbage in the service: among few objects while runs give results, among all between.

A run makes some fifty objects for each result, and hardly any of them is ever cyclic garbage. Python looks at
them when enough have come, and again at the older ones: with a thousand commands on their way the looks took
a seventh of the loop's time, and after two runs of ten thousand cells one of them took 0.3 s. So objects are
put aside (`gc.freeze`), where Python looks at nothing: all there are after every few results, otherwise those
that have survived their first collection. What was put aside is looked at between runs.

`gc.freeze` at the start and a threshold of 50,000 alone let the loop stand for 60 to 82 ms in a run of ten
thousand cells, against 32 to 37 ms with this module (median stalls of two sittings, turn about).
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable

# Net new objects before the youngest are collected, which takes 5 to 10 ms.
YOUNG = 5_000
# Results of runs after which all objects are put aside: fewer than make `YOUNG` new ones.
RESULTS = 50
# Net new objects put aside before these are looked at, with and without a run going on. Looking at a million
# objects takes 0.3 s.
ENOUGH, FAR_TOO_MANY = 1_000_000, 10_000_000
LOOK_EVERY_S = 10.0


class GarbageCollector:
    """Decides what Python's collector looks at, from `start` to `stop`. One per process."""

    def __init__(self, busy: Callable[[], bool] = lambda: False) -> None:
        """`busy`: whether a run is active."""
        self._busy = busy
        self._started = False
        # Net new objects put aside since the last look at all, and results that came.
        self._aside = self._results = 0
        self._before = gc.get_threshold()

    def start(self) -> None:
        """Collect everything now; what is left, mostly modules, counts as put aside."""
        self._look_at_all()
        gc.set_threshold(YOUNG, *self._before[1:])
        gc.callbacks.append(self._collected)
        self._started = True

    def stop(self) -> None:
        """Let Python collect as before."""
        self._started = False
        gc.callbacks.remove(self._collected)
        gc.set_threshold(*self._before)
        gc.unfreeze()

    def result_came(self) -> None:
        """Note that a command of a run has ended; does nothing before `start`."""
        self._results += 1
        if self._started and self._results % RESULTS == 0:
            self._put_aside(gc.get_count()[0])

    def look(self) -> None:
        """Look at all that was put aside, if it is much and no run is active, or if it is far too much."""
        if self._aside >= (FAR_TOO_MANY if self._busy() else ENOUGH):
            self._look_at_all()

    async def run(self) -> None:
        """Call `look` every few seconds, until cancelled."""
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            self.look()

    def _collected(self, phase: str, info: dict[str, int]) -> None:
        if phase == "stop" and info["generation"] < 2:
            self._put_aside(YOUNG)

    def _put_aside(self, count: int) -> None:
        # Costs nothing: Python keeps what is frozen in a list of its own.
        gc.freeze()
        self._aside += count

    def _look_at_all(self) -> None:
        gc.unfreeze()
        gc.collect()
        gc.freeze()
        self._aside = 0
