"""The ledger's lines: encodes and reads them, and decides which of several lines about a call counts."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

State = Literal["started", "done", "gone"]
# A call's deadline is at most a day; after this time no console waits for its result.
EXPIRY_S = 48 * 3600.0
# So many are kept at any age: correcting a wrong clock can make young lines look old.
KEPT_ANYWAY = 4096
_LARGEST_RESULT = 16 * 1024
_LARGEST_LINE = 64 * 1024


@dataclass(frozen=True, slots=True)
class Line:
    """The state of one call. `result` is its AIP `Result` if that was small enough to be kept."""

    call_id: str
    state: State
    what: str
    at: float
    result: dict[str, Any] | None = None


def read_lines(path: Path) -> tuple[list[Line], int]:
    """The newest line of each call in a file, and how many lines cannot be read."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return [], 0
    newest: dict[str, Line] = {}
    broken = 0
    for row in data.split(b"\n"):
        if not row:
            continue
        line = _decode(row)
        if line is None:
            broken += 1
        else:
            newest.pop(line.call_id, None)
            newest[line.call_id] = line
    return list(newest.values()), broken


def lines_of(path: Path, call_ids: Collection[str]) -> list[Line]:
    """The newest lines of a file about some calls. Mostly it has none, so its bytes are searched first."""
    try:
        data = path.read_bytes()
    except OSError:
        # The file is gone, or belongs to another user, whose client never shared these calls.
        return []
    if not any(json.dumps(call_id).encode() in data for call_id in call_ids):
        return []
    return [line for line in read_lines(path)[0] if line.call_id in call_ids]


def merged(lines: Iterable[Line]) -> list[Line]:
    """One line for each call, oldest first. `started` and `done` count before another client's `gone`."""
    best: dict[str, Line] = {}
    for line in sorted(lines, key=lambda line: line.at):
        known = best.get(line.call_id)
        if known is None or (known.state == "gone" and line.state != "gone"):
            best[line.call_id] = line
    return sorted(best.values(), key=lambda line: line.at)


def news(lines: Iterable[Line], known: Iterable[Line]) -> list[Line]:
    """The lines about calls that are not known, or known as `gone` while the line says otherwise."""
    states = {line.call_id: line.state for line in known}
    return [
        line for line in lines if line.call_id not in states or states[line.call_id] == "gone" != line.state
    ]


def that_count(lines: Iterable[Line]) -> list[Line]:
    """The lines that are still needed, oldest first; results that have expired are left out."""
    since = time.time() - EXPIRY_S
    known = merged(lines)
    young = [line for line in known[:-KEPT_ANYWAY] if line.at >= since] + known[-KEPT_ANYWAY:]
    return [
        line if line.at >= since else Line(line.call_id, line.state, line.what, line.at) for line in young
    ]


def encode(line: Line) -> bytes:
    """A line as stored in its file; a result that is too large is left out."""
    row: dict[str, Any] = {"c": line.call_id, "s": line.state, "w": line.what, "t": round(line.at, 3)}
    if line.result is not None:
        with_result = json.dumps({**row, "r": line.result}).encode()
        if len(with_result) <= _LARGEST_RESULT:
            return with_result + b"\n"
    return json.dumps(row).encode() + b"\n"


def without_result(data: bytes) -> Line:
    """Decode an encoded line without its result."""
    line = _decode(data)
    assert line is not None, "it was encoded a moment ago"
    return Line(line.call_id, line.state, line.what, line.at)


def _decode(row: bytes) -> Line | None:
    if len(row) > _LARGEST_LINE:
        return None
    try:
        found = json.loads(row)
        call_id, state, what, at = found["c"], found["s"], found["w"], found["t"]
        at = float(at) if isinstance(at, int | float) else math.nan
    except (ValueError, KeyError, TypeError, RecursionError, OverflowError):
        return None
    result = found.get("r")
    if state not in {"started", "done", "gone"} or not math.isfinite(at):
        return None
    if not isinstance(call_id, str) or not isinstance(what, str) or not isinstance(result, dict | None):
        return None
    return Line(call_id, state, what, at, result)
