"""Who else uses a folder just now: a lock that every user of it holds, and that ends with its process."""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path


class Presence:
    """This user's presence, from its making until `close`. `is_alone`: nobody else was there.

    Whoever was alone calls `share` when what it wanted to do alone is done; others that come wait for it.
    """

    def __init__(self, path: Path) -> None:
        """`path` is the lock's own file. Where there can be no lock, one is alone."""
        self._end = -1
        self.is_alone = True
        # On a disk that is read-only, or has no locks, nobody can be seen.
        with contextlib.suppress(OSError):
            self._end = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
            self.is_alone = _is_first(self._end)

    def share(self) -> None:
        """Let others in, and stay; from now on nobody knows to be alone."""
        self.is_alone = False
        if self._end >= 0:
            with contextlib.suppress(OSError):
                _join(self._end)

    def close(self) -> None:
        """Be gone."""
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
        """There are no shared locks here: the first one keeps its own."""

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
