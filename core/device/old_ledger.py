"""Reads the ledger of earlier versions: a file of JSON lines, `calls/calls-N.jsonl`, for each client.

A client locked `calls-N.lock` while it ran, and that file named the machine's boot until all lines were on
the disk. A later boot's client that finds a name there knows that lines may be missing.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from core.files import try_lock
from core.log import Logger
from core.machine_id import machine_mark

log = Logger(__name__)

State = Literal["started", "done", "gone"]
_FOLDER = "calls"
_SLOTS = 16
_LARGEST_LINE = 64 * 1024


@dataclass(frozen=True, slots=True)
class Line:
    """The state of one call. `result` is its AIP `Result` if that was small enough to be kept."""

    call_id: str
    state: State
    what: str
    at: float
    result: dict[str, Any] | None = None


def old_lines(state_dir: Path) -> tuple[list[Line], bool]:
    """The lines of ended clients, one for each call and oldest first, and whether some may be missing.

    `started` and `done` count before another client's `gone`.

    Raises:
        OSError: a file cannot be read.
    """
    lines: list[Line] = []
    doubtful = False
    for path, mark in _of_ended_clients(state_dir):
        read, broken = _read(path)
        lines += read
        went_down = mark not in {"", machine_mark()}
        if broken or went_down:
            log.warning("the old record of actions may lack lines", file=str(path), unread=broken)
            doubtful = True
    return _merged(lines), doubtful


def remove_old_lines(state_dir: Path) -> None:
    """Remove the files of ended clients, whose lines are in the store now."""
    if not (state_dir / _FOLDER).is_dir():
        return
    try:
        for path, _ in _of_ended_clients(state_dir):
            path.unlink(missing_ok=True)
            path.with_suffix(".lock").unlink(missing_ok=True)
        for path in (state_dir / _FOLDER).glob("calls-*.lock"):
            if not path.with_suffix(".jsonl").exists():
                path.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            (state_dir / _FOLDER).rmdir()
    except OSError as error:
        # They are read once more, which changes nothing.
        log.warning("the old record of actions cannot be removed", reason=str(error))


def _of_ended_clients(state_dir: Path) -> Iterator[tuple[Path, str]]:
    """The files whose clients have ended, and the boot that each lock file names."""
    for slot in range(_SLOTS):
        path = state_dir / _FOLDER / f"calls-{slot}.jsonl"
        if not path.exists():
            continue
        end = os.open(path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT, 0o600)
        try:
            if try_lock(end):
                yield path, os.read(end, 200).decode("ascii", "replace")
        finally:
            os.close(end)


def _read(path: Path) -> tuple[list[Line], int]:
    """The newest line of each call in a file, and how many lines cannot be read."""
    newest: dict[str, Line] = {}
    broken = 0
    for row in path.read_bytes().split(b"\n"):
        if not row:
            continue
        line = _decode(row)
        if line is None:
            broken += 1
        else:
            newest.pop(line.call_id, None)
            newest[line.call_id] = line
    return list(newest.values()), broken


def _merged(lines: Iterable[Line]) -> list[Line]:
    best: dict[str, Line] = {}
    for line in sorted(lines, key=lambda line: line.at):
        known = best.get(line.call_id)
        if known is None or (known.state == "gone" and line.state != "gone"):
            best[line.call_id] = line
    return sorted(best.values(), key=lambda line: line.at)


def _decode(row: bytes) -> Line | None:
    if len(row) > _LARGEST_LINE:
        return None
    try:
        fields = json.loads(row)
        call_id, state, what, at = fields["c"], fields["s"], fields["w"], fields["t"]
        at = float(at) if isinstance(at, int | float) else math.nan
    except (ValueError, KeyError, TypeError, RecursionError, OverflowError):
        return None
    result = fields.get("r")
    if state not in {"started", "done", "gone"} or not math.isfinite(at):
        return None
    if not isinstance(call_id, str) or not isinstance(what, str) or not isinstance(result, dict | None):
        return None
    return Line(call_id, state, what, at, result)
