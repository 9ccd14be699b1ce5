"""The other names under which a path can be reached through bind mounts and symlinks."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from core.device.private_places import is_below

_ESCAPED = re.compile(r"\\([0-7]{3})")


@dataclass(frozen=True, slots=True)
class Mount:
    """A line of /proc/self/mountinfo: folder `root` of the file system on `device` is mounted at `point`."""

    device: str
    root: str
    point: str


def read_mounts() -> list[Mount]:
    """The mounts that this process sees, oldest first; empty where /proc cannot be read (proc(5))."""
    try:
        lines = Path("/proc/self/mountinfo").read_bytes().splitlines()
    except OSError:
        return []
    rows = [os.fsdecode(line).split(" ")[2:5] for line in lines]
    return [Mount(device, _plain(root), _plain(point)) for device, root, point in rows]


def all_names(paths: Iterable[str], mounts: list[Mount]) -> Iterator[str]:
    """The names of each path, as absolute paths whose parent folders are resolved.

    These are the path itself, its target if it is a symlink, and its names below other mounts. None of them
    need exist.
    """
    folders: dict[str, str] = {}
    times = Counter(mount.device for mount in mounts)
    is_shown_twice = max(times.values(), default=0) > 1
    for path in paths:
        folder, name = os.path.split(path)
        if folder not in folders:
            folders[folder] = resolved(folder)
        plain = real = os.path.join(folders[folder], name)
        yield plain
        if os.path.islink(plain):
            # The symlink is returned as well as its target, because another symlink may replace it.
            real = resolved(plain)
            yield real
        if is_shown_twice:
            yield from _other_names(real, mounts)


def resolved(path: str) -> str:
    """A path without symlinks; unchanged where it cannot be resolved because it changes meanwhile."""
    try:
        return os.path.realpath(path)
    except OSError:
        return path


def _other_names(path: str, mounts: list[Mount]) -> Iterator[str]:
    above = [mount for mount in mounts if is_below(path, mount.point)]
    if not above:
        return
    # Of several mounts at the same point, only the last is visible.
    own = max(reversed(above), key=lambda mount: len(mount.point))
    place = os.path.normpath(os.path.join(own.root, os.path.relpath(path, own.point)))
    for mount in mounts:
        if mount.device != own.device or mount is own:
            continue
        if is_below(place, mount.root):
            yield os.path.normpath(os.path.join(mount.point, os.path.relpath(place, mount.root)))
        elif is_below(mount.root, place):
            yield mount.point


def _plain(field: str) -> str:
    return _ESCAPED.sub(lambda code: chr(int(code[1], 8)), field)
