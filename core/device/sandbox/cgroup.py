"""A control group that limits the number of a command's processes where the device client runs as root.

The kernel does not apply RLIMIT_NPROC to root, even inside a user namespace, so that a fork bomb would
exhaust the machine. A control group for each command limits root as well.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import sys
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

assert sys.platform == "linux"

_MOUNTED = Path("/sys/fs/cgroup")


def is_needed() -> bool:
    """Whether this process runs as root of the initial user namespace (not as a container's root)."""
    if os.geteuid() != 0:
        return False
    try:
        words = Path("/proc/self/uid_map").read_text("ascii").split()
    except OSError:
        return True
    return words[:2] == ["0", "0"]


@lru_cache(maxsize=1)
def parent() -> Path | None:
    """The control group below which groups with a process limit can be created; None when there is none."""
    for folder in _own_and_above():
        with contextlib.suppress(OSError), _group(folder, 4):
            return folder
    return None


def _own_and_above() -> Iterator[Path]:
    """This process's control group, then its ancestors; their limits then apply to the commands as well."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text("utf-8").splitlines():
            _, kind, path = line.split(":", 2)
            if kind not in {"pids", ""}:
                continue
            mounted = _MOUNTED / kind
            own = mounted / path.strip("/")
            for folder in (own, *own.parents):
                # cgroup v2 is mounted where v1 has only the folders of its controllers.
                if kind == "pids" or (folder / "cgroup.controllers").exists():
                    yield folder
                if folder == mounted:
                    break


@contextlib.contextmanager
def limited(most: int) -> Iterator[Path | None]:
    """A new group's file, to which a process writes 0 to join; None where no group is needed.

    The group is removed at the end; if processes are still in it, by `core.device.processes.supervisor`.

    Raises:
        OSError: no group can be created.
    """
    if not is_needed():
        yield None
        return
    folder = parent()
    if folder is None:
        raise OSError("There is no control group that counts processes")
    with _group(folder, most) as made:
        yield made / "cgroup.procs"


@contextlib.contextmanager
def _group(folder: Path, most: int) -> Iterator[Path]:
    made = folder / f"quarterdeck-{os.getpid()}-{secrets.token_hex(4)}"
    made.mkdir()
    try:
        # Opened without O_CREAT: outside a control group file system, this would create an ordinary file.
        descriptor = os.open(made / "pids.max", os.O_WRONLY)
        with os.fdopen(descriptor, "w") as file:
            file.write(str(most))
        yield made
    finally:
        # While processes are still in the group, rmdir fails; the supervisor removes it later without a wait.
        with contextlib.suppress(OSError):
            made.rmdir()
