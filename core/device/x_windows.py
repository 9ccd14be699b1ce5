"""Asking windows of the X server to close, the way a window manager does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import structlog
from Xlib import X, display
from Xlib.error import DisplayError, XError
from Xlib.protocol import event

log = structlog.get_logger(__name__)

# Windows of programs lie at most this deep: below the root, and below a window manager's frame.
_DEPTH = 3


def ask_to_close(pids: set[int]) -> set[int]:
    """Send WM_DELETE_WINDOW to the windows of these processes; returns those that had such a window."""
    try:
        screen = display.Display()
    except (DisplayError, OSError) as error:
        log.info("no X server to ask", reason=str(error))
        return set()
    try:
        return _ask(screen, pids)
    except XError as error:
        log.warning("windows could not be asked", reason=str(error))
        return set()
    finally:
        screen.close()


def _ask(screen: Any, pids: set[int]) -> set[int]:
    names = ("_NET_WM_PID", "WM_PROTOCOLS", "WM_DELETE_WINDOW")
    owner, protocols, delete = (screen.intern_atom(name) for name in names)
    asked = set()
    for window in _windows(screen.screen().root, _DEPTH):
        try:
            pid = window.get_full_property(owner, X.AnyPropertyType)
            if pid is None or int(pid.value[0]) not in pids:
                continue
            offered = window.get_full_property(protocols, X.AnyPropertyType)
            if offered is None or delete not in list(offered.value):
                continue
        except XError:
            # It was closed in the meantime.
            continue
        told = event.ClientMessage(
            window=window, client_type=protocols, data=(32, [delete, X.CurrentTime, 0, 0, 0])
        )
        window.send_event(told)
        asked.add(int(pid.value[0]))
    screen.sync()
    return asked


def _windows(parent: Any, depth: int) -> Iterator[Any]:
    try:
        children = parent.query_tree().children
    except XError:
        return
    for window in children:
        yield window
        if depth > 1:
            yield from _windows(window, depth - 1)
