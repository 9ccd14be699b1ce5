"""A virtual X display, on which no test disturbs anybody."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from tests.fakes.patience import PATIENCE_S


@contextmanager
def virtual_display(size: str = "1280x800", options: tuple[str, ...] = ()) -> Iterator[str]:
    """The name of a display of `size` pixels; the server says itself when it is ready."""
    program = shutil.which("Xvfb")
    assert program, "Xvfb is needed for these tests; make setup installs it"
    reads, writes = os.pipe()
    server = subprocess.Popen(
        [
            program,
            "-displayfd",
            str(writes),
            "-screen",
            "0",
            f"{size}x24",
            "-nolisten",
            "tcp",
            "-noreset",
            *options,
        ],
        pass_fds=[writes],
        stderr=subprocess.DEVNULL,
    )
    os.close(writes)
    with os.fdopen(reads) as told:
        number = told.readline().strip()
    assert number, "Xvfb did not start"
    try:
        yield f":{number}"
    finally:
        server.terminate()
        server.wait(PATIENCE_S)
