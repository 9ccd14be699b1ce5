"""Blocking work in one thread of its own, given up when it hangs."""

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
    """Run `work` in a thread of its own. Blocks for `seconds` at most.

    Raises:
        TimeoutError: it did not end in time; its thread ends when it does.
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
        except BaseException as error:  # noqa: BLE001 — whoever waits gets it, whatever it is
            done.set_exception(error)
        # Else the last piece's arguments would live until the next one comes.
        del piece, done, work, arguments


class OneThread:
    """Runs one piece of work after another; a piece that hangs costs the thread, not the caller.

    Its threads are daemons: what hangs for ever must not keep the program from ending.
    """

    def __init__(self, name: str, what: str) -> None:
        self._name = name
        self._what = what
        self._line: SimpleQueue[_Piece | None] | None = None

    async def run(self, work: Callable[..., Answer], *arguments: Any, seconds: float) -> Answer:
        """Run `work(*arguments)`.

        Cancelling leaves the work running; the next piece waits for it.

        Raises:
            DeviceError: it did not end in time (code `timeout`).
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
                f"{self._what} did not answer within {seconds:g} s", ErrorCode.TIMEOUT
            ) from None
        except asyncio.CancelledError:
            future.add_done_callback(_look_away)
            raise

    def abandon(self) -> None:
        """Have the next piece of work run in a new thread; the old one ends when its work does."""
        if self._line is not None:
            self._line.put(None)
            self._line = None

    @property
    def is_running(self) -> bool:
        """Whether there is a thread."""
        return self._line is not None


def _look_away(future: asyncio.Future[Any]) -> None:
    if not future.cancelled():
        future.exception()
