"""How often Python looks for cycles in the service.

With a thousand devices connected a full collection walks half a million objects and stops the loop for 60 ms,
and the usual thresholds ask for several of them in a run over all devices. What a run makes is freed by
counting references, so there is next to nothing to find.
"""

from __future__ import annotations

import gc

# Allocations beyond frees before the young are looked at, and how many such looks before the older ones are.
THRESHOLDS = (50_000, 20, 20)


def collect_seldom() -> None:
    """Look for cycles less often from now on, and never again at what start-up made."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
