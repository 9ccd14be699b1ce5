"""Virtual displays: one for the window where there is none, one for each device; ended with the tour."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from core.errors import BadInput


@contextmanager
def a_display(width: int, height: int) -> Iterator[str]:
    """A display of that size in pixels; the value is its name, as in `DISPLAY`.

    Raises:
        BadInput: Xvfb is not installed, or did not start.
    """
    program = shutil.which("Xvfb")
    if program is None:
        raise BadInput("Xvfb is not installed; `make setup` installs it.")
    reads, writes = os.pipe()
    screen = f"{width}x{height}x24"
    server = subprocess.Popen(
        [program, "-displayfd", str(writes), "-screen", "0", screen, "-nolisten", "tcp", "-noreset"],
        pass_fds=[writes],
        stderr=subprocess.DEVNULL,
    )
    os.close(writes)
    try:
        with os.fdopen(reads) as told:
            number = told.readline().strip()
        if not number:
            raise BadInput("Xvfb did not start.")
        yield f":{number}"
    finally:
        server.terminate()
        server.wait(10)


@contextmanager
def some_display(width: int, height: int) -> Iterator[str]:
    """A display of our own, named in `DISPLAY` meanwhile.

    Raises:
        BadInput: Xvfb is not installed, or did not start.
    """
    before = {name: os.environ.get(name) for name in ("DISPLAY", "QT_QPA_PLATFORM", "WAYLAND_DISPLAY")}
    with a_display(width, height) as name:
        try:
            os.environ.update(DISPLAY=name, QT_QPA_PLATFORM="xcb")
            os.environ.pop("WAYLAND_DISPLAY", None)
            yield name
        finally:
            for variable, value in before.items():
                os.environ.pop(variable, None) if value is None else os.environ.update({variable: value})
