"""Windows of an X server: which there are, where, whose, and bringing one to the front."""

from __future__ import annotations

from typing import Any

from Xlib import X, Xatom
from Xlib import error as xerror
from Xlib.protocol import event as xevent

from core.device.desktop.linux.walk import process_name
from core.device.desktop.model import Box, Window, stale

_MOST_WINDOWS = 500


def list_windows(display: Any) -> list[Window]:
    """Windows at the top level, the topmost last: as the window manager tells, or as the server has them."""
    root = display.screen().root
    active = active_window(display)
    managed = _longs(display, root, "_NET_CLIENT_LIST_STACKING")
    ids = managed or [window.id for window in root.query_tree().children]
    found = (_read(display, root, int(one), active) for one in ids[-_MOST_WINDOWS:])
    # Without a manager the server also tells of helpers that programs never show.
    return [window for window in found if window is not None and (managed or window.visible)]


def window_of_id(display: Any, window_id: str) -> Window:
    """One window as it is now.

    Raises:
        DeviceError: no window has the id (code `stale_observation`).
    """
    try:
        number = int(window_id, 16)
    except ValueError:
        raise stale(f"The window {window_id[:60]}") from None
    root = display.screen().root
    found = _read(display, root, number, active_window(display)) if 0 < number < 1 << 32 else None
    if found is None:
        raise stale(f"The window {window_id[:60]}")
    return found


def active_window(display: Any) -> int | None:
    """The window that keys go to; without a window manager, the one above the focus below the root."""
    root = display.screen().root
    told = _longs(display, root, "_NET_ACTIVE_WINDOW")
    if told and told[0]:
        return int(told[0])
    focus = display.get_input_focus().focus
    if isinstance(focus, int):
        return None
    return _top_level(root, focus)


def owner_at(display: Any, x: int, y: int) -> Window | None:
    """The topmost window at a pixel."""
    root = display.screen().root
    child = root.translate_coords(root, x, y).child
    if isinstance(child, int):
        return None
    # Below a window manager's frame lies the window that a program made.
    inner, depth = child, 0
    while not _is_client(display, inner) and depth < 8:
        below = inner.translate_coords(root, x, y).child
        if isinstance(below, int):
            break
        inner, depth = below, depth + 1
    chosen = inner if _is_client(display, inner) else child
    return _read(display, root, chosen.id, active_window(display))


def bring_forward(display: Any, number: int) -> None:
    """Raise a window and give it the keys, through the window manager where there is one."""
    root = display.screen().root
    window = display.create_resource_object("window", number)
    atom = display.intern_atom("_NET_ACTIVE_WINDOW")
    if atom in _longs(display, root, "_NET_SUPPORTED"):
        told = xevent.ClientMessage(window=window, client_type=atom, data=(32, [2, X.CurrentTime, 0, 0, 0]))
        root.send_event(told, event_mask=X.SubstructureRedirectMask | X.SubstructureNotifyMask)
    else:
        window.configure(stack_mode=X.Above)
        window.set_input_focus(X.RevertToParent, X.CurrentTime)
    display.sync()


def _read(display: Any, root: Any, number: int, active: int | None) -> Window | None:
    window = display.create_resource_object("window", number)
    try:
        attributes = window.get_attributes()
        if attributes.win_class != X.InputOutput:
            return None
        geometry = window.get_geometry()
        corner = root.translate_coords(window, 0, 0)
        title = _text(display, window, "_NET_WM_NAME") or str(window.get_wm_name() or "")
        owner = _longs(display, window, "_NET_WM_PID")
    except xerror.XError:
        # It closed while we looked.
        return None
    process_id = int(owner[0]) if owner else None
    return Window(
        id=f"0x{number:x}",
        title=title,
        process_id=process_id,
        process_name=process_name(process_id),
        box=Box(int(corner.x), int(corner.y), int(geometry.width), int(geometry.height)),
        active=number == active,
        visible=attributes.map_state == X.IsViewable,
    )


def _top_level(root: Any, window: Any) -> int | None:
    try:
        for _ in range(16):
            parent = window.query_tree().parent
            if isinstance(parent, int) or parent.id == root.id:
                return int(window.id)
            window = parent
    except xerror.XError:
        return None
    return None


def _is_client(display: Any, window: Any) -> bool:
    try:
        return bool(_longs(display, window, "_NET_WM_PID")) or window.get_wm_class() is not None
    except xerror.XError:
        return False


def _longs(display: Any, window: Any, name: str) -> list[int]:
    try:
        found = window.get_full_property(display.intern_atom(name), X.AnyPropertyType)
    except xerror.XError:
        return []
    return list(found.value) if found is not None and found.format == 32 else []


def _text(display: Any, window: Any, name: str) -> str:
    found = window.get_full_property(display.intern_atom(name), X.AnyPropertyType)
    if found is None or found.format != 8:
        return ""
    value = found.value
    raw = value if isinstance(value, bytes) else bytes(value)
    return raw.decode("latin-1" if found.property_type == Xatom.STRING else "utf-8", "replace")
