"""Folders for tests in memory: what is written there is there at once, and a disk would have each test wait.

They are for homes and journals: whether a disk keeps what it was given is the kernel's affair, and no test
pulls the plug. They are not for files that commands name, because a path under /dev is judged as a device's,
nor for sandboxes, which have a /dev of their own. A machine without such memory has them on its disk.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import mkdtemp

import pytest

MEMORY = Path("/dev/shm")
LEAST_FREE = 2 << 30
PREFIX = "quarterdeck-tests-"
# Between being made and being locked a folder looks like one that was left.
_NEW_S = 60.0


@contextmanager
def memory_folder(memory: Path = MEMORY) -> Iterator[Path | None]:
    """A folder in memory for the tests of one process; None where `memory` is not there or nearly full.

    What failed tests left in it stays until the next process of tests begins; so does all of it when this one
    is killed.
    """
    if not memory.is_dir() or shutil.disk_usage(memory).free < LEAST_FREE:
        yield None
        return
    _sweep(memory)
    made = Path(mkdtemp(prefix=PREFIX, dir=memory))
    held = os.open(made, os.O_RDONLY)
    try:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield made
    finally:
        os.close(held)
        with suppress(OSError):
            made.rmdir()


def _sweep(memory: Path) -> None:
    """Remove the folders that no living process holds."""
    for left in memory.glob(f"{PREFIX}*"):
        with suppress(OSError):
            if left.stat().st_uid != os.getuid() or time.time() - left.stat().st_mtime < _NEW_S:
                continue
            held = os.open(left, os.O_RDONLY)
            try:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(left, ignore_errors=True)
            finally:
                os.close(held)


@contextmanager
def folder_of_a_test(request: pytest.FixtureRequest, base: Path) -> Iterator[Path]:
    """A folder in `base` named after the test, as `tmp_path` is; gone with the test unless it failed."""
    failed_before = request.session.testsfailed
    folder = Path(mkdtemp(prefix=re.sub(r"\W", "_", request.node.name)[:30] + "-", dir=base))
    yield folder
    if request.session.testsfailed == failed_before:
        shutil.rmtree(folder, ignore_errors=True)
