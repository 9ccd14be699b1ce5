"""The phases of a command, start, work and end: what Ctrl+C does in each, and when garbage is collected."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
from collections.abc import Iterator
from types import FrameType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    # Every program begins with this module, and not every one has a loop.
    import asyncio

# As in `core.service.exit_codes`, for what is imported here is imported before Ctrl+C is looked after.
INTERRUPTED = 130


@contextlib.contextmanager
def starting() -> Iterator[None]:
    """The time in which a command has nothing to close: all of it but what is in `working`.

    Ctrl+C ends the process at once. An exception in the middle of the imports, which take most of a start,
    would be printed with its traceback wherever a library has caught it. Garbage is not collected, because
    imports make none: looking for it takes a tenth of a start.
    """
    before, collects = signal.getsignal(signal.SIGINT), gc.isenabled()
    # Ignored, as in the background of a script, or handled by the program that called this, it stays so.
    if before is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end)
    gc.disable()
    try:
        yield
    finally:
        if before is signal.default_int_handler:
            signal.signal(signal.SIGINT, before)
        if collects:
            gc.enable()


@contextlib.contextmanager
def working(task: asyncio.Task[Any]) -> Iterator[None]:
    """The time in which a command has something to close: Ctrl+C cancels its task, and garbage is collected.

    Whatever a first Ctrl+C waits for, a second one interrupts.
    """
    ends, collects = signal.getsignal(signal.SIGINT) is _end, gc.isenabled()
    loop = task.get_loop()

    def cancel(_number: int, _frame: FrameType | None) -> None:
        if task.cancelling():
            raise KeyboardInterrupt
        task.cancel()
        # Wakes a loop that waits for its sockets.
        loop.call_soon_threadsafe(lambda: None)

    # What was imported until here is never garbage.
    gc.freeze()
    gc.enable()
    if ends:
        # Not by asyncio, whose handler is there before the work begins, and leaves another behind it.
        signal.signal(signal.SIGINT, cancel)
    try:
        yield
    finally:
        if ends:
            signal.signal(signal.SIGINT, _end)
        if not collects:
            gc.disable()
        gc.unfreeze()


def at_its_end(code: int) -> int:
    """Let the process end with this exit code: the command has said everything, and closed everything.

    Ctrl+C is ignored: the interpreter gives up its handlers while it ends, and the signal would kill it. No
    garbage is looked for among all that was ever imported, which takes a seventh of a short command.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    gc.freeze()
    return code


def _end(_number: int, _frame: FrameType | None) -> None:
    with contextlib.suppress(OSError):
        os.write(2, b"Interrupted.\n")
    os._exit(INTERRUPTED)
