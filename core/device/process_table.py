"""Lists the processes of this machine; likely secrets in their command lines are redacted."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Set
from datetime import UTC, datetime
from typing import Any

import psutil

MASK = "***"
# What reading a process can raise: psutil lets some errors of Windows through as the system gives them. One
# process that cannot be read must not take the others with it.
UNREADABLE = (psutil.Error, OSError)
# The time between two readings of the processor time; one reading gives only the average since the start.
_MEASURED_S = 0.1
_MOST_LINE = 4096
_MOST_ARGUMENT = 2048

_WORDS = (
    r"pass(?:word|wd|phrase)?|secret|token|api[-_]?key|access[-_]?key|auth(?:orization)?(?![a-z])"
    r"|credentials?|pwd"
)
_VALUE = r"(?:(?:bearer|basic)\s+)?(?:\"[^\"]*\"|'[^']*'|[^\s&;\"']+)"
_NAMED = re.compile(rf"(?i)((?:^|[\s\"'&?;])-{{0,2}}[\w.-]*(?:{_WORDS})[\w.-]*\s*[=:]\s*){_VALUE}")
_FLAG = re.compile(rf"(?i)^-{{1,2}}[\w.-]*(?:{_WORDS})[\w.-]*$")
_BEARER = re.compile(r"(?i)\b((?:bearer|basic)\s+)[\w.+/=~-]{6,}")
_IN_URL = re.compile(r"([a-zA-Z][\w+.-]*://[^\s/:@]*:)[^\s/@]+(@)")
_SHAPED = re.compile(
    r"\b(?:sk-[\w-]{16,}|gh[pousr]_\w{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}|xox[abprs]-[\w-]{10,}"
    r"|AKIA[0-9A-Z]{16}|eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*)"
)


def masked(arguments: Iterable[str]) -> list[str]:
    """The arguments with values that look like secrets redacted, and shortened to `_MOST_ARGUMENT`."""
    shown: list[str] = []
    hide_next = False
    for long in arguments:
        argument = long[:_MOST_ARGUMENT]
        if hide_next and not argument.startswith("-"):
            shown.append(MASK)
            hide_next = False
            continue
        hide_next = _FLAG.match(argument) is not None
        said = _BEARER.sub(rf"\1{MASK}", argument)
        said = _NAMED.sub(rf"\1{MASK}", said)
        said = _IN_URL.sub(rf"\1{MASK}\2", said)
        shown.append(_SHAPED.sub(MASK, said))
    return shown


def readable(text: str) -> str:
    """A text as valid Unicode: the names and arguments of processes may hold any bytes."""
    return text.encode("utf-8", "replace").decode("utf-8")


def rows(
    name: str | None,
    user: str | None,
    min_cpu_percent: float,
    min_memory_bytes: int,
    pids: Set[int] | None = None,
) -> list[dict[str, Any]]:
    """The matching processes, sorted by processor use, then memory, highest first. Blocks for 0.1 s.

    `pids`: only those with these ids.
    """
    wanted = name.casefold() if name else ""
    first: dict[psutil.Process, float] = {}
    for process in psutil.process_iter():
        if pids is not None and process.pid not in pids:
            continue
        try:
            if wanted and wanted not in readable(process.name()).casefold():
                continue
            times = process.cpu_times()
        except UNREADABLE:
            continue
        first[process] = times.user + times.system
    begun = time.monotonic()
    time.sleep(_MEASURED_S)
    found = []
    for process, before in first.items():
        try:
            row = _row(process, before, time.monotonic() - begun)
        except UNREADABLE:
            continue
        if user is not None and row["user"] != user:
            continue
        if row["cpu_percent"] >= min_cpu_percent and row["memory_bytes"] >= min_memory_bytes:
            found.append(row)
    return sorted(found, key=lambda row: (-row["cpu_percent"], -row["memory_bytes"], row["pid"]))


def _row(process: psutil.Process, before: float, seconds: float) -> dict[str, Any]:
    with process.oneshot():
        times = process.cpu_times()
        try:
            line = " ".join(masked(map(readable, process.cmdline())))
        except (psutil.AccessDenied, psutil.ZombieProcess, OSError):
            # A zombie has no command line, but is listed: an operator may be looking for it.
            line = ""
        try:
            user: str | None = readable(process.username())
        except (psutil.AccessDenied, KeyError, OSError):
            user = None
        return {
            "pid": process.pid,
            "parent_pid": process.ppid(),
            "name": readable(process.name()),
            "user": user,
            "status": process.status(),
            "cpu_percent": round(max(0.0, times.user + times.system - before) / seconds * 100, 1),
            "memory_bytes": process.memory_info().rss,
            "started_at": datetime.fromtimestamp(process.create_time(), UTC).isoformat(),
            "command_line": line[:_MOST_LINE],
        }
