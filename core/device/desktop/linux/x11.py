"""A connection to an X server, used by a dedicated thread and reopened after it is lost."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Callable
from typing import Any, TypeVar

from Xlib import error as xerror

from core.device.desktop.interface import Unavailability
from core.device.desktop.thread_worker import OneThread, bounded
from core.errors import DeviceError, ErrorCode
from core.x_server import connect, is_xwayland

Answer = TypeVar("Answer")
ANSWER_S = 5.0
_CONNECT_S = 2.0
_LOST = (
    xerror.ConnectionClosedError,
    xerror.DisplayError,
    xerror.XauthError,
    OSError,
)


NO_WAYLAND = Unavailability(
    "This session runs on Wayland, where an X display shows only the windows of older programs",
    "Log in to an X11 session, or start the device client under xvfb-run; pictures and input of a Wayland "
    "session are not supported yet",
)


def open_display() -> Any:
    """Connect to the display that DISPLAY names.

    Raises:
        OSError: no server accepts the connection within two seconds.
        Xlib.error.DisplayError: the server denies access, or the display name is invalid.
    """
    name = os.environ.get("DISPLAY", "")
    host, _, number = name.rpartition(":")
    number = number.partition(".")[0]
    if not number.isdecimal():
        raise xerror.DisplayNameError(name)
    # The library leaks its socket when it cannot connect, so a connection is tried first.
    if host in ("", "unix"):
        _try_unix(f"/tmp/.X11-unix/X{number}")
    else:
        socket.create_connection((host, 6000 + int(number)), _CONNECT_S).close()
    return connect()


def _try_unix(path: str) -> None:
    # Servers listen on the path, the abstract name, or both.
    for address in (path, f"\0{path}"):
        with socket.socket(socket.AF_UNIX) as line:
            line.settimeout(_CONNECT_S)
            try:
                line.connect(address)
            except OSError as error:
                refused = error
            else:
                return
    raise OSError(f"nothing listens at {path} ({refused.strerror})")


def display_lack(*, xtest: bool) -> Unavailability | None:
    """Why there is no usable display, or with `xtest` none that accepts pointer and keys. Blocks briefly."""
    if not os.environ.get("DISPLAY"):
        if os.environ.get("WAYLAND_DISPLAY") or os.environ.get("XDG_SESSION_TYPE") == "wayland":
            return NO_WAYLAND
        return Unavailability(
            "There is no display: DISPLAY is not set",
            "Start the device client inside a graphical session, or under xvfb-run",
        )
    try:
        has_xtest, in_wayland = bounded("display", _ask_server, _CONNECT_S)
    except _LOST as error:
        return Unavailability(
            f"The display cannot be opened: {str(error) or 'it does not answer'}",
            "Check DISPLAY and its access rights; the device client looks again every half minute",
        )
    if in_wayland:
        return NO_WAYLAND
    if xtest and not has_xtest:
        return Unavailability(
            "The display has no XTEST extension, so no pointer or key can be moved",
            "Switch the extension on in the X server's configuration",
        )
    return None


def _ask_server() -> tuple[bool, bool]:
    display = open_display()
    try:
        return display.query_extension("XTEST") is not None, is_xwayland(display)
    finally:
        display.close()


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
                        f"{error.message}; what it was asked for may still happen", ErrorCode.OUTCOME_UNKNOWN
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
        except _LOST as error:
            if turn == self._turn:
                self._hang_up()
            raise DeviceError(
                f"The display was lost or cannot be opened: {error}. Check DISPLAY, then try again",
                ErrorCode.TOOL_FAILED,
            ) from error
        except xerror.XError as error:
            raise DeviceError(f"The display refused: {error}", ErrorCode.TOOL_FAILED) from error
        finally:
            if turn != self._turn:
                _close(display)

    def _hang_up(self) -> None:
        _close(self._display)
        self._display = None


def _close(display: Any) -> None:
    if display is None:
        return
    with contextlib.suppress(*_LOST):
        display.close()
    # The library does not close the socket of a display whose server is gone.
    with contextlib.suppress(OSError, AttributeError):
        display.display.socket.close()


def _ignore(error: Any, request: Any) -> None:
    """Ignore errors of requests without a reply: a window may have just gone, and results are checked."""
