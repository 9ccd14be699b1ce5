"""Processes that are nobody's children here, until they have ended."""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import time
from collections.abc import Iterable

import psutil


def still_running(processes: Iterable[psutil.Process], within: float) -> list[psutil.Process]:
    """Those that have not ended in so many seconds.

    Whoever has ended has ended, collected or not: an orphan's end is collected by the system's first process,
    and a container's looks every second or two. Blocks.
    """
    deadline = time.monotonic() + within
    left: list[psutil.Process] = []
    for process in processes:
        with contextlib.ExitStack() as ends:
            try:
                watched = os.pidfd_open(process.pid)
            except ProcessLookupError:
                continue
            ends.callback(os.close, watched)
            # The number may be another process's by now.
            if process.is_running() and not _ended(watched, deadline - time.monotonic()):
                left.append(process)
    return left


async def all_ended(processes: Iterable[psutil.Process], within: float) -> None:
    """Wait until every one of them has ended; fails, and says which, when one has not in time."""
    assert await asyncio.to_thread(still_running, list(processes), within) == []


def _ended(watched: int, within: float) -> bool:
    """Whether a process ends in time; its descriptor can be read once it has."""
    poll = select.poll()
    poll.register(watched, select.POLLIN)
    return bool(poll.poll(max(0.0, within) * 1000))
