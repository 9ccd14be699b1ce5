"""A connection to an X server, used by a dedicated thread and reopened after it is lost."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any, TypeVar

from Xlib import error as xerror

from core.device.desktop.linux.x11_display import LOST, open_display
from core.device.desktop.thread_worker import OneThread
from core.errors import DeviceError, ErrorCode
from core.text import clause, sentences

Answer = TypeVar("Answer")
ANSWER_S = 5.0


class XLink:
    """Runs work on a display in a dedicated thread, in sequence.

    `acts` means that the work changes something, which a hung display may still carry out later.
    """

    def __init__(self, name: str, *, acts: bool = False) -> None:
        self._acts = acts
        self._thread = OneThread(name, "The display")
        self._display: Any = None
        # Incremented with each abandoned thread, so that it does not touch the next thread's connection.
        self._turn = 0

    async def run(self, work: Callable[..., Answer], *arguments: Any, seconds: float | None = None) -> Answer:
        """Run `work(display, *arguments)`, which must end within `seconds`, or `ANSWER_S`.

        Raises:
            DeviceError: the connection is lost or cannot be opened, or the server hangs.
        """
        try:
            bound = ANSWER_S if seconds is None else seconds
            return await self._thread.run(self._with_display, self._turn, work, arguments, seconds=bound)
        except DeviceError as error:
            if error.code is ErrorCode.TIMEOUT:
                # The old thread waits on the old connection for ever, or closes it later.
                self._display = None
                self._turn += 1
                if self._acts:
                    raise DeviceError(
                        f"{clause(error.message)}; what it was asked for may still happen.",
                        ErrorCode.OUTCOME_UNKNOWN,
                    ) from error
            raise

    async def close(self) -> None:
        """Close the connection."""
        if self._thread.is_running:
            with contextlib.suppress(DeviceError):
                await self._thread.run(self._hang_up, seconds=ANSWER_S)
            self._thread.abandon()

    def _with_display(self, turn: int, work: Callable[..., Answer], arguments: tuple[Any, ...]) -> Answer:
        display = self._display if turn == self._turn else None
        try:
            if display is None:
                display = open_display()
                display.set_error_handler(_ignore)
            if turn == self._turn:
                self._display = display
            answer = work(display, *arguments)
            # The server sends every client each keyboard layout change; unread events would accumulate.
            while display.pending_events():
                display.next_event()
            return answer
        except LOST as error:
            if turn == self._turn:
                self._hang_up()
            raise DeviceError(
                f"The display was lost or cannot be opened: {error}. Check DISPLAY, then try again.",
                ErrorCode.TOOL_FAILED,
            ) from error
        except xerror.XError as error:
            raise DeviceError(sentences(f"The display refused: {error}"), ErrorCode.TOOL_FAILED) from error
        finally:
            if turn != self._turn:
                _close(display)

    def _hang_up(self) -> None:
        _close(self._display)
        self._display = None


def _close(display: Any) -> None:
    if display is None:
        return
    with contextlib.suppress(*LOST):
        display.close()
    # The library does not close the socket of a display whose server is gone.
    with contextlib.suppress(OSError, AttributeError):
        display.display.socket.close()


def _ignore(error: Any, request: Any) -> None:
    """Ignore errors of requests without a reply: a window may have just gone, and results are checked."""
