"""The command lines of processes, some of which may be ending."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable

import psutil


def command_lines(processes: Iterable[psutil.Process]) -> dict[int, list[str]]:
    """The command line of each process by its id, without those that have ended."""
    lines: dict[int, list[str]] = {}
    for process in processes:
        # A zombie, too, which its parent has not waited for yet.
        with contextlib.suppress(psutil.NoSuchProcess):
            lines[process.pid] = process.cmdline()
    return lines
