"""Long blocking work in a thread, which reports how far it is and can be stopped."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import TypeVar

from core.errors import BadInput, ErrorCode

Answer = TypeVar("Answer")
Tell = Callable[[int, int], None]
# Reports in all; more would cost time, and no eye sees more.
_REPORTS = 200


class Progress:
    """How many of `total` bytes are done. `step` is called by the work, and ends it once `stop` is set."""

    def __init__(self, tell: Tell, stop: threading.Event) -> None:
        self.stop = stop
        self.total = 0
        self._tell = tell
        self._done = 0
        self._told = 0

    def step(self, count: int) -> None:
        """Count some more bytes.

        Raises:
            BadInput: the work was stopped (code `cancelled`).
        """
        self.check()
        self._done += count
        if self._done - self._told >= self.total // _REPORTS:
            self._told = self._done
            self._tell(min(self._done, self.total), self.total)

    def check(self) -> None:
        """End the work if it was stopped.

        Raises:
            BadInput: it was stopped (code `cancelled`).
        """
        if self.stop.is_set():
            raise BadInput("It was stopped; nothing is left of it.", ErrorCode.CANCELLED)


async def in_stoppable_thread(work: Callable[[threading.Event], Answer]) -> Answer:
    """Run blocking work in a thread; when its caller is cancelled, stop the work and wait until it has ended.

    So nothing that the work made is still there when the caller goes on.
    """
    stop = threading.Event()
    running = asyncio.get_running_loop().run_in_executor(None, work, stop)
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        stop.set()
        await asyncio.wait([running])
        # Read, so that the event loop does not report it as an error that was lost.
        running.exception()
        raise
