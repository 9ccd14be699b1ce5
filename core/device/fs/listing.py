"""The rows of a folder, read through a descriptor that nobody can swap for another folder."""

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
from core.device.fs.safe_path import HAS_FOLDER_DESCRIPTORS, HeldPath, shown
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
# The calendar repeats itself after so many years, week days included.
_CYCLE_YEARS = 400
_CYCLE_NS = 146_097 * 86_400 * 10**9


def list_folder(
    held: HeldPath, glob: str, most: int, is_wanted: Callable[[], bool] = lambda: True
) -> dict[str, Any]:
    """The first `most` entries by name whose names match `glob`; nothing is followed.

    A folder may have millions of entries, or no end: it is left when `is_wanted` says no.

    Raises:
        BadInput: it does not exist, is not a folder, or may not be read.
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
def _opened(held: HeldPath) -> Iterator[int | str]:
    if not held.path.is_dir():
        if held.path.exists():
            raise BadInput(f"{held.path} is not a folder")
        raise BadInput(f"{held.path} does not exist", ErrorCode.NOT_FOUND)
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
        # It was deleted in the meantime.
        return None
    except OSError:
        # A mount whose server has gone, or that is another user's: its name is all that can be had.
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
    """A moment in ISO 8601, UTC, to the microsecond.

    A file may bear any time that a 64-bit number of seconds has. Years outside 1 to 9999 are written with a
    sign and at least six digits, as the standard and ECMAScript foresee: `+010000-01-01T00:00:00+00:00`.
    """
    cycles, rest = divmod(since_1970_ns, _CYCLE_NS)
    moment = _EPOCH + timedelta(microseconds=rest // 1000)
    year = moment.year + cycles * _CYCLE_YEARS
    if MINYEAR <= year <= MAXYEAR:
        return moment.replace(year=year).isoformat()
    return f"{year:+07d}{moment.isoformat()[4:]}"
