"""Lists a folder through its descriptor, so that it cannot be swapped for another folder meanwhile."""

from __future__ import annotations

import fnmatch
import heapq
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import MAXYEAR, MINYEAR, UTC, datetime, timedelta
from typing import Any

from core.device.fs.file_ops import told_as_failure
from core.device.fs.safe_path import HAS_FOLDER_DESCRIPTORS, SafePath, shown
from core.errors import BadInput, ErrorCode

_KINDS = (
    (stat.S_ISREG, "file"),
    (stat.S_ISDIR, "folder"),
    (stat.S_ISLNK, "link"),
    (stat.S_ISFIFO, "fifo"),
    (stat.S_ISSOCK, "socket"),
    (stat.S_ISBLK, "device"),
    (stat.S_ISCHR, "device"),
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# The Gregorian calendar repeats after this many years.
_CYCLE_YEARS = 400
_CYCLE_NS = 146_097 * 86_400 * 10**9


def list_folder(
    held: SafePath, glob: str, most: int, is_wanted: Callable[[], bool] = lambda: True
) -> dict[str, Any]:
    """The first `most` entries by name whose names match `glob`; symlinks are not followed.

    A folder may have millions of entries, or no end: reading stops when `is_wanted` returns False.

    Raises:
        BadInput: the folder does not exist, is not a folder, or may not be read.
    """
    total = 0
    with told_as_failure(held.path), _opened(held) as folder:

        def names() -> Iterator[str]:
            nonlocal total
            with os.scandir(folder) as entries:
                for entry in entries:
                    if not is_wanted():
                        return
                    if fnmatch.fnmatchcase(entry.name, glob):
                        total += 1
                        yield entry.name

        chosen = heapq.nsmallest(most, names())
        rows = [row for name in chosen if (row := _row(folder, name)) is not None]
    return {"path": str(held.path), "entries": rows, "total": total, "truncated": total > most}


@contextmanager
def _opened(held: SafePath) -> Iterator[int | str]:
    if not held.path.is_dir():
        if held.path.exists():
            raise BadInput(f"{held.path} is not a folder.")
        raise BadInput(f"{held.path} does not exist.", ErrorCode.NOT_FOUND)
    if not HAS_FOLDER_DESCRIPTORS:
        yield str(held.path)
        return
    descriptor = held.open()
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _row(folder: int | str, name: str) -> dict[str, Any] | None:
    where: Any = {"dir_fd": folder} if isinstance(folder, int) else {}
    path = name if isinstance(folder, int) else os.path.join(folder, name)
    try:
        facts = os.stat(path, follow_symlinks=False, **where)
        target = os.readlink(path, **where) if stat.S_ISLNK(facts.st_mode) else None
    except FileNotFoundError:
        # Deleted since the folder was read.
        return None
    except OSError:
        # Such as a mount whose server is gone, or another user's mount: only its name is known.
        unknown = dict.fromkeys(("size_bytes", "modified_at", "mode", "target"))
        return {"name": shown(name), "kind": "other", **unknown}
    return {
        "name": shown(name),
        "kind": next((kind for matches, kind in _KINDS if matches(facts.st_mode)), "other"),
        "size_bytes": facts.st_size,
        "modified_at": moment_text(facts.st_mtime_ns),
        "mode": f"{stat.S_IMODE(facts.st_mode):04o}",
        "target": None if target is None else shown(target),
    }


def moment_text(since_1970_ns: int) -> str:
    """A time in ISO 8601, UTC, to the microsecond.

    A file's time is a 64-bit number of seconds. Years outside 1 to 9999 are written with a sign and at least
    six digits, as ISO 8601 and ECMAScript define: `+010000-01-01T00:00:00+00:00`.
    """
    cycles, rest = divmod(since_1970_ns, _CYCLE_NS)
    moment = _EPOCH + timedelta(microseconds=rest // 1000)
    year = moment.year + cycles * _CYCLE_YEARS
    if MINYEAR <= year <= MAXYEAR:
        return moment.replace(year=year).isoformat()
    return f"{year:+07d}{moment.isoformat()[4:]}"
