"""How many files and sockets a process may have open: a thousand devices are more than systems begin with."""

from __future__ import annotations

import sys

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
