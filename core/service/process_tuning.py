"""How often Python looks for cycles in the service.

With a thousand devices connected a full collection walks half a million objects and stops the loop for 60 ms,
and the usual thresholds ask for several of them in a run over all devices. What a run makes is freed by
counting references, so there is next to nothing to find.

How many files and sockets a process may have open: a thousand devices are more than systems begin with.
"""

from __future__ import annotations

import gc
import sys

# Allocations beyond frees before the young are looked at, and how many such looks before the older ones are.
THRESHOLDS = (50_000, 20, 20)


def collect_seldom() -> None:
    """Look for cycles less often from now on, and never again at what start-up made."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)


ENOUGH = 16_384


def allow_many() -> int:
    """Raise this process's own limit to what is needed and allowed; gives what holds then, 0 for no limit.

    Systems begin with 1,024 and leave it to programs to ask for more. The hard limit is never passed.
    """
    if sys.platform == "win32":
        return 0
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return 0
    wanted = ENOUGH if hard == resource.RLIM_INFINITY else min(ENOUGH, hard)
    if wanted > soft:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        except (OSError, ValueError):
            return soft  # macOS refuses more than its kernel has; what there is must do.
        return wanted
    return soft
