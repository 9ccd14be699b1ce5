"""How slow the machine is at the moment, so that a deadline that a test gives says the same on a busy one.

A fixed piece of work runs, the yardstick. As many times longer as that takes than on the reference machine,
so much slower is this one. The reference, `REFERENCE_S`, is the least the yardstick was ever seen to take in
a quiet moment of two virtual processors of an AMD EPYC server with CPython 3.11. A quicker machine counts as
the reference, and however slow one is, it counts as `MOST` times slower at most.
"""

from __future__ import annotations

import gc
import time
import zlib
from collections.abc import Callable

REFERENCE_S = 0.00117
MOST = 6.0

# A processor is given away in slices of some milliseconds: what is shorter may not see its neighbours.
_SHORTEST_S = 0.025
_BLOCK = bytes(range(256)) * 1024

Clock = Callable[[], float]


def yardstick() -> int:
    """Do the fixed piece of work: objects, numbers and text in Python, and some memory in C."""
    kept: dict[int, tuple[int, str]] = {}
    for number in range(6_000):
        kept[number % 499] = (number, str(number))
    words = sorted(kept.values(), key=lambda one: one[1])
    return zlib.crc32(_BLOCK.translate(_BLOCK[:256])) + sum(one[0] for one in words)


def slowness(clock: Clock = time.perf_counter, for_s: float = _SHORTEST_S) -> float:
    """Measure how many times slower than the reference machine this one is now: 1 to `MOST`.

    Args:
        clock: of the wall, or of a thread; a neighbour takes wall time, and less of a thread's own.
        for_s: about how long to measure, in seconds of the reference machine.
    """
    times = max(1, round(for_s / REFERENCE_S))
    collects = gc.isenabled()
    # What else the test keeps in memory is not the machine's doing.
    gc.disable()
    try:
        began = clock()
        for _ in range(times):
            yardstick()
        spent = clock() - began
    finally:
        if collects:
            gc.enable()
    return min(MOST, max(1.0, spent / (times * REFERENCE_S)))
