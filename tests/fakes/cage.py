"""A bound around an attack that could take the machine should the sandbox fail: at most so many processes, at
most so long, and nothing left.

Root is bounded by a control group of the test's own, which the sandbox's groups come to lie in; an ordinary
user by RLIMIT_NPROC, which the kernel lets root pass. `python -m tests.fakes.cage` is the keeper: a process
that ends what is in the cage when the test ends, however it ends, or when the time is over.
"""

from __future__ import annotations

import contextlib
import os
import resource
import secrets
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

from core.device.sandbox import cgroup

_TIME_WAS_OVER = 3
_KILL_FOR_S = 20.0
_INSIDE = "inside"
_LOOK_EVERY_MS = 20


def why_impossible() -> str:
    """Why no attack may be let loose here; empty when one may."""
    if os.geteuid() == 0 and cgroup.parent() is None:
        return "root without a control group: nothing would hold a fork bomb"
    return ""


@dataclass(frozen=True, slots=True)
class Cage:
    """The group, None for an ordinary user, and how many processes fit in."""

    group: Path | None
    most: int

    def enter(self) -> None:
        """Put this process and all that it will start into the cage, for good.

        Raises:
            OSError: it is not bounded now and must start nothing.
        """
        if self.group is None:
            if os.geteuid() == 0:
                raise PermissionError("No limit holds root")
            bound = self.count() + self.most
            resource.setrlimit(resource.RLIMIT_NPROC, (bound, bound))
            return
        if _number(self.group / "pids.max") != self.most:
            raise OSError("The cage has no bound")
        (_entrance(self.group)).write_text("0")

    def count(self) -> int:
        """Processes and threads in the cage, or of this user."""
        if self.group is not None:
            return _number(self.group / "pids.current")
        own = os.geteuid()
        rows = psutil.process_iter(["uids", "num_threads"])
        return sum(row.info["num_threads"] or 1 for row in rows if row.info["uids"].effective == own)

    def wait_until_full(self, seconds: float) -> bool:
        """Whether the kernel refused somebody in the cage another process within that time."""
        assert self.group is not None
        with open(self.group / "pids.events", encoding="ascii") as file:
            poll = select.poll()
            poll.register(file, select.POLLPRI)
            until = time.monotonic() + seconds
            while not int(file.read().split()[1]):
                if time.monotonic() > until:
                    return False
                # The first version tells nobody that the file has changed, so it is looked at as well.
                poll.poll(_LOOK_EVERY_MS)
                file.seek(0)
        return True

    def arguments(self) -> list[str]:
        """For `from_arguments` in another process."""
        return [str(self.group or "-"), str(self.most)]


def from_arguments(group: str, most: str) -> Cage:
    """The cage that another process has made."""
    return Cage(None if group == "-" else Path(group), int(most))


@contextlib.contextmanager
def cage(most: int, seconds: float) -> Iterator[Cage]:
    """A cage with a keeper; whatever is in it is dead at the end, and the time must not have been over."""
    group = None
    if (parent := cgroup.parent()) is not None:
        group = parent / f"quarterdeck-cage-{os.getpid()}-{secrets.token_hex(4)}"
        group.mkdir()
        with open(os.open(group / "pids.max", os.O_WRONLY), "w", encoding="ascii") as file:
            file.write(str(most))
        if (group / "cgroup.subtree_control").exists():
            # The second version has processes only in groups that have none below.
            (group / "cgroup.subtree_control").write_text("+pids")
            (group / _INSIDE).mkdir()
    made = Cage(group, most)
    keeper = subprocess.Popen(
        [sys.executable, "-m", "tests.fakes.cage", *made.arguments(), str(seconds)], stdin=subprocess.PIPE
    )
    try:
        yield made
    finally:
        keeper.communicate()
    assert keeper.returncode == 0, "the keeper had to end what was in the cage"
    assert group is None or not group.exists()


def keep(made: Cage, seconds: float) -> int:
    """Until standard input is closed or the time is over; then nothing in the cage lives on.

    The time of a group begins when something is in it: a Python enters it, which takes its time to start.
    """
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    told = False
    until = time.monotonic() + seconds if made.group is None else None
    while not told and (until is None or time.monotonic() < until):
        if until is None and made.count():
            until = time.monotonic() + seconds
        pause = _LOOK_EVERY_MS / 1000 if until is None else max(0.0, until - time.monotonic())
        told = bool(select.select([sys.stdin], [], [], pause)[0])
    if made.group is not None:
        end_all(made.group)
    elif not told:
        # Nothing tells an ordinary user's processes apart but who started them.
        _end_descendants(psutil.Process(os.getppid()))
    return 0 if told else _TIME_WAS_OVER


def end_all(group: Path) -> None:
    """Kill every process in a group and those below it, and remove them.

    Raises:
        TimeoutError: something cannot be killed.
    """
    # First, so that whoever is killed has no successor.
    (group / "pids.max").write_text("0")
    until = time.monotonic() + _KILL_FOR_S
    while group.exists():
        below = [path.parent for path in group.rglob("cgroup.procs")]
        for folder in sorted(below, key=lambda path: len(path.parts), reverse=True):
            with contextlib.suppress(FileNotFoundError):
                for pid in (folder / "cgroup.procs").read_text("ascii").split():
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(int(pid), signal.SIGKILL)
            with contextlib.suppress(OSError):
                folder.rmdir()
        if time.monotonic() > until:
            raise TimeoutError(f"{group} cannot be emptied")
        time.sleep(0.005)


def _end_descendants(of: psutil.Process) -> None:
    for process in of.children(recursive=True):
        if process.pid != os.getpid():
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()


def _entrance(group: Path) -> Path:
    inside = group / _INSIDE
    return (inside if inside.exists() else group) / "cgroup.procs"


def _number(path: Path) -> int:
    said = path.read_text("ascii").strip()
    return sys.maxsize if said == "max" else int(said)


if __name__ == "__main__":
    sys.exit(keep(from_arguments(*sys.argv[1:3]), float(sys.argv[3])))
