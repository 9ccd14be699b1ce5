"""Blocking work in one thread of its own, given up when it hangs."""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import Callable
from typing import Any, TypeVar

from core.errors import DeviceError, ErrorCode

Answer = TypeVar("Answer")


class OneThread:
    """Runs one piece of work after another; a piece that hangs costs the thread, not the caller."""

    def __init__(self, name: str, what: str) -> None:
        self._name = name
        self._what = what
        self._thread: concurrent.futures.ThreadPoolExecutor | None = None

    async def run(self, work: Callable[..., Answer], *arguments: Any, seconds: float) -> Answer:
        """Run `work(*arguments)`.

        Cancelling leaves the work running; the next piece waits for it.

        Raises:
            DeviceError: it did not end in time (code `timeout`).
        """
        if self._thread is None:
            self._thread = concurrent.futures.ThreadPoolExecutor(1, thread_name_prefix=self._name)
        future = asyncio.get_running_loop().run_in_executor(self._thread, work, *arguments)
        try:
            async with asyncio.timeout(seconds):
                return await asyncio.shield(future)
        except TimeoutError:
            future.add_done_callback(_look_away)
            self.abandon()
            raise DeviceError(
                f"{self._what} did not answer within {seconds:g} s", ErrorCode.TIMEOUT
            ) from None
        except asyncio.CancelledError:
            future.add_done_callback(_look_away)
            raise

    def abandon(self) -> None:
        """Have the next piece of work run in a new thread; the old one ends when its work does."""
        if self._thread is not None:
            self._thread.shutdown(wait=False)
            self._thread = None

    @property
    def is_running(self) -> bool:
        """Whether there is a thread."""
        return self._thread is not None


def _look_away(future: asyncio.Future[Any]) -> None:
    if not future.cancelled():
        future.exception()
