"""The X display of the session: how it is opened, and why there is none that can be used."""

from __future__ import annotations

import os
import socket
from typing import Any

from Xlib import error as xerror

from core.device.desktop.interface import Unavailability
from core.device.desktop.thread_worker import bounded
from core.x_server import connect, is_xwayland

CONNECT_S = 2.0
# Not by its name: types are checked for Windows too, which has no such sockets.
_AF_UNIX: int = getattr(socket, "AF_UNIX", 0)
# What the library raises where the display is gone or cannot be opened.
LOST = (
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
        socket.create_connection((host, 6000 + int(number)), CONNECT_S).close()
    return connect()


def _try_unix(path: str) -> None:
    # Servers listen on the path, the abstract name, or both.
    for address in (path, f"\0{path}"):
        with socket.socket(_AF_UNIX) as line:
            line.settimeout(CONNECT_S)
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
        has_xtest, in_wayland = bounded("display", _ask_server, CONNECT_S)
    except LOST as error:
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
