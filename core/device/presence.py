"""Detects whether other processes use a folder, by a lock that each of them holds until it ends."""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path


class Presence:
    """This process's use of a folder, from construction until `close`. `is_alone`: no other process used it.

    A process that is alone must call `share` when its exclusive work is done; later processes wait for it.
    """

    def __init__(self, path: Path) -> None:
        """`path` is the lock's own file. Where it cannot be locked, `is_alone` is True."""
        self._end = -1
        self.is_alone = True
        # On a read-only disk, or a file system without locks, other processes cannot be detected.
        with contextlib.suppress(OSError):
            self._end = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
            self.is_alone = _is_first(self._end)

    def share(self) -> None:
        """Allow other processes, and keep a shared lock; from now on `is_alone` is False for all of them."""
        self.is_alone = False
        if self._end >= 0:
            with contextlib.suppress(OSError):
                _join(self._end)

    def close(self) -> None:
        """Release the lock."""
        if self._end >= 0:
            os.close(self._end)
            self._end = -1

    def __del__(self) -> None:
        self.close()


if sys.platform == "win32":
    import msvcrt

    def _is_first(end: int) -> bool:
        try:
            msvcrt.locking(end, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

    def _join(end: int) -> None:
        """Does nothing: Windows has no shared locks here, so the first process keeps its exclusive lock."""

else:
    import fcntl

    def _is_first(end: int) -> bool:
        try:
            fcntl.flock(end, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _join(end: int) -> None:
        fcntl.flock(end, fcntl.LOCK_SH)
