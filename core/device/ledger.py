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
import os
import sys
from collections.abc import Collection, Iterable
from pathlib import Path

import structlog

from core.device.ledger_lines import (
    Line,
    encode,
    lines_of,
    merged,
    news,
    read_lines,
    that_count,
    without_result,
)
from core.errors import BadInput, DeviceError, ErrorCode
from core.machine_id import machine_mark

__all__ = ["Ledger", "Line"]

log = structlog.get_logger(__name__)

_SLOTS = 16
_MOST_BYTES = 8 * 1024 * 1024
_BINARY = getattr(os, "O_BINARY", 0)
# What passes without anybody changing the state folder.
_PASSING = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EIO})
_HELD = frozenset({errno.EAGAIN, errno.EWOULDBLOCK, errno.EACCES, errno.EDEADLK})


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
            lines = that_count([*lines, *self._others()])
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
            found = [line for path in paths for line in lines_of(path, call_ids)]
            before, paths = paths, self._siblings()
            # Else one of them was being taken over, and its lines may have been on their way.
            if before == paths:
                break
        return {line.call_id: line for line in merged(found)}

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
        data = b"".join(encode(line) for line in lines)
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
        newest_first = [encode(line) for line in lines][::-1]
        kept: list[bytes] = []
        size = 0
        for row in newest_first:
            kept.append(row if size <= _MOST_BYTES // 2 else encode(without_result(row)))
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
        assert self._slot is not None
        found: list[Line] = []
        for slot in range(_SLOTS):
            if slot == self._slot or not self._path(slot).exists():
                continue
            held = _lock(self._folder / f"calls-{slot}.lock")
            if held is None:
                continue
            try:
                # Of a file the newest line counts, so what is known better here must stay the newest.
                lines = news(self._take_over(slot, held), read_lines(self._path(self._slot))[0])
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
        lines, broken = read_lines(path)
        if broken:
            log.warning("lines of the record of actions cannot be read", file=str(path), lines=broken)
        if _read_mark(held) not in {"", machine_mark()}:
            log.warning(
                "the machine went down; the record of actions may lack its last lines", file=path.name
            )
            broken += 1
        self.doubtful = self.doubtful or broken > 0
        return lines


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
