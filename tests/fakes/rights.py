"""Rights that a test has too many of where it runs as root."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

_NOBODY = 65534
_SHARED_MEMORY = Path("/dev/shm")


@contextmanager
def folder_without_privileges() -> Iterator[Path]:
    """A folder of one's own, and meanwhile no right that an ordinary user has not. Not on Windows."""
    with TemporaryDirectory(dir=_SHARED_MEMORY if _SHARED_MEMORY.is_dir() else None) as name:
        folder = Path(name)
        was = os.geteuid()
        if was != 0:
            yield folder
            return
        os.chown(folder, _NOBODY, -1)
        os.seteuid(_NOBODY)
        try:
            yield folder
        finally:
            os.seteuid(was)
