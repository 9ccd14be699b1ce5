"""What this device did with each action, on disk: so that a killed client knows it when it is back.

One file of JSON lines for each running client below the state folder, `calls-N.jsonl`, held by a lock on
`calls-N.lock`. A line is one `write` with O_APPEND, made before the action starts, so `kill -9` loses none.
A file whose owner has gone is taken over by whoever asks next.

Power failure may lose the last seconds. So while a client runs, its lock file names the machine's boot: who
finds the name of another boot there knows that lines may be missing, and says of no call that it never came.
"""

from __future__ import annotations

import contextlib
import errno
import json
import math
import os
import sys
import time
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import structlog

from core.errors import BadInput, DeviceError, ErrorCode
from core.machine import machine_mark

log = structlog.get_logger(__name__)

State = Literal["started", "done", "gone"]
# A call's deadline is a day at most; a console that asks later than this has given up itself.
EXPIRY_S = 48 * 3600.0
# So many are remembered however old: a clock that was wrong and is put right makes young ones look old.
KEPT_ANYWAY = 4096
_SLOTS = 16
_MOST_BYTES = 8 * 1024 * 1024
_LARGEST_RESULT = 16 * 1024
_LARGEST_LINE = 64 * 1024
_BINARY = getattr(os, "O_BINARY", 0)
# What passes without anybody changing the state folder.
_PASSING = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EIO})
_HELD = frozenset({errno.EAGAIN, errno.EWOULDBLOCK, errno.EACCES, errno.EDEADLK})


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
        # Lines that are lost may have been about any call; whoever has noted that sets it back.
        self.doubtful = False

    def open(self) -> list[Line]:
        """Take a file, and read what it and the files of clients that have ended say, oldest first.

        Raises:
            BadInput: the folder cannot be written.
            DeviceError: not now, but later it may, as where its disk is full.
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
            lines = self._take_over(self._slot, self._lock)
            self._open_file()
            lines = _that_count([*lines, *self._others()])
            self.rewrite(lines)
            _write_mark(self._lock, machine_mark())
        except (OSError, DeviceError) as error:
            self._let_go()
            if isinstance(error, DeviceError):
                raise
            words = f"{self._folder} cannot keep the record of actions: {error}"
            raise (DeviceError(words) if error.errno in _PASSING else BadInput(words)) from error
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

    def elsewhere(self, call_ids: Collection[str]) -> dict[str, Line]:
        """What other clients with this folder, running ones too, have noted last of these calls.

        Whoever writes a line first and then looks here is seen by, or sees, another one that does the same.
        """
        paths = self._siblings()
        for _ in range(_SLOTS):
            found = [line for path in paths for line in _of(path, call_ids)]
            before, paths = paths, self._siblings()
            # Else one of them was being taken over, and its lines may have been on their way.
            if before == paths:
                break
        return {line.call_id: line for line in _merged(found)}

    def _siblings(self) -> list[Path]:
        own = self._slot
        names = {f"calls-{slot}.jsonl" for slot in range(_SLOTS) if slot != own}
        try:
            return [self._folder / name for name in sorted(names.intersection(os.listdir(self._folder)))]
        except OSError:
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
        if written != len(data):
            self._take_back(written)
            raise DeviceError(
                "This device cannot keep its record of actions: its disk is full", ErrorCode.DENIED_BY_DEVICE
            )
        self._size += written
        self._torn = False

    def _take_back(self, written: int) -> None:
        """Remove the part of a line that still had room."""
        assert self._file is not None
        try:
            os.ftruncate(self._file, os.fstat(self._file).st_size - written)
        except OSError:
            self._size += written
            self._torn = True

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
        try:
            end = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | _BINARY, 0o600)
            try:
                _write_all(end, b"".join(reversed(kept)))
            finally:
                os.close(end)
        except OSError:
            with contextlib.suppress(OSError):
                fresh.unlink(missing_ok=True)
            raise
        # Closed first: Windows replaces no file that is open.
        self._close_file()
        try:
            os.replace(fresh, path)
            self._size = size
            # Where what still counts fills the quota by itself, not every line may rewrite all of it.
            self._full_at = max(_MOST_BYTES, size + _MOST_BYTES // 32)
        finally:
            self._open_file()

    def _open_file(self) -> None:
        assert self._slot is not None
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | _BINARY
        self._file = os.open(self._path(self._slot), flags, 0o600)
        # Somebody may have been cut off in the middle of a line; what follows must not become a part of it.
        self._torn = os.lseek(self._file, 0, os.SEEK_END) > 0
        if self._torn:
            os.lseek(self._file, -1, os.SEEK_END)
            self._torn = os.read(self._file, 1) != b"\n"

    def _close_file(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def close(self) -> None:
        """Let the file go; what is in it stays."""
        if self._lock is not None and self._file is not None:
            with contextlib.suppress(OSError):
                # The lines first: without the mark nobody asks whether they are all there.
                os.fsync(self._file)
                _write_mark(self._lock, "")
        self._let_go()

    def _let_go(self) -> None:
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
                lines = self._take_over(slot, held)
                if lines:
                    self.write(*lines)
                    found += lines
                self._path(slot).unlink(missing_ok=True)
                _write_mark(held, "")
            finally:
                os.close(held)
        return sorted(found, key=lambda line: line.at)

    def _take_over(self, slot: int, held: int) -> list[Line]:
        """The lines of a client that has ended; notes whether some may be missing."""
        path = self._path(slot)
        lines, broken = _read(path)
        if broken:
            log.warning("lines of the record of actions cannot be read", file=str(path), lines=broken)
        if _read_mark(held) not in {"", machine_mark()}:
            log.warning(
                "the machine went down; the record of actions may lack its last lines", file=path.name
            )
            broken += 1
        self.doubtful = self.doubtful or broken > 0
        return lines


def _read(path: Path) -> tuple[list[Line], int]:
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


def _of(path: Path, call_ids: Collection[str]) -> list[Line]:
    """What a file says of some calls, of which it mostly has none."""
    try:
        data = path.read_bytes()
    except OSError:
        # It is gone, or another user's: then its client has never shared our calls.
        return []
    if not any(json.dumps(call_id).encode() in data for call_id in call_ids):
        return []
    return [line for line in _read(path)[0] if line.call_id in call_ids]


def _merged(lines: Iterable[Line]) -> list[Line]:
    """One line for each call, oldest first. That a call began counts, also where another client buried it."""
    merged: dict[str, Line] = {}
    for line in sorted(lines, key=lambda line: line.at):
        known = merged.get(line.call_id)
        if known is None or (known.state == "gone" and line.state != "gone"):
            merged[line.call_id] = line
    return sorted(merged.values(), key=lambda line: line.at)


def _that_count(lines: Iterable[Line]) -> list[Line]:
    """The lines that are still needed, oldest first; results that have expired are left out."""
    since = time.time() - EXPIRY_S
    merged = _merged(lines)
    young = [line for line in merged[:-KEPT_ANYWAY] if line.at >= since] + merged[-KEPT_ANYWAY:]
    return [
        line if line.at >= since else Line(line.call_id, line.state, line.what, line.at) for line in young
    ]


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
        at = float(at) if isinstance(at, int | float) else math.nan
    except (ValueError, KeyError, TypeError, RecursionError, OverflowError):
        return None
    result = found.get("r")
    if state not in {"started", "done", "gone"} or not math.isfinite(at):
        return None
    if not isinstance(call_id, str) or not isinstance(what, str) or not isinstance(result, dict | None):
        return None
    return Line(call_id, state, what, at, result)


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
    except OSError as error:
        with contextlib.suppress(OSError):
            os.close(end)
        if error.errno not in _HELD:
            # Not every file system has locks, and without one nobody is kept out.
            raise
        return None
    return end


def _read_mark(held: int) -> str:
    os.lseek(held, 0, os.SEEK_SET)
    return os.read(held, 200).decode("ascii", "replace")


def _write_mark(held: int, mark: str) -> None:
    """Leave the name of this boot in a lock file, or nothing where all lines are safe."""
    os.ftruncate(held, 0)
    os.lseek(held, 0, os.SEEK_SET)
    _write_all(held, mark.encode("ascii"))
    os.fsync(held)
