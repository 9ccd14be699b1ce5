"""The ledger: this device's record of actions on disk, which a killed client reads when it is restarted.

Each running client has a file of JSON lines below the state folder, `calls-N.jsonl`, and holds a lock on
`calls-N.lock`. A line is one `write` with O_APPEND, made before the action starts, so `kill -9` loses none.
The next client that asks takes over the file of a client that has ended.

A power failure may lose the lines of the last seconds. So while a client runs, its lock file names the
machine's boot. A client that finds another boot's name there knows that lines may be missing, and does not
report any unknown call as never seen.
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
# Errors that may pass without a change to the state folder.
_PASSING = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EIO})
_HELD = frozenset({errno.EAGAIN, errno.EWOULDBLOCK, errno.EACCES, errno.EDEADLK})


class Ledger:
    """This client's file. Its methods write to the page cache, quickly enough for the event loop."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._slot: int | None = None
        self._lock: int | None = None
        self._file: int | None = None
        self._size = 0
        self._full_at = _MOST_BYTES
        self._torn = False
        # Lines were lost, which may have been about any call; `CallLog` resets it when it has noted this.
        self.doubtful = False

    def open(self) -> list[Line]:
        """Take a file; returns its lines and those of ended clients' files, oldest first.

        Raises:
            BadInput: the folder cannot be written.
            DeviceError: the folder cannot be used now, but perhaps later, as when its disk is full.
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
        """Take over the lines of clients that have ended since; oldest first."""
        if self._file is None:
            return []
        try:
            return self._others()
        except (OSError, DeviceError) as error:
            log.warning("another client's record cannot be taken over", reason=str(error))
            return []

    def elsewhere(self, call_ids: Collection[str]) -> dict[str, Line]:
        """The last lines of other clients with this folder, running or not, about these calls.

        If two clients each write their line first and then call this, at least one sees the other's line.
        """
        paths = self._siblings()
        for _ in range(_SLOTS):
            found = [line for path in paths for line in lines_of(path, call_ids)]
            before, paths = paths, self._siblings()
            # If the files differ, one was being taken over, and its lines may have been in neither place.
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
        """Append lines with one `write`.

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
        """Remove the partial line that a full disk left."""
        assert self._file is not None
        try:
            os.ftruncate(self._file, os.fstat(self._file).st_size - written)
        except OSError:
            self._size += written
            self._torn = True

    @property
    def is_full(self) -> bool:
        """Whether the file should be rewritten with only the lines that are still needed."""
        return self._size > self._full_at

    def rewrite(self, lines: Iterable[Line]) -> None:
        """Replace the file by these lines; after half of the quota, results of older lines are left out.

        Raises:
            OSError: the new file could not be written; the old file is unchanged.
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
        # Closed first: Windows cannot replace an open file.
        self._close_file()
        try:
            os.replace(fresh, path)
            self._size = size
            # The needed lines alone may fill the quota; without this, every new line would rewrite the file.
            self._full_at = max(_MOST_BYTES, size + _MOST_BYTES // 32)
        finally:
            self._open_file()

    def _open_file(self) -> None:
        assert self._slot is not None
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | _BINARY
        self._file = os.open(self._path(self._slot), flags, 0o600)
        # The file may end in a partial line, from a client that was killed; the next line must not join it.
        self._torn = os.lseek(self._file, 0, os.SEEK_END) > 0
        if self._torn:
            os.lseek(self._file, -1, os.SEEK_END)
            self._torn = os.read(self._file, 1) != b"\n"

    def _close_file(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def close(self) -> None:
        """Release the file; its lines stay."""
        if self._lock is not None and self._file is not None:
            with contextlib.suppress(OSError):
                # The lines first: without the mark, the next client assumes that none is missing.
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
        """Take over the files of ended clients: write their lines to this file, then remove them."""
        assert self._slot is not None
        found: list[Line] = []
        for slot in range(_SLOTS):
            if slot == self._slot or not self._path(slot).exists():
                continue
            held = _lock(self._folder / f"calls-{slot}.lock")
            if held is None:
                continue
            try:
                # A call's newest line in a file counts, so lines that say less than this file's are left out.
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
        """The lines of an ended client; sets `doubtful` if some may be missing."""
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
    """Lock a file until the returned descriptor is closed; None when another client has the lock."""
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
            # A file system without locks cannot keep other clients out, so this is an error.
            raise
        return None
    return end


def _read_mark(held: int) -> str:
    os.lseek(held, 0, os.SEEK_SET)
    return os.read(held, 200).decode("ascii", "replace")


def _write_mark(held: int, mark: str) -> None:
    """Write the name of this boot into a lock file, or empty it when all lines are on the disk."""
    os.ftruncate(held, 0)
    os.lseek(held, 0, os.SEEK_SET)
    _write_all(held, mark.encode("ascii"))
    os.fsync(held)
