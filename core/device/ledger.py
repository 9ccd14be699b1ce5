"""What this device did with each action, on disk: so that a killed client knows it when it is back.

One file of JSON lines for each running client below the state folder, `calls-N.jsonl`, held by a lock on
`calls-N.lock`. A line is one `write` with O_APPEND, made before the action starts, so `kill -9` loses none.
Power failure may lose the last seconds. A file whose owner has gone is taken over by whoever asks next.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import structlog

from core.errors import DeviceError, ErrorCode

log = structlog.get_logger(__name__)

State = Literal["started", "done", "gone"]
# A call's deadline is a day at most; a console that asks later than this has given up itself.
EXPIRY_S = 48 * 3600.0
_SLOTS = 16
_MOST_BYTES = 8 * 1024 * 1024
_LARGEST_RESULT = 16 * 1024
_LARGEST_LINE = 64 * 1024


@dataclass(frozen=True, slots=True)
class Line:
    """What is known of one call: `result` is AIP's Result where it was small enough to keep."""

    call_id: str
    state: State
    what: str
    at: float
    result: dict[str, Any] | None = None


class Ledger:
    """This client's file. Its methods write to the page cache: quick enough for the event loop."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._slot: int | None = None
        self._lock: int | None = None
        self._file: int | None = None
        self._size = 0
        self._full_at = _MOST_BYTES
        self._torn = False

    def open(self) -> list[Line]:
        """Take a file, and read what it and the files of clients that have ended say, oldest first.

        Raises:
            DeviceError: the folder cannot be written.
        """
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            for slot in range(_SLOTS):
                held = _lock(self._folder / f"calls-{slot}.lock")
                if held is not None:
                    self._slot, self._lock = slot, held
                    break
            else:
                raise DeviceError(
                    f"{_SLOTS} clients use the state folder {self._folder}", ErrorCode.DENIED_BY_DEVICE
                )
            lines = _read(self._path(self._slot))
            self._open_file()
            lines = sorted([*lines, *self._others()], key=lambda line: line.at)
            self.rewrite(lines)
        except OSError as error:
            raise DeviceError(f"{self._folder} cannot keep the record of actions: {error}") from error
        return lines

    def adopt(self) -> list[Line]:
        """Take over what clients left behind that have ended since; oldest first."""
        if self._file is None:
            return []
        try:
            return self._others()
        except (OSError, DeviceError) as error:
            log.warning("another client's record cannot be taken over", reason=str(error))
            return []

    def write(self, *lines: Line) -> None:
        """Append lines in one piece.

        Raises:
            DeviceError: they could not be written.
        """
        if self._file is None:
            raise DeviceError("This device's record of actions is closed", ErrorCode.CANCELLED)
        data = b"".join(_encode(line) for line in lines)
        if self._torn:
            data = b"\n" + data
        try:
            written = os.write(self._file, data)
        except OSError as error:
            raise DeviceError(
                f"This device cannot keep its record of actions: {error}", ErrorCode.DENIED_BY_DEVICE
            ) from error
        self._size += written
        self._torn = written != len(data)
        if self._torn:
            raise DeviceError(
                "This device cannot keep its record of actions: its disk is full", ErrorCode.DENIED_BY_DEVICE
            )

    @property
    def is_full(self) -> bool:
        """Whether the file should be rewritten with only what still counts."""
        return self._size > self._full_at

    def rewrite(self, lines: Iterable[Line]) -> None:
        """Replace the file by these lines; while they fill more than half of its quota, results are left out.

        Raises:
            OSError: the file is as it was.
        """
        assert self._slot is not None
        newest_first = [_encode(line) for line in lines][::-1]
        kept: list[bytes] = []
        size = 0
        for row in newest_first:
            kept.append(row if size <= _MOST_BYTES // 2 else _encode(_without_result(row)))
            size += len(kept[-1])
        path = self._path(self._slot)
        fresh = path.with_suffix(".new")
        end = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            _write_all(end, b"".join(reversed(kept)))
        finally:
            os.close(end)
        # Closed first: Windows replaces no file that is open.
        self._close_file()
        try:
            os.replace(fresh, path)
            self._size, self._torn = size, False
            # Where what still counts fills the quota by itself, not every line may rewrite all of it.
            self._full_at = max(_MOST_BYTES, size + _MOST_BYTES // 32)
        finally:
            self._open_file()

    def _open_file(self) -> None:
        assert self._slot is not None
        self._file = os.open(self._path(self._slot), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def _close_file(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def close(self) -> None:
        """Let the file go; what is in it stays."""
        self._close_file()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _path(self, slot: int) -> Path:
        return self._folder / f"calls-{slot}.jsonl"

    def _others(self) -> list[Line]:
        """The lines of files whose owner has ended; they are in ours before those files go."""
        found: list[Line] = []
        for slot in range(_SLOTS):
            if slot == self._slot or not self._path(slot).exists():
                continue
            held = _lock(self._folder / f"calls-{slot}.lock")
            if held is None:
                continue
            try:
                lines = _read(self._path(slot))
                if lines:
                    self.write(*lines)
                    found += lines
                self._path(slot).unlink(missing_ok=True)
            finally:
                os.close(held)
        return sorted(found, key=lambda line: line.at)


def _read(path: Path) -> list[Line]:
    """The newest line of each call in a file, without what has expired and what cannot be read."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return []
    newest: dict[str, Line] = {}
    broken = 0
    since = time.time() - EXPIRY_S
    for row in data.split(b"\n"):
        if not row:
            continue
        line = _decode(row)
        if line is None:
            broken += 1
        elif line.at >= since:
            newest.pop(line.call_id, None)
            newest[line.call_id] = line
    if broken:
        log.warning("lines of the record of actions cannot be read", file=str(path), lines=broken)
    return list(newest.values())


def _encode(line: Line) -> bytes:
    row: dict[str, Any] = {"c": line.call_id, "s": line.state, "w": line.what, "t": round(line.at, 3)}
    if line.result is not None:
        with_result = json.dumps({**row, "r": line.result}).encode()
        if len(with_result) <= _LARGEST_RESULT:
            return with_result + b"\n"
    return json.dumps(row).encode() + b"\n"


def _without_result(data: bytes) -> Line:
    line = _decode(data)
    assert line is not None, "it was encoded a moment ago"
    return Line(line.call_id, line.state, line.what, line.at)


def _decode(row: bytes) -> Line | None:
    if len(row) > _LARGEST_LINE:
        return None
    try:
        found = json.loads(row)
        call_id, state, what, at = found["c"], found["s"], found["w"], found["t"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    result = found.get("r")
    if state not in {"started", "done", "gone"} or not isinstance(at, int | float):
        return None
    if not isinstance(call_id, str) or not isinstance(what, str) or not isinstance(result, dict | None):
        return None
    return Line(call_id, state, what, float(at), result)


def _write_all(end: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(end, view) :]


def _lock(path: Path) -> int | None:
    """Hold a lock file until its descriptor is closed; None when somebody else does."""
    end = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        if sys.platform == "win32":
            import msvcrt

            msvcrt.locking(end, msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(end, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        with contextlib.suppress(OSError):
            os.close(end)
        return None
    return end
