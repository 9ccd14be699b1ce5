"""A byte-code cache of the bench's own, so that the programs that it starts compile as little as a user's.

Where Python writes no byte code, or into a tree that just changed, each start compiles all sources, which
takes longer than the rest of it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import MutableMapping

from tests.bench.figures import Figure, Figures, Scale
from tests.bench.lines import ROOT

CACHE = ROOT / "build" / "bench-byte-code"
FOLDERS = ("app", "core", "tests/bench", "tests/fakes")
# Imports all modules of the program, and with them the libraries that they need. Modules of another
# operating system cannot be imported here.
_IMPORT_ALL = """
import contextlib, importlib, pkgutil, app, core
for package in (app, core):
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        if not module.name.endswith("__main__"):
            with contextlib.suppress(ImportError):
                importlib.import_module(module.name)
"""


def use_own_cache(environment: MutableMapping[str, str] = os.environ) -> None:
    """Have every process that inherits this environment read and write byte code in `CACHE`."""
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    environment["PYTHONPYCACHEPREFIX"] = str(CACHE)


def warm_cache(scale: Scale) -> Figures:
    """Compile what the measured programs import: all of ours, and what it needs of the libraries.

    Raises:
        subprocess.CalledProcessError: a source does not compile, or importing it ended the process.
    """
    started = time.perf_counter()
    subprocess.run([sys.executable, "-m", "compileall", "-q", *FOLDERS], cwd=ROOT, check=True)
    subprocess.run(
        [sys.executable, "-c", _IMPORT_ALL],
        cwd=ROOT,
        env={**os.environ, "QT_QPA_PLATFORM": "offscreen"},
        check=True,
    )
    return [Figure("cache made warm", time.perf_counter() - started, "s")]
