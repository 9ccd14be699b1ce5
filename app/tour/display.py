"""A virtual display for where there is none, ended with the tour."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from core.errors import BadInput


@contextmanager
def some_display(width: int, height: int) -> Iterator[str]:
    """A display of our own of that size in pixels, named in `DISPLAY` meanwhile.

    Raises:
        BadInput: Xvfb is not installed, or did not start.
    """
    program = shutil.which("Xvfb")
    if program is None:
        raise BadInput("Xvfb is not installed; `make setup` installs it.")
    reads, writes = os.pipe()
    screen = f"{width}x{height}x24"
    server = subprocess.Popen(
        [program, "-displayfd", str(writes), "-screen", "0", screen, "-nolisten", "tcp"],
        pass_fds=[writes],
        stderr=subprocess.DEVNULL,
    )
    os.close(writes)
    before = {name: os.environ.get(name) for name in ("DISPLAY", "QT_QPA_PLATFORM", "WAYLAND_DISPLAY")}
    try:
        with os.fdopen(reads) as told:
            number = told.readline().strip()
        if not number:
            raise BadInput("Xvfb did not start.")
        os.environ.update(DISPLAY=f":{number}", QT_QPA_PLATFORM="xcb")
        os.environ.pop("WAYLAND_DISPLAY", None)
        yield os.environ["DISPLAY"]
    finally:
        for name, value in before.items():
            os.environ.pop(name, None) if value is None else os.environ.update({name: value})
        server.terminate()
        server.wait(10)
