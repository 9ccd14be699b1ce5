"""Process tuning of the service: garbage collection thresholds and the limit of open files.

With a thousand devices connected, a full collection walks half a million objects and stops the loop for
60 ms. With the default thresholds, several happen in a run over all devices. A run's objects are freed by
reference counting, so that a collection finds next to nothing.

The default limit of open files and sockets is too low for a thousand devices.
"""

from __future__ import annotations

import gc
import sys

# `gc.set_threshold`: net allocations before generation 0 is collected, then collections of each generation
# before the next older generation is collected.
THRESHOLDS = (50_000, 20, 20)


def collect_seldom() -> None:
    """Collect garbage less often from now on, and exempt all objects that exist after start-up."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)


ENOUGH = 16_384


def allow_many() -> int:
    """Raise this process's limit of open files to `ENOUGH`; returns the resulting limit, 0 for no limit.

    The usual soft limit is 1,024, and programs may raise it up to the hard limit.
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
            return soft  # macOS refuses more than its kernel's own limit.
        return wanted
    return soft
