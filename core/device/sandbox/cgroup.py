"""How many processes a command may consist of, where the usual limit does not hold: for root.

The kernel lets root pass RLIMIT_NPROC, also inside a user namespace, so that a fork bomb would take the
machine. A control group of its own keeps root to a number as well.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

_MOUNTED = Path("/sys/fs/cgroup")


def is_needed() -> bool:
    """Whether we are the machine's own root, rather than a user, or a container's."""
    if os.geteuid() != 0:
        return False
    try:
        words = Path("/proc/self/uid_map").read_text("ascii").split()
    except OSError:
        return True
    return words[:2] == ["0", "0"]


@lru_cache(maxsize=1)
def parent() -> Path | None:
    """The control group below which groups with a limit can be made; None when there is none."""
    for folder in _own_and_above():
        with contextlib.suppress(OSError), _group(folder, 4):
            return folder
    return None


def _own_and_above() -> Iterator[Path]:
    """Our own control group, then those around it: whoever bounds us bounds the commands as well."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text("utf-8").splitlines():
            _, kind, path = line.split(":", 2)
            if kind not in {"pids", ""}:
                continue
            mounted = _MOUNTED / kind
            own = mounted / path.strip("/")
            for folder in (own, *own.parents):
                # The second version is mounted where the first has only the folders of its kinds.
                if kind == "pids" or (folder / "cgroup.controllers").exists():
                    yield folder
                if folder == mounted:
                    break


@contextlib.contextmanager
def limited(most: int) -> Iterator[Path | None]:
    """The file of a fresh group that a process joins by writing 0; None where no group is needed.

    The group is removed at the end; where processes are still in it, by `core.device.processes.supervisor`.

    Raises:
        OSError: no group can be made.
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
        # Only opened, never made: elsewhere than in a control group this would be an ordinary file.
        descriptor = os.open(made / "pids.max", os.O_WRONLY)
        with os.fdopen(descriptor, "w") as file:
            file.write(str(most))
        yield made
    finally:
        # Where somebody was in it and still counts, the keeper of the command removes it: nobody waits here.
        with contextlib.suppress(OSError):
            made.rmdir()
