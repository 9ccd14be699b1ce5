"""Runs blocking work in a separate thread, which is abandoned when the work hangs."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, TypeVar

from core.errors import DeviceError, ErrorCode

Answer = TypeVar("Answer")


_Piece = tuple[Future[Any], Callable[..., Any], tuple[Any, ...]]


def bounded(name: str, work: Callable[[], Answer], seconds: float) -> Answer:
    """Run `work` in a new thread. Blocks for `seconds` at most.

    Raises:
        TimeoutError: the work did not end in time; its thread ends with it.
    """
    line: SimpleQueue[_Piece | None] = SimpleQueue()
    done: Future[Answer] = Future()
    line.put((done, work, ()))
    line.put(None)
    threading.Thread(target=_serve, args=(line,), name=name, daemon=True).start()
    return done.result(seconds)


def _serve(line: SimpleQueue[_Piece | None]) -> None:
    while (piece := line.get()) is not None:
        done, work, arguments = piece
        try:
            done.set_result(work(*arguments))
        except BaseException as error:  # noqa: BLE001 — passed on to the waiting caller
            done.set_exception(error)
        # Otherwise the last work's arguments would stay alive until the next work arrives.
        del piece, done, work, arguments


class OneThread:
    """Runs work in sequence in one thread; work that hangs blocks that thread, not the caller.

    The threads are daemons, so that hung work does not keep the program from ending.
    """

    def __init__(self, name: str, what: str) -> None:
        self._name = name
        self._what = what
        self._line: SimpleQueue[_Piece | None] | None = None

    async def run(self, work: Callable[..., Answer], *arguments: Any, seconds: float) -> Answer:
        """Run `work(*arguments)`.

        Cancelling leaves the work running; the next work waits for it.

        Raises:
            DeviceError: the work did not end in time (code `timeout`).
        """
        if self._line is None:
            self._line = SimpleQueue()
            threading.Thread(target=_serve, args=(self._line,), name=self._name, daemon=True).start()
        done: Future[Answer] = Future()
        self._line.put((done, work, arguments))
        future = asyncio.wrap_future(done)
        try:
            async with asyncio.timeout(seconds):
                return await asyncio.shield(future)
        except TimeoutError:
            future.add_done_callback(_look_away)
            self.abandon()
            raise DeviceError(
                f"{self._what} did not answer within {seconds:g} s.", ErrorCode.TIMEOUT
            ) from None
        except asyncio.CancelledError:
            future.add_done_callback(_look_away)
            raise

    def abandon(self) -> None:
        """Run the next work in a new thread; the old thread ends when its work does."""
        if self._line is not None:
            self._line.put(None)
            self._line = None

    @property
    def is_running(self) -> bool:
        """Whether a thread is running."""
        return self._line is not None


def _look_away(future: asyncio.Future[Any]) -> None:
    if not future.cancelled():
        future.exception()
