"""Collection of cyclic garbage in the service: while runs go on, only among the youngest objects.

A run keeps some fifty objects of each result, and hardly any of them is ever cyclic garbage. Python looks at
all of them again when enough have come: after two runs of ten thousand cells the loop stood 0.3 s. So what
survives its first collection is put aside, where Python looks at nothing; that is looked at between runs.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable

# Net new objects before the youngest are collected, which takes 5 to 10 ms.
YOUNG = 5_000
# Collections after which what was put aside (`YOUNG` objects each) is looked at, with and without a run going
# on. Looking at a million objects takes 0.3 s.
ENOUGH, FAR_TOO_MANY = 200, 2_000
LOOK_EVERY_S = 10.0


class GarbageCollector:
    """Decides what Python's collector looks at, from `start` to `stop`. One per process."""

    def __init__(self, busy: Callable[[], bool] = lambda: False) -> None:
        """`busy`: whether a run is active."""
        self._busy = busy
        self._aside = 0
        self._before = gc.get_threshold()

    def start(self) -> None:
        """Collect everything now; what is left, mostly modules, counts as put aside."""
        self._look_at_all()
        gc.set_threshold(YOUNG, *self._before[1:])
        gc.callbacks.append(self._collected)

    def stop(self) -> None:
        """Let Python collect as before."""
        gc.callbacks.remove(self._collected)
        gc.set_threshold(*self._before)
        gc.unfreeze()

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
            # Costs nothing: Python keeps what is frozen in a list of its own.
            gc.freeze()
            self._aside += 1

    def _look_at_all(self) -> None:
        gc.unfreeze()
        gc.collect()
        gc.freeze()
        self._aside = 0
