"""An account on this machine that is not root's: what the device client is run as where users share a limit.

As root another user id is taken; any other user is a plain user already.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parents[2]
_UID = 54321
# None of them is hidden by the read-only shell.
_SEEN = ("/srv", "/opt", "/var/lib")


@contextmanager
def seen_folder() -> Iterator[Path]:
    """A folder, removed at the end, that is on an ordinary disk and not in one of the hidden folders."""
    wanted = [*_SEEN, str(Path.home())] if os.geteuid() == 0 else [str(Path.home()), *_SEEN]
    where = next(path for path in wanted if os.access(path, os.W_OK))
    made = Path(tempfile.mkdtemp(prefix="quarterdeck-test-", dir=where))
    made.chmod(0o755)
    try:
        yield made
    finally:
        shutil.rmtree(made)


@dataclass(frozen=True)
class PlainUser:
    """A user with a folder and, in it, a home. `python` is an interpreter that this user may run."""

    folder: Path
    python: str

    @property
    def home(self) -> Path:
        return self.folder / "home"

    def command(self, *words: str) -> list[str]:
        """A command line that runs as this user."""
        if os.geteuid() != 0:
            return list(words)
        return ["setpriv", "--reuid", str(_UID), "--regid", str(_UID), "--clear-groups", *words]

    def environment(self) -> dict[str, str]:
        """With the project and what it needs, whichever installation the interpreter belongs to."""
        packages = (sysconfig.get_path("purelib"), sysconfig.get_path("platlib"))
        return {
            "HOME": str(self.home),
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "PYTHONPATH": os.pathsep.join(dict.fromkeys((str(HERE), *packages))),
            "PYTHONDONTWRITEBYTECODE": "1",
        }

    def run(self, code: str) -> str:
        """What Python code prints, run as this user outside of any sandbox."""
        done = subprocess.run(
            self.command(self.python, "-c", code),
            env=self.environment(),
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def owns(self, *paths: Path) -> None:
        """Give files and folders, with all that is in them, to this user."""
        if os.geteuid() == 0:
            for path in paths:
                for one in (path, *path.rglob("*")):
                    os.chown(one, _UID, _UID, follow_symlinks=False)


@contextmanager
def plain_user() -> Iterator[PlainUser]:
    """A user with an empty home that the read-only shell can see."""
    with seen_folder() as folder:
        user = PlainUser(folder, _python())
        user.home.mkdir()
        user.owns(folder)
        yield user


def why_there_is_none() -> str:
    """Why no plain user can run the device client here; empty when one can."""
    return "" if _python() else "no interpreter of this version that another user may run"


def _python() -> str:
    """Our interpreter or, where it lies in root's home, the system's of the same version; else nothing."""
    if os.geteuid() != 0:
        return sys.executable
    names = (os.path.realpath(sys.executable), f"/usr/bin/python3.{sys.version_info.minor}")
    for name in names:
        tried = ["setpriv", "--reuid", str(_UID), "--regid", str(_UID), "--clear-groups", "test", "-r", name]
        if subprocess.run(tried, check=False).returncode == 0:
            return name
    return ""
