"""A double of Windows' module `msvcrt`: its locks, and the keys of its console."""

from __future__ import annotations

import os
import threading
import types
from collections import deque


class FakeMsvcrt(types.ModuleType):
    """A lock is of one byte of a file, for one handle, and refused at once when taken.

    `keys` are the codes that a person has typed and that no program has read; `shown` is what was echoed, and
    `echoed` is set once that is all that was typed.
    """

    LK_NBLCK, LK_UNLCK = 2, 0

    def __init__(self) -> None:
        super().__init__("msvcrt")
        self.held: dict[tuple[int, int], int] = {}
        self.keys: deque[str] = deque()
        self.shown = ""
        self.echoed = threading.Event()

    def locking(self, handle: int, how: int, count: int) -> None:
        assert count == 1
        place = (os.fstat(handle).st_ino, os.lseek(handle, 0, os.SEEK_CUR))
        if how == self.LK_UNLCK:
            assert self.held.pop(place) == handle
        elif self.held.setdefault(place, handle) != handle:
            raise PermissionError(13, "Permission denied")

    def kbhit(self) -> bool:
        return bool(self.keys)

    def getwch(self) -> str:
        # The real one would wait for ever, so that a read of a key that is not there must not happen.
        return self.keys.popleft()

    def putwch(self, code: str) -> None:
        assert len(code) == 1
        self.shown += code
        if not self.keys:
            self.echoed.set()
