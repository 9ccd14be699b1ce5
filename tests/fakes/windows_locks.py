"""Windows' file locks, and `core.files` as Windows would load it."""

from __future__ import annotations

import importlib.util
import os
import sys
import types
from typing import Any

import pytest

import core.files


class FakeMsvcrt(types.ModuleType):
    """What Windows' locks promise: one byte of a file, for one handle, refused at once when taken."""

    LK_NBLCK, LK_UNLCK = 2, 0

    def __init__(self) -> None:
        super().__init__("msvcrt")
        self.held: dict[tuple[int, int], int] = {}

    def locking(self, handle: int, how: int, count: int) -> None:
        assert count == 1
        place = (os.fstat(handle).st_ino, os.lseek(handle, 0, os.SEEK_CUR))
        if how == self.LK_UNLCK:
            assert self.held.pop(place) == handle
        elif self.held.setdefault(place, handle) != handle:
            raise PermissionError(13, "Permission denied")


def files_on_windows(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Load `core.files` once more, with Windows' locks."""
    monkeypatch.setitem(sys.modules, "msvcrt", FakeMsvcrt())
    spec = importlib.util.spec_from_file_location("files_on_windows", core.files.__file__)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with monkeypatch.context() as patch:
        patch.setattr(sys, "platform", "win32")
        spec.loader.exec_module(module)
    return module
