"""Runs tests against a copy of the tree with one fault in it."""

from __future__ import annotations

import importlib
import os
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.mutations.faults import Fault

ROOT = Path(__file__).parents[2]
COPIED = ("app", "core", "packaging", "resources", "tests", "pyproject.toml", "Makefile", "README.md")
# What every test process would load for itself, which takes longer than most of these tests.
LOADED = (
    "cryptography.hazmat.primitives.asymmetric.ed25519",
    "psutil",
    "pydantic._internal._validators",
    "pydantic.main",
    "structlog",
    "tree_sitter_bash",
    "websockets.asyncio.server",
)
# A fault that makes a test hang is noticed; a busy machine may need long for a test that does not.
MOST_S = 1_200
PASSED, FAILED, HANGS = 0, 1, -signal.SIGKILL


class Copy:
    """A copy of the tree to put faults into. One at a time."""

    def __init__(self, folder: Path) -> None:
        """Copy the tree into `folder`, compiled files too."""
        self.root = folder
        self._changes = 0
        for name in COPIED:
            source = ROOT / name
            if source.is_dir():
                shutil.copytree(source, folder / name)
            else:
                shutil.copy2(source, folder / name)
        for name in LOADED:
            importlib.import_module(name)

    @contextmanager
    def with_fault(self, fault: Fault) -> Iterator[None]:
        """Put a fault in; it is out again after the block."""
        path = self.root / fault.file
        text, stamp = path.read_text(), path.stat().st_mtime_ns
        assert text.count(fault.old) == 1, f"{fault.file} does not hold this once: {fault.old!r}"
        path.write_text(text.replace(fault.old, fault.new))
        # Compiled files are told apart by second and size, which a fault may share with the one before.
        self._changes += 1
        later = stamp + self._changes * 10**9
        os.utime(path, ns=(later, later))
        try:
            yield
        finally:
            path.write_text(text)
            os.utime(path, ns=(stamp, stamp))

    def run(self, tests: Sequence[str], output: Path, most_s: float = MOST_S) -> int:
        """Run test files up to the first failure; returns pytest's exit code, or `HANGS`."""
        child = os.fork()
        if child == 0:
            self._be_pytest(tests, output)
        ends = time.monotonic() + most_s
        while True:
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                return os.waitstatus_to_exitcode(status)
            if time.monotonic() > ends:
                os.killpg(child, signal.SIGKILL)
                os.waitpid(child, 0)
                return HANGS
            time.sleep(0.05)

    def _be_pytest(self, tests: Sequence[str], output: Path) -> None:
        """Never returns."""
        code = 70
        try:
            os.setsid()
            os.chdir(self.root)
            handle = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(handle, 1)
            os.dup2(handle, 2)
            # Its own processes load the copy too, and nothing of ours is taken for the copy's.
            os.environ["PYTHONPATH"] = str(self.root)
            sys.path[:] = [str(self.root), *(one for one in sys.path if Path(one or ".").resolve() != ROOT)]
            for name in [name for name in sys.modules if name.partition(".")[0] in ("app", "core", "tests")]:
                del sys.modules[name]
            import pytest

            code = int(pytest.main(["-x", "-p", "no:cacheprovider", "--tb=short", *tests]))
        except BaseException:  # noqa: BLE001  # told in the output, never raised in the parent's name
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
