"""Time zones of rules: one that a rule names, or the machine's.

A program chooses the environment of the service that it starts, so that neither `TZ` nor `PYTHONTZPATH`
counts.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
from datetime import UTC, datetime, tzinfo
from functools import lru_cache
from pathlib import Path
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

MACHINE = Path("/etc/localtime")
_FOLDERS = ("/usr/share/zoneinfo", "/usr/lib/zoneinfo", "/usr/share/lib/zoneinfo", "/etc/zoneinfo")
_NAME = re.compile(r"[A-Za-z0-9_+-]+(?:/[A-Za-z0-9_+-]+){0,3}")


@lru_cache(maxsize=256)
def zone_named(name: str) -> tzinfo:
    """The time zone of a name such as `Europe/Berlin`.

    Raises:
        ValueError: there is no such zone on this computer.
    """
    if name == "UTC":
        return UTC
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name!r} is no name of a time zone, such as Europe/Berlin")
    for folder in _FOLDERS:
        path = Path(folder, name)
        if path.is_file():
            return _read(path, name)
    if sys.platform == "win32":
        with contextlib.suppress(ZoneInfoNotFoundError, OSError):
            return ZoneInfo(name)
    raise ValueError(f"there is no time zone {name!r} on this computer")


def machine_zone() -> tuple[tzinfo, str]:
    """The time zone that this machine is set to, and its name. Without `MACHINE` it is UTC, as for libc."""
    if sys.platform == "win32":
        local = datetime.now().astimezone().tzinfo
        return local or UTC, "the zone of this computer"
    try:
        status = MACHINE.stat()
    except OSError:
        return UTC, "UTC"
    return _machine_zone(os.path.realpath(MACHINE), status.st_mtime_ns)


@lru_cache(maxsize=8)
def _machine_zone(path: str, _changed: int) -> tuple[tzinfo, str]:
    name = path.partition("zoneinfo/")[2] or "the zone of this computer"
    try:
        return _read(Path(path), name), name
    except (ValueError, OSError):
        return UTC, "UTC"


def _read(path: Path, name: str) -> tzinfo:
    with path.open("rb") as file:
        return ZoneInfo.from_file(file, key=name)
