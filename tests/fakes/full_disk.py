"""A disk that has no room for one file."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

import core.files


@contextmanager
def full_disk_for(path: Path) -> Iterator[None]:
    """No new content of the file at `path` can be written; other files can."""
    real = core.files.create_new

    def create_new(new: Path, data: bytes | str, mode: int = 0o600) -> None:
        if new.parent == path.parent and new.name.startswith(f".{path.name}."):
            raise OSError(errno.ENOSPC, "No space left on device")
        real(new, data, mode)

    with patch.object(core.files, "create_new", create_new):
        yield
