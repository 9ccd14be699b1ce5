"""Command line: `devices`, `call`, `approvals`, `audit`, … through the same console API as the window."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from types import FrameType

# As in `core.service.exit_codes`, which is itself one of the slow imports.
_INTERRUPTED = 130


def main(argv: list[str]) -> int:
    """Run one command; returns its exit code (the list is in `core.service.exit_codes`)."""
    try:
        with ends_when_interrupted():
            # The commands import typer, a cost that starting the window avoids.
            from core.cli.app import run
        return run(argv)
    except KeyboardInterrupt:
        # Ctrl+C came before the command had begun.
        return _INTERRUPTED


@contextlib.contextmanager
def ends_when_interrupted() -> Iterator[None]:
    """End the process at once on Ctrl+C, for as long as it has nothing to close.

    An exception in the middle of the imports, which take a third of a second, would be printed with its
    traceback wherever a library has caught it.
    """
    before = signal.getsignal(signal.SIGINT)
    if before is not signal.default_int_handler:
        # Ignored, as in the background of a script, or handled by the program that called this.
        yield
        return
    signal.signal(signal.SIGINT, _end)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _end(_number: int, _frame: FrameType | None) -> None:
    with contextlib.suppress(OSError):
        os.write(2, b"Interrupted.\n")
    os._exit(_INTERRUPTED)
